"""Describes what this driver's threads are doing, to find out why a lane makes no progress."""

from __future__ import annotations

import sys
import threading
import traceback
from typing import Any

from pyspark.sql import SparkSession

from anabranch.spark.internals import java
from anabranch.spark.internals.surface import JavaMembers, Surface

__all__ = ["SURFACE", "of_lane", "probe"]

_MOST_FRAMES = 40
_MANAGEMENT = "java.lang.management"

_QUERY, _TASK = "stream execution thread for", "Executor task launch worker"
"""How the names of Spark's threads begin: threads of queries, and threads of Spark tasks in this JVM."""

SURFACE = Surface(
    "thread_dump",
    "showing what Spark's threads do when a lane stands still",
    [JavaMembers(f"{_MANAGEMENT}.ManagementFactory", ("getThreadMXBean",))],
    otherwise="only Python's threads are shown",
)
probe = SURFACE.probe


def of_lane(spark: SparkSession, lane: str) -> str:
    """The stacks of the threads of a lane's query, of the Spark tasks that run in this JVM, and of Python's threads. If
    Spark lacks the surface, the result has only the stacks of Python's threads, and a sentence that says what is
    missing.
    """
    parts = [*(_java(spark, lane) if SURFACE.works(spark) else [probe(spark).summary]), *_python()]
    return "\n\n".join(parts)


def _java(spark: SparkSession, lane: str) -> list[str]:
    threads: Any = java.java_class(spark, f"{_MANAGEMENT}.ManagementFactory").getThreadMXBean()
    wanted = (f"{_QUERY} {lane} ", _TASK)
    found = (threads.getThreadInfo(number, _MOST_FRAMES) for number in threads.getAllThreadIds())
    return [
        str(info.toString()).strip() for info in found if info is not None and info.getThreadName().startswith(wanted)
    ]


def _python() -> list[str]:
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return [
        f'"{names.get(ident, ident)}" (Python)\n' + "".join(traceback.format_stack(frame, _MOST_FRAMES)).rstrip()
        for ident, frame in sys._current_frames().items()
    ]
