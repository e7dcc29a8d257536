"""The document that shows all jobs at a glance, and which jobs need attention."""

from __future__ import annotations

from typing import Self

from anabranch.model.document import Document
from anabranch.protocol.status import JobStatus
from anabranch.views.findings import Finding

__all__ = ["JobOverview", "Overview"]


class JobOverview(Document, frozen=True, kw_only=True):
    """The most important metrics of a job. Metrics are None if they are unknown."""

    job: str
    state: str
    served: bool
    deployment: int
    generation: int
    factor: int
    seats: int
    """How many containers the job should have."""
    lanes: int
    failed_lanes: int
    changed_at: float
    """When the job entered its current state, in seconds since 1970."""
    containers: int | None = None
    """How many containers are alive."""
    lag: int | None = None
    """The lag in offsets."""
    lag_trend: float | None = None
    """By how many offsets per second the lag has changed, averaged over the last minute."""
    rows: float | None = None
    """The records that the job reads per second."""
    arriving: float | None = None
    """The records that arrive per second."""
    error: str | None = None
    worst: Finding | None = None
    """The most severe finding."""

    @classmethod
    def unread(cls, status: JobStatus) -> Self:
        """The line of a job that can't be read from the store; ``status.error`` says why."""
        unread = Finding(
            severity="attention",
            rule="job-unread",
            subject={"job": status.job},
            summary=f"what the store knows about job {status.job} can't be read",
            why=status.error or "",
            cure="run the version of anabranch that last ran the job, or restore the job from a backup",
        )
        return cls(
            job=status.job,
            state=status.state.value,
            served=False,
            deployment=status.deployment,
            generation=status.generation,
            factor=status.factor,
            seats=status.seats,
            lanes=0,
            failed_lanes=0,
            changed_at=0.0,
            error=status.error,
            worst=unread,
        )


class Overview(Document, frozen=True, kw_only=True):
    """All jobs, and which coordinator leads."""

    at: float
    """Seconds since 1970, on the coordinator's clock."""
    leads: bool
    leader: str | None
    """The URL of the coordinator that leads. If no coordinator leads at the moment, the URL of the last one that led.
    None if no coordinator has ever led, or if the last leader has resigned.
    """
    jobs: tuple[JobOverview, ...] = ()
