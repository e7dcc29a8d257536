"""What functions return becomes exactly the declared type, or is refused with what came and what to do."""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import math
import struct
import warnings
from collections import OrderedDict
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any, NamedTuple, NoReturn
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.spark.functions.results import Results

REFUSED = object()
INT, LONG, FLOAT, DOUBLE, BOOL = pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.bool_()
TEXT, BYTES, DAY = pa.string(), pa.binary(), pa.date32()
AT, NTZ, LAPSE = pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.duration("us")
MONEY = pa.decimal128(5, 2)
INTS, NAMED = pa.list_(pa.int32()), pa.map_(pa.string(), pa.int32())
POINT = pa.struct([("x", pa.int32()), ("y", pa.string())])
DEEP = pa.map_(pa.string(), pa.list_(POINT))


class Colour(enum.Enum):
    RED = "red"


class Word(enum.StrEnum):
    YES = "yes"


class Level(enum.IntEnum):
    HIGH = 3


@dataclasses.dataclass
class Spot:
    x: int
    y: str


class Pair(NamedTuple):
    x: int
    y: str


class Longer(int):
    def __add__(self, other: Any) -> NoReturn:
        raise OSError("not this one")


class Broken:
    def __repr__(self) -> NoReturn:
        raise SystemExit(1)

    def __eq__(self, other: object) -> NoReturn:
        raise SystemExit(2)

    __hash__ = None  # type: ignore[assignment]


async def later() -> int:
    return 1


