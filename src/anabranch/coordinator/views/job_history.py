"""Keeps the metrics of a job and its stages for a day, and those of its lanes for an hour, in ring buffers in the
coordinator's memory.

Each value takes eight bytes. A job with two stages needs 1.5 MB, plus 2 MB for every 100 lanes that ran in the last
hour.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from anabranch.coordinator.jobs.running_job import RunningJob
from anabranch.coordinator.views import live_view
from anabranch.model.lane import Lane, open_lanes
from anabranch.protocol.lane_report import LaneReport

__all__ = ["DAY", "HOUR", "SERIES", "STEP", "JobHistory", "Ring", "known"]

STEP = 10.0
"""The seconds between two values."""
SERIES = ("lag", "rows", "arriving", "busy", "working", "batchSeconds", "deadLetters")
DAY, HOUR = 8_640, 360
"""How many values of a series are kept: ``DAY`` for a job and its stages, ``HOUR`` for a lane."""
_TREND = 60.0
_NOT_KNOWN = math.nan


class Ring:
    """The latest values of a series. Each value belongs to a step, ``slot``. Steps are counted from the beginning of
    1970.
    """

    def __init__(self, size: int) -> None:
        self._values = array("d", [_NOT_KNOWN]) * size
        self._last = -1

    def put(self, slot: int, value: float) -> None:
        """Record the value of a step. Values of steps before the last recorded step are ignored. The values of
        skipped steps become unknown.
        """
        size = len(self._values)
        if slot < self._last:
            return
        for missed in range(max(self._last + 1, slot - size + 1), slot):
            self._values[missed % size] = _NOT_KNOWN
        self._values[slot % size] = value
        self._last = slot

    def get(self, first: int, after: int) -> list[float]:
        """The values from step ``first`` up to, but not including, step ``after``; NaN for unknown values."""
        size = len(self._values)
        oldest = self._last - size + 1
        return [
            self._values[slot % size] if oldest <= slot <= self._last else _NOT_KNOWN for slot in range(first, after)
        ]


Rings = dict[str, dict[str, Ring]]
"""Maps the name of a job, stage or lane to a map from the name of each series to its ring buffer."""


@dataclass
class JobHistory:
    """The history of a job."""

    since: int | None = None
    """The first step for which :meth:`look` was called; None if :meth:`look` was never called."""
    last: int = -1
    """The last step for which :meth:`look` was called; -1 if :meth:`look` was never called."""
    job: Rings = field(default_factory=dict)
    stages: Rings = field(default_factory=dict)
    lanes: Rings = field(default_factory=dict)

    def look(self, job: RunningJob, at: float) -> None:
        """Record the current values, once per step. ``at`` is the current time, in seconds since 1970."""
        slot = int(at // STEP)
        if slot <= self.last:
            return
        self.since = slot if self.since is None else self.since
        self.last = slot
        lanes = [(lane, job.reports[lane.id]) for lane in open_lanes(job.lanes) if lane.id in job.reports]
        by_stage: dict[str, list[tuple[Lane, LaneReport]]] = {}
        for lane, report in lanes:
            by_stage.setdefault(lane.stage, []).append((lane, report))
            _put(self.lanes, lane.id, slot, HOUR, _figures([report]))
        if not live_view.all_heard(open_lanes(job.lanes), job.reports):
            return  # a sum over only some of the lanes would look like a change
        for stage, its in by_stage.items():
            _put(self.stages, stage, slot, DAY, _figures([report for _, report in its]))
        if lanes:
            _put(self.job, job.job, slot, DAY, _figures([report for _, report in lanes]))
        present = {lane.id for lane in job.known.values() if lane.id in self.lanes}
        self.lanes = {name: rings for name, rings in self.lanes.items() if name in present and _is_recent(rings, slot)}

    def of(self, by: str) -> Rings:
        """The ring buffers of the job, its stages or its lanes."""
        return {"job": self.job, "stage": self.stages, "lane": self.lanes}[by]

    def trend(self, at: float) -> float | None:
        """How fast the job's lag changed over the last minute, in offsets per second; None if unknown."""
        slot = int(at // STEP)
        for rings in self.job.values():
            values = rings["lag"].get(slot - int(_TREND // STEP), slot + 1)
            known = [(place, value) for place, value in enumerate(values) if not math.isnan(value)]
            if len(known) > 1 and known[-1][0] > known[0][0]:
                return (known[-1][1] - known[0][1]) / ((known[-1][0] - known[0][0]) * STEP)
        return None


def known(values: Iterable[float]) -> tuple[float | None, ...]:
    """Values for JSON: unknown values are None rather than NaN."""
    return tuple(None if math.isnan(value) else value for value in values)


def _put(rings: Rings, name: str, slot: int, size: int, figures: Mapping[str, float]) -> None:
    if name not in rings:
        rings[name] = {series: Ring(size) for series in SERIES}
    for series, value in figures.items():
        rings[name][series].put(slot, value)


def _is_recent(rings: Mapping[str, Ring], slot: int) -> bool:
    return any(not math.isnan(value) for value in rings["rows"].get(slot - HOUR, slot + 1))


def _figures(reports: Sequence[LaneReport]) -> dict[str, float]:
    """The combined values of several lanes: the maximum for durations and for shares of the time, and the sum for
    everything else.
    """
    lag = live_view.lag_of(reports)
    return {
        "lag": math.nan if lag is None else float(lag),
        "rows": _sum(report.load.reading for report in reports),
        "arriving": _sum(report.load.arriving for report in reports),
        "busy": max(report.load.busy for report in reports),
        "working": max(report.load.working for report in reports),
        "batchSeconds": max(report.load.seconds for report in reports),
        "deadLetters": float(sum(report.progress.dead_letters for report in reports)),
    }


def _sum(values: Iterable[float]) -> float:
    return math.fsum(values)
