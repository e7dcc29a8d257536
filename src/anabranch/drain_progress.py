"""What a drain has still to do, as ``status``, the terminal and metrics show it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from anabranch.model.lane import LaneState
from anabranch.protocol.status import JobStatus, LaneStatus

__all__ = ["Left", "left"]


@dataclass(frozen=True)
class Left:
    """Stages and lanes that aren't drained; records that are to be taken in, and windows (of a key) that are open."""

    stages: int
    lanes: int
    records: int
    windows: int


def left(status: JobStatus) -> Left:
    """What a job has to do until it is drained."""
    lanes = [each for each in status.lanes if each.lane.state is not LaneState.CLOSED]
    until = {} if status.drain is None or status.drain.until is None else status.drain.until
    return Left(
        stages=len({each.lane.stage for each in lanes}),
        lanes=len(lanes),
        records=sum(_records(each, until) for each in lanes),
        windows=sum(each.report.windows for each in lanes if each.report is not None),
    )


def _records(lane: LaneStatus, until: Mapping[str, int]) -> int:
    """Offsets that a lane has to read: of a stream that the job doesn't write up to where it stops, else to the end."""
    if lane.report is None:
        return 0
    at, ends = lane.report.positions, lane.report.ends
    return sum(max(0, until.get(ssp, ends.get(ssp, 0)) - offset) for ssp, offset in at.items())