BERLIN = datetime(2026, 7, 1, 12, tzinfo=ZoneInfo("Europe/Berlin"))
NAIVE = datetime(2026, 7, 1, 12, 0, 0, 5)
SPOT = {"x": 1, "y": "a"}
TABLE: list[tuple[pa.DataType, Any, Any]] = [
    (INT, 5, 5),
    (INT, 2**31 - 1, 2**31 - 1),
    (INT, 2**31, REFUSED),
    (INT, -(2**31), -(2**31)),
    (INT, 1.5, REFUSED),
    (INT, 1.0, REFUSED),
    (INT, float("nan"), REFUSED),
    (INT, True, REFUSED),
    (INT, np.True_, REFUSED),
    (INT, np.int64(7), 7),
    (INT, np.int64(2**40), REFUSED),
    (INT, np.uint8(7), 7),
    (INT, np.float64(7), REFUSED),
    (INT, Decimal(7), REFUSED),
    (INT, "7", REFUSED),
    (INT, Level.HIGH, 3),
    (INT, Colour.RED, REFUSED),
    (INT, Longer(9), 9),
    (INT, None, None),
    (INT, pd.NA, None),
    (INT, pd.NaT, None),
    (INT, 10**5000, REFUSED),
    (INT, Broken(), REFUSED),
    (LONG, 2**63 - 1, 2**63 - 1),
    (LONG, 2**63, REFUSED),
    (LONG, np.uint64(2**63), REFUSED),
    (DOUBLE, 1.5, 1.5),
    (DOUBLE, 3, 3.0),
    (DOUBLE, 2**53, 2.0**53),
    (DOUBLE, 2**53 + 1, REFUSED),
    (DOUBLE, 10**400, REFUSED),
    (DOUBLE, np.float32(0.5), 0.5),
    (DOUBLE, np.float64(1.25), 1.25),
    (DOUBLE, np.int32(4), 4.0),
    (DOUBLE, float("nan"), REFUSED),
    (DOUBLE, float("inf"), REFUSED),
    (DOUBLE, np.float64("nan"), REFUSED),
    (DOUBLE, True, REFUSED),
    (DOUBLE, Decimal("1.5"), REFUSED),
    (DOUBLE, "1.5", REFUSED),
    (FLOAT, 0.1, struct.unpack("f", struct.pack("f", 0.1))[0]),
    (FLOAT, 1e39, REFUSED),
    (BOOL, True, True),
    (BOOL, np.False_, False),
    (BOOL, 1, REFUSED),
    (BOOL, "true", REFUSED),
    (TEXT, "a", "a"),
    (TEXT, np.str_("a"), "a"),
    (TEXT, Word.YES, "yes"),
    (TEXT, Colour.RED, REFUSED),
    (TEXT, "a\0b", "a\0b"),
    (TEXT, "\ud800", REFUSED),
    (TEXT, b"a", REFUSED),
    (TEXT, 1, REFUSED),
    (TEXT, Spot(1, "a"), REFUSED),
    (BYTES, b"a", b"a"),
    (BYTES, bytearray(b"a"), b"a"),
    (BYTES, memoryview(b"abc")[::2], b"ac"),
    (BYTES, "a", REFUSED),
    (DAY, date(2026, 1, 2), date(2026, 1, 2)),
    (DAY, datetime(2026, 1, 2), REFUSED),
    (DAY, pd.Timestamp("2026-01-02"), REFUSED),
    (DAY, np.datetime64("2026-01-02"), date(2026, 1, 2)),
    (DAY, np.datetime64("2026-01-02T00:00"), REFUSED),
    (DAY, np.datetime64("12000-01-01"), REFUSED),
    (DAY, "2026-01-02", REFUSED),
    (AT, datetime(2026, 1, 2, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)),
    (AT, BERLIN, datetime(2026, 7, 1, 10, tzinfo=UTC)),
    (AT, NAIVE, REFUSED),
    (AT, date(2026, 1, 2), REFUSED),
    (AT, pd.Timestamp("2026-01-02", tz="UTC"), datetime(2026, 1, 2, tzinfo=UTC)),
    (AT, pd.Timestamp("2026-07-01 12:00", tz="Europe/Berlin"), datetime(2026, 7, 1, 10, tzinfo=UTC)),
    (AT, pd.Timestamp("2026-01-02 00:00:00.000000001", tz="UTC"), REFUSED),
    (AT, pd.Timestamp("2026-01-02"), REFUSED),
    (AT, pd.NaT, None),
    (AT, np.datetime64("NaT"), None),
    (AT, np.datetime64("2026-01-02T00:00"), REFUSED),
    (AT, 1767312000, REFUSED),
    (AT, datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14))), REFUSED),
    (AT, datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-14))), REFUSED),
    (AT, datetime(1, 1, 1, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC)),
    (NTZ, NAIVE, NAIVE),
    (NTZ, BERLIN, REFUSED),
    (NTZ, np.datetime64("2026-01-02T03:04:05.000006"), datetime(2026, 1, 2, 3, 4, 5, 6)),
    (NTZ, np.datetime64("2026-01-02T00:00:00.000000001"), REFUSED),
    (NTZ, np.datetime64(2**62, "s"), REFUSED),
    (NTZ, np.datetime64(-(2**61), "us"), REFUSED),
    (NTZ, np.datetime64(1, "25s"), datetime(1970, 1, 1, 0, 0, 25)),
    (NTZ, pd.Timestamp("2026-01-02 00:00:01"), datetime(2026, 1, 2, 0, 0, 1)),
    (LAPSE, timedelta(days=1, microseconds=1), timedelta(days=1, microseconds=1)),
    (LAPSE, timedelta.max, REFUSED),
    (LAPSE, pd.Timedelta("1 day"), timedelta(days=1)),
    (LAPSE, pd.Timedelta("1 ns"), REFUSED),
    (LAPSE, np.timedelta64(5, "s"), timedelta(seconds=5)),
    (LAPSE, np.timedelta64(1, "ns"), REFUSED),
    (LAPSE, np.timedelta64(2**62, "s"), REFUSED),
    (LAPSE, np.timedelta64(2, "W"), timedelta(days=14)),
    (LAPSE, np.timedelta64(1, "M"), REFUSED),
    (LAPSE, np.timedelta64(3000, "ns"), timedelta(microseconds=3)),
    (LAPSE, 5, REFUSED),
    (MONEY, Decimal("1.50"), Decimal("1.50")),
    (MONEY, Decimal("1.500"), Decimal("1.50")),
    (MONEY, Decimal("1.505"), REFUSED),
    (MONEY, Decimal("999.99"), Decimal("999.99")),
    (MONEY, Decimal("1000"), REFUSED),
    (MONEY, Decimal("1e2"), Decimal("100.00")),
    (MONEY, Decimal("1e999999"), REFUSED),
    (MONEY, Decimal("1e-999999"), REFUSED),
    (MONEY, Decimal("0e999"), Decimal("0.00")),
    (MONEY, Decimal("NaN"), REFUSED),
    (MONEY, Decimal("sNaN"), REFUSED),
    (MONEY, Decimal("Infinity"), REFUSED),
    (MONEY, 7, Decimal("7.00")),
    (MONEY, 10**5000, REFUSED),
    (MONEY, 1.5, REFUSED),
    (MONEY, True, REFUSED),
    (INTS, [1, None, np.int32(2)], [1, None, 2]),
    (INTS, (1, 2), [1, 2]),
    (INTS, np.array([1, 2]), [1, 2]),
    (INTS, [], []),
    (INTS, {1, 2}, REFUSED),
    (INTS, "12", REFUSED),
    (INTS, iter([1]), REFUSED),
    (INTS, [1.5], REFUSED),
    (NAMED, {"a": 1, "b": None}, {"a": 1, "b": None}),
    (NAMED, OrderedDict(a=1), {"a": 1}),
    (NAMED, [("a", 1)], {"a": 1}),
    (NAMED, [("a", 1), ("a", 2)], REFUSED),
    (NAMED, {1: 1}, REFUSED),
    (NAMED, {None: 1}, REFUSED),
    (NAMED, {"a": "1"}, REFUSED),
    (NAMED, Spot(1, "a"), REFUSED),
    (POINT, SPOT, SPOT),
    (POINT, Spot(1, "a"), SPOT),
    (POINT, Pair(1, "a"), SPOT),
    (POINT, {"x": 1}, {"x": 1, "y": None}),
    (POINT, {"z": 1}, REFUSED),
    (POINT, (1, "a"), REFUSED),
    (POINT, Spot, REFUSED),
    (POINT, {"x": "1"}, REFUSED),
    (DEEP, {"k": [Spot(1, "a"), None]}, {"k": [SPOT, None]}),
    (DEEP, {"k": [{"x": 1.5}]}, REFUSED),
    (pa.time64("ns"), time(1, 2), time(1, 2)),
    (pa.null(), None, None),
    (pa.null(), 1, REFUSED),
]


