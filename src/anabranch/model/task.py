"""Tasks: the unit of order and of assignment."""

from __future__ import annotations

from anabranch.model.document import Document
from anabranch.model.ssp import SSP


class Task(Document, frozen=True, kw_only=True):
    """A named set of SSPs of one stage. ``index`` is the task's number in the stage, counting each virtual task, as in
    Samza's SAMZA-71. ``broadcast`` has the SSPs of broadcast inputs, which every task reads.
    """

    name: str
    index: int
    stage: str
    ssps: tuple[SSP, ...]
    broadcast: tuple[SSP, ...] = ()
