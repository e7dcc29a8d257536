"""Key bytes are as docs/reference/operators.md says, both ways; values pass an intermediate stream unchanged."""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
import struct
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import Row, StructType

from anabranch.spark.values import codec

MICROSECOND = dt.timedelta(microseconds=1)
FEW = settings(max_examples=4, suppress_health_check=list(HealthCheck), derandomize=True)

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
INTS = st.integers(-(2**31), 2**31 - 1)
LONGS = st.integers(-(2**63), 2**63 - 1)
DOUBLES = st.floats(allow_nan=False, width=64)
MICROSECONDS = st.integers(-(2**51), 2**52).map(lambda us: dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + us * MICROSECOND)
DECIMALS = st.decimals(-(10**7), 10**7, places=2)


def local(*parts: int) -> dt.datetime:
    """A time without a zone, as Spark's timestamp_ntz has it."""
    return dt.datetime(*parts)  # type: ignore[arg-type]


def many(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.none() | values, min_size=30, max_size=120)


def keys(spark: SparkSession, declared: str, rows: list[tuple[Any, ...]]) -> list[tuple[bytes | None, Row]]:
    """The key bytes of each row, and the row that is decoded from them."""
    schema = StructType.fromDDL(declared)
    assert isinstance(schema, StructType)
    frame = spark.createDataFrame([(n, *row) for n, row in enumerate(rows)], f"n int, {declared}")
    fields = [(F.col(f"`{field.name}`"), field.dataType) for field in schema.fields]
    encoded = frame.select("n", codec.encode_key(fields).alias("key"))
    decoded = encoded.select("n", "key", F.struct(*codec.decode_key(F.col("key"), schema)).alias("row"))
    return [(None if r["key"] is None else bytes(r["key"]), r["row"]) for r in decoded.orderBy("n").collect()]


def single(spark: SparkSession, kind: str, values: list[Any]) -> tuple[list[bytes | None], list[Any]]:
    found = keys(spark, f"k {kind}", [(value,) for value in values])
    return [key for key, _ in found], [row["k"] for _, row in found]


@FEW
@given(many(TEXT))
@example(["", "null", '"', "[1]", "\x00", "é\u2028😀"])
def test_a_string_is_utf_8(spark: SparkSession, values: list[str | None]) -> None:
    found, decoded = single(spark, "string", values)
    assert found == [None if value is None else value.encode() for value in values]
    assert decoded == values


@FEW
@given(many(st.binary(max_size=20)))
@example([b"", b"\x00", b"\xff\xfe", None])
def test_binary_is_itself(spark: SparkSession, values: list[bytes | None]) -> None:
    found, decoded = single(spark, "binary", values)
    assert found == values
    assert [None if value is None else bytes(value) for value in decoded] == values


@FEW
@given(many(INTS))
@example([0, -1, 1, 2**31 - 1, -(2**31), 255, -256, None])
def test_an_int_is_four_bytes_big_endian(spark: SparkSession, values: list[int | None]) -> None:
    found, decoded = single(spark, "int", values)
    assert found == [None if value is None else struct.pack(">i", value) for value in values]
    assert decoded == values


@FEW
@given(many(LONGS))
@example([0, -1, 1, 2**63 - 1, -(2**63), 2**31, None])
def test_a_long_is_eight_bytes_big_endian(spark: SparkSession, values: list[int | None]) -> None:
    found, decoded = single(spark, "long", values)
    assert found == [None if value is None else struct.pack(">q", value) for value in values]
    assert decoded == values


@FEW
@given(many(st.tuples(TEXT | st.none(), LONGS | st.none(), INTS | st.none(), st.booleans() | st.none())))
def test_several_columns_are_a_compact_json_array(spark: SparkSession, rows: list[Any]) -> None:
    rows = [row or (None, None, None, None) for row in rows]
    found = keys(spark, "s string, l long, i int, b boolean", rows)
    for (key, decoded), row in zip(found, rows, strict=True):
        assert key is not None
        assert json.loads(key) == list(row)
        assert tuple(decoded) == row
        plain = all(c.isprintable() for c in row[0] or "")
        if plain:
            assert key == json.dumps(row, separators=(",", ":"), ensure_ascii=False).encode()