def one(type_: pa.DataType, value: Any, nullable: bool = True) -> tuple[Any, str]:
    """What comes of a value in a column ``c``, and why it is refused."""
    results = Results(pa.schema([pa.field("c", type_, nullable)]))
    made, errors = results.table([{"c": value}])
    if errors:
        assert made.num_rows == 0
        return REFUSED, errors[0]
    assert made.schema == results.schema
    return made.to_pylist(maps_as_pydicts="strict")[0]["c"], ""


@pytest.mark.parametrize("at", range(len(TABLE)))
def test_a_value_is_converted_exactly_or_refused(at: int) -> None:
    type_, value, wanted = TABLE[at]
    found, why = one(type_, value)
    if wanted is REFUSED:
        assert found is REFUSED, found
        assert why.startswith(("its column 'c", 'its column "c')) or "can't be read" in why
        assert len(why) < 600
    else:
        assert found == wanted, why
        assert type(found) is type(wanted) or wanted is None


@pytest.mark.parametrize("at", range(len(TABLE)))
def test_it_is_the_same_in_a_batch(at: int) -> None:
    """Beside a value as it should be, and beside null: one that is refused takes no other row with it."""
    type_, value, wanted = TABLE[at]
    usual = next((v for t, v, w in TABLE if t == type_ and w is not REFUSED and w is not None), None)
    results = Results(pa.schema([("c", type_)]))
    made, errors = results.table([{"c": usual}, {"c": value}, {}])
    assert set(errors) == ({1} if wanted is REFUSED else set())
    found = [row["c"] for row in made.to_pylist(maps_as_pydicts="strict")]
    kept = [one(type_, usual)[0], *([] if wanted is REFUSED else [wanted]), None]
    assert found == kept


@pytest.mark.parametrize(
    ("type_", "value", "told"),
    [
        (INT, 1.5, "its column 'c' is int, but got 1.5 (float): give an int"),
        (DOUBLE, math.nan, "its column 'c' is double, but got nan (float): it isn't finite"),
        (AT, NAIVE, "): it has no zone; give a datetime with tzinfo"),
        (TEXT, Colour.RED, "): give its .value"),
        (DEEP, {"k": [{"x": 1.5}]}, "its column \"c['k'][0].x\" is int, but got 1.5 (float)"),
        (TEXT, b"x" * 10**6, "is string, but got b'xxx"),
        (MONEY, Decimal("1.505"), "is decimal(5,2), but got Decimal('1.505') (decimal.Decimal): it has more than 2"),
    ],
)
def test_what_is_told_names_the_column_the_type_and_the_value(type_: pa.DataType, value: Any, told: str) -> None:
    assert told in one(type_, value)[1]


def test_null_in_a_column_that_takes_none() -> None:
    for missing in (None, pd.NA):
        found, why = one(INT, missing, nullable=False)
        assert found is REFUSED
        assert why.startswith("its column 'c' is int NOT NULL, but got null: give a value")


