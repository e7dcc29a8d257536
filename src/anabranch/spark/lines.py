"""Whether PySpark notes the line of Python that each column comes from.

Errors of Spark's point at those lines, and so do ours for what users' functions do with DataFrames. Of our own columns
nobody wants to know; and to note it takes more time than to make the column.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import utils

__all__ = ["UNNOTED", "noted"]

UNNOTED = {"spark.python.sql.dataFrameDebugging.enabled": "false"}
"""A session's setting by which no lines are noted but where it is asked for."""

_lock = threading.Lock()
_asking: set[object] = set()


@contextmanager
def noted() -> Iterator[None]:
    """Note lines meanwhile, in all threads: a user's function makes columns."""
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
    utils._enable_debugging_cache = True if _asking else None  # type: ignore[assignment]
