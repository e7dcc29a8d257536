"""The generation that follows the current one."""

from __future__ import annotations

from anabranch.model.document import Document
from anabranch.model.job_model import JobModel
from anabranch.model.lane import Lane

__all__ = ["Change"]


class Change(Document, frozen=True, kw_only=True):
    """The next generation.

    Attributes:
        closing: the ids of the lanes to close.
        lanes: the new lanes.
        why_not: why racks weren't taken into account although the settings ask for this; otherwise empty.
    """

    model: JobModel
    closing: tuple[str, ...]
    lanes: tuple[Lane, ...]
    why_not: str = ""
