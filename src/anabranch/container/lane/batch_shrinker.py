"""Plans a batch again with fewer rows if it takes longer than allowed and no part of it was published."""

from __future__ import annotations

import math

from pyspark.sql.streaming.query import StreamingQuery

from anabranch import logs
from anabranch.container import too_long_batches
from anabranch.container.lane import quiet
from anabranch.container.lane.attempt import Attempt
from anabranch.pace.controller import BatchRun
from anabranch.protocol.lane_report import BatchProgress
from anabranch.spark.query.query import LaneQuery

__all__ = ["BatchShrinker"]

log = logs.get_logger()


class BatchShrinker:
    """Plans batches again with fewer rows if they take longer than a transaction may take. Used by the lane's own
    thread.
    """

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._most = 0
        """The maximum number of rows for the pending batch, if it must be planned again; otherwise 0."""

    def goes_on_smaller(self, error: BaseException) -> bool:
        """True if ``error`` says that a batch took too long, and if this batch can be run again with fewer rows. If the
        result is True, all work on the batch has ended, and the next :meth:`shrink` plans the batch again."""
        query, started = self._attempt.query, self._attempt.started
        if not too_long_batches.is_too_long(error) or query is None or started is None or not self._can_shrink():
            return False
        rows = sum(end - begin for begin, end in self._attempt.pending_ranges().values())
        if rows <= 1:
            return False
        self._end(query, started)
        query.pacer.failed(rows)
        self._most = query.pacer.limit
        return True

    def outlasting(self) -> BatchProgress | None:
        """The progress of the running batch, if it will probably take too long and can be run again with fewer rows;
        otherwise None."""
        query = self._attempt.query
        if query is None or query.plan.stateful or math.isinf(query.outputs.allowed):
            return None
        progress = self._attempt.report.progress.batch_progress
        if progress is None or progress.planned <= 1 or not too_long_batches.outlasts(progress, query.outputs.allowed):
            return None
        return progress if self._can_shrink() else None

    def break_off(self, started: StreamingQuery, progress: BatchProgress) -> bool:
        """Stop the query in the middle of a batch that will take too long, unless part of the batch may be visible.
        Returns whether the query was stopped. If so, another query must be started.
        """
        query = self._attempt.current
        if query.gate.shut():
            return False
        log.warning(
            "a batch would take longer than a transaction may",
            lane=self._attempt.lane.id,
            batch=progress.number,
            rows=progress.planned,
            done=progress.done,
            seconds=progress.seconds,
        )
        self._end(query, started)
        query.pacer.failed(progress.planned, BatchRun(max(1, progress.done), progress.seconds))
        self._most = query.pacer.limit
        return True

    def shrink(self, query: LaneQuery) -> None:
        """If the pending batch took too long, and no part of it was published, plan it again with fewer rows."""
        most, self._most = self._most, 0
        if not most or query.plan.real_time or not self._can_shrink():
            return
        attempt, folder = self._attempt, self._attempt.folder
        seen = attempt.lane_folders.withdrawn(attempt.lane, attempt.epoch, committed=folder.committed())
        if seen >= folder.planned():
            return  # a Spark task that continued after the end of the query has made part of the batch visible
        starting: dict[str, dict[int, int]] = {}
        for ssp, offset in attempt.starting.items():
            starting.setdefault(ssp.stream, {})[ssp.partition] = offset
        had = too_long_batches.shrink(folder, starting, most)
        if had:
            log.warning("the batch is made smaller", lane=attempt.lane.id, batch=folder.planned(), rows=most, had=had)

    def _end(self, query: LaneQuery, started: StreamingQuery) -> None:
        """Stop a query, and end all work on its batch. Otherwise, a Python worker could commit its part of the larger
        batch once the slots are open again for the smaller one."""
        started.stop()
        query.workers.cancel(str(started.runId))
        quiet.wait(self._attempt)

    def _can_shrink(self) -> bool:
        attempt, folder = self._attempt, self._attempt.folder
        stateless = attempt.query is not None and not attempt.query.plan.stateful
        return stateless and folder.pending and attempt.lane_folders.published(attempt.lane) < folder.planned()
