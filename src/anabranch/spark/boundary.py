"""Ends a query at a batch boundary, in the way that Spark itself ends one that has read all there was to read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["end"]

_TURN_MS = 100
_TERMINATED = "org.apache.spark.sql.execution.streaming.runtime.TERMINATED$"
_IDLE = "Waiting for next trigger"


def end(
    spark: SparkSession,
    query: StreamingQuery,
    turn: Callable[[], None] = lambda: None,
    hurry: Callable[[], bool] = lambda: False,
) -> None:
    """Let the batch that runs be committed, and no other one begin. ``query.exception()`` says whether it failed.

    ``turn`` is called now and then; what it raises ends the waiting.

    ``stop()`` would interrupt it. Between two triggers of an interval it is right: then nothing runs; and so it is in a
    ``hurry``.
    """
    jvm: Any = spark._jvm
    execution: Any = query._jsq.streamingQuery()
    execution.state().set(getattr(getattr(jvm, _TERMINATED), "MODULE$"))
    thread = execution.queryExecutionThread()
    while thread.isAlive():  # what the query itself says of being active goes by its state
        thread.join(_TURN_MS)
        turn()
        if hurry() or query.status["message"] == _IDLE:
            query.stop()
