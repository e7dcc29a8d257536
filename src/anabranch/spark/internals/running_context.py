"""Finds out whether this process already has a session. Spark's public interface can't do this reliably without
starting one.
"""

from __future__ import annotations

from pyspark import SparkContext
from pyspark.sql import SparkSession

__all__ = ["is_there"]


def is_there() -> bool:
    """Whether this process has a session.

    A private attribute of PySpark shows whether any thread has a session. If this PySpark lacks the attribute, a
    session of another thread isn't noticed. An attempt to start a session would then return that thread's session, with
    its settings.
    """
    if getattr(SparkContext, "_active_spark_context", None) is not None:
        return True
    return SparkSession.getActiveSession() is not None
