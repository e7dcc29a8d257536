"""Whether PySpark records the line of Python code from which each column comes.

Spark's errors point to those lines, and so do anabranch's errors about what users' functions do with DataFrames. For
anabranch's own columns, the lines aren't needed, and recording them takes longer than making the column.
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
    """Session settings with which lines are recorded only on request; empty if that isn't possible."""
    return {_SETTING: "false"} if SURFACE.is_in_pyspark else {}


_lock = threading.Lock()
_asking: set[object] = set()


@contextmanager
def noted() -> Iterator[None]:
    """Record lines inside this context, in all threads, because a user's function makes columns."""
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
    # PySpark looks at the setting once a process, and keeps what it finds here; None: it has not looked.
    if hasattr(utils, _CACHE):
        setattr(utils, _CACHE, True if _asking else None)
