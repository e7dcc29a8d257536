"""The names of the local properties that identify a Spark task's query, the run of this query, and the batch. The probe
checks the names for the query and the batch.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from anabranch.spark.internals import java
from anabranch.spark.internals.surface import JavaMembers, Surface
from anabranch.task_progress.local_properties import BATCH, QUERY, RUN

__all__ = ["BATCH", "QUERY", "RUN", "SURFACE", "probe"]

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
