"""The document from which the dashboard shows the metrics of a job over time."""

from __future__ import annotations

from anabranch.model.document import Document

__all__ = ["History"]


class History(Document, frozen=True, kw_only=True):
    """A job's metrics at regular intervals. Times are seconds since 1970."""

    at: float
    """When the answer was made, on the coordinator's clock."""
    job: str
    by: str
    """What the metrics describe: the whole ``job``, each ``stage`` or each ``lane``."""
    t0: float
    """The time of the first value of each series."""
    step: float
    """The seconds between two consecutive values of a series."""
    since: float | None
    """The time from which this coordinator has values. None if the coordinator has no values."""
    values: dict[str, dict[str, tuple[float | None, ...]]]
    """The values by series (such as ``lag``), and by the name of the job, stage or lane. An unknown value is None."""
