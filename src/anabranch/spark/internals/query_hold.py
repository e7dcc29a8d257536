"""Holds a running query at the point where it would plan its next batch, so that anabranch can plan this batch instead.

With Spark's public interface alone, a query would have to be stopped and started again for each planned batch. Holding
the query is faster, because Spark then keeps the query's plan, state and sources.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from time import monotonic, sleep
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from anabranch.errors import AnabranchError, StateError
from anabranch.spark.internals import java, read_limits
from anabranch.spark.internals.read_limits import ReadLimits
from anabranch.spark.internals.surface import JavaMembers, Surface

__all__ = ["PLANNING_CALL", "RUNS_WITHIN", "SURFACE", "TURN_EVERY", "HeldQuery", "NotHeldError", "probe"]

_RUNTIME = "org.apache.spark.sql.execution.streaming.runtime"
_PROGRESS = f"{_RUNTIME}.StreamProgress"
PLANNING_CALL = ".constructNextBatch("
"""The method in which a query plans a batch, entirely under one lock."""
_LOOK = 0.005
_HANDOVER_NS = 50_000_000
_LOCKING_MS = 100
TURN_EVERY = 0.2
RUNS_WITHIN = 60.0
"""How many seconds a query without a running batch may take to reach the point where it would plan its next batch, or
to begin a batch that was planned for it.
"""

_PASSED = 2
"""How many more batches a query may plan while anabranch tries to hold it. If the query plans more than that, anabranch
gives up.
"""

SURFACE = Surface(
    "query_hold",
    "draining a lane while its query runs",
    [
        JavaMembers(
            f"{_RUNTIME}.MicroBatchExecution",
            (
                "awaitProgressLock",
                "awaitProgressLockCondition",
                "constructNextBatch",
                "getLatestExecutionContext",
                "lastExecution",
                "offsetLog",
                "queryExecutionThread",
                "sourceIdMap",
                "sources",
                "uniqueSources",
                "watermarkTracker",
            ),
        ),
        JavaMembers(
            f"{_RUNTIME}.MicroBatchExecutionContext",
            (
                "batchId",
                "endOffsets_$eq",
                "isCurrentBatchConstructed",
                "isCurrentBatchConstructed_$eq",
                "offsetSeqMetadata_$eq",
            ),
        ),
        JavaMembers(f"{_RUNTIME}.IncrementalExecution", ("watermarkPropagator",)),
        JavaMembers(f"{_RUNTIME}.WatermarkTracker", ("currentWatermark", "setWatermark")),
        JavaMembers(_PROGRESS),
        *read_limits.SURFACE.needs,
    ],
    otherwise="a query that drains is stopped, and started again for each planned batch",
)
probe = SURFACE.probe


class NotHeldError(AnabranchError):
    """The query can't be held: it takes too long to reach the point where it plans its next batch, or it keeps passing
    this point before anabranch can hold it. The query must be stopped instead.
    """


class HeldQuery:
    """Keeps a lane's running query from planning its next batch, until :meth:`release` or :meth:`close`. Not
    thread-safe.

    The constructor waits until the query is about to plan a batch. When the constructor, :meth:`run` or :meth:`begin`
    returns, no batch is running, and Spark plans no batch. From the end of the constructor until :meth:`release`, the
    query's batches read only records that anabranch has planned.

    Args:
        query: the running query.
        turn: called from time to time during a wait. If it raises an exception, the wait ends.
        limits: the read limits of ``query``. The constructor sets them to 0, and :meth:`release` restores them.

    Raises:
        NotHeldError: no batch has run during :data:`RUNS_WITHIN` seconds of waiting, or the query plans further batches
            without being held. Raised by the constructor and by any method that waits.
        StateError: the query has ended. Raised by the constructor and by any method that waits.
    """

    def __init__(
        self, spark: SparkSession, query: StreamingQuery, turn: Callable[[], None], limits: ReadLimits
    ) -> None:
        self._spark = spark
        self._milliseconds: Any = java.java_class(spark, "java.util.concurrent.TimeUnit").MILLISECONDS
        self._execution: Any = java.execution(query)
        self._thread: Any = self._execution.queryExecutionThread()
        self._planning: Any = self._execution.awaitProgressLock()
        self._progress: Any = self._execution.awaitProgressLockCondition()
        self._turn, self._turned = turn, 0.0
        self._ran_at = monotonic()
        self._last: float = math.inf
        self._limits = limits
        self._stand()
        try:
            self._limits.hold()
        except BaseException:
            self.close()
            raise

    def run(self) -> None:
        """Run the planned batch, and then hold the query again."""
        self.go()
        self._stand()

    def begin(self) -> None:
        """Let the query plan and run its first batch, and then hold the query again."""
        self._planning.unlock()
        self._ran_at = monotonic()
        while not self._execution.offsetLog().getLatestBatchId().isDefined():
            self._look()
        self._stand()

    def go(self, begun: Callable[[], bool] = lambda: True) -> None:
        """Let the query run the planned batch, then batches that Spark plans. Returns when ``begun`` returns true."""
        self._adopt()
        self._planning.unlock()
        self._ran_at = monotonic()
        while not begun():
            self._look()

    def release(self) -> None:
        """Let the query continue as before."""
        self._limits.release()
        self.close()

    def close(self) -> None:
        """Stop holding the query, so that it can be stopped. Unless :meth:`release` was called, further batches of the
        query still read no records. Idempotent.
        """
        if self._planning.isHeldByCurrentThread():
            self._planning.unlock()

    def _stand(self) -> None:
        """Take the lock under which the query plans batches, and wait until the query needs the lock to plan a batch.

        If :meth:`_adopt` gives the query a batch while the query needs the lock to plan a batch, the query runs the
        given batch next. At any other point, Spark would discard the given batch or treat it as finished.
        """
        self._ran_at, self._last = monotonic(), math.inf
        while not self._planning.tryLock(_LOCKING_MS, self._milliseconds):
            self._look()
        try:
            self._last = self._batch() + _PASSED
            while not self._would_plan():
                if self._planning.hasQueuedThread(self._thread):  # the query needs the lock for something else
                    self._progress.awaitNanos(_HANDOVER_NS)  # give the lock to the query, and then take it again
                self._look()
        except BaseException:
            self._planning.unlock()
            raise

    def _would_plan(self) -> bool:
        if not self._planning.hasQueuedThread(self._thread):
            return False
        return not self._is_under_way() and PLANNING_CALL in java.text(self._spark, self._thread.getStackTrace())

    def _is_under_way(self) -> bool:
        """Whether the query has a planned batch that isn't complete."""
        context = self._execution.getLatestExecutionContext()
        return context is not None and bool(context.isCurrentBatchConstructed())

    def _look(self) -> None:
        if monotonic() > self._turned + TURN_EVERY or not self._thread.isAlive():
            self._turned = monotonic()
            self._turn()
            if not self._thread.isAlive():
                raise StateError("the query has ended", "see the container's log")
            if self._is_under_way():
                self._ran_at = monotonic()
            elif monotonic() > self._ran_at + RUNS_WITHIN:
                raise NotHeldError(f"the query has run no batch for {RUNS_WITHIN:.0f} s", "it can be stopped")
            if self._batch() > self._last:
                raise NotHeldError("the query plans batches where nothing can hold it", "it can be stopped")
        sleep(_LOOK)

    def _batch(self) -> int:
        """The number of the query's current batch; -1 if there is no batch yet."""
        context = self._execution.getLatestExecutionContext()
        return -1 if context is None else int(context.batchId())

    def _adopt(self) -> None:
        """Make the query adopt the last batch of the offset log, as if the query had planned this batch itself.

        The query has already determined, from its current watermark, whether another batch is due. This result is
        discarded.
        """
        execution, context = self._execution, self._execution.getLatestExecutionContext()
        latest = execution.offsetLog().getLatest().get()
        number, entry = latest._1(), latest._2()
        metadata = entry.metadataOpt().get()
        ends = self._read(entry.toStreamProgress(execution.sources(), execution.sourceIdMap()))
        if execution.lastExecution() is not None:
            execution.lastExecution().watermarkPropagator().purge(number)
        watermark = max(execution.watermarkTracker().currentWatermark(), metadata.batchWatermarkMs())
        execution.watermarkTracker().setWatermark(watermark)
        getattr(context, "endOffsets_$eq")(ends)
        getattr(context, "offsetSeqMetadata_$eq")(metadata)
        getattr(context, "isCurrentBatchConstructed_$eq")(True)

    def _read(self, ends: Any) -> Any:
        """The offsets as objects of the classes that the sources use. (Offsets from a log may be of other classes.)"""
        found, sources = self._execution.uniqueSources().empty(), ends.keysIterator()
        while sources.hasNext():
            source = sources.next()
            found = found.updated(source, source.deserializeOffset(ends.apply(source).json()))
        return java.java_class(self._spark, _PROGRESS)(found)
