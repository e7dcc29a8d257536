"""Makes and reads the hidden column ``_anabranch``, which says where a row comes from. Its fields include the task, the
key and the headers. The functions of ``transform`` get this column; the job's other functions don't.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

NAME = "_anabranch"
END = "end"


def of_record(task: Column, source: int, bucket: Column | None = None) -> Column:
    """The hidden column for a record, made from the arguments and from the columns ``partition``, ``offset``, ``key``,
    ``headers`` and ``timestamp``. (If a later operator can't trace a row to a single record, the operator makes the
    row's offset negative.)

    Args:
        task: the number of the record's task at factor 1.
        source: the number of the lane's source from which the record comes.
        bucket: the bucket of the virtual task to which a broadcast record goes. If ``bucket`` is None, or is null in a
            row, the record goes to the bucket of the record's key.
    """
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
    """The hidden column for a row of a stateful operator. Such a row comes from a state partition, not from a single
    record: the column's partition is the state partition, the source is -1, and the offset is 0.

    The timestamp is null until the row is written. (If the timestamp were the batch's time, Spark would compile the
    query's code again for each batch.)

    Args:
        task: the number of the row's task at factor 1.
        key: the stage key of the row, as bytes.
    """
    return F.struct(
        task.cast("int").alias("task"),
        F.lit(-1).alias("source"),
        F.spark_partition_id().alias("partition"),
        F.lit(0).cast("bigint").alias("offset"),
        key.alias("key"),
        F.lit(None).cast("string").alias("headers"),
        F.lit(None).cast("timestamp").alias("timestamp"),
        _no_bucket(),
    ).alias(NAME)


def of_window(row: Column, end: Column) -> Column:
    """The hidden column ``row``, with the additional field ``end`` for the end of the row's window."""
    return row.withField(END, end).alias(NAME)


def is_of_window(frame: DataFrame) -> bool:
    """Whether the rows of a DataFrame may belong to windows."""
    kind = frame.schema[NAME].dataType if NAME in frame.columns else None
    return isinstance(kind, StructType) and END in kind.names


def alike(frames: Sequence[DataFrame]) -> list[DataFrame]:
    """The DataFrames, changed so that their hidden columns have the same type."""
    if not any(is_of_window(frame) for frame in frames):
        return list(frames)
    none = of_window(F.col(NAME), F.lit(None).cast("timestamp"))
    return [frame if is_of_window(frame) else frame.withColumn(NAME, none) for frame in frames]


def once(frame: DataFrame) -> DataFrame:
    """The DataFrame with only the last of its hidden columns. A DataFrame has two of them if the user's ``select``
    includes the hidden column without naming it, as in ``* except (a)``.
    """
    last = frame.schema[-1]
    several = [
        number for number, field in enumerate(frame.schema) if field.name == NAME and field.dataType == last.dataType
    ]
    if len(several) < 2:
        return frame
    numbered = frame.toDF(*[f"{NAME}_{number}" for number in range(len(frame.columns))])
    kept = [(number, name) for number, name in enumerate(frame.columns) if number not in several[:-1]]
    return numbered.select(*[F.col(f"{NAME}_{number}").alias(name) for number, name in kept])


def _no_bucket() -> Column:
    return F.lit(None).cast("int").alias("bucket")


def field(name: str) -> Column:
    return F.col(f"{NAME}.{name}")
