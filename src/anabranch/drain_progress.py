"""What is left to do in a drain, and how long that will take, for ``status``, the terminal and metrics. Pure
functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from anabranch.model.lane import LaneState
from anabranch.protocol.lane_report import LaneReport
from anabranch.protocol.status import JobStatus, LaneStatus

__all__ = ["DrainRemainder", "foretold", "functions_part", "left", "seconds_left"]

_HALTING = 0.5
"""How many seconds it takes until all lanes have stopped at their positions, have reported this, and know up to where
to read."""
_STAGE = 0.3
"""How many seconds a stage takes to end, in addition to the batch in which time ends. (Lanes without state and event
time have no such batch, and take no time.)"""
_OF_A_BATCH = 0.5
"""The time of a batch without records, as a share of the time that other batches spend outside functions."""
_WINDOWS = 60_000
"""How many windows (per key) a lane emits per second."""
_TOLD_BY_ITSELF = 1.0
"""After this number of seconds, a batch's own progress shows where its time goes. Before that, the figures of the last
half minute are used.
"""


@dataclass(frozen=True)
class DrainRemainder:
    """The numbers of stages and lanes that haven't drained, of records that are still to be read, and of open windows
    (per key)."""

    stages: int
    lanes: int
    records: int
    windows: int


def left(status: JobStatus) -> DrainRemainder:
    """What is left to do until a job is drained."""
    lanes = [each for each in status.lanes if each.lane.state is not LaneState.CLOSED]
    until = {} if status.drain is None or status.drain.until is None else status.drain.until
    return DrainRemainder(
        stages=len({each.lane.stage for each in lanes}),
        lanes=len(lanes),
        records=sum(_records(each, until) for each in lanes),
        windows=sum(each.report.drain.windows for each in lanes if each.report is not None),
    )


def foretold(
    stages: Mapping[str, Iterable[str]], reports: Mapping[str, LaneReport], until: Mapping[str, int] | None = None
) -> float:
    """The predicted seconds until a job is drained: planned batches are finished, the remaining records are read, and
    then one stage after another emits its windows and ends.

    Args:
        stages: the open lanes of each stage, in the order in which stages drain.
        reports: the last report of each lane.
        until: the position of each SSP at the end of the drain. None: no more batches are planned.
    """
    lanes = {stage: [reports[name] for name in names if name in reports] for stage, names in stages.items()}
    seconds = max((_taking_in(each, until or {}) for its in lanes.values() for each in its), default=0.0)
    for its in lanes.values():
        seconds += max(map(_ending, its), default=0.0)
    return seconds + _HALTING


def seconds_left(status: JobStatus) -> float:
    """The predicted seconds until a draining job is drained."""
    stages: dict[str, list[str]] = {}
    reports: dict[str, LaneReport] = {}
    for each in status.lanes:
        if each.lane.state is not LaneState.CLOSED:
            stages.setdefault(each.lane.stage, []).append(each.lane.id)
            if each.report is not None:
                reports[each.lane.id] = each.report
    until = None if status.drain is None else status.drain.until or status.drain.ends
    halted = status.drain is not None and status.drain.until is not None
    return foretold(stages, reports, until) - (_HALTING if halted else 0.0)


def functions_part(report: LaneReport) -> float:
    """The share of a batch's time that is spent in the job's functions."""
    spent = report.load.spent if report.progress.batch_progress is None else report.progress.batch_progress.spent
    total = sum(spent.values())
    if total > _TOLD_BY_ITSELF:
        return min(1.0, spent.get("functions", 0.0) / total)
    return min(1.0, report.load.working / report.load.busy) if report.load.busy > 0 else 0.0


def _taking_in(report: LaneReport, until: Mapping[str, int]) -> float:
    """The predicted seconds until a lane has read everything that it should, in its current batch and later ones."""
    at = report.progress.batch_progress
    batch, planned = 0.0, 0
    if at is not None:
        batch = max(0.0, report.load.usual_seconds - at.seconds) if at.left is None else at.left
        planned = at.planned
    records = (
        sum(max(0, until.get(ssp, offset) - offset) for ssp, offset in report.progress.positions.items()) - planned
    )
    return batch + (records / report.load.rows_per_second if records > 0 and report.load.rows_per_second > 0 else 0.0)


def _ending(report: LaneReport) -> float:
    """The predicted seconds of a lane's last batch, which has no records, so that no function is called."""
    if not report.progress.state_bytes and not report.drain.windows and report.event_time.watermark is None:
        return 0.0
    return (
        _STAGE
        + _OF_A_BATCH * report.load.usual_seconds * (1 - functions_part(report))
        + report.drain.windows / _WINDOWS
    )


def _records(lane: LaneStatus, until: Mapping[str, int]) -> int:
    """How many offsets a lane still has to read: up to where it must stop in an input stream, and up to the current end
    of an intermediate stream.
    """
    if lane.report is None:
        return 0
    at, ends = lane.report.progress.positions, lane.report.progress.ends
    return sum(max(0, until.get(ssp, ends.get(ssp, 0)) - offset) for ssp, offset in at.items())
