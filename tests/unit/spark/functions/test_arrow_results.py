"""What a function of Arrow batches returns is looked into as deeply as it goes."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest

from anabranch.spark.functions.results import ResultError, Results

NAN = math.nan
DOUBLE, TEXT, DATE = pa.float64(), pa.string(), pa.date32()
DAYS = [(day - date(1970, 1, 1)).days for day in (date.min, date.max)]
NAMED, COUNTED = pa.map_(TEXT, DOUBLE), pa.map_(DOUBLE, TEXT)
TIMES = pa.list_(pa.timestamp("us", "UTC"))
FULL = pa.list_(pa.field("element", pa.int32(), nullable=False))
POINT, EXACT = pa.struct([("x", DOUBLE)]), pa.struct([pa.field("x", DOUBLE, nullable=False)])


@pytest.mark.parametrize(
    ("type_", "good", "bad", "told"),
    [
        (DOUBLE, 1.5, NAN, "'c' is double, but got NaN"),
        (pa.list_(DOUBLE), [1.5, None], [1.5, NAN], "'c[…]' is double, but got NaN"),
        (pa.large_list(pa.float32()), [], [math.inf], "'c[…]' is float, but got NaN, infinity"),
        (NAMED, [("a", 1.0), ("b", None)], [("a", -math.inf)], "'c[…]' is double, but got NaN"),
        (COUNTED, [(1.0, "a")], [(NAN, "a")], "'c{key}' is double NOT NULL, but got NaN"),
        (POINT, {"x": None}, {"x": NAN}, "'c.x' is double, but got NaN"),
        (pa.struct([("x", pa.list_(POINT))]), {"x": [{"x": 1.0}]}, {"x": [{"x": NAN}]}, "'c.x[…].x' is double, but"),
        (TIMES, [datetime(2026, 1, 1, tzinfo=UTC)], [2**60], "'c[…]' is timestamp, but got NaN, infinity, or a date"),
        (DATE, date.min, DAYS[0] - 1, "'c' is date, but got NaN, infinity, or a date or time outside the years"),
        (pa.list_(DATE), [date.min, date.max, None], [DAYS[1] + 1], "'c[…]' is date, but got NaN, infinity, or a date"),
        (pa.map_(TEXT, DATE), [("a", date.max)], [("a", DAYS[1] + 1)], "'c[…]' is date, but got NaN"),
        (pa.struct([("x", DATE)]), {"x": date.max}, {"x": DAYS[0] - 1}, "'c.x' is date, but got NaN"),
        (FULL, [1, 2], [1, None], "'c[…]' is int NOT NULL, but got null"),
        (
            EXACT,
            {"x": 1.0},
            {"x": None},
            "'c' is struct, but got struct<x: double>: field 'x' of type double has nulls",
        ),
    ],
)
def test_a_value_that_is_refused_is_found_inside_others(type_: pa.DataType, good: Any, bad: Any, told: str) -> None:
    results = Results(pa.schema([("c", type_)]))
    given = {FULL: pa.list_(pa.int32()), EXACT: POINT}.get(type_, type_)  # Arrow itself keeps nulls out of the others
    whole = pa.RecordBatch.from_arrays([pa.array([bad, good, None, good, bad], given)], names=["c"])
    assert results.cast(whole.slice(1, 3)).to_pylist() == [{"c": each} for each in (good, None, good)]
    for part in (whole, whole.slice(0, 2), whole.slice(3)):
        with pytest.raises(ResultError) as error:
            results.cast(part)
        assert f"its column {told}" in str(error.value)


def test_what_is_behind_a_null_is_not_refused() -> None:
    masked = pa.StructArray.from_arrays([pa.array([1.0, NAN])], names=["x"], mask=pa.array([False, True]))
    found = Results(pa.schema([("c", POINT)])).cast(pa.RecordBatch.from_arrays([masked], names=["c"]))
    assert found.to_pylist() == [{"c": {"x": 1.0}}, {"c": None}]


STRUCTS = pa.map_(pa.struct([("x", pa.int64())]), TEXT)


@pytest.mark.parametrize(
    ("type_", "good", "bad", "told"),
    [
        (
            NAMED,
            [("a", 1.0), ("b", 1.0)],
            [("a", 1.0), ("b", 2.0), ("a", 1.0)],
            "'c' is map, but got a map with the same",
        ),
        (COUNTED, [(0.0, "a"), (1.0, "a")], [(0.0, "a"), (-0.0, "b")], "'c' is map, but got a map with the same key"),
        (STRUCTS, [({"x": 1}, "a"), ({"x": 2}, "a")], [({"x": 1}, "a"), ({"x": 1}, "a")], "'c' is map, but got a map"),
        (pa.list_(NAMED), [[("a", 1.0)], [("a", 1.0)]], [[], [("a", 1.0), ("a", 2.0)]], "'c[…]' is map, but got a map"),
    ],
)
def test_a_map_with_a_key_twice_is_refused(type_: pa.DataType, good: Any, bad: Any, told: str) -> None:
    results = Results(pa.schema([("c", type_)]))
    whole = pa.RecordBatch.from_arrays([pa.array([bad, good, None, good, bad], type_)], names=["c"])
    assert results.cast(whole.slice(1, 3)).num_rows == 3
    for part in (whole, whole.slice(0, 2), whole.slice(3)):
        with pytest.raises(ResultError) as error:
            results.cast(part)
        assert f"its column {told}" in str(error.value)


def invalid(*values: bytes) -> pa.Array:
    """Strings of any bytes."""
    held = pa.array(values, pa.binary())
    return pa.Array.from_buffers(TEXT, len(values), held.buffers())


def test_text_that_is_not_utf8_is_refused() -> None:
    results = Results(pa.schema([("c", TEXT)]))
    whole = pa.RecordBatch.from_arrays([invalid("ü".encode(), b"\xff", b"a")], names=["c"])
    assert results.cast(whole.slice(0, 1)).to_pylist() == [{"c": "ü"}]
    with pytest.raises(ResultError, match="its column 'c' is string, but got text that isn't UTF-8"):
        results.cast(whole)
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 3], pa.int32()), invalid(b"a", b"b", b"\xe4"))
    with pytest.raises(ResultError, match=r"its column 'c\[…\]' is string, but got text that isn't UTF-8"):
        Results(pa.schema([("c", lists.type)])).cast(pa.RecordBatch.from_arrays([lists], names=["c"]))
