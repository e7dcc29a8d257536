"""Finds out why Spark would refuse to start a query with some plan, without starting the query."""

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
    "telling before a job starts what Spark can't run on a stream",
    [JavaMembers(_CHECKER, ("checkForStreaming",)), JavaMembers(_MODES, ("Append", "Update"))],
    otherwise="Spark tells it when the lanes start",
)
probe = SURFACE.probe


def fault(frame: DataFrame, mode: str) -> str:
    """Why Spark refuses to run a DataFrame as a stream; empty if it doesn't refuse, or if it can't be asked.

    Args:
        mode: ``Append`` or ``Update``.
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
