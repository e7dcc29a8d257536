"""What a container's report of a lane does to the lane's record."""

from __future__ import annotations

import msgspec

from anabranch.errors import UsageError
from anabranch.messages import LaneReport
from anabranch.model.lane import Lane, LaneState

__all__ = ["LAST_PHASES", "LIVE_PHASES", "applied", "restarted"]

LIVE_PHASES = frozenset({"starting", "running"})
LAST_PHASES = frozenset({"ended", "failed"})


def applied(lane: Lane, report: LaneReport) -> Lane:
    """The lane's record after a report; the very same one if nothing of it is durable.

    A lane that ended goes on from its final positions when it is started again, unless it was closing: then
    it is closed for good.

    Raises:
        UsageError: a phase that nobody knows.
    """
    if report.phase not in LIVE_PHASES | LAST_PHASES:
        raise UsageError(
            f"a report of lane {lane.id} has the phase {report.phase[:40]!r}",
            f"a phase is one of {', '.join(sorted(LIVE_PHASES | LAST_PHASES))}",
        )
    if lane.state is LaneState.CLOSED:
        return lane
    after = lane
    if report.folder_epoch not in (0, lane.folder_epoch) and report.folder_epoch == lane.epoch:
        after = msgspec.structs.replace(lane, folder_epoch=report.folder_epoch, abandoned=False)
    if report.phase == "running" and not lane.ran:
        after = msgspec.structs.replace(after, ran=True)
    if report.phase == "running" and lane.state is LaneState.PLANNED:
        after = msgspec.structs.replace(after, state=LaneState.RUNNING)
    elif report.phase == "ended":
        over = LaneState.CLOSING if report.stopped else LaneState.CLOSED
        state = over if lane.state is LaneState.CLOSING else LaneState.PLANNED
        after = msgspec.structs.replace(
            after,
            state=state,
            final=report.positions or lane.final,
            watermark=report.watermark,
            put_aside=report.dead_letters,
        )
    elif report.phase == "failed":
        error = report.error or "the container gave no reason"
        after = msgspec.structs.replace(after, state=LaneState.FAILED, error=error)
    return lane if after == lane else after


def restarted(lane: Lane) -> Lane:
    """The record of a lane for its next run: to do again, unless it is closed."""
    if lane.state is LaneState.CLOSED:
        return lane
    return msgspec.structs.replace(lane, state=LaneState.PLANNED, error=None)
