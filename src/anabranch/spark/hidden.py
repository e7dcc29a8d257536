"""The hidden column ``_anabranch``: where a row comes from and what it is keyed by. User functions never see it."""

from __future__ import annotations

from datetime import UTC, datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from anabranch.keyed.timers import INFINITY

NAME = "_anabranch"
DRAINED = "drained"


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
        _made().alias("timestamp"),
        _no_bucket(),
    ).alias(NAME)


def _made() -> Column:
    """When the batch began; in one that drains, whose time is no time, when the query was built for it."""
    began = F.current_timestamp()
    drains = F.unix_millis(began) >= INFINITY
    return F.when(drains, F.lit(datetime.now(UTC))).otherwise(began)


def drained(row: Column, cut: Column) -> Column:
    """The column, telling of a row whether it is of a window that a drain has cut."""
    return row.withField(DRAINED, F.when(cut, F.lit(True))).alias(NAME)


def marks(frame: DataFrame) -> bool:
    """Whether rows may be of windows that a drain has cut."""
    kind = frame.schema[NAME].dataType if NAME in frame.columns else None
    return isinstance(kind, StructType) and DRAINED in kind.names


def _no_bucket() -> Column:
    return F.lit(None).cast("int").alias("bucket")


def field(name: str) -> Column:
    return F.col(f"{NAME}.{name}")
