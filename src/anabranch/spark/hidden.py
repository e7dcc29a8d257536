"""The hidden column ``_anabranch``: where a row comes from and what it is keyed by. User functions never see it."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

NAME = "_anabranch"


def of_record(task: Column, source: int, bucket: Column | None = None) -> Column:
    """For a record as a system's source gives it. (Of a row that comes from no single record, the offset is negative,
    if it comes from the records of one partition.) ``bucket``: that of the virtual task that a broadcast record goes
    to; null for that of the key."""
    return F.struct(
        task.cast("int").alias("task"),
        F.lit(source).alias("source"),
        F.col("partition"),
        F.col("offset"),
        F.col("key"),
        F.col("headers"),
        F.col("timestamp"),
        _no_bucket() if bucket is None else bucket.cast("int").alias("bucket"),
    ).alias(NAME)


def of_result(task: Column, key: Column) -> Column:
    """For a row that a stateful operator made: it comes from no single record, but from a state partition."""
    return F.struct(
        task.cast("int").alias("task"),
        F.lit(-1).alias("source"),
        F.spark_partition_id().alias("partition"),
        F.lit(0).cast("bigint").alias("offset"),
        key.alias("key"),
        F.lit(None).cast("string").alias("headers"),
        F.current_timestamp().alias("timestamp"),
        _no_bucket(),
    ).alias(NAME)


def _no_bucket() -> Column:
    return F.lit(None).cast("int").alias("bucket")


def field(name: str) -> Column:
    return F.col(f"{NAME}.{name}")
