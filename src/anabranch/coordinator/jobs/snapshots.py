"""Takes the snapshot that determines a running job's next state."""

from __future__ import annotations

from anabranch.coordinator.jobs.running_job import RunningJob
from anabranch.coordinator.jobs.states import LaneView, Snapshot
from anabranch.model.lane import LaneState

__all__ = ["taken"]


def taken(job: RunningJob, now: float, *, stop_wanted: bool = False) -> Snapshot:
    holders = [process for process in job.seats.processes.values() if job.seats.expels or now < process.lease_ends]
    starved = _starved(job)
    held = {lane for process in holders for lane in process.offered}
    views = (
        LaneView(
            id=lane.id,
            running=lane.state is LaneState.RUNNING,
            ended=job.caught_up(lane.id),
            held=lane.id in held or lane.unfenced,
            error=f"lane {lane.id}: {lane.error}" if lane.state is LaneState.FAILED else None,
            starved=lane.id in starved,
            closing=lane.state is LaneState.CLOSING,
        )
        for lane in job.lanes
        if lane.state is not LaneState.CLOSED
    )
    return Snapshot(
        state=job.state,
        lanes=tuple(views),
        until_caught_up=job.terms.until_caught_up,
        stop_wanted=stop_wanted,
        drains=job.progress.drain is not None,
        error=job.error,
    )


def _starved(job: RunningJob) -> set[str]:
    """The ids of the lanes that depend on failed lanes, directly or indirectly. A lane depends on a failed lane if it
    continues from the failed lane, or if it reads what the failed lane or one of its successors writes."""
    failed = {lane.id for lane in job.lanes if lane.state is LaneState.FAILED}
    if not failed:
        return failed
    readers: dict[str, list[str]] = {}
    for lane in job.lanes:
        for name in lane.upstream:
            readers.setdefault(name, []).append(lane.id)
    found: set[str] = set()
    more = failed
    while more:
        found |= job.descendants(more)
        # A lane also reads what the successors of its ``upstream`` write.
        more = {reader for name in job.ancestors(found) for reader in readers.get(name, ())} - found
    return found
