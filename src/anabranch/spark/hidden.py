"""The hidden column ``_anabranch``: where a row comes from and what it is keyed by. User functions never see it."""

from __future__ import annotations

from collections.abc import Sequence

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
    """When the batch began; null in one in which time ends: it is written when it is written."""
    return F.when(~_drains(), F.current_timestamp())


def _began() -> Column:
    """When the batch began, in ms since 1970. In one in which time ends, that is its end and how far event time was."""
    return F.unix_millis(F.current_timestamp())


def _drains() -> Column:
    """Whether time ends in the batch."""
    return _began() >= INFINITY


def drained(row: Column, end: Column) -> Column:
    """The column, telling of a row of a window that ends at ``end`` whether a drain has cut it."""
    cut = _drains() & (end > F.timestamp_millis(_began() - INFINITY))
    return row.withField(DRAINED, F.when(cut, F.lit(True))).alias(NAME)


def marks(frame: DataFrame) -> bool:
    """Whether rows may be of windows that a drain has cut."""
    kind = frame.schema[NAME].dataType if NAME in frame.columns else None
    return isinstance(kind, StructType) and DRAINED in kind.names


def alike(frames: Sequence[DataFrame]) -> list[DataFrame]:
    """The frames, with hidden columns of one type."""
    if not any(marks(frame) for frame in frames):
        return list(frames)
    none = F.col(NAME).withField(DRAINED, F.lit(None).cast("boolean"))
    return [frame if marks(frame) else frame.withColumn(NAME, none) for frame in frames]


def _no_bucket() -> Column:
    return F.lit(None).cast("int").alias("bucket")


def field(name: str) -> Column:
    return F.col(f"{NAME}.{name}")