def rows(*given: Any) -> tuple[list[Any], dict[int, str]]:
    made, errors = Results(POINT_SCHEMA).table(given)
    return made.to_pylist(), errors


POINT_SCHEMA = pa.schema([("x", pa.int32()), ("y", pa.string())])


def test_rows_are_dicts_dataclasses_or_named_tuples() -> None:
    found, errors = rows({"x": 1, "y": "a"}, Spot(2, "b"), Pair(3, "c"), OrderedDict(x=4), {})
    assert not errors
    assert [row["x"] for row in found] == [1, 2, 3, 4, None]


class Raising(Mapping[str, Any]):
    def __getitem__(self, name: str) -> NoReturn:
        raise KeyboardInterrupt

    def __iter__(self) -> NoReturn:
        raise SystemExit(1)

    def __len__(self) -> int:
        return 1


def test_what_is_no_row_is_refused_alone() -> None:
    coroutine = later()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        given = [{"x": 1}, None, 5, (1, "a"), coroutine, {"z": 1}, Raising(), Spot, {1: 2}, {"x": later()}, {"x": 2}]
        found, errors = rows(*given)
    assert [row["x"] for row in found] == [1, 2]
    assert sorted(errors) == list(range(1, 10))
    assert errors[2] == "it returned 5, not a dict of the result's columns"
    assert errors[4] == errors[9]
    assert "a coroutine that wasn't awaited: declare the function with async def" in errors[4]
    assert errors[5] == "its result has the unknown column 'z'; declare the result with schema="


def test_a_future_that_nobody_awaited_is_refused() -> None:
    async def made() -> dict[int, str]:
        return rows(asyncio.get_running_loop().create_future())[1]

    assert "that wasn't awaited" in asyncio.run(made())[0]


# An oracle that shares no code with the conversion: what each type of column takes of plain values of Python.


def wanted(type_: pa.DataType, value: Any) -> Any:
    if value is None:
        return None
    if type_ in (INT, LONG):
        most = 2 ** (31 if type_ == INT else 63)
        return value if type(value) is int and -most <= value < most else REFUSED
    if type_ == DOUBLE:
        if type(value) is int:
            as_float = float(value) if abs(value) < 2**1000 else math.inf
            return as_float if as_float == value else REFUSED
        return value if type(value) is float and math.isfinite(value) else REFUSED
    if type_ == BOOL:
        return value if type(value) is bool else REFUSED
    if type_ == TEXT:
        return value if type(value) is str and not any(0xD800 <= ord(c) < 0xE000 for c in value) else REFUSED
    if type_ == BYTES:
        return value if type(value) is bytes else REFUSED
    if type_ == DAY:
        return value if type(value) is date else REFUSED
    if type_ == NTZ:
        return value if type(value) is datetime and value.tzinfo is None else REFUSED
    if type_ == MONEY:
        if type(value) is int:
            return value if abs(value) < 1000 else REFUSED
        if type(value) is not Decimal or not value.is_finite():
            return REFUSED
        number = value.as_integer_ratio()
        return value if abs(value) < 1000 and 100 * number[0] % number[1] == 0 else REFUSED
    if type_ == INTS:
        found = [wanted(INT, each) for each in value] if type(value) is list else [REFUSED]
        return REFUSED if any(each is REFUSED for each in found) else found
    raise AssertionError(type_)


_scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.integers(-5, 5),
    st.floats(),
    st.text(st.characters(), max_size=5),
    st.binary(max_size=5),
    st.dates(),
    st.datetimes(),
    st.decimals(min_value=-2000, max_value=2000, places=3),
    st.decimals(allow_nan=True),
)
_any = _scalars | st.lists(_scalars, max_size=3) | st.lists(st.integers(-5, 5), max_size=3)


@settings(max_examples=400)
@given(st.sampled_from([INT, LONG, DOUBLE, BOOL, TEXT, BYTES, DAY, NTZ, MONEY, INTS]), st.lists(_any, max_size=8))
def test_what_comes_of_values_is_what_the_oracle_says(type_: pa.DataType, values: list[Any]) -> None:
    made, errors = Results(pa.schema([("c", type_)])).table([{"c": value} for value in values])
    expected = [wanted(type_, value) for value in values]
    assert set(errors) == {number for number, each in enumerate(expected) if each is REFUSED}
    found = made.column(0).to_pylist()
    assert found == [each for each in expected if each is not REFUSED]
    assert made.num_rows + len(errors) == len(values)
