"""Ends a query at a batch boundary, in the way that Spark itself ends one that has read all there was to read."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic, sleep
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["end"]

_TURN_MS = 100
_LOOK = 0.02
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
) -> None:
    """Let the batch that runs be committed, and no other one begin. ``query.exception()`` says whether it failed.

    ``writes``: whether a batch is planned, and being written. ``turn`` is called now and then; what it raises ends the
    waiting.

    ``stop()`` would interrupt it. Between two triggers of an interval it is right: then nothing runs; and so it is in a
    ``hurry``. A batch that is just being planned Spark leaves, once the state says that the query has ended: it is
    waited for until it is planned.
    """
    jvm: Any = spark._jvm
    execution: Any = query._jsq.streamingQuery()
    thread = execution.queryExecutionThread()
    turned = monotonic()
    while thread.isAlive() and not (writes() or hurry() or query.status["message"].startswith(_BETWEEN)):
        sleep(_LOOK)
        if monotonic() > turned + _TURN_MS / 1000:
            turned = monotonic()
            turn()
    execution.state().set(getattr(getattr(jvm, _TERMINATED), "MODULE$"))
    while thread.isAlive():  # what the query itself says of being active goes by its state
        thread.join(_TURN_MS)
        turn()
        if hurry() or query.status["message"] == _IDLE:
            query.stop()
