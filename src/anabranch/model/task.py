"""Tasks: the unit of ordering and of assignment."""

from __future__ import annotations

from anabranch.model.document import Document
from anabranch.model.ssp import SSP


class Task(Document, frozen=True, kw_only=True):
    """A named set of SSPs of one stage. ``index`` is SAMZA-71's number; every task reads the ``broadcast`` SSPs."""

    name: str
    index: int
    stage: str
    ssps: tuple[SSP, ...]
    broadcast: tuple[SSP, ...] = ()
