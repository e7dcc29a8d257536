"""Ends a query at a batch boundary, in the way that Spark itself ends one that has read all there was to read."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from time import monotonic, sleep
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["end"]

_JOIN_MS = 100
_TURN = 0.5
_LOOK = 0.02
_NEXT = 1.0
"""Seconds in which the next batch comes, if there is anything to read."""
_TERMINATED = "org.apache.spark.sql.execution.streaming.runtime.TERMINATED$"
_IDLE = "Waiting for next trigger"
_BETWEEN = ("Initializing", "Waiting", "Stopped")
"""What it says of itself begins so while it neither plans a batch nor runs one."""


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
    """
    jvm: Any = spark._jvm
    execution: Any = query._jsq.streamingQuery()
    thread = execution.queryExecutionThread()
    wait = partial(_wait, lambda: hurry() or not thread.isAlive(), turn)
    if another and writes():
        wait(lambda: not writes())
        wait(writes, _NEXT)
    wait(lambda: writes() or query.status["message"].startswith(_BETWEEN))
    execution.state().set(getattr(getattr(jvm, _TERMINATED), "MODULE$"))
    decided()
    turned = monotonic()
    while thread.isAlive():  # what the query itself says of being active goes by its state
        thread.join(_JOIN_MS)
        if hurry() or query.status["message"] == _IDLE:
            query.stop()
        if monotonic() > turned + _TURN:
            turn()
            turned = monotonic()


def _wait(
    ended: Callable[[], bool], turn: Callable[[], None], until: Callable[[], bool], seconds: float = math.inf
) -> None:
    begun = turned = monotonic()
    while not (ended() or until()) and monotonic() < begun + seconds:
        sleep(_LOOK)
        if monotonic() > turned + _TURN:
            turn()
            turned = monotonic()
