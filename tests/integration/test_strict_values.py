"""JSON is read as a strict reader of its own reads it, or it is refused with a reason."""

from __future__ import annotations

import json
import random

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from anabranch.errors import GraphError
from anabranch.formats import JSON
from anabranch.spark import values
from anabranch.spark.values.plain import JsonReader
from tests.integration.strict_checks import check
from tests.soak import generated_values

SCHEMAS, VALUES = 5, 220


@pytest.mark.parametrize("seed", range(SCHEMAS))
def test_values_are_read_as_a_strict_reader_reads_them(spark: SparkSession, seed: int) -> None:
    rng = random.Random(seed)
    schema, read_as = generated_values.schema(rng)
    check(spark, schema, read_as, [generated_values.value(rng, schema, read_as) for _ in range(VALUES)])


EVERY = (
    "b boolean, i tinyint, s smallint, n int, l bigint, f float, d double, m decimal(10,2), t string, x binary, "
    "day date, at timestamp, local timestamp_ntz, a array<int>, p map<string,int>, e struct<a: int, b: string>"
)


def test_each_nasty_literal_in_each_type(spark: SparkSession) -> None:
    schema = StructType.fromDDL(EVERY)
    assert isinstance(schema, StructType)
    check(
        spark, schema, {}, [f'{{"{name}":{each}}}'.encode() for name in schema.names for each in generated_values.NASTY]
    )


NAMED = [
    (None, "the value is null"),
    (b"", "the value is empty"),
    (b" \n", "the value is empty"),
    (b"{", "the value isn't JSON: Unexpected end-of-input"),
    (b'{"n": 1} x', "the value isn't JSON: Unrecognized token 'x'"),
    (b'{"n": 1}{"n": 2}', 'the value goes on behind the end of its JSON: {"n": 2}'),
    (b'{"n": 1, "n": 2}', "the value isn't JSON: Duplicate field 'n'"),
    (b'\xef\xbb\xbf{"n": 1}', "the value begins with a byte order mark"),
    (b"\xff\xfe{", "the value isn't UTF-8: byte 0xff at byte 0"),
    (b'{"t": "\xed\xa0\x80"}', "the value isn't UTF-8: byte 0xed at byte 7"),
    (b'{"t": "\\ud800"}', "the column 't' has half of a character: \\ud800 at character 0"),
    (b'{\0"\0n', "the value isn't JSON: byte 0x00 at byte 1"),
    (b"[1]", "the value is JSON, but not an object: [1]"),
    (b"7", "the value is JSON, but not an object: 7"),
    (b"null", "the value is JSON, but not an object: null"),
    (b"[" * 100_000, "the value is JSON, but not an object: [[["),
    (b'{"q":' + b"[" * 100_000, "the value is beyond what is read: Document nesting depth (1001) exceeds"),
    (b'{"n": "7"}', "the column 'n' is no int: \"7\""),
    (b'{"n": 2147483648}', "the column 'n' is no int: 2147483648 (it is out of range)"),
    (b'{"n": 1.0}', "the column 'n' is no int: 1.0 (it is written with a fraction or an exponent)"),
    (b'{"n": true}', "the column 'n' is no int: true"),
    (b'{"d": "1"}', "the column 'd' is no double: \"1\""),
    (b'{"d": 1e400}', "the column 'd' is no double: 1e400 (it is out of range)"),
    (b'{"d": NaN}', "the value isn't JSON: Non-standard token 'NaN'"),
    (
        b'{"d": "NaN"}',
        "the column 'd' is no double: \"NaN\" (to read it as null, declare read_as={'d': 'nan-is-null'})",
    ),
    (b'{"m": 1.005}', "the column 'm' is no decimal(10,2): 1.005 (it has too many digits after the decimal point)"),
    (b'{"m": "1,5"}', "the column 'm' is no decimal(10,2): \"1,5\" (as text, it isn't a plain decimal number)"),
    (b'{"b": 1}', "the column 'b' is no boolean: 1"),
    (b'{"t": 5}', "the column 't' is no string: 5"),
    (b'{"x": "*"}', "the column 'x' is no binary: \"*\" (bytes are written in base64)"),
    (b'{"day": "20130101"}', "the column 'day' is no date: \"20130101\" (dates are written as"),
    (b'{"day": 45678}', "the column 'day' is no date: 45678 (dates are written as \"2013-01-31\"; for days since 1970"),
    (b'{"at": "10:15"}', "the column 'at' is no timestamp: \"10:15\" (times are written as"),
    (b'{"at": 1700000000}', "the column 'at' is no timestamp: 1700000000 (if it counts from 1970, declare read_as="),
    (b'{"local": "2013-01-01T05:29:00Z"}', "the column 'local' is no timestamp_ntz: "),
    (b'{"a": [1, "x"]}', "the column 'a[1]' is no int: \"x\""),
    (b'{"e": {"a": {}}}', "the column 'e.a' is no int: {}"),
    (b'{"p": {"k": []}}', "the column 'p.k' is no int: []"),
    (b'{"n": ' + b"1" * 1001 + b"}", "the value is beyond what is read: Number value length"),
    (b'{"t": "' + b"x" * 1000 + b'", "n": "' + b"y" * 1000 + b'"}', "the column 'n' is no int: \"yyy"),
]


@pytest.fixture(scope="module")
def reasons(spark: SparkSession) -> dict[bytes | None, str]:
    schema = StructType.fromDDL(EVERY)
    assert isinstance(schema, StructType)
    reader = JsonReader.of(schema, {}, "read")
    frame = spark.createDataFrame([(None if raw is None else bytearray(raw),) for raw, _ in NAMED], "value binary")
    rows = frame.select("value", reader.reason(F.col("value")).alias("reason")).collect()
    return {None if row["value"] is None else bytes(row["value"]): row["reason"] for row in rows}


@pytest.mark.parametrize(("raw", "said"), NAMED, ids=lambda each: repr(each)[:40])
def test_a_reason_names_the_column_the_value_and_what_is_wrong(
    reasons: dict[bytes | None, str], raw: bytes | None, said: str
) -> None:
    assert reasons[raw].startswith(said)
    assert len(reasons[raw]) < 400


@pytest.mark.parametrize(
    ("declared", "read_as", "said"),
    [
        ("a interval day", {}, "which isn't read from JSON"),
        ("a map<int,int>", {}, "which isn't read from JSON"),
        ("a struct<b: array<variant>>", {}, "'a.b[]' as variant"),
        ("a varchar(3)", {}, "which isn't read from JSON"),
        ("a int", {"b": "json"}, "read_as for the column 'b'"),
        ("a int", {"a": "epoch-seconds"}, "and 'a' is int"),
        ("a timestamp", {"a": "seconds"}, "read_as={'a': 'seconds'}"),
    ],
)
def test_what_can_t_be_read_is_refused_when_it_is_declared(
    spark: SparkSession, declared: str, read_as: dict[str, str], said: str
) -> None:
    with pytest.raises(GraphError, match="read") as refused:
        values.reading(JSON, declared, "read", read_as)
    assert said in str(refused.value)


def test_numbers_that_json_lacks_leave_as_null(spark: SparkSession) -> None:
    frame = spark.sql(
        "select double('NaN') a, float('-Infinity') b, 1.5D c, array(double('Infinity'), 2D) d, "
        "named_struct('x', double('NaN'), 'y', 1) e, map('k', float('NaN')) f"
    )
    written = frame.select(values.writing(JSON).encode(frame, frame.columns, "write").alias("value")).collect()[0][0]
    assert json.loads(written) == {"c": 1.5, "d": [None, 2.0], "e": {"y": 1}, "f": {"k": None}}
