"""Finds dates and times outside the years 1 to 9999, which Python can't represent. PySpark fails if it has to convert
such a value for a stateful operator.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from functools import reduce
from operator import or_

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, DateType, MapType, StructType, TimestampNTZType, TimestampType

__all__ = ["ERROR", "has_times", "is_beyond", "valid"]

ERROR = "has a date or time outside the years 1 to 9999, which Python can't hold"
"""What is wrong with a column for which :func:`is_beyond` is true, in words."""

_ENDS: dict[type[DataType], tuple[str, str]] = {
    DateType: ("0001-01-01", "9999-12-31"),
    TimestampType: ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"),
    TimestampNTZType: ("0001-01-01T00:00:00", "9999-12-31T23:59:59.999999"),
}
"""The first and the last value that Python can represent, by type."""


def has_times(kind: DataType) -> bool:
    """Whether values of a type can contain dates or times."""
    if isinstance(kind, ArrayType):
        return has_times(kind.elementType)
    if isinstance(kind, MapType):
        return has_times(kind.keyType) or has_times(kind.valueType)
    if isinstance(kind, StructType):
        return any(has_times(field.dataType) for field in kind)
    return type(kind) in _ENDS


def valid(kind: DataType) -> Column:
    """A date or time that Python can represent; null if the type isn't that of a date or a time."""
    if isinstance(kind, DateType):
        return F.lit(date(1970, 1, 1))
    if isinstance(kind, TimestampType | TimestampNTZType):
        return F.lit(datetime(1970, 1, 1, tzinfo=UTC)).cast(kind)
    return F.lit(None)


def is_beyond(column: Column, kind: DataType) -> Column:
    """A condition that is true if a value contains, at any depth, a date or time that Python can't represent. The
    condition is false or null for other values.

    Args:
        kind: the type of the column.
    """
    if not has_times(kind):
        return F.lit(False)
    if isinstance(kind, ArrayType):
        return F.exists(column, lambda element: is_beyond(element, kind.elementType))
    if isinstance(kind, MapType):
        keys, entries = ArrayType(kind.keyType), ArrayType(kind.valueType)
        return is_beyond(F.map_keys(column), keys) | is_beyond(F.map_values(column), entries)
    if isinstance(kind, StructType):
        return reduce(or_, [is_beyond(column.getField(field.name), field.dataType) for field in kind])
    first, last = (F.lit(end).cast(kind) for end in _ENDS[type(kind)])
    return (column < first) | (column > last)
