"""Ends a query at a batch boundary, the same way that Spark ends a query that has read everything."""

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
"""How many seconds to wait for another batch to begin; see ``another`` of :func:`end`."""
STOPS_WITHIN = 60.0
"""Seconds within which Spark must finish the planning of a batch, and within which a query must end if no batch is
being written.
"""
_RUNTIME = "org.apache.spark.sql.execution.streaming.runtime"
_IDLE = "Waiting for next trigger"
_BETWEEN = ("Initializing", "Waiting", "Stopped")
"""The beginnings of a query's status messages while no batch of the query is planned or run."""

SURFACE = Surface(
    "stop_at_batch",
    "stopping a lane at a batch boundary",
    [
        JavaMembers(f"{_RUNTIME}.MicroBatchExecution", ("queryExecutionThread", "state")),
        JavaMembers(f"{_RUNTIME}.TERMINATED$", ("MODULE$",)),
    ],
    otherwise="the query is stopped once a batch is written; another query finishes the batch that has started by then",
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
    """End a query, at a batch boundary if possible: let the running batch be committed, and let no further batch begin
    (but see ``another``). When this function returns, the query has ended, and ``query.exception()`` says whether the
    last batch failed.

    This function sets the query's state in Spark to "terminated", so that the query ends on its own after the running
    batch. Spark would abandon a batch that is still being planned. So this function first waits, for up to
    :data:`STOPS_WITHIN` seconds, until no batch is being planned.

    ``stop()`` would interrupt a running batch. So this function calls ``stop()`` only if the query is waiting for its
    next trigger, if ``hurry`` returns true, or if the query hasn't ended although no batch has been written for
    :data:`STOPS_WITHIN` seconds.

    If this Spark lacks the surface, this function only calls ``stop()``, as soon as no batch is being written or
    ``hurry`` returns true.

    A call to ``stop()`` can leave a batch planned but uncommitted. The caller of this function must then start another
    query that finishes this batch, or undo the planning of the batch.

    Args:
        writes: returns whether a batch is planned and is being written.
        turn: called from time to time during a wait. If it raises an exception, the wait ends.
        hurry: returns whether to stop the query at once.
        another: whether one more batch may run after a batch that is being written now. If this next batch doesn't
            begin within :data:`NEXT_WITHIN` seconds, the query ends without it. Ignored without the surface.
        decided: called as soon as no further batch can begin, perhaps while the last batch is still running. Without
            the surface, called right before ``stop()``.
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
    while thread.isAlive():  # query.isActive would depend on the state that was just set
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