@FEW
@given(many(st.tuples(st.binary(max_size=9), MICROSECONDS, st.dates(dt.date(1900, 1, 1)), DECIMALS, DOUBLES)))
def test_several_columns_of_other_types_come_back(spark: SparkSession, rows: list[Any]) -> None:
    rows = [row or (None,) * 5 for row in rows]
    found = keys(spark, "a binary, t timestamp, d date, m decimal(12, 2), f double", rows)
    for (key, decoded), row in zip(found, rows, strict=True):
        assert key is not None
        parsed = json.loads(key)
        assert len(parsed) == 5
        if row[0] is not None:
            assert base64.b64decode(parsed[0]) == row[0]
        back = tuple(decoded)
        assert (None if back[0] is None else bytes(back[0]), *back[2:]) == (row[0], *row[2:])
        assert (None if back[1] is None else back[1].astimezone(dt.UTC)) == row[1]


OTHERS: list[tuple[str, list[Any], list[bytes | None]]] = [
    ("double", [1.5, -0.5, None], [b"[1.5]", b"[-0.5]", None]),
    ("double", [0.0, -0.0], [b"[0.0]", b"[0.0]"]),
    ("float", [0.0, -0.0, -0.5], [b"[0.0]", b"[0.0]", b"[-0.5]"]),
    ("array<struct<x: double>>", [[Row(x=-0.0), None], None], [b'[[{"x":0.0},null]]', None]),
    ("boolean", [True, False, None], [b"[true]", b"[false]", None]),
    ("smallint", [7, -7], [b"[7]", b"[-7]"]),
    ("date", [dt.date(2026, 1, 2)], [b'["2026-01-02"]']),
    ("timestamp_ntz", [local(2026, 1, 2, 3, 4, 5, 678901)], [b'["2026-01-02T03:04:05.678901"]']),
    ("decimal(10, 2)", [Decimal("1.10"), Decimal("-1.00")], [b"[1.10]", b"[-1.00]"]),
    ("array<int>", [[1, None], []], [b"[[1,null]]", b"[[]]"]),
    (
        "struct<a: int, b: string>",
        [Row(a=1, b="x"), Row(a=None, b=None)],
        [b'[{"a":1,"b":"x"}]', b'[{"a":null,"b":null}]'],
    ),
]


@pytest.mark.parametrize(("kind", "values", "expected"), OTHERS)
def test_any_other_type_is_a_json_array_of_one(
    spark: SparkSession, kind: str, values: list[Any], expected: list[bytes | None]
) -> None:
    found, decoded = single(spark, kind, values)
    assert found == expected
    assert decoded == values


def test_nested_columns_among_several_come_back(spark: SparkSession) -> None:
    rows = [([1, None], Row(a=1, b="x"), "y"), (None, Row(a=None, b='"'), None)]
    found = keys(spark, "l array<int>, e struct<a: int, b: string>, s string", rows)
    assert [key for key, _ in found] == [b'[[1,null],{"a":1,"b":"x"},"y"]', b'[null,{"a":null,"b":"\\""},null]']
    assert [tuple(decoded) for _, decoded in found] == rows


BAD_KEYS = [
    ("k int", b"abc"),
    ("k bigint", b"abcd"),
    ("k double", b"{"),
    ("k double", b'["x"]'),
    ("a string, b int", b"[1]"),
    ("a string, b int", b"nope"),
    ("a string, b int", b'["x", "y"]'),
    ("a string, b binary", b'["x", "*"]'),
    ("a string, b int", b'["x", 1, 2]'),
    ("a string, b int", b'["x", 1] x'),
    ("a string, b int", b'["x", 1.5]'),
    ("k double", b"[1.5, 2]"),
    ("k double", b"[null]"),
    ("k date", b'["45678"]'),
    ("k string", b"\xff"),
]


