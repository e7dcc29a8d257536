"""Ends a query at a batch boundary, as Spark itself ends a query that has read everything."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from time import monotonic, sleep

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from anabranch.spark.internals import java
from anabranch.spark.internals.surface import JavaMembers, Surface

__all__ = ["NEXT_WITHIN", "STOPS_WITHIN", "SURFACE", "TURN_EVERY", "end", "probe"]

_JOIN_MS = 100
TURN_EVERY = 0.5
_LOOK = 0.02
NEXT_WITHIN = 1.0
"""Seconds within which the next batch begins if there is anything to read."""
STOPS_WITHIN = 60.0
"""Seconds within which Spark must finish the planning of a batch, and must end when no batch is being written."""
_RUNTIME = "org.apache.spark.sql.execution.streaming.runtime"
_IDLE = "Waiting for next trigger"
_BETWEEN = ("Initializing", "Waiting", "Stopped")
"""The beginnings of Spark's status messages while it neither plans nor runs a batch."""

SURFACE = Surface(
    "stop_at_batch",
    "stopping a lane at a batch boundary",
    [
        JavaMembers(f"{_RUNTIME}.MicroBatchExecution", ("queryExecutionThread", "state")),
        JavaMembers(f"{_RUNTIME}.TERMINATED$", ("MODULE$",)),
    ],
    otherwise="the query is stopped once a batch is written; another one finishes what it has begun by then",
)
probe = SURFACE.probe


def end(
    spark: SparkSession,
    query: StreamingQuery,
    writes: Callable[[], bool] = lambda: False,
    turn: Callable[[], None] = lambda: None,
    hurry: Callable[[], bool] = lambda: False,
    *,
    another: bool = False,
    decided: Callable[[], None] = lambda: None,
) -> None:
    """Let the running batch be committed, and no other batch begin. Then ``query.exception()`` says whether the batch
    failed.

    ``stop()`` interrupts a running batch. So it is called only in three cases: nothing is running, because the query is
    between two triggers; ``hurry`` asks for it; or the query doesn't end by itself in time. If Spark's state says that
    the query has ended while a batch is being planned, Spark abandons this batch. So this function waits until planning
    is finished.

    When this returns, there may be a batch that is planned but not committed, because this Spark can't be ended in this
    way or hasn't ended in time. The caller must finish this batch with a query that runs ``once``.

    Args:
        writes: whether a batch is planned and being written.
        turn: called from time to time during a wait; if it raises an exception, the wait ends.
        hurry: whether to stop at once.
        another: if a batch is being written, whether to let one more batch begin, unless it takes long to begin.
        decided: called when it is known which batch is the last one. This batch may still be running.
    """
    if not SURFACE.works(spark):
        _wait(lambda: hurry() or not query.isActive, turn, lambda: not writes())
        decided()
        query.stop()
        return
    execution = java.execution(query)
    thread = execution.queryExecutionThread()
    wait = partial(_wait, lambda: hurry() or not thread.isAlive(), turn)
    if another and writes():
        wait(lambda: not writes())
        wait(writes, NEXT_WITHIN)
    wait(lambda: writes() or query.status["message"].startswith(_BETWEEN), STOPS_WITHIN)
    execution.state().set(java.singleton(spark, f"{_RUNTIME}.TERMINATED"))
    decided()
    turned = written = monotonic()
    while thread.isAlive():  # query.isActive isn't used, because it depends on the state that was set
        thread.join(_JOIN_MS)
        written = monotonic() if writes() else written
        if hurry() or query.status["message"] == _IDLE or monotonic() > written + STOPS_WITHIN:
            query.stop()
        if monotonic() > turned + TURN_EVERY:
            turn()
            turned = monotonic()


def _wait(
    ended: Callable[[], bool], turn: Callable[[], None], until: Callable[[], bool], seconds: float = math.inf
) -> None:
    begun = turned = monotonic()
    while not (ended() or until()) and monotonic() < begun + seconds:
        sleep(_LOOK)
        if monotonic() > turned + TURN_EVERY:
            turn()
            turned = monotonic()
