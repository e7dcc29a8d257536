"""A running query that is held where it would plan its next batch, so that this is planned for it from outside.

A query that is stopped, and started for each batch that is planned, does the same; here Spark has its plan, its state
and its sources at hand already.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic, sleep
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from anabranch.errors import StateError
from anabranch.spark.internals.read_limits import ReadLimits

__all__ = ["Held"]

_PROGRESS = "org.apache.spark.sql.execution.streaming.runtime.StreamProgress"
_PLANS = ".constructNextBatch("
"""The method in which a query plans a batch, all of it under one lock."""
_LOOK = 0.005
_HANDOVER_NS = 50_000_000
_LOCKING_MS = 100
_TURN = 0.2


class Held:
    """The query of a lane, from when this is made until it is released or closed. For one thread.

    Its batches read nothing but what is planned for them. Unless it was let :meth:`go`, none is under way when a method
    of this class returns, and Spark plans none.

    ``turn`` is called now and then while a batch is waited for; what it raises ends the waiting. ``limits``: those of
    the query's sources.
    """

    def __init__(
        self, spark: SparkSession, query: StreamingQuery, turn: Callable[[], None], limits: ReadLimits
    ) -> None:
        self._jvm: Any = spark._jvm
        self._arrays: Any = getattr(self._jvm, "org.apache.commons.lang3.ArrayUtils")
        self._milliseconds: Any = getattr(self._jvm, "java.util.concurrent.TimeUnit").MILLISECONDS
        self._execution: Any = query._jsq.streamingQuery()
        self._thread: Any = self._execution.queryExecutionThread()
        self._planning: Any = self._execution.awaitProgressLock()
        self._progress: Any = self._execution.awaitProgressLockCondition()
        self._turn, self._turned = turn, 0.0
        self._limits = limits
        self._stand()
        try:
            self._limits.hold()
        except BaseException:
            self.close()
            raise

    def run(self) -> None:
        """Run the batch that was planned.

        Raises:
            StateError: the query has ended.
        """
        self.go()
        self._stand()

    def begin(self) -> None:
        """Let the query run its first batch."""
        self._planning.unlock()
        while not self._execution.offsetLog().getLatestBatchId().isDefined():
            self._look()
        self._stand()

    def go(self) -> None:
        """Let the query run the batch that was planned, and those that Spark plans after it."""
        self._adopt()
        self._planning.unlock()

    def release(self) -> None:
        """Let the query go on as before."""
        self._limits.release()
        self.close()

    def close(self) -> None:
        """Let the query plan batches, which read nothing, so that it may end. Idempotent."""
        if self._planning.isHeldByCurrentThread():
            self._planning.unlock()

    def _stand(self) -> None:
        """Take the lock, and wait until the query waits for it to plan a batch: what is adopted then is what it runs.
        Anywhere else in its turn it would yet forget that, or take it for done."""
        while not self._planning.tryLock(_LOCKING_MS, self._milliseconds):
            self._look()
        try:
            while not self._would_plan():
                if self._planning.hasQueuedThread(self._thread):  # for something else, which it may do
                    self._progress.awaitNanos(_HANDOVER_NS)  # gives it the lock, and is the next to have it
                else:
                    self._look()
        except BaseException:
            self._planning.unlock()
            raise

    def _would_plan(self) -> bool:
        if not self._planning.hasQueuedThread(self._thread):
            return False
        under_way = self._execution.getLatestExecutionContext().isCurrentBatchConstructed()
        return not under_way and _PLANS in self._arrays.toString(self._thread.getStackTrace())

    def _look(self) -> None:
        if monotonic() > self._turned + _TURN or not self._thread.isAlive():
            self._turned = monotonic()
            self._turn()
            if not self._thread.isAlive():
                raise StateError("the query has ended", "see the container's log")
        sleep(_LOOK)

    def _adopt(self) -> None:
        """Let the last batch of the offset log be the one that the query has planned, as it does when it starts.

        Whether another batch was due it has found out with the watermark that it has: that is forgotten.
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
        """Offsets as sources make them: those of a log differ from them, if they are written in another way."""
        found, sources = self._execution.uniqueSources().empty(), ends.keysIterator()
        while sources.hasNext():
            source = sources.next()
            found = found.updated(source, source.deserializeOffset(ends.apply(source).json()))
        return getattr(self._jvm, _PROGRESS)(found)
