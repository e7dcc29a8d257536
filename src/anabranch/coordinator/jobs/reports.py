"""Applies a container's report of a lane to the lane's record."""

from __future__ import annotations

from operator import attrgetter

import msgspec

from anabranch.model.lane import Lane, LaneState, Position
from anabranch.model.ssp import parsed
from anabranch.protocol.lane_report import PART_OF, PARTS, LanePhase, LaneReport

__all__ = ["LAST_PHASES", "LIVE_PHASES", "applied", "awaits_otherwise", "begins_to_wait", "is_routine", "restarted"]

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
        "rows",
        "state_bytes",
        "stuck",
        "waits",
        "warnings",
        "windows",
    }
)
"""Fields and parts of a report that are only for display; no decision depends on them while the lane runs."""
_rest = attrgetter(
    *(name for name in LaneReport.__struct_fields__ if name not in PARTS.keys() | _FIGURES),
    *(f"{part}.{name}" for name, part in PART_OF.items() if _FIGURES.isdisjoint((part, name))),
)


def applied(lane: Lane, report: LaneReport) -> Lane:
    """The lane's record after a report; the same object if the report changes nothing durable.

    When a lane that has ended is started again, it continues from its final positions. If it was closing, it is instead
    closed permanently, provided that it has finished what it had begun. The same applies when it has drained.

    Raises:
        UsageError: a position is for something that isn't an SSP.
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
    """Whether a report differs from the last one only in figures, so that the lane's record doesn't change."""
    if begins_to_wait(before, report) or awaits_otherwise(before, report):
        return False
    return bool(_rest(before) == _rest(report)) and applied(lane, report) is lane


def awaits_otherwise(before: LaneReport | None, report: LaneReport) -> bool:
    """Whether a lane has begun to wait for its surroundings, or has stopped waiting."""
    return report.attempt.awaits != (before.attempt.awaits if before is not None else "")


def begins_to_wait(before: LaneReport | None, report: LaneReport) -> bool:
    """Whether a lane is kept from ending by something that wasn't known before."""
    return bool(report.attempt.waits) and (before is None or not before.attempt.waits)


def unheld(lane: Lane) -> Lane:
    """The record of a lane that its process no longer has."""
    return msgspec.structs.replace(lane, state=LaneState.PLANNED) if lane.state is LaneState.RUNNING else lane


def restarted(lane: Lane, followed: bool) -> Lane:
    """The record of a lane for its next run: planned again, unless it is closed. ``followed``: whether others continue
    from it.
    """
    if lane.state is LaneState.CLOSED:
        return lane
    state = LaneState.CLOSING if followed else LaneState.PLANNED
    return msgspec.structs.replace(lane, state=state, error=None)
