"""Applies a container's report about a lane to the stored lane."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter

import msgspec

from anabranch.model.lane import Lane, LaneState, Position
from anabranch.model.ssp import parsed
from anabranch.protocol.lane_report import PART_OF, PARTS, LanePhase, LaneReport

__all__ = [
    "LAST_PHASES",
    "LIVE_PHASES",
    "all_restarted",
    "applied",
    "awaits_otherwise",
    "begins_to_wait",
    "is_routine",
    "restarted",
]

LIVE_PHASES = frozenset({LanePhase.STARTING, LanePhase.RUNNING})
LAST_PHASES = frozenset({LanePhase.ENDED, LanePhase.FAILED})
_FIGURES = frozenset(
    {
        "awaits",
        "awaits_since",
        "batch",
        "batch_progress",
        "dead_letters",
        "ends",
        "ends_known",
        "event_time",
        "first_output",
        "last_output",
        "load",
        "overdue",
        "positions",
        "replay_seconds",
        "rows",
        "state_bytes",
        "stuck",
        "waits",
        "warnings",
        "windows",
    }
)
"""Fields and parts of a report that count as metrics. While the lane runs, a report in which only metrics have changed
needn't advance the job at once. A step that depends on metrics, such as the next step of a drain, is taken when the
coordinator advances all jobs (see :meth:`Coordinator.tick`).
"""
_rest = attrgetter(
    *(name for name in LaneReport.__struct_fields__ if name not in PARTS.keys() | _FIGURES),
    *(f"{part}.{name}" for name, part in PART_OF.items() if _FIGURES.isdisjoint((part, name))),
)


def applied(lane: Lane, report: LaneReport) -> Lane:
    """The lane as it should be stored after a report. If the report changes nothing, the result is the same object.

    A closed lane never changes. A planned lane that runs gets the state RUNNING. A lane that has failed gets the state
    FAILED, with the error.

    The state of a lane that has ended depends on whether the lane was closing or has drained:

    - If the lane wasn't closing and hasn't drained, it gets the state PLANNED. If the lane runs again, it continues
      from its final positions.
    - If the lane was closing or has drained, and left no work unfinished, it gets the state CLOSED.
    - If the lane was closing or has drained, and left work unfinished (see
      :class:`anabranch.protocol.lane_report.AttemptReport`), it gets the state CLOSING. Such a lane must run again.

    Raises:
        UsageError: the key of a position isn't an SSP.
    """
    if lane.state is LaneState.CLOSED:
        return lane
    after = lane
    if report.attempt.folder_epoch not in (0, lane.folder_epoch) and report.attempt.folder_epoch == lane.epoch:
        after = msgspec.structs.replace(lane, folder_epoch=report.attempt.folder_epoch, abandoned=False)
    if report.phase == LanePhase.RUNNING and not lane.ran:
        after = msgspec.structs.replace(after, ran=True, begun=True)
    elif report.attempt.begun and not lane.begun:
        after = msgspec.structs.replace(after, begun=True)
    if report.phase == LanePhase.RUNNING and lane.state is LaneState.PLANNED:
        after = msgspec.structs.replace(after, state=LaneState.RUNNING)
    elif report.phase == LanePhase.ENDED:
        over = LaneState.CLOSING if report.attempt.pending else LaneState.CLOSED
        state = over if lane.state is LaneState.CLOSING or report.drain.drained else LaneState.PLANNED
        after = msgspec.structs.replace(
            after,
            state=state,
            final=_positions(report) or lane.final,
            last_batch=report.progress.batch,
            watermark=report.event_time.watermark,
            put_aside=report.progress.dead_letters,
            wrote=report.progress.wrote,
        )
    elif report.phase == LanePhase.FAILED:
        error = report.error or "the container gave no reason"
        after = msgspec.structs.replace(after, state=LaneState.FAILED, error=error)
    return lane if after is lane or after == lane else after


def _positions(report: LaneReport) -> tuple[Position, ...]:
    return tuple(Position(ssp=ssp, offset=offset) for ssp, offset in parsed(report.progress.positions).items())


def is_routine(lane: Lane, before: LaneReport, report: LaneReport) -> bool:
    """Whether a report differs from the last report only in metrics, requires no event about waiting, and doesn't
    change the stored lane."""
    if begins_to_wait(before, report) or awaits_otherwise(before, report):
        return False
    return bool(_rest(before) == _rest(report)) and applied(lane, report) is lane


def awaits_otherwise(before: LaneReport | None, report: LaneReport) -> bool:
    """Whether a lane has started or stopped waiting for something outside the job, or now waits for something else."""
    return report.attempt.awaits != (before.attempt.awaits if before is not None else "")


def begins_to_wait(before: LaneReport | None, report: LaneReport) -> bool:
    """Whether a closing lane is now kept from ending, and wasn't before."""
    return bool(report.attempt.waits) and (before is None or not before.attempt.waits)


def unheld(lane: Lane) -> Lane:
    """The lane as it should be stored once no process runs it."""
    return msgspec.structs.replace(lane, state=LaneState.PLANNED) if lane.state is LaneState.RUNNING else lane


def all_restarted(lanes: Mapping[str, Lane], deployment: int) -> dict[str, Lane]:
    """A job's lanes, by id, as they should be stored when the job's deployment ``deployment`` is started again. The
    open lanes of former deployments run again, too.
    """
    its = [lane for lane in lanes.values() if lane.deployment == deployment or lane.state is not LaneState.CLOSED]
    over = {name for lane in its for name in lane.predecessors}
    over |= {lane.id for lane in its if lane.deployment != deployment}
    return {**lanes, **{lane.id: restarted(lane, lane.id in over) for lane in its}}


def restarted(lane: Lane, followed: bool) -> Lane:
    """The lane as it should be stored when its job is started again. A closed lane stays closed. If
    ``followed`` is True, an open lane gets the state CLOSING. Otherwise, it gets the state PLANNED. ``followed`` must
    be True if other lanes continue from the lane, or if the lane belongs to a former deployment.
    """
    if lane.state is LaneState.CLOSED:
        return lane
    state = LaneState.CLOSING if followed else LaneState.PLANNED
    return msgspec.structs.replace(lane, state=state, error=None)
