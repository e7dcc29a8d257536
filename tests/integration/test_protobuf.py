"""Messages of protocol buffers come and go as Google's own library writes and reads them."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from anabranch import Job
from anabranch.config import StreamSettings
from anabranch.errors import GraphError
from tests.integration.harness import Site

KINDS = descriptor_pb2.FieldDescriptorProto
AT = datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)
FIELDS = [
    ("carrier", KINDS.TYPE_STRING, {}),
    ("delay", KINDS.TYPE_INT32, {"proto3_optional": True, "oneof_index": 0}),
    ("u", KINDS.TYPE_UINT32, {}),
    ("v", KINDS.TYPE_UINT64, {}),
    ("d", KINDS.TYPE_DOUBLE, {}),
    ("ok", KINDS.TYPE_BOOL, {}),
    ("raw", KINDS.TYPE_BYTES, {}),
    ("kind", KINDS.TYPE_ENUM, {"type_name": ".air.Kind"}),
    ("gates", KINDS.TYPE_STRING, {"label": KINDS.LABEL_REPEATED}),
    ("inner", KINDS.TYPE_MESSAGE, {"type_name": ".air.Inner"}),
    ("at", KINDS.TYPE_MESSAGE, {"type_name": ".google.protobuf.Timestamp"}),
    ("counts", KINDS.TYPE_MESSAGE, {"type_name": ".air.Flight.CountsEntry", "label": KINDS.LABEL_REPEATED}),
]


def descriptors() -> descriptor_pb2.FileDescriptorSet:
    """What protoc writes of::

    package air;
    enum Kind { UNKNOWN = 0; EARLY = 1; }
    message Inner { sint64 n = 1; }
    message Flight { string carrier = 1; optional int32 delay = 2; … map<string, int32> counts = 12; }
    message Late { string carrier = 1; double minutes = 2; }

    and, in proto2, of::

    package old;
    message Trip { optional string carrier = 1; repeated group Leg = 2 { optional int32 n = 1; } … }
    """
    file = descriptor_pb2.FileDescriptorProto(name="air.proto", package="air", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    kind = file.enum_type.add(name="Kind")
    kind.value.add(name="UNKNOWN", number=0)
    kind.value.add(name="EARLY", number=1)
    file.message_type.add(name="Inner").field.add(
        name="n", number=1, type=KINDS.TYPE_SINT64, label=KINDS.LABEL_OPTIONAL
    )
    flight = file.message_type.add(name="Flight")
    entry = flight.nested_type.add(name="CountsEntry", options=descriptor_pb2.MessageOptions(map_entry=True))
    entry.field.add(name="key", number=1, type=KINDS.TYPE_STRING, label=KINDS.LABEL_OPTIONAL)
    entry.field.add(name="value", number=2, type=KINDS.TYPE_INT32, label=KINDS.LABEL_OPTIONAL)
    for number, (name, type_, more) in enumerate(FIELDS, 1):
        flight.field.add(**{"name": name, "number": number, "type": type_, "label": KINDS.LABEL_OPTIONAL, **more})
    flight.oneof_decl.add(name="_delay")
    late = file.message_type.add(name="Late")
    late.field.add(name="carrier", number=1, type=KINDS.TYPE_STRING, label=KINDS.LABEL_OPTIONAL)
    late.field.add(name="minutes", number=2, type=KINDS.TYPE_DOUBLE, label=KINDS.LABEL_OPTIONAL)
    found = descriptor_pb2.FileDescriptorSet()
    timestamp_pb2.DESCRIPTOR.CopyToProto(found.file.add())
    found.file.append(file)
    old = found.file.add(name="old.proto", package="old", syntax="proto2")  # with a group
    trip = old.message_type.add(name="Trip")
    trip.nested_type.add(name="Leg").field.add(name="n", number=1, type=KINDS.TYPE_INT32, label=KINDS.LABEL_OPTIONAL)
    trip.field.add(name="carrier", number=1, type=KINDS.TYPE_STRING, label=KINDS.LABEL_OPTIONAL)
    trip.field.add(name="leg", number=2, type=KINDS.TYPE_GROUP, type_name=".old.Trip.Leg", label=KINDS.LABEL_REPEATED)
    trip.field.add(name="numbers", number=3, type=KINDS.TYPE_SINT32, label=KINDS.LABEL_REPEATED)
    return found


def messages(*names: str) -> list[Any]:
    pool = descriptor_pool.DescriptorPool()
    for each in descriptors().file:
        pool.Add(each)
    return [message_factory.GetMessageClass(pool.FindMessageTypeByName(f"air.{name}")) for name in names]


def varint(number: int) -> bytes:
    more, rest = [], number
    while rest > 127:
        more.append(rest & 127 | 128)
        rest >>= 7
    return bytes([*more, rest])


FLIGHT, LATE, INNER = messages("Flight", "Late", "Inner")
WHOLE = {
    "carrier": "ÇÇ😀",
    "delay": -20,
    "u": 2**32 - 1,
    "v": 2**64 - 1,
    "d": 0.1,
    "ok": True,
    "raw": b"\xff\x00",
    "kind": 1,
    "gates": ["a", ""],
    "inner": INNER(n=-(2**63)),
    "at": AT,
    "counts": {"x": 1, "": -1},
}
ROW = {
    **WHOLE,
    "v": Decimal(2**64 - 1),
    "kind": "EARLY",
    "inner": {"n": -(2**63)},
}
NOTHING = {
    "carrier": "",
    "delay": None,
    "u": 0,
    "v": Decimal(0),
    "d": 0.0,
    "ok": False,
    "raw": b"",
    "kind": "UNKNOWN",
    "gates": [],
    "inner": None,
    "at": None,
    "counts": {},
}


def bound(folder: Path, **streams: str) -> dict[str, StreamSettings]:
    (folder / "air.desc").write_bytes(descriptors().SerializeToString())
    return {
        name: StreamSettings(format="protobuf", schema_file=folder / "air.desc", message=message)
        for name, message in streams.items()
    }


def reader(spark: SparkSession, message: str = "air.Flight") -> Any:
    import base64

    from anabranch.formats import Format
    from anabranch.spark.values.protobuf import ProtobufReader

    schema = base64.b64encode(descriptors().SerializeToString()).decode()
    return ProtobufReader.of(Format(name="protobuf", schema=schema, message=message), "read")


def read(spark: SparkSession, values: list[bytes | None], message: str = "air.Flight") -> list[tuple[Any, str | None]]:
    """The row of each value, and why there is none."""
    made = reader(spark, message)
    rows = [(n, None if each is None else bytearray(each)) for n, each in enumerate(values)]
    frame = spark.createDataFrame(rows, "n int, value binary")
    opened = frame.select("n", made.opened(F.col("value")).alias("row"), made.reason(F.col("value")).alias("why"))
    found = opened.orderBy("n").toArrow().to_pylist()
    maps = ["counts"] if message == "air.Flight" else []
    return [
        (row and {**row, **{name: dict(row[name]) for name in maps}}, why)
        for row, why in ((r["row"], r["why"]) for r in found)
    ]


def test_messages_come_and_go_as_others_write_and_read_them(site: Site, tmp_path: Path) -> None:
    site.log.create("flights", 1)
    several = [FLIGHT(carrier="AA", delay=20), FLIGHT(carrier="BB"), FLIGHT(carrier="ÇÇ", delay=11)]
    site.put("flights", 0, [each.SerializeToString() for each in several] + [b"\x08"], [b"a", b"b", b"c", b"d"])
    job = Job("late")
    flights = job.read("flights")
    flights.where("delay > 10").select("carrier", "CAST(delay AS double) AS minutes").write("late")
    flights.write("copies")
    settings = site.settings(on_error="dead-letter")
    streams = bound(tmp_path, flights="Flight", late="air.Late", copies="air.Flight")
    site.deployed(job, settings.model_copy(update={"streams": streams})).ran()
    found = [(record["key"], LATE.FromString(record["value"])) for record in site.records("late", 0)]
    assert found == [(b"a", LATE(carrier="AA", minutes=20)), (b"c", LATE(carrier="ÇÇ", minutes=11))]
    assert [FLIGHT.FromString(record["value"]) for record in site.records("copies", 0)] == several
    (letter,) = site.records("flights-dead-letters", 0)
    said = {header["key"]: header["value"] for header in letter["headers"]}
    assert said["anabranch.error"].startswith(b"the column 'carrier' was written with another type") or said[
        "anabranch.error"
    ].startswith(b"the value is no message air.Flight: ")


def test_every_kind_of_field_comes_and_goes(spark: SparkSession) -> None:
    whole = FLIGHT(**WHOLE)
    ((row, why), (nothing, _)) = read(spark, [whole.SerializeToString(), b""])
    assert (row, why) == (ROW, None)
    assert nothing == NOTHING
    from anabranch.spark.internals import protobuf_messages

    made = reader(spark)
    frame = spark.createDataFrame([(bytearray(whole.SerializeToString()),)], "value binary")
    again = protobuf_messages.written(made.opened(F.col("value")), made.files, made.message, made.schema)
    ((value,),) = frame.select(again).collect()
    assert FLIGHT.FromString(bytes(value)) == whole


def test_values_that_were_changed_are_read_as_google_reads_them_or_refused(spark: SparkSession) -> None:
    rng = random.Random(0)
    values = []
    for _ in range(400):
        raw = FLIGHT(**{k: v for k, v in WHOLE.items() if rng.random() < 0.7}).SerializeToString()
        for _ in range(rng.randrange(3) if raw else 0):
            at = rng.randrange(len(raw))
            raw = raw[:at] + rng.choice((bytes([rng.randrange(256)]), b"", raw[at : at + 1] * 2)) + raw[at + 1 :]
            if not raw:
                break
        values.append(raw)
    refused = 0
    for raw, (row, why) in zip(values, read(spark, values), strict=True):
        try:
            expected = FLIGHT.FromString(raw)
        except Exception:
            assert row is None, raw
            assert why, raw
            refused += 1
            continue
        if row is None:  # the stricter one: of fields of other types, enums, times and numbers out of range
            assert why, raw
            assert any(each in why for each in ("another type", "its enum", "no timestamp", "' is no ")), (raw, why)
            continue
        delay = expected.delay if expected.HasField("delay") else None
        same = (expected.carrier, delay, expected.u, Decimal(expected.v), list(expected.gates), dict(expected.counts))
        assert (row["carrier"], row["delay"], row["u"], row["v"], row["gates"], row["counts"]) == same, raw
    assert 30 < refused < 370


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (None, "the value is null"),
        (b"\x0a\x05AA", "the value is no message air.Flight: "),
        (b"\x0a\x01\xff", "the value is no message air.Flight: "),
        (b"\x08\x01", "the column 'carrier' was written with another type"),
        (b"\x40\x07", "the column 'kind' has a number that its enum doesn't have: 7"),
        (b"\x5a\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x10", "the value is no message air.Flight: "),
        (b"\x5a\x0a\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "the column 'at' is no timestamp: "),
        (b"\xff" * 20, "the value is no message air.Flight: "),
        (b"\x10" + varint(2**31), "the column 'delay' is no int32: 2147483648"),
        (b"\x10" + varint(2**32 + 5), "the column 'delay' is no int32: 4294967301"),
        (b"\x10" + varint(2**32 + 5) + b"\x10\x05", "the column 'delay' is no int32: 4294967301"),
        (b"\x18" + varint(2**32), "the column 'u' is no uint32: 4294967296"),
        (b"\x18" + varint(2**64 - 1), "the column 'u' is no uint32: 18446744073709551615"),
        (b"\x20" + b"\xff" * 9 + b"\x7f", "the column 'v' is no uint64: a number of more than 64 bits"),
        (b"\x30\x02", "the column 'ok' is no bool: 2"),
        (b"\x40" + varint(2**32 + 1), "the column 'kind' is no enum: 4294967297"),
        (b"\x52\x0b\x08" + b"\x81" * 9 + b"\x02", "the column 'inner.n' is no sint64: a number of more than 64 bits"),
        (b"\x62\x06\x10" + varint(2**32), "the column 'counts.value' is no int32: 4294967296"),
        (b"\x5a\x06\x10" + varint(2**32), "the column 'at.nanos' is no int32: 4294967296"),
    ],
)
def test_what_is_no_such_message_is_refused(spark: SparkSession, raw: bytes | None, why: str) -> None:
    ((row, said),) = read(spark, [raw])
    assert row is None
    assert said is not None
    assert said.startswith(why)


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"\x40\x07", "the column 'kind' has a number that its enum doesn't have: 7"),
        (b"\x5a\x07\x08" + varint(10**12), "the column 'at' is no timestamp: "),
    ],
)
def test_columns_that_are_not_needed_are_checked_too(spark: SparkSession, raw: bytes, why: str) -> None:
    narrow = reader(spark).pruned({"carrier"})
    sound = FLIGHT(carrier="AA").SerializeToString()
    frame = spark.createDataFrame([(bytearray(sound),), (bytearray(sound + raw),)], "value binary")
    opened = frame.select(narrow.opened(F.col("value")).alias("row"), narrow.reason(F.col("value")).alias("why"))
    good, bad = opened.toArrow().to_pylist()
    assert good == {"row": {"carrier": "AA"}, "why": None}
    assert bad["row"] is None
    assert bad["why"].startswith(why)


def test_numbers_at_the_ends_of_their_ranges_are_read(spark: SparkSession) -> None:
    ends = (-(2**31), 2**31 - 1)
    several = [FLIGHT(delay=n, u=2**32 - 1, v=2**64 - 1, ok=n > 0, kind=1, counts={"": n}) for n in ends]
    long = [
        b"\x10\x85\x80\x80\x80\x80\x00",
        b"\x98\x06" + b"\xff" * 9 + b"\x7f\xa3\x06\x08" + varint(2**40) + b"\xa4\x06",
    ]
    found = read(spark, [*(each.SerializeToString() for each in several), *long])
    assert [why for _, why in found] == [None] * 4, "fields that aren't known may hold anything"
    assert [(row["delay"], row["counts"]) for row, _ in found[:2]] == [(n, {"": n}) for n in ends]
    assert [row["delay"] for row, _ in found[2:]] == [5, None]


@pytest.mark.parametrize(
    ("raw", "row", "why"),
    [
        (b"\x0a\x03AA\xff", None, "the column 'carrier' isn't UTF-8"),
        (b"\x0a\x03\xed\xa0\x80", None, "the column 'carrier' isn't UTF-8"),
        (b"\x13\x08" + varint(2**31) + b"\x14", None, "the column 'leg.n' is no int32: 2147483648"),
        (b"\x1a\x06\x01" + varint(2**32), None, "the column 'numbers' is no sint32: 2147483648"),
        (b"\x18" + varint(2**32 + 1), None, "the column 'numbers' is no sint32: -2147483649"),
        (
            b"\x13\x08\x01\x14\x13\x14\x0a\x02\xc3\xa7\x1a\x06\x01"
            + varint(2**32 - 1)
            + b"\x18\x02\x0a\x00\x0a\x02\xc3\xa7",
            {"carrier": "ç", "leg": [{"n": 1}, {"n": None}], "numbers": [-1, -(2**31), 1]},
            None,
        ),
    ],
)
def test_messages_of_proto2_are_no_laxer(spark: SparkSession, raw: bytes, row: Any, why: str | None) -> None:
    assert read(spark, [raw], "old.Trip") == [(row, why)]


def test_a_column_that_would_be_read_as_a_default_is_not_left_out(site: Site, tmp_path: Path) -> None:
    site.log.create("flights", 1)
    settings = site.settings().model_copy(update={"streams": bound(tmp_path, flights="Flight", late="Late")})
    job = Job("late")
    job.read("flights").select("carrier").write("late")
    with pytest.raises(
        GraphError, match=r"writes no column 'minutes', and the message air\.Late has one that may not be"
    ):
        site.deployed(job, settings)
    others = Job("others")
    bare = bound(tmp_path, flights="Flight", copies="air.Flight")
    given = [name for name in NOTHING if NOTHING[name] not in (None, [], {})]
    others.read("flights").select(*given).write("copies")
    site.put("flights", 0, [b""], [b"a"])
    site.deployed(others, settings.model_copy(update={"streams": bare})).ran()
    assert [record["value"] for record in site.records("copies", 0)] == [b""], "the others may be null or empty"


@pytest.mark.parametrize(
    ("column", "field"), [("carrier", "air.Flight.carrier"), ("kind", "air.Flight.kind"), ("inner.n", "air.Inner.n")]
)
def test_a_null_that_would_be_read_as_a_default_is_an_error(spark: SparkSession, column: str, field: str) -> None:
    from anabranch.spark.internals import protobuf_messages

    made = reader(spark)
    frame = spark.createDataFrame([(bytearray(FLIGHT(**WHOLE).SerializeToString()),)], "value binary")
    name, _, inner = column.partition(".")
    null = F.lit(None).cast(made.schema[name].dataType)
    null = F.struct(F.lit(None).cast("bigint").alias(inner)) if inner else null
    opened = frame.select(made.opened(F.col("value")).alias("row")).select(
        F.col("row").withField(name, null).alias("row")
    )
    written = protobuf_messages.written(F.col("row"), made.files, made.message, made.schema)
    with pytest.raises(Exception, match=rf"the field {field} can't be null, because it is neither optional nor in a"):
        opened.select(written).collect()


def test_a_null_that_can_be_told_from_a_value_is_written(spark: SparkSession) -> None:
    from anabranch.spark.internals import protobuf_messages

    made = reader(spark)
    whole = FLIGHT(**WHOLE)
    frame = spark.createDataFrame([(bytearray(whole.SerializeToString()),)], "value binary")
    row = F.col("row")
    for name in ("delay", "inner", "at", "gates", "counts"):
        row = row.withField(name, F.lit(None).cast(made.schema[name].dataType))
        whole.ClearField(name)
    opened = frame.select(made.opened(F.col("value")).alias("row")).select(row.alias("row"))
    ((value,),) = opened.select(
        protobuf_messages.written(F.col("row"), made.files, made.message, made.schema)
    ).collect()
    assert FLIGHT.FromString(bytes(value)) == whole


def test_what_cannot_be_is_found_when_planned(site: Site, tmp_path: Path) -> None:
    site.log.create("flights", 1)
    streams = bound(tmp_path, flights="Plane")
    job = Job("late")
    job.read("flights").write("out")
    with pytest.raises(GraphError, match=r"there is no message Plane in its schema file") as refused:
        site.deployed(job, site.settings().model_copy(update={"streams": streams}))
    assert "air.Inner, air.Flight" in str(refused.value)
    (tmp_path / "air.desc").write_bytes(b"nonsense")
    with pytest.raises(GraphError, match="the schema file of its message Plane can't be read"):
        site.deployed(job, site.settings().model_copy(update={"streams": streams}))
