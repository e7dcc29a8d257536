"""Avro is read to its last byte, as its schema says; fastavro is the judge."""

from __future__ import annotations

import io
import json
import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import fastavro
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from anabranch.formats import Format
from anabranch.spark.values.avro import AvroReader

SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Every",
    "fields": [
        {"name": "b", "type": "boolean"},
        {"name": "n", "type": ["null", "int"]},
        {"name": "l", "type": "long"},
        {"name": "d", "type": "double"},
        {"name": "t", "type": "string"},
        {"name": "x", "type": "bytes"},
        {"name": "m", "type": {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
        {"name": "a", "type": {"type": "array", "items": "int"}},
        {"name": "p", "type": {"type": "map", "values": "string"}},
        {"name": "r", "type": {"type": "record", "name": "R", "fields": [{"name": "f", "type": "float"}]}},
    ],
}
LAX = ("is no boolean", "is out of range", "is no decimal", "is none of its")
"""What fastavro lets through: other booleans, numbers of too many bytes, negative numbers of branches and symbols."""
PARSED = fastavro.parse_schema(SCHEMA)


def row(rng: random.Random) -> dict[str, Any]:
    return {
        "b": rng.random() < 0.5,
        "n": rng.choice((None, rng.randint(-(2**31), 2**31 - 1))),
        "l": rng.randint(-(2**63), 2**63 - 1),
        "d": rng.uniform(-1e300, 1e300),
        "t": rng.choice(("", "ü😀", "plain")),
        "x": rng.randbytes(rng.randrange(4)),
        "m": Decimal(rng.randint(-99999, 99999)).scaleb(-2),
        "day": date(1, 1, 1) + timedelta(days=rng.randrange(3_652_059)),
        "at": datetime(1, 1, 1, tzinfo=UTC) + timedelta(microseconds=rng.randrange(315_537_897_600_000_000)),
        "e": rng.choice("AB"),
        "a": [rng.randint(-9, 9) for _ in range(rng.randrange(3))],
        "p": {rng.choice("xyz"): "v" for _ in range(rng.randrange(2))},
        "r": {"f": 0.5},
    }


def written(value: dict[str, Any], schema: Any = PARSED) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, value)
    return out.getvalue()


def judged(value: bytes) -> dict[str, Any] | None:
    """As fastavro reads it, to the last byte; None if it can't."""
    rest = io.BytesIO(value)
    try:
        found: Any = fastavro.schemaless_reader(rest, PARSED, None)
    except (ValueError, EOFError, IndexError, OverflowError, StopIteration, KeyError, MemoryError, ArithmeticError):
        return None
    return None if rest.read() else found


def checked(spark: SparkSession, schema: Any, values: list[bytes]) -> list[tuple[Any, str | None]]:
    """The row that is read of each value, and why it is none."""
    reader = AvroReader.of(Format(name="avro", schema=json.dumps(schema)), "read")
    frame = spark.createDataFrame([(n, bytearray(each)) for n, each in enumerate(values)], "n int, value binary")
    opened = frame.select("n", reader.opened(F.col("value")).alias("row"), reader.reason(F.col("value")).alias("why"))
    found = opened.withColumn("row", F.when(~reader.fault("row"), F.col("row"))).orderBy("n").toArrow().to_pylist()
    names = [each["name"] for each in schema["fields"]]
    return [(each["row"] and {name: each["row"][name] for name in names}, each["why"]) for each in found]


def test_values_are_read_as_fastavro_reads_them(spark: SparkSession) -> None:
    rng = random.Random(0)
    values = []
    for _ in range(400):
        raw = written(row(rng))
        for _ in range(rng.randrange(3)):
            at = rng.randrange(len(raw))
            raw = raw[:at] + rng.choice((bytes([rng.randrange(256)]), b"", raw[at : at + 1] * 2)) + raw[at + 1 :]
        values.append(raw)
    read = 0
    for raw, (found, why) in zip(values, checked(spark, SCHEMA, values), strict=True):
        expected = judged(raw)
        if found is not None:
            read += 1
            assert expected is not None, raw
            assert {**found, "p": dict(found["p"])} == {**expected, "at": expected["at"].astimezone(UTC)}, raw
        elif expected is not None:  # fastavro is the laxer one
            assert why is not None, raw
            assert any(each in why for each in LAX), (raw, why)
    assert 100 < read < 350


def field(kind: Any) -> dict[str, Any]:
    return {"type": "record", "name": "One", "fields": [{"name": "c", "type": kind}]}


@pytest.mark.parametrize(
    ("kind", "raw", "why"),
    [
        ("int", b"\x02\x02", "the value goes on behind its end: 1 bytes more"),
        ("int", b"\xff\xff\xff\xff\x7f", "the column 'c' is out of range"),
        ("string", b"\x02\xff", "the column 'c' isn't UTF-8"),
        ("bytes", b"\xfc\xff\xff\xff\x0f", "the value ends within the column 'c'"),
        ("string", b"\x01", "the value ends within the column 'c'"),
        ("boolean", b"\x02", "the column 'c' is no boolean: byte 2"),
        (
            {"type": "array", "items": "null"},
            b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f\x00",
            "has more elements than are read",
        ),
        (
            {"type": "long", "logicalType": "timestamp-millis"},
            b"\xfe\xff\xff\xff\xff\xff\xff\x7f",
            "no timestamp-millis",
        ),
        (["null", "int"], b"\x04", "the column 'c' is none of its 2 kinds: 2"),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 0},
            b"\x02\x64",
            "no decimal of 2 digits",
        ),
    ],
)
def test_what_a_schema_does_not_say_is_refused(spark: SparkSession, kind: Any, raw: bytes, why: str) -> None:
    ((found, said),) = checked(spark, field(kind), [raw])
    assert found is None
    assert said is not None
    assert why in said


