"""The names under which Spark tells a task, and the thread of a query, what they work for."""

from __future__ import annotations

from pyspark.sql import SparkSession

from anabranch.spark.internals import java
from anabranch.spark.internals.surface import JavaMembers, Surface

__all__ = ["BATCH", "QUERY", "RUN", "SURFACE", "probe"]

BATCH = "streaming.sql.batchId"
QUERY = "sql.streaming.queryId"
RUN = "spark.jobGroup.id"
"""The id of a query's run."""

_RUNTIME = "org.apache.spark.sql.execution.streaming.runtime"


def _others(spark: SparkSession) -> str:
    ids = java.singleton(spark, f"{_RUNTIME}.StreamExecution").QUERY_ID_KEY()
    batches = java.singleton(spark, f"{_RUNTIME}.MicroBatchExecution").BATCH_ID_KEY()
    return "" if (ids, batches) == (QUERY, BATCH) else f"it calls batch and query of a task {batches} and {ids}"


SURFACE = Surface(
    "local_properties",
    "telling which batch a task works for",
    [
        JavaMembers(f"{_RUNTIME}.StreamExecution$", ("QUERY_ID_KEY",)),
        JavaMembers(f"{_RUNTIME}.MicroBatchExecution$", ("BATCH_ID_KEY",)),
    ],
    tried=_others,
    always=True,
)
probe = SURFACE.probe
