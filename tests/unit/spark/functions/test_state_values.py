"""What processors keep in state becomes exactly what is read back, or is refused."""

from __future__ import annotations

import math
from collections import OrderedDict
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
    YearMonthIntervalType,
)

from anabranch.api import timers
from anabranch.spark.functions.state_values import converter
from tests.unit.spark.functions.test_results import REFUSED, TABLE, later

POINT = StructType([StructField("a", IntegerType()), StructField("b", ArrayType(StringType()))])
PLUS_5 = timezone(timedelta(hours=5))
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def converted(kind: DataType, value: Any) -> Any:
    return converter("state 's'", "its type", kind)(value)


@pytest.mark.parametrize("at", range(len(TABLE)))
def test_state_accepts_what_functions_may_return_as_the_same_value(at: int) -> None:
    type_, value, wanted = TABLE[at]
    is_number = isinstance(value, float | np.floating)
    if is_number and not math.isfinite(value) and str(type_) in ("float", "double"):
        wanted = float(value)
    kind = from_arrow_type(type_)
    for of_kind, given, result in ((kind, value, wanted), (ArrayType(kind), [None, value], [None, wanted])):
        if wanted is REFUSED:
            with pytest.raises(TypeError, match=r"^state 's' is declared as 'its type', but "):
                converted(of_kind, given)
        else:
            found = converted(of_kind, given)
            assert repr(found) == repr(result)


@pytest.mark.parametrize(
    ("kind", "value", "wanted"),
    [
        (TimestampType(), NOON.astimezone(PLUS_5), NOON),
        (FloatType(), 0.1, 0.10000000149011612),
        (ArrayType(FloatType()), [0.1, None], [0.10000000149011612, None]),
        (MapType(FloatType(), POINT), {0.1: {"a": 1}}, {0.10000000149011612: {"a": 1, "b": None}}),
        (DecimalType(5, 2), Decimal("1.5"), Decimal("1.50")),
        (DoubleType(), math.inf, math.inf),
        (POINT, OrderedDict(b=("x",)), {"a": None, "b": ["x"]}),
        (StructType([StructField("f", FloatType()), StructField("a", LongType())]), {"f": 0.5}, {"f": 0.5, "a": None}),
        (VarcharType(5), "ü", "ü"),
        (ArrayType(VarcharType(5)), ("ü",), ["ü"]),
        (YearMonthIntervalType(), None, None),
    ],
)
def test_a_value_is_what_is_read_back(kind: DataType, value: Any, wanted: Any) -> None:
    assert repr(converted(kind, value)) == repr(wanted)


@pytest.mark.parametrize(
    ("kind", "value", "told"),
    [
        (StringType(), b"abc", "was given b'abc' (bytes): give a str; str(…) makes one"),
        (VarcharType(5), 5, "was given 5 (int): give a str; str(…) makes one"),
        (DecimalType(5, 2), Decimal("1.555"), "(decimal.Decimal): it has more than 2 digits after the decimal point"),
        (DecimalType(5, 2), Decimal(123456), "it has more than 3 digits before the decimal point"),
        (FloatType(), 1e300, "was given 1e+300 (float): it is too large"),
        (TimestampNTZType(), NOON, "it has a zone"),
        (ArrayType(TimestampType()), [datetime(2026, 1, 1)], "at '[0]', of the type timestamp, it was given datetime"),
        (DateType(), NOON, "give a date"),
        (ArrayType(POINT), [{"a": 1, "zz": 3}], "it has the unknown field 'zz'"),
        (POINT, {"b": [1]}, "at '.b[0]', of the type string, it was given 1 (int): give a str"),
        (MapType(StringType(), LongType()), {7: 1}, "at '{key}', of the type string NOT NULL, it was given 7 (int)"),
        (ArrayType(LongType(), False), [1, None], "at '[1]', of the type bigint NOT NULL, it was given null"),
        (StructType([StructField("a", LongType(), False)]), {}, "of the type bigint NOT NULL, it was given null"),
    ],
)
def test_what_is_told_names_the_state_the_declared_type_and_the_value(kind: DataType, value: Any, told: str) -> None:
    with pytest.raises(TypeError) as refused:
        converted(kind, value)
    assert str(refused.value).startswith("state 's' is declared as 'its type', but ")
    assert told in str(refused.value)


def test_a_coroutine_that_was_not_awaited_is_refused() -> None:
    with pytest.raises(TypeError, match=r"^state 's' .* was given \[<coroutine .* that wasn't awaited$"):
        converted(ArrayType(LongType()), [later()])


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (ArrayType(LongType()), [1, 2]),
        (POINT, {"a": 1, "b": ["x"]}),
        (MapType(StringType(), ArrayType(LongType())), {"x": [1]}),
        (MapType(StringType(), ArrayType(DecimalType(5, 2))), {"x": [Decimal(1)]}),
    ],
)
def test_a_value_that_is_changed_later_stays_as_it_was_set(kind: DataType, value: Any) -> None:
    found = converted(kind, value)
    before = repr(found)
    for inner in list(value.values()) if isinstance(value, dict) else []:
        if isinstance(inner, list):
            inner.clear()
    value.clear()
    assert repr(found) == before


def test_the_time_of_a_drain_s_last_batch_is_a_plain_time() -> None:
    draining = timers.Timers(None, timers.EVENT_TIME, None)  # type: ignore[arg-type]
    draining.begin(timers.INFINITY)
    assert type(draining.now) is not datetime
    found = converted(TimestampType(), draining.now)
    assert (type(found), found) == (datetime, timers.moment(timers.INFINITY))


def test_types_that_functions_cannot_return_are_checked_by_pyspark() -> None:
    with pytest.raises((PySparkException, AssertionError)):
        converted(YearMonthIntervalType(), "1 year")
    keyed = MapType(ArrayType(LongType()), DateType())
    given = {(1, 2): date(2026, 1, 1)}
    found = converted(keyed, given)
    assert found == given
    assert found is not given
