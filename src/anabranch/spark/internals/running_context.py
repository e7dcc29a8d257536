"""Finds out whether this process already has a session. By Spark's public interface, this can't be found out reliably
without starting a session.
"""

from __future__ import annotations

from pyspark import SparkContext
from pyspark.sql import SparkSession

__all__ = ["is_there"]


def is_there() -> bool:
    """Whether this process has a session. If this PySpark lacks the private attribute that shows this, the result is
    true only if the current thread has a session. To start a session while another thread has one would then return the
    other thread's session, with its own settings.
    """
    if getattr(SparkContext, "_active_spark_context", None) is not None:
        return True
    return SparkSession.getActiveSession() is not None
