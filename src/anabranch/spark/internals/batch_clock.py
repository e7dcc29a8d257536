"""Installs ``BatchClock.java``, the clock by which a lane's query plans its batches. This clock never goes back.

By default, Spark uses the machine's time as the time of a batch. If the machine's clock were set back, the records of
the next batch could fall into closed windows of processing time. Timers, and queries with an interval between their
batches, would wait until the clock had caught up. See :mod:`anabranch.event_time.batch_time`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

from anabranch import logs
from anabranch.spark.internals import java, java_functions
from anabranch.spark.internals.surface import JavaMembers, Surface

__all__ = ["SURFACE", "probe", "starting"]

_CLASS = "BatchClock"
_RUNTIME = "org.apache.spark.sql.execution.streaming.runtime"

log = logs.get_logger()
_lock = threading.Lock()
_installed: list[tuple[object, Any]] = []
"""The current SparkContext, and the listener in its session; empty if no listener is installed."""


def _tried(spark: SparkSession) -> str:
    java_functions.class_of(spark, _CLASS)
    return ""


SURFACE = Surface(
    "batch_clock",
    "processing time that continues when a machine's clock is set back",
    [
        *java_functions.SURFACE.needs,
        JavaMembers(f"{_RUNTIME}.MicroBatchExecution", ("triggerClock",)),
        JavaMembers(f"{_RUNTIME}.StreamingQueryWrapper", ("streamingQuery",)),
        JavaMembers("org.apache.spark.util.Clock", ("getTimeMillis", "nanoTime", "waitTillTime")),
        JavaMembers("org.apache.spark.sql.streaming.StreamingQueryListener"),
        JavaMembers("org.apache.spark.unsafe.Platform", ("throwException",)),
    ],
    tried=_tried,
    otherwise="a lane whose batch is planned before closed windows of processing time restarts and plans it again",
)
probe = SURFACE.probe


@contextmanager
def starting(spark: SparkSession, name: str, since: int) -> Iterator[None]:
    """A context for starting the query ``name``. The query's clock starts at ``since`` (Unix ms) or at the machine's
    time, whichever is later. If the clock can't be installed, the query uses the machine's clock.
    """
    if not SURFACE.works(spark):
        yield
        return
    listener = _listener(spark)
    listener.expect(name, since)
    yield
    failure = listener.failure(name)
    if failure:
        log.warning("a lane follows the machine's clock, which can be set back", lane=name, why=failure)


def _listener(spark: SparkSession) -> Any:
    with _lock:
        if not _installed or _installed[0][0] is not spark.sparkContext:
            session = java.session(spark)
            given = java.array(spark, java.java_class(spark, "java.lang.Object"), [session])
            listener = java_functions.class_of(spark, _CLASS).getConstructors()[0].newInstance(given)
            session.streams().addListener(listener)
            _installed[:] = [(spark.sparkContext, listener)]
        return _installed[0][1]
