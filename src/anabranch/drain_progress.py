"""Computes the remaining work and the expected time of a drain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from anabranch.batch_times import functions_part, present_batch, unreported
from anabranch.model.lane import LaneState
from anabranch.protocol.drain import DrainProgress
from anabranch.protocol.lane_report import LaneReport
from anabranch.protocol.status import JobStatus

__all__ = [
    "DrainRemainder",
    "foretold",
    "left",
    "records_left",
    "seconds_left",
    "stops_at",
]

_SHORT = 1.0
"""If a lane reported no running batch, its next batch has probably begun since the report. The estimate includes this
batch only if it is expected to take longer than this many seconds."""
_HALTING = 0.5
"""The expected seconds from the start of a drain until all lanes have halted, reported their positions, and been told
where to stop.
"""
_STAGE = 0.6
"""The seconds that a stage takes to drain, not counting the last batches of its lanes, in which all windows close."""
_OF_A_BATCH = 0.35
"""The duration of a batch without records, as a fraction of the time that other batches spend outside functions."""
_WINDOWS = 60_000
"""How many rows of state a lane emits per second when it drains."""


@dataclass(frozen=True)
class DrainRemainder:
    """The remaining work of a drain, in numbers. ``stages`` and ``lanes`` count those that haven't drained yet.
    ``records`` counts the offsets that lanes still have to read. ``windows`` counts the rows of state that lanes still
    have to emit, for example one row for each window and key.
    """

    stages: int
    lanes: int
    records: int
    windows: int


def left(status: JobStatus) -> DrainRemainder:
    """What remains to be done until a job is drained."""
    lanes = [each for each in status.lanes if each.lane.state is not LaneState.CLOSED]
    until = stops_at(status.drain)
    return DrainRemainder(
        stages=len({each.lane.stage for each in lanes}),
        lanes=len(lanes),
        records=sum(records_left(each.report, until) for each in lanes if each.report is not None),
        windows=sum(each.report.drain.windows for each in lanes if each.report is not None),
    )


def foretold(
    stages: Mapping[str, Iterable[str]],
    reports: Mapping[str, LaneReport],
    until: Mapping[str, int] | None = None,
    now: float | None = None,
) -> float:
    """The expected seconds until a job is drained. First, all lanes read the remaining records. Then the stages emit
    their windows and end, one stage after another.

    Args:
        stages: the stages, in the order in which they drain, each with the ids of its open lanes.
        reports: the lanes' reports, by lane id. A lane without a report doesn't count.
        until: for each SSP, the position at which its lane stops reading; None if lanes only finish their planned
            batches.
        now: the current time, in seconds since 1970; None if the reports are up to date.
    """
    lanes = {stage: [reports[name] for name in names if name in reports] for stage, names in stages.items()}
    seconds = max((_taking_in(each, until or {}, now) for its in lanes.values() for each in its), default=0.0)
    for its in lanes.values():
        seconds += max(map(_ending, its), default=0.0)
    return seconds + _HALTING


def seconds_left(status: JobStatus, now: float | None = None) -> float:
    """The expected seconds until a draining job is drained. For ``now``, see :func:`foretold`."""
    stages: dict[str, list[str]] = {}
    reports: dict[str, LaneReport] = {}
    for each in status.lanes:
        if each.lane.state is not LaneState.CLOSED:
            stages.setdefault(each.lane.stage, []).append(each.lane.id)
            if each.report is not None:
                reports[each.lane.id] = each.report
    until = stops_at(status.drain)
    halted = status.drain is not None and status.drain.until is not None
    return foretold(stages, reports, until, now) - (_HALTING if halted else 0.0)


def stops_at(drain: DrainProgress | None) -> Mapping[str, int]:
    """For each SSP, the offset at which a job stops reading. As long as the drain hasn't determined these offsets, the
    result depends on the drain's mode. In the mode "latest", the result contains the end offsets from the time when the
    drain was accepted. In the mode "planned", the result is empty. Without a drain, the result is empty, too.
    """
    return {} if drain is None else drain.until or drain.ends


def records_left(report: LaneReport, until: Mapping[str, int]) -> int:
    """How many offsets a lane still has to read. In each SSP, the lane reads up to the SSP's position in ``until``. If
    the SSP isn't in ``until``, the lane reads up to the SSP's end offset.
    """
    at, ends = report.progress.positions, report.progress.ends
    return sum(max(0, until.get(ssp, ends.get(ssp, 0)) - offset) for ssp, offset in at.items())


def _taking_in(report: LaneReport, until: Mapping[str, int], now: float | None) -> float:
    """The expected seconds until a lane has read up to the positions at which it stops reading."""
    at = report.progress.batch_progress
    batch, planned = 0.0, 0 if at is None else at.planned
    spent, whole = present_batch(report)
    halted = not until.keys().isdisjoint(report.progress.positions)
    has_begun = now is not None and not halted and whole > _SHORT  # probably, since the lane reported none
    if at is not None or has_begun:
        batch = max(0.0, whole - spent - (0.0 if now is None else unreported(report, now)))
    records = (
        sum(max(0, until.get(ssp, offset) - offset) for ssp, offset in report.progress.positions.items()) - planned
    )
    return batch + (records / report.load.rows_per_second if records > 0 and report.load.rows_per_second > 0 else 0.0)


def _ending(report: LaneReport) -> float:
    """The expected seconds of a lane's last batch; 0.0 for a lane that has no state, no windows and no watermark. The
    last batch has no records, so the time for functions isn't included.
    """
    if not report.progress.state_bytes and not report.drain.windows and report.event_time.watermark is None:
        return 0.0
    return (
        _STAGE
        + _OF_A_BATCH * report.load.usual_seconds * (1 - functions_part(report))
        + report.drain.windows / _WINDOWS
    )
