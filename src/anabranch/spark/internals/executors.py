"""Counts the cores of the executors that a cluster has provided."""

from __future__ import annotations

from pyspark.sql import SparkSession

from anabranch.spark.internals import java
from anabranch.spark.internals.surface import JavaMembers, Surface

__all__ = ["SURFACE", "cores", "probe"]

SURFACE = Surface(
    "executors",
    "running on a cluster: waiting for its executors",
    [
        JavaMembers("org.apache.spark.status.AppStatusStore", ("executorList",)),
        JavaMembers("org.apache.spark.status.api.v1.ExecutorSummary", ("id", "totalCores")),
    ],
)
probe = SURFACE.probe


def cores(spark: SparkSession) -> int:
    """The total number of cores of the executors that a session currently has.

    Raises:
        UnsupportedSparkError: this Spark doesn't provide this number.
    """
    SURFACE.insist(spark)
    there = java.context(spark).sc().statusStore().executorList(True)
    several = [there.apply(place) for place in range(there.size())]
    return sum(int(each.totalCores()) for each in several if each.id() != "driver")
