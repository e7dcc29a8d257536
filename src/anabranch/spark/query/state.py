"""Measures the state in a lane's folder, and determines which rows of state belong to the lane's tasks."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from anabranch.model.lane import Lane
from anabranch.spark.internals import state_rows
from anabranch.spark.query import ownership
from anabranch.spark.values import codec

__all__ = ["StateSize", "own", "size_of"]


@dataclass(frozen=True)
class StateSize:
    """How much state a lane's folder contains: the number of rows, and the size in bytes of the rows' keys and values.

    An ``agg`` has one row for each combination of task, stage key, ``by`` columns and window. A ``join`` or ``process``
    can have several rows for a key.

    Attributes:
        foreign_rows: how many of the rows belong to tasks that the lane doesn't own.
        foreign_bytes: the size of the foreign rows' keys and values.
    """

    rows: int
    bytes: int
    foreign_rows: int
    foreign_bytes: int


def own(lane: Lane, frame: DataFrame, keys: int) -> Column:
    """A condition that is true for rows of state that belong to the lane's tasks.

    In Spark's state store, the key of a row begins with the task's number and the columns of the stage key.

    Args:
        frame: the rows of state, from :func:`state_rows.read`.
        keys: the number of columns in the stage key.
    """
    grouped = frame.schema[state_rows.KEY].dataType
    assert isinstance(grouped, StructType)
    task, *its = grouped.fields[: 1 + keys]
    columns = [(F.col(f"{state_rows.KEY}.{codec.quoted(field.name)}"), field.dataType) for field in its]
    return ownership.of_keys(lane, F.col(f"{state_rows.KEY}.{codec.quoted(task.name)}"), codec.encode_key(columns))


def size_of(spark: SparkSession, lane: Lane, folder: str, batch: int, keys: int) -> StateSize:
    """How much state a lane's folder contains after a committed batch. For ``keys``, see :func:`own`."""
    found = state_rows.read(spark, folder, batch)
    size = F.octet_length("key_bytes") + F.octet_length("value_bytes")
    foreign = ~own(lane, found, keys)
    (sums,) = found.agg(
        F.count("*"), F.sum(size), F.count_if(foreign), F.sum(F.when(foreign, size).otherwise(F.lit(0)))
    ).collect()
    return StateSize(*(int(each or 0) for each in sums))
