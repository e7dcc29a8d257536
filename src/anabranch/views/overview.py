"""All jobs at a glance: which of them need attention?"""

from __future__ import annotations

from anabranch.model.document import Document
from anabranch.views.findings import Finding

__all__ = ["JobOverview", "Overview"]


class JobOverview(Document, frozen=True, kw_only=True):
    """A job in one line.

    ``seats``: how many containers the job needs; ``containers``: how many are alive (None: unknown here). ``lag`` is in
    offsets, and ``lag_trend`` is its change per second over the last minute; ``rows`` and ``arriving`` are records per
    second; None: unknown. ``changed_at``: since when the job has been in its state. ``worst``: the finding that most
    needs attention.
    """

    job: str
    state: str
    served: bool
    deployment: int
    generation: int
    factor: int
    seats: int
    lanes: int
    failed_lanes: int
    changed_at: float
    containers: int | None = None
    lag: int | None = None
    lag_trend: float | None = None
    rows: float | None = None
    arriving: float | None = None
    error: str | None = None
    worst: Finding | None = None


class Overview(Document, frozen=True, kw_only=True):
    """``at``: seconds since 1970, on the coordinator's clock. ``leader``: the URL of the coordinator that leads; None:
    there is none, or only this one."""

    at: float
    leads: bool
    leader: str | None
    jobs: tuple[JobOverview, ...] = ()
