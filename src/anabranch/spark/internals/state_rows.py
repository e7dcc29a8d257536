"""Reads the rows of state in a checkpoint, in the form in which Spark reads them when it rewrites state.

Spark's reader of state is public, but its option to return the rows of all column families of a state store isn't.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from anabranch.spark.internals.surface import JavaMembers, Surface

__all__ = ["KEY", "SURFACE", "probe", "read"]

KEY = "partition_key"
_OPTIONS = "org.apache.spark.sql.execution.datasources.v2.state.StateSourceOptions"
_WHOLE = "_readAllColumnFamilies"

SURFACE = Surface(
    "state_rows",
    "reading the state of a lane: anabranch inspect state, anabranch compact",
    [JavaMembers(_OPTIONS, ("INTERNAL_ONLY_READ_ALL_COLUMN_FAMILIES",))],
)
probe = SURFACE.probe


def read(spark: SparkSession, folder: str, batch: int) -> DataFrame:
    """The rows of state after a committed batch, with the columns ``partition_key``, ``key_bytes``, ``value_bytes`` and
    ``column_family_name``. The folder isn't changed.

    Raises:
        UnsupportedSparkError: this Spark doesn't return these rows.
    """
    SURFACE.insist(spark)
    reader = spark.read.format("statestore").option("path", folder).option("batchId", batch)
    return reader.option(_WHOLE, "true").load()
