"""Collects the rows of a preview as dicts. PySpark itself would return timestamps as local times without a zone, and
would fail for some of the earliest and latest timestamps that a stream can contain.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType, TimestampType

from anabranch.spark.values import codec
from anabranch.systems.records import nearest_datetime

__all__ = ["first", "to_dict"]


def first(frame: DataFrame, n: int) -> list[dict[str, Any]]:
    """The first ``n`` rows of a DataFrame, with timestamps in UTC as :func:`nearest_datetime` returns them."""
    timed = {each.name: each.dataType for each in frame.schema if _has_timestamp(each.dataType)}
    changed = {name: _micros(F.col(codec.quoted(name)), kind) for name, kind in timed.items()}
    # After the limit, the columns would keep Spark from taking rows from the first partitions only, and in their order.
    rows = (frame.withColumns(changed) if changed else frame).limit(n).collect()
    return [to_dict(row, frame.schema) for row in rows]


def to_dict(row: Row, schema: StructType) -> dict[str, Any]:
    """A row as a dict.

    Args:
        row: a row of the type ``schema``, but with timestamps as microseconds since 1970.
    """
    return {each.name: _plain(value, each.dataType) for each, value in zip(schema, row, strict=True)}


def _has_timestamp(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return any(_has_timestamp(each.dataType) for each in kind)
    if isinstance(kind, ArrayType):
        return _has_timestamp(kind.elementType)
    if isinstance(kind, MapType):
        return isinstance(kind.keyType, TimestampType) or _has_timestamp(kind.valueType)
    return isinstance(kind, TimestampType)


def _micros(column: Column, kind: DataType) -> Column:
    """The column with each of its timestamps converted to microseconds since 1970."""
    if not _has_timestamp(kind):
        return column
    if isinstance(kind, StructType):
        fields = [_micros(column.getField(each.name), each.dataType).alias(each.name) for each in kind]
        return F.when(column.isNotNull(), F.struct(*fields))
    if isinstance(kind, ArrayType):
        element = kind.elementType
        return F.transform(column, lambda each: _micros(each, element))
    if isinstance(kind, MapType):
        of_values = kind.valueType
        values = F.transform_values(column, lambda _, each: _micros(each, of_values))
        timed = isinstance(kind.keyType, TimestampType)
        return F.transform_keys(values, lambda each, _: F.unix_micros(each)) if timed else values
    return F.unix_micros(column)


def _plain(value: Any, kind: DataType) -> Any:
    if value is None:
        return None
    if isinstance(kind, StructType):
        return to_dict(value, kind)
    if isinstance(kind, ArrayType):
        return [_plain(each, kind.elementType) for each in value]
    if isinstance(kind, MapType):
        timed = isinstance(kind.keyType, TimestampType)
        return {nearest_datetime(k) if timed else k: _plain(v, kind.valueType) for k, v in value.items()}
    return nearest_datetime(value) if isinstance(kind, TimestampType) else value
