"""The type that a merge gives a column whose types differ, and which types are refused."""

from __future__ import annotations

import pytest
from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NullType,
    ShortType,
    StringType,
    TimestampType,
)

from anabranch.spark.operators.merging import common_type

INT, LONG, DOUBLE, STRING = IntegerType(), LongType(), DoubleType(), StringType()


@pytest.mark.parametrize(
    ("one", "other", "common"),
    [
        (STRING, STRING, STRING),
        (INT, NullType(), INT),
        (NullType(), NullType(), NullType()),
        (INT, LONG, LONG),
        (ByteType(), ShortType(), ShortType()),
        (LONG, DOUBLE, DOUBLE),
        (FloatType(), INT, DOUBLE),
        (DecimalType(38, 0), DOUBLE, DOUBLE),
        (DecimalType(10, 2), DecimalType(12, 4), DecimalType(12, 4)),
        (DecimalType(10, 0), DecimalType(10, 10), DecimalType(20, 10)),
        (DecimalType(30, 0), DecimalType(9, 8), DecimalType(38, 8)),
        (INT, DecimalType(5, 2), DecimalType(12, 2)),
        (LONG, DecimalType(38, 18), DecimalType(38, 18)),
        (LONG, DecimalType(38, 0), DecimalType(38, 0)),
        (DecimalType(38, 0), DecimalType(4, 3), None),
        (DecimalType(38, 18), DecimalType(38, 10), None),
        (DecimalType(31, 0), DecimalType(9, 8), None),
        (LONG, DecimalType(38, 19), None),
        (INT, STRING, None),
        (LONG, TimestampType(), None),
        (ArrayType(DecimalType(5, 2)), ArrayType(DecimalType(6, 2)), None),
    ],
)
def test_types_that_differ_have_a_common_type_if_no_value_is_rounded(
    one: DataType, other: DataType, common: DataType | None
) -> None:
    assert common_type(one, other) == common
    assert common_type(other, one) == common