def taken(frame: DataFrame, reader: AvroReader, *columns: str) -> list[tuple[Any, ...]]:
    """The columns of each value, and why it can't be read."""
    opened = frame.select(reader.opened(F.col("value")).alias("row"), reader.reason(F.col("value")).alias("why"))
    whys = F.when(reader.fault("row"), F.col("why"))
    return [tuple(each) for each in opened.select(*[f"row.{name}" for name in columns], whys).collect()]


def test_a_schema_whose_numbers_mean_something_else_is_not_read(spark: SparkSession) -> None:
    """Only if the column is declared; and each other schema of the stream goes on being read."""

    def flight(unit: str, scale: int) -> str:
        decimal = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": scale}
        at = {"name": "at", "type": {"type": "long", "logicalType": f"timestamp-{unit}"}}
        fields = [{"name": "carrier", "type": "string"}, at, {"name": "price", "type": decimal}]
        return json.dumps({"type": "record", "name": "Flight", "fields": fields})

    texts = {"1": flight("millis", 2), "2": flight("micros", 2), "3": flight("micros", 4)}
    at = datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)
    row = {"carrier": "AA", "at": at, "price": Decimal("1.23")}
    raw = [
        bytearray(b"\0" + int(id_).to_bytes(4, "big") + written(row, json.loads(text))) for id_, text in texts.items()
    ]
    frame = spark.createDataFrame([(each,) for each in raw], "value binary")

    reader = AvroReader.of(Format(name="confluent", schema=texts["2"], writers=texts), "read")
    first, second, third = taken(frame, reader, "carrier", "price")
    assert first[2] == (
        "values of schema 1 aren't read: the column 'at' was written as timestamp-millis, and is read as "
        "timestamp-micros"
    )
    assert second == ("AA", Decimal("1.23"), None)
    assert third[2] == (
        "values of schema 3 aren't read: the column 'price' was written as decimal(9,4), and is read as decimal(9,2)"
    )
    narrow = reader.narrowed(StructType([field for field in reader.schema if field.name == "carrier"]), "read")
    assert taken(frame, narrow, "carrier") == [("AA", None)] * 3
    pruned = reader.pruned({"carrier"})
    assert taken(frame, pruned, "carrier") == [(None, first[2]), ("AA", None), (None, third[2])]


@pytest.mark.parametrize(
    ("was", "now", "value", "why"),
    [
        ("long", {"type": "long", "logicalType": "timestamp-millis"}, 2**62, "the column 'c' is no timestamp-millis: "),
        (
            {"type": "enum", "name": "E", "symbols": ["A", "B"]},
            {"type": "enum", "name": "E", "symbols": ["A"]},
            "B",
            "that can't be read by the job's",
        ),
        ("bytes", "string", b"\xff\xfe", "the column 'c' isn't UTF-8"),
    ],
)
def test_columns_that_are_not_needed_are_checked_too(
    spark: SparkSession, was: Any, now: Any, value: Any, why: str
) -> None:
    schemas = [{**field(kind), "fields": [{"name": "n", "type": "int"}, *field(kind)["fields"]]} for kind in (was, now)]
    raw = b"\0\0\0\0\1" + written({"n": 7, "c": value}, schemas[0])
    texts = {str(number): json.dumps(schema) for number, schema in enumerate(schemas, 1)}
    reader = AvroReader.of(Format(name="confluent", schema=texts["2"], writers=texts), "read").pruned({"n"})
    frame = spark.createDataFrame([(bytearray(raw),)], "value binary")
    ((number, said),) = taken(frame, reader, "n")
    assert number is None
    assert said.startswith(f"the value isn't Avro of schema 1: {why}")


ARRAY, MAP = {"type": "array", "items": "bytes"}, {"type": "map", "values": "bytes"}


@pytest.mark.parametrize(
    ("kind", "good", "bad", "path"),
    [
        ("bytes", "ü".encode(), b"\xff\xfe", "c"),
        (["null", "bytes"], None, b"a\xff", "c"),
        (ARRAY, [b"a", b""], [b"a", b"\xff"], "c[]"),
        (MAP, {"k": b"a"}, {"k": b"\xff"}, "c{}"),
        (field("bytes") | {"name": "R"}, {"c": b"a"}, {"c": b"\xff"}, "c.c"),
    ],
)
def test_bytes_that_are_read_as_text_are_utf_8(spark: SparkSession, kind: Any, good: Any, bad: Any, path: str) -> None:
    old, new = (json.dumps(field(each)) for each in (kind, json.loads(json.dumps(kind).replace("bytes", "string"))))
    raw = [bytearray(b"\0\0\0\0\1" + written({"c": value}, json.loads(old))) for value in (good, bad)]
    frame = spark.createDataFrame([(each,) for each in raw], "value binary")
    reader = AvroReader.of(Format(name="confluent", schema=new, writers={"1": old, "2": new}), "read")
    (_, first), (nothing, second) = taken(frame, reader, "c")
    assert first is None
    assert nothing is None
    assert second == f"the value isn't Avro of schema 1: the column '{path}' isn't UTF-8"
