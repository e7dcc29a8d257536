"""The generation that should follow the present one."""

from __future__ import annotations

from anabranch.model.document import Document
from anabranch.model.job_model import JobModel
from anabranch.model.lane import Lane

__all__ = ["Change"]


class Change(Document, frozen=True, kw_only=True):
    """The next generation: its model, the lanes to close, and their successors. ``why_not``: why racks don't count,
    although they should.
    """

    model: JobModel
    closing: tuple[str, ...]
    lanes: tuple[Lane, ...]
    why_not: str = ""
