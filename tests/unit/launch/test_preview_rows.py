"""Rows of a preview as dicts. (What Spark does for them is in ``tests/integration/test_batch.py``.)"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import Row
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DateType,
    DecimalType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from anabranch.launch import preview_rows

FIRST, LAST = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
AT = datetime(2013, 1, 31, 5, 29, 0, 123456, tzinfo=UTC)
INNER = StructType([StructField("at", TimestampType()), StructField("n", LongType())])


def micros(at: datetime) -> int:
    return (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("kind", "value", "shown"),
    [
        (TimestampType(), micros(AT), AT),
        (TimestampType(), micros(FIRST), FIRST),
        (TimestampType(), micros(LAST), LAST),
        (TimestampType(), micros(LAST) + 1, LAST),
        (TimestampType(), micros(FIRST) - 1, FIRST),
        (TimestampType(), None, None),
        (LongType(), micros(AT), micros(AT)),
        (StringType(), "x", "x"),
        (DecimalType(10, 2), Decimal("1.50"), Decimal("1.50")),
        (BinaryType(), b"x", b"x"),
        (DateType(), date(9999, 12, 31), date(9999, 12, 31)),
        (TimestampNTZType(), datetime(1, 1, 1), datetime(1, 1, 1)),
        (ArrayType(TimestampType()), [micros(AT), None], [AT, None]),
        (ArrayType(INNER), [Row(at=micros(AT), n=1), None], [{"at": AT, "n": 1}, None]),
        (MapType(StringType(), TimestampType()), {"a": micros(LAST), "b": None}, {"a": LAST, "b": None}),
        (MapType(TimestampType(), INNER), {micros(AT): Row(at=None, n=1)}, {AT: {"at": None, "n": 1}}),
        (MapType(LongType(), LongType()), {7: 8}, {7: 8}),
        (INNER, Row(at=micros(FIRST), n=None), {"at": FIRST, "n": None}),
        (INNER, None, None),
    ],
)
def test_a_row_is_a_dict_with_times_in_utc(kind: DataType, value: Any, shown: Any) -> None:
    schema = StructType([StructField("k", StringType()), StructField("v", kind)])
    found = preview_rows.to_dict(Row(k="a", v=value), schema)
    assert found == {"k": "a", "v": shown}
    assert type(found["v"]) is type(shown)
    if isinstance(shown, datetime):
        assert found["v"].tzinfo == shown.tzinfo
