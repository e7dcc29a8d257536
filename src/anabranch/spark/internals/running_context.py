"""Whether this process has a session already. Nothing of Spark's public surface says so without starting one."""

from __future__ import annotations

from pyspark import SparkContext
from pyspark.sql import SparkSession

__all__ = ["is_there"]


def is_there() -> bool:
    """Where PySpark keeps its context elsewhere, a session of this thread is all that is seen: one of another thread
    is then joined when a session is started, and keeps its own settings.
    """
    if getattr(SparkContext, "_active_spark_context", None) is not None:
        return True
    return SparkSession.getActiveSession() is not None
