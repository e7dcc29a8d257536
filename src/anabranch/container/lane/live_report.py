"""The part of a lane's report that is about the running batch, computed on demand."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from time import monotonic
from typing import Any

from anabranch import logs
from anabranch.container.batch_progress import PlannedBatch, ProgressSample, Tracker
from anabranch.container.load import Load
from anabranch.container.time_spent import COMPUTING
from anabranch.model.lane import Lane
from anabranch.pace.batch_cost import RecentBatches
from anabranch.protocol.lane_report import BatchPhase, BatchProgress, BatchTimes, LaneReport
from anabranch.spark.functions import busy_time
from anabranch.spark.query.query import LaneQuery
from anabranch.spark.query.under_way import BatchMoment
from anabranch.task_progress.counts import TaskCounts, Work

__all__ = ["Live", "oldest"]

log = logs.get_logger()

_AT_LEAST = 0.5
"""The progress of a batch is computed only after the batch has been running for this many seconds."""
_EVERY = 0.2
_RATE_AFTER = 1.0


class Live:
    """Computes a lane's load and, on demand, the part of the lane's report that is about the running batch.
    Thread-safe.

    If the progress of the batch can't be computed, the error is logged, and the report lacks the progress.
    """

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._load = Load()
        self._lock = threading.Lock()
        self._tracker: Tracker | None = None
        self._run = ""
        self._ratios: Mapping[str, float] = {}
        self._looked = 0.0
        self._found: dict[str, Any] = {}
        self._rows = 0
        self._recent = RecentBatches()
        self._tasks = 0

    @property
    def usual(self) -> float:
        """The median duration of a batch in seconds."""
        return self._load.usual

    def ran(self, report: LaneReport, worked: Mapping[tuple[int, int], float]) -> dict[str, Any]:
        """Record that a batch has ended. Returns the fields of the report that change, by name. ``worked``
        contains, for each bucket, the seconds that functions spent on it."""
        with self._lock:
            self._load.ran(report, monotonic(), worked)
            spent = self._left_off(report)
            return {**self._figures, **self._slowest(worked), "spent": spent, "batch_times": self._times(report, spent)}

    def idled(self, report: LaneReport) -> dict[str, Any]:
        """Record that no batch has ended since the last call. Returns the fields of the report that change, by name; {}
        if none change."""
        with self._lock:
            return self._figures if self._load.idled(report, monotonic()) else {}

    def applied(self, report: LaneReport, query: LaneQuery | None) -> LaneReport:
        """The report with the running batch's progress and the current load. If no batch has been running for at least
        ``_AT_LEAST`` seconds, the result is ``report`` without changes."""
        at = query.under_way.now if query is not None else None
        now = monotonic()
        if query is None or at is None or at.number <= report.progress.batch or now < at.since + _AT_LEAST:
            return report
        with self._lock:
            if now >= self._looked + _EVERY or at.number != self._number:
                self._looked = now
                try:
                    self._found = self._looked_at(report, query, at, now)
                except Exception as error:
                    self._found = {}
                    log.debug("how far a batch is isn't known", lane=self._lane.id, error=str(error))
            return report.changed(**self._found)

    @property
    def _number(self) -> int:
        return -1 if self._tracker is None else self._tracker.number

    def _looked_at(self, report: LaneReport, query: LaneQuery, at: BatchMoment, now: float) -> dict[str, Any]:
        tracker = self._tracker
        if tracker is None or (self._run, tracker.number) != (at.run, at.number):
            self._ratios = self._ratios if tracker is None else tracker.ratios
            tracker, self._run = Tracker(_planned(query, at.number), at.since, self._ratios), at.run
            self._tracker = tracker
        heard: list[TaskCounts] = [] if query.workers.listener is None else query.workers.listener.of(at.run, at.number)
        look: ProgressSample = tracker.look(heard, now, at.step, at.stepped)
        self._load.runs(report, now, now - at.since, look.worked, look.progress.done)
        self._tasks = look.tasks or self._tasks
        found = {"batch_progress": look.progress, **self._figures}
        if at.step == COMPUTING:
            found |= self._slowest(look.worked)
        if look.progress.done and look.progress.seconds >= _RATE_AFTER:
            found["rows_per_second"] = look.progress.rows_per_second
        return found

    def _left_off(self, report: LaneReport) -> dict[str, float]:
        """How many seconds the last batch spent in each phase; {} if the batch's progress wasn't computed. The seconds
        of all phases add up to the batch's duration."""
        progress: BatchProgress | None = self._found.get("batch_progress")
        if progress is None or progress.number != report.progress.batch or not progress.spent:
            return {}
        total = sum(progress.spent.values())
        return {phase: round(seconds * report.load.seconds / total, 3) for phase, seconds in progress.spent.items()}

    def _times(self, report: LaneReport, spent: Mapping[str, float]) -> BatchTimes | None:
        """Record the batch that has just ended. Returns estimates of a batch's fixed time and of the functions'
        time per record, based on recent batches. Returns None if the recent batches don't allow an estimate."""
        rows, self._rows = report.progress.rows - self._rows, report.progress.rows
        self._recent.ran(report.load.seconds, rows, spent.get(BatchPhase.FUNCTIONS, 0.0) if spent else None)
        cost = self._recent.cost
        return None if cost is None else BatchTimes(fixed=cost.fixed, per_record=cost.per_record, tasks=self._tasks)

    @property
    def _figures(self) -> dict[str, Any]:
        load = self._load
        rates = {"arriving": load.arriving, "throughput": load.throughput}
        return {"busy": load.busy, "working": load.working, **rates, "span": load.span, "usual_seconds": load.usual}

    def _slowest(self, worked: Mapping[tuple[int, int], float]) -> dict[str, Any]:
        found = busy_time.slowest(self._lane, worked)
        return {} if found is None else {"slowest": found.ssp, "slowest_seconds": found.seconds, "skew": found.skew}


def oldest(query: LaneQuery) -> Work | None:
    """The message on which a function of a lane has been working longest. None if no batch is running, or if no
    function has been working on a message for at least a second."""
    at, listener = query.under_way.now, query.workers.listener
    return None if at is None or listener is None else listener.oldest(at.run)


def _planned(query: LaneQuery, number: int) -> PlannedBatch:
    def name(source: int, partition: int, bucket: int) -> str:
        return str(query.sources.ssp_of(source, partition, bucket) or f"{source}/{partition}#{bucket}")

    return PlannedBatch(
        number=number,
        ranges=query.sources.ranges_by_source(query.planned(number)),
        labels=query.sources.labels,
        stateful=query.plan.stateful,
        state_tasks=query.lane.state_partitions,
        slots=query.outputs.slotted_partitions,
        name=name,
    )
