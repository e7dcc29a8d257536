"""Makes PySpark record which line of Python code makes each column, but only while a function of the job makes columns.

Spark's errors name the recorded lines, and so do anabranch's errors about functions of the job that work with
DataFrames. The lines of other code aren't recorded, because recording a line takes longer than making the column.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import utils

from anabranch.spark.internals.surface import PythonName, Surface

__all__ = ["SURFACE", "noted", "probe", "settings"]

_SETTING = "spark.python.sql.dataFrameDebugging.enabled"
_CACHE = "_enable_debugging_cache"

SURFACE = Surface(
    "debug_lines",
    "naming the lines of users' functions in errors",
    [PythonName("pyspark.errors.utils", _CACHE)],
    otherwise="PySpark notes the line of every column, which takes longer",
)
probe = SURFACE.probe


def settings() -> dict[str, str]:
    """Session settings that restrict the recording of lines to the context :func:`noted`; empty if this PySpark lacks
    the surface."""
    return {_SETTING: "false"} if SURFACE.is_in_pyspark else {}


_lock = threading.Lock()
_asking: set[object] = set()


@contextmanager
def noted() -> Iterator[None]:
    """A context in which functions of the job make columns. As long as any thread is in this context, lines are
    recorded in all threads.
    """
    who = object()
    with _lock:
        _asking.add(who)
        _settle()
    try:
        yield
    finally:
        with _lock:
            _asking.remove(who)
            _settle()


def _settle() -> None:
    # PySpark reads the setting only once in a process, and stores its value in this attribute. None means that PySpark
    # hasn't read the setting yet.
    if hasattr(utils, _CACHE):
        setattr(utils, _CACHE, True if _asking else None)