@pytest.mark.parametrize(("declared", "key"), BAD_KEYS)
@pytest.mark.suite(cases=5)
def test_a_key_that_isn_t_what_is_declared_is_a_fault_and_null(spark: SparkSession, declared: str, key: bytes) -> None:
    frame = spark.createDataFrame([(bytearray(key),), (None,)], "key binary")
    schema = codec.parse_schema(declared)
    fault = codec.key_fault(F.col("key"), schema)
    assert fault is not None
    found = frame.select(fault.alias("fault"), *codec.decode_key(F.col("key"), schema)).collect()
    assert [row["fault"] for row in found] == [True, False]
    assert declared == "k string" or not all(value is not None for value in found[0][1:])
    reason = frame.select(codec.key_reason(F.col("key"), schema)).collect()[0][0]
    assert reason.startswith(f"the key 0x{key.hex()} isn't {declared!r}"), reason


VALUES = """
    t timestamp, n timestamp_ntz, d date, f double, g float, m decimal(38, 10), l long, s string, b binary, o boolean,
    a array<double>, e struct<x: int, y: array<struct<z: string, t: timestamp>>>, p map<string, int>
"""


def test_values_pass_through_json_unchanged(spark: SparkSession) -> None:
    at = local(2026, 1, 2, 3, 4, 5, 678901)
    rows: list[tuple[Any, ...]] = [
        (
            at,
            at,
            dt.date(1969, 12, 31),
            0.1 + 0.2,
            0.5,
            Decimal("1234567890123456789012345678.0123456789"),
            2**63 - 1,
            'ü"\\\n\u2028😀',
            bytearray(b"\x00\xff"),
            True,
            [1.0, None, float("inf"), 5e-324],
            Row(x=None, y=[Row(z=None, t=at), None]),
            {"k": 1, "": None},
        ),
        (
            local(1900, 1, 1, 0, 0, 0, 1),
            local(1, 1, 1, 0, 0, 0, 1),
            dt.date(9999, 12, 31),
            float("-inf"),
            float("inf"),
            Decimal("-0.0000000001"),
            -(2**63),
            "",
            bytearray(b""),
            False,
            [],
            Row(x=1, y=[]),
            {},
        ),
        (None,) * 13,
        (None, None, None, *[float("nan")] * 2, *[None] * 5, [float("nan"), -0.0], Row(x=None, y=None), None),
    ]
    schema = codec.parse_schema(VALUES)
    frame = spark.createDataFrame([(n, *row) for n, row in enumerate(rows)], f"number int, {VALUES}").drop("number")
    encoded = frame.select(codec.encode_json(frame, frame.columns).alias("value"))
    found = encoded.select(codec.parse_json(F.col("value"), schema)).collect()
    for before, after in zip(frame.collect(), found, strict=True):
        assert _comparable(after) == _comparable(before)


@pytest.mark.parametrize(("kind", "value"), [("string", "x"), ("int", 1), ("array<int>", [1, None])])
def test_a_column_may_have_the_name_that_spark_reserves(spark: SparkSession, kind: str, value: Any) -> None:
    declared = f"_corrupt_record {kind}"
    frame = spark.createDataFrame([(value,), (None,)], declared)
    encoded = frame.select(codec.encode_json(frame, frame.columns).alias("value"))
    found = encoded.select(codec.parse_json(F.col("value"), codec.parse_schema(declared))).collect()
    assert [row["_corrupt_record"] for row in found] == [value, None]


@pytest.mark.parametrize(("before", "after"), [("{}", '{"x":true}'), ('{"a":{"b":"}"}}', '{"a":{"b":"}"},"x":true}')])
def test_a_field_is_added_to_a_json_object(spark: SparkSession, before: str, after: str) -> None:
    frame = spark.createDataFrame([(bytearray(before.encode()),)], "value binary")
    assert frame.select(codec.with_true(F.col("value"), "x")).collect()[0][0] == after.encode()


def _comparable(value: Any) -> Any:
    """NaN equals NaN, and -0.0 isn't 0.0."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else struct.pack(">d", value)
    if isinstance(value, Row):
        return {name: _comparable(item) for name, item in value.asDict().items()}
    if isinstance(value, list):
        return [_comparable(item) for item in value]
    return value
