"""What the threads of this driver do, for who wants to know why nothing goes on."""

from __future__ import annotations

import sys
import threading
import traceback
from typing import Any

from pyspark.sql import SparkSession

__all__ = ["of_lane"]

_MOST_FRAMES = 40


def of_lane(spark: SparkSession, lane: str) -> str:
    """The stacks of a lane's query and of the tasks that run in this JVM, and those of Python's threads."""
    parts = [*_jvm(spark, lane), *_python()]
    return "\n\n".join(parts)


def _jvm(spark: SparkSession, lane: str) -> list[str]:
    threads: Any = getattr(spark._jvm, "java.lang.management.ManagementFactory").getThreadMXBean()
    wanted = (f"stream execution thread for {lane} ", "Executor task launch worker")
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
