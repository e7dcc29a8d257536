"""Figures of a job over time."""

from __future__ import annotations

from anabranch.model.document import Document

__all__ = ["History"]


class History(Document, frozen=True, kw_only=True):
    """For each series and name, one value per ``step`` seconds, beginning at ``t0`` (seconds since 1970); None: not
    known. ``by``: whether the figures are those of the ``job``, of each ``stage`` or of each ``lane``. ``since``: when
    this coordinator's figures begin.
    """

    at: float
    job: str
    by: str
    t0: float
    step: float
    since: float | None
    values: dict[str, dict[str, tuple[float | None, ...]]]
