"""Finds out whether Spark would refuse to start a query with a certain plan, and why, without starting the query."""

from __future__ import annotations

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from anabranch.spark.internals import java
from anabranch.spark.internals.surface import JavaMembers, Surface

__all__ = ["SURFACE", "fault", "probe"]

_CHECKER = "org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker"
_MODES = "org.apache.spark.sql.streaming.OutputMode"

SURFACE = Surface(
    "unsupported_operations",
    "reporting before a job starts what Spark can't run on a stream",
    [JavaMembers(_CHECKER, ("checkForStreaming",)), JavaMembers(_MODES, ("Append", "Update"))],
    otherwise="Spark reports it when the lanes start",
)
probe = SURFACE.probe


def fault(frame: DataFrame, mode: str) -> str:
    """Why Spark would refuse to run a DataFrame as a stream. Empty if Spark wouldn't refuse, or if this can't be
    determined.

    Args:
        mode: the query's output mode, ``Append`` or ``Update``.
    """
    spark = frame.sparkSession
    if not SURFACE.works(spark):
        return ""
    output = getattr(java.java_class(spark, _MODES), mode)()
    try:
        java.java_class(spark, _CHECKER).checkForStreaming(java.plan(frame).analyzed(), output)
    except PySparkException as error:
        return str(error).strip().split("\n")[0].split(" SQLSTATE")[0].rstrip(";")
    return ""
