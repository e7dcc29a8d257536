"""Reads the progress of a lane's queries from Spark, and uses it to update the lane's report, the sizes of the next
batches, and the positions committed to the inputs' systems. Also stores which SSPs are idle, and the lane's event time.
"""

from __future__ import annotations

import math
from time import monotonic

from pyspark.sql.streaming.query import StreamingQuery

from anabranch import crash_points, logs
from anabranch.container.batch_size_store import BatchSizeStore
from anabranch.container.checkpoint.output_ends import Outputs
from anabranch.container.idleness import Idleness
from anabranch.container.lane.attempt import Attempt, Offsets
from anabranch.container.lane.input_ends import InputEnds
from anabranch.container.lane.position_reports import PositionReports
from anabranch.container.lane.state_replay import StateReplay
from anabranch.event_time.progress import Progress
from anabranch.model.ssp import texts
from anabranch.spark.query import clock, history
from anabranch.spark.query.clock import Clock
from anabranch.spark.query.history import CompletedBatch

__all__ = ["Monitor"]


class Monitor:
    """Reads and passes on the progress of a lane's queries. Used by the lane's own thread.

    ``time_noted`` is True once the lane's event time is stored in its folder. ``committed_before`` is the last batch
    that was committed before this attempt; -1 if there is none, or before the folder is taken.
    """

    def __init__(self, attempt: Attempt) -> None:
        self.outputs = Outputs(attempt.lane_folders.systems, attempt.lane)
        self.ends = InputEnds(attempt.lane.id, attempt.inputs.ends, lambda: attempt.until)
        self.time_noted = False
        self.committed_before = -1
        self._attempt = attempt
        self._reporter = attempt.reporter
        self._batch_size_store = BatchSizeStore(attempt.lane_folders, attempt.lane)
        self._idleness = Idleness(math.inf)
        self._idle: dict[str, int] = {}
        tasks = attempt.lane_folders.spark.sparkContext.defaultParallelism if attempt.lane.stateful else 1
        self._replay = StateReplay(min(attempt.lane.state_partitions, tasks))
        self._rows = 0
        self._late_groups = 0
        self._seen_batch = -1
        self._newest_progress = ""
        self.positions = PositionReports(attempt.inputs.tell)

    def take_progress(self, query: StreamingQuery) -> None:
        spark = self._attempt.lane_folders.spark
        newest = history.newest(spark, query)
        time = clock.read(self._attempt.clock)
        if time is not None:
            self._reporter.update(
                watermark=time.progress.watermark, held_by=time.held_by, idle=tuple(time.idle), times=time.times
            )
            self._look_for_idle(time)
        if newest == self._newest_progress:
            self._reporter.update(ends=self.ends.now(), ends_known=self.ends.sure)
            self._reporter.no_batch_ended()
        else:
            self._newest_progress = newest
            for ran in history.since(spark, query, self._seen_batch):
                self._take_batch(ran)
        if self._seen_batch >= 0:
            self.positions.offer(self._reporter.current.progress.positions, monotonic())

    def carry_idle(self, last: int, patience: float) -> None:
        """Mark as idle the SSPs that were idle in the ``last`` planned batch (-1 if there is none), unless they have
        had new records since. No SSP is marked if the inputs' end offsets can't be looked up, or if the attempt ends at
        fixed offsets (``until``). From now on, an SSP becomes idle after ``patience`` seconds without new records.
        """
        self._idleness = Idleness(patience)
        until, folder = self._attempt.until, self._attempt.folder
        was = folder.batch(last).progress.idle if last >= 0 and until is None else frozenset()
        ends = self.ends.now(fresh=True) if was else {}
        at = texts(self._attempt.positions()) if self.ends.sure else {}
        self._idle = self._idleness.carry(was, at, ends)
        clock.note_idle(self._attempt.clock, self._idle)

    def note_time(self, progress: Progress) -> None:
        """Store the lane's event time (``progress``) in the lane's folder, from which successors can take it over."""
        self._attempt.folder.note_progress(progress, (str(ssp) for ssp in self._attempt.inputs.ssps))
        self.time_noted = True

    def note_batch_size(self, *, ends: bool = False) -> None:
        """Store the current limit on the number of records in a batch, so that later processes and lanes can start
        with this limit. Does nothing if the limit isn't known. ``ends`` is True if the lane is ending."""
        query = self._attempt.query
        if query is not None and not query.plan.real_time and query.pacer.is_known:
            self._batch_size_store.note(query.pacer.limit, ends=ends)

    def dead_letters(self) -> int:
        """How many dead letters this lane has written, including those of earlier processes."""
        query = self._attempt.query
        return query.outputs.put_aside if query is not None else self._attempt.lane.put_aside

    def _take_batch(self, ran: CompletedBatch) -> None:
        query, report = self._attempt.query, self._reporter.current
        counts = self._attempt.counts
        self._rows += ran.rows
        self._late_groups += ran.late_groups
        self._seen_batch = ran.number
        logs.bind(batch=ran.number)
        self._take_pace(ran)
        self._replay.ran(ran)
        # A batch ends only after Spark has committed it, which takes long if the machine is busy.
        published = (None if query is None else query.under_way.published(ran.number)) or ran.ended
        self._reporter.batch_ended(
            self._attempt.current.workers.take_busy(),
            batch=ran.number,
            rows=self._rows,
            seconds=ran.seconds,
            rows_per_second=ran.rows / ran.seconds if ran.seconds else 0.0,
            ends=self.ends.now(),
            ends_known=self.ends.sure,
            positions=texts(self._positions_after(ran.number)),
            dead_letters=self.dead_letters(),
            dropped=counts.dropped,
            late_groups=self._late_groups,
            late=dict(counts.late + query.outputs.late) if query is not None else {},
            windows=ran.state_rows if query is not None and query.plan.empties else 0,
            first_output=report.progress.first_output or (published if ran.rows else 0.0),
            last_output=published if ran.rows else report.progress.last_output,
            state_bytes=ran.state_bytes,
            replay_seconds=round(self._replay.seconds, 2),
        )
        crash_points.reach(crash_points.COMMITTED, self._attempt.lane.id, self._seen_batch)
        self.outputs.note(self._attempt.folder, ran.number)

    def _positions_after(self, batch: int) -> Offsets:
        """The positions after a committed batch, by whole SSP. They are taken from the query if possible, because
        reading them from remote storage is slow."""
        query = self._attempt.query
        if query is None or query.plan.real_time:
            return self._attempt.positions()
        return self._attempt.wholes(query.planned(batch).ends)

    def _take_pace(self, ran: CompletedBatch) -> None:
        query = self._attempt.query
        if query is not None and not query.plan.real_time:
            query.pacer.took(ran.number, ran.seconds)
            self._reporter.update(limit=query.pacer.limit)
            self.note_batch_size()

    def _look_for_idle(self, time: Clock) -> None:
        """Record which SSPs are idle, in the file with the lane's event time. Does nothing if the attempt ends at fixed
        offsets (``until``). No SSP counts as idle in such an attempt, because the results must not depend on how long
        the lane takes to reach these offsets.
        """
        if self._attempt.until is not None:
            return
        positions = {ssp: at for ssp, at in time.positions.items() if time.delays.get(ssp) is not None}
        ends = self.ends.now()
        idle = self._idleness.seen(positions, ends if self.ends.sure else {}, monotonic())
        if idle != self._idle:
            clock.note_idle(self._attempt.clock, idle)
            self._idle = idle
