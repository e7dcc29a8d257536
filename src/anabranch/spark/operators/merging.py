"""Merges streams, and checks that the types of their columns fit together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql.types import (
    ByteType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    IntegralType,
    LongType,
    NullType,
    NumericType,
    ShortType,
)

from anabranch.errors import GraphError
from anabranch.model.graph import Node
from anabranch.spark.operators.labels import label
from anabranch.spark.values import meta_column

__all__ = ["common_type", "merged"]

_MOST_DIGITS = 38
_DIGITS: Mapping[type[DataType], int] = {ByteType: 3, ShortType: 5, IntegerType: 10, LongType: 20}
"""For each type of integers, how many digits the decimal has to which Spark casts it."""


def merged(node: Node, inputs: Sequence[DataFrame]) -> DataFrame:
    """The rows of all inputs. Raises GraphError if a column has types in the inputs that have no common type."""
    _check(node, inputs)
    result, *others = meta_column.alike(inputs)
    for other in others:
        result = result.unionByName(other)
    return result


def common_type(one: DataType, other: DataType) -> DataType | None:
    """The type that a column gets if it has one type in one input and the other type in another. Spark casts the
    column's values to this type.

    Returns None if the types don't fit together. This is the case if they differ and aren't both numeric, because the
    cast could fail; and for decimals that have more digits together than a decimal can have, because Spark would round
    them. A column without a type (``NULL``) fits any type.
    """
    if isinstance(other, NullType) or one.simpleString() == other.simpleString():
        return one
    if isinstance(one, NullType):
        return other
    if not (isinstance(one, NumericType) and isinstance(other, NumericType)):
        return None
    if isinstance(one, FloatType | DoubleType) or isinstance(other, FloatType | DoubleType):
        return DoubleType()
    if isinstance(one, IntegralType) and isinstance(other, IntegralType):
        return max(one, other, key=_whole_digits)
    whole, scale = max(_whole_digits(one), _whole_digits(other)), max(_scale(one), _scale(other))
    return DecimalType(whole + scale, scale) if whole + scale <= _MOST_DIGITS else None


def _check(node: Node, inputs: Sequence[DataFrame]) -> None:
    types: dict[str, DataType] = {}
    for frame in inputs:
        for field in frame.schema:
            name, kind = field.name.lower(), field.dataType
            before = types.get(name, kind)
            common = kind if field.name == meta_column.NAME else common_type(before, kind)
            if common is None:
                raise _refusal(node, field.name, before, kind)
            types[name] = common


def _refusal(node: Node, name: str, one: DataType, other: DataType) -> GraphError:
    error, wanted = f"{label(node)} has the column {name!r} as {one.simpleString()} and as {other.simpleString()}", one
    if isinstance(one, NumericType) and isinstance(other, NumericType):
        error += f", and {_MOST_DIGITS} digits aren't enough for both"
        wanted = DecimalType(_MOST_DIGITS, max(_scale(one), _scale(other)))
    return GraphError(error, f'give it one type before: with_columns({name}="cast({name} as {wanted.simpleString()})")')


def _whole_digits(kind: DataType) -> int:
    return kind.precision - kind.scale if isinstance(kind, DecimalType) else _DIGITS[type(kind)]


def _scale(kind: DataType) -> int:
    return kind.scale if isinstance(kind, DecimalType) else 0
