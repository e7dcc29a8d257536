"""Ends a query at a batch boundary, in the way that Spark itself ends one that has read all there was to read."""

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
"""Seconds in which the next batch comes, if there is anything to read."""
STOPS_WITHIN = 60.0
"""Seconds in which Spark is to plan a batch that it has begun to plan, and to end once no batch is written."""
_RUNTIME = "org.apache.spark.sql.execution.streaming.runtime"
_IDLE = "Waiting for next trigger"
_BETWEEN = ("Initializing", "Waiting", "Stopped")
"""What it says of itself begins so while it neither plans a batch nor runs one."""

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
    """Let the batch that runs be committed, and no other one begin. ``query.exception()`` says whether it failed.

    ``writes``: whether a batch is planned, and being written. ``turn`` is called now and then; what it raises ends the
    waiting. ``another``: if a batch is being written, the next one is the last, unless it is long in coming.
    ``decided`` is called once it is known which batch is the last one; that may still run.

    ``stop()`` would interrupt it. Between two triggers of an interval it is right: then nothing runs; and so it is in a
    ``hurry``. A batch that is just being planned Spark leaves, once the state says that the query has ended: it is
    waited for until it is planned.

    A batch may be planned when this returns, and not committed: where this Spark can't be ended so, or hasn't ended in
    time. The caller finishes it, by a query that runs ``once``.
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
    while thread.isAlive():  # what the query itself says of being active goes by its state
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
