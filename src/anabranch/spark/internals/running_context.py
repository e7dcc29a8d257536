"""Whether this process already has a session. Nothing in Spark's public interface says so without starting one."""

from __future__ import annotations

from pyspark import SparkContext
from pyspark.sql import SparkSession

__all__ = ["is_there"]


def is_there() -> bool:
    """Whether there is a session. If PySpark keeps its context elsewhere, only a session of this thread is seen; one of
    another thread is then joined when a session is started, and keeps its own settings.
    """
    if getattr(SparkContext, "_active_spark_context", None) is not None:
        return True
    return SparkSession.getActiveSession() is not None
