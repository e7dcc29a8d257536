"""Streams in Avro, with a registry and without: what is read and written, and what becomes of the rest."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fastavro
import pytest
from pyspark.sql import SparkSession

from anabranch import Job
from anabranch.config import FormatsSettings, Settings, StreamSettings
from anabranch.errors import ConfigError, GraphError, UsageError
from anabranch.testing import run
from tests.integration.harness import KafkaSite, Site
from tests.support.registry import FakeRegistry, serving

AT = datetime(2026, 1, 2, 3, 4, 5, 678000, UTC)
OLD: dict[str, Any] = {
    "type": "record",
    "name": "Flight",
    "fields": [
        {"name": "carrier", "type": "string"},
        {"name": "delay", "type": ["null", "int"], "default": None},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
NEW = {**OLD, "fields": [*OLD["fields"], {"name": "gate", "type": "string", "default": "?"}]}
LATE = {"type": "record", "name": "Late", "fields": [OLD["fields"][0], {"name": "minutes", "type": "double"}]}


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with serving() as served:
        yield served


def written(schema: dict[str, Any], **row: Any) -> bytes:
    """Avro as others write it."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, {"delay": None, "at": AT, **row})
    return out.getvalue()


def framed(number: int, value: bytes) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + value


def read(schema: dict[str, Any], value: bytes) -> Any:
    """As others read it: to the last byte."""
    rest = io.BytesIO(value)
    row = fastavro.schemaless_reader(rest, schema, None)
    assert rest.read() == b""
    return row


def avro(folder: Path, **schemas: dict[str, Any]) -> dict[str, StreamSettings]:
    for name, schema in schemas.items():
        (folder / f"{name}.avsc").write_text(json.dumps(schema))
    return {n: StreamSettings(format="avro", schema_file=folder / f"{n}.avsc") for n in schemas}


def bound(site: Site, streams: dict[str, StreamSettings], registry: str | None = None, **job: Any) -> Settings:
    settings = site.settings(**job)
    formats = FormatsSettings(registry=registry)
    return settings.model_copy(update={"streams": streams, "formats": formats})


def late(source: str, output: str, **declared: Any) -> Job:
    job = Job("late")
    flights = job.read(source, **declared)
    flights.where("delay > 10").select("carrier", "CAST(delay AS double) AS minutes").write(output)
    return job


def test_avro_comes_and_goes_as_others_write_and_read_it(site: Site, tmp_path: Path) -> None:
    site.log.create("flights", 1)
    rows = [written(OLD, carrier="AA", delay=20), written(OLD, carrier="BB"), written(OLD, carrier="ÇÇ", delay=11)]
    site.put("flights", 0, rows, [b"a", b"b", b"c"])
    run = site.deployed(late("flights", "late"), bound(site, avro(tmp_path, flights=OLD, late=LATE)))
    run.ran()
    found = [(record["key"], read(LATE, record["value"])) for record in site.records("late", 0)]
    assert found == [(b"a", {"carrier": "AA", "minutes": 20.0}), (b"c", {"carrier": "ÇÇ", "minutes": 11.0})]


def test_what_is_no_avro_is_put_aside(site: Site, tmp_path: Path) -> None:
    site.log.create("flights", 1)
    values = [b"\x05", b"", None, written(OLD, carrier="AA", delay=20), b"\x04A"]
    site.put("flights", 0, values, [b"k"] * len(values))
    settings = bound(site, avro(tmp_path, flights=OLD, late=LATE), on_error="dead-letter")
    site.deployed(late("flights", "late"), settings).ran()
    assert [read(LATE, record["value"])["carrier"] for record in site.records("late", 0)] == ["AA"]
    aside = site.records("flights-dead-letters", 0)
    said = [{h["key"]: h["value"] for h in record["headers"]} for record in aside]
    assert [each["anabranch.offset"] for each in said] == [b"0", b"1", b"2", b"4"]
    assert (
        said[0]["anabranch.error"] == b"the value isn't Avro of its schema: the value ends within the column 'carrier'"
    )
    assert said[2]["anabranch.error"] == b"the value is null"


@pytest.mark.long
def test_times_and_state_go_by_avro_columns(site: Site, tmp_path: Path) -> None:
    """Only the columns that are needed are read; event time is one of them."""
    site.log.create("flights", 1)
    rows = [written(OLD, carrier="AA", at=AT.replace(hour=hour)) for hour in (3, 3, 4, 9)]
    site.put("flights", 0, rows, [b"k"] * 4)
    from anabranch import tumbling

    job = Job("hourly")
    flights = job.read("flights", event_time="at", watermark="1 minute").partition_by("carrier")
    flights.window(tumbling("1 hour")).agg(flights="count(*)").write("hourly")
    site.deployed(job, bound(site, avro(tmp_path, flights=OLD))).ran()
    assert [row["flights"] for row in site.values("hourly")] == [2, 1]


@pytest.mark.parametrize(
    ("declared", "columns", "said"),
    [
        ("carrier string, gate string", "carrier", r"declares the column 'gate', which its Avro schema doesn't have"),
        ("delay bigint", "delay", r"declares 'delay' as bigint; its Avro schema has int"),
        (None, "carrier, nothing", "nothing"),
        (None, "carrier, delay AS minutes", "writes 'minutes' as int; its Avro schema has double"),
        (None, "carrier", "writes no column 'minutes', and its Avro schema has one that may not be null"),
        (None, "carrier, CAST(delay AS double) AS minutes, at", "writes the column 'at', which its Avro schema"),
    ],
)
def test_what_does_not_fit_a_schema_is_refused(
    site: Site, tmp_path: Path, declared: str | None, columns: str, said: str
) -> None:
    site.log.create("flights", 1)
    job = Job("unfit")
    job.read("flights", **({"schema": declared} if declared else {})).select(*columns.split(", ")).write("late")
    with pytest.raises(GraphError, match=said):
        site.deployed(job, bound(site, avro(tmp_path, flights=OLD, late=LATE)))


def test_a_schema_that_spark_cannot_take_is_refused(site: Site, tmp_path: Path) -> None:
    site.log.create("flights", 1)
    odd = {"type": "record", "name": "Odd", "fields": [{"name": "a", "type": "strong"}]}
    with pytest.raises(GraphError, match="Spark can't take its Avro schema"):
        site.deployed(late("flights", "late"), bound(site, avro(tmp_path, flights=odd)))


def test_a_registry_says_what_was_written_and_by_which_schema(
    kafka: KafkaSite, registry: FakeRegistry, tmp_path: Path
) -> None:
    """Values of an older schema have the newer one's defaults; ids that came later, or never, are put aside."""
    source, output = kafka.create("in", 1), f"{kafka.name}-late"
    old, new = registry.register(f"{source}-value", OLD), registry.register(f"{source}-value", NEW)
    (tmp_path / "late.avsc").write_text(json.dumps(LATE))
    streams = {
        source: StreamSettings(format="confluent"),
        output: StreamSettings(format="confluent", schema_file=tmp_path / "late.avsc", subject="late"),
        f"{kafka.name}-gates": StreamSettings(format="json"),
    }
    job = Job(f"{kafka.name}-registry")
    flights = job.read(source)
    flights.where("delay > 10").select("carrier", "CAST(delay AS double) AS minutes").write(output)
    flights.select("carrier", "gate").write(f"{kafka.name}-gates")
    run = kafka.deployed(job, bound(kafka, streams, registry.url, on_error="dead-letter"))

    later = registry.register(f"{source}-value", LATE)
    values = [
        framed(old, written(OLD, carrier="AA", delay=20)),
        framed(new, written(NEW, carrier="BB", gate="B7", delay=30)),
        framed(later, written(LATE, carrier="CC", minutes=1.5)),
        framed(new, b"\x05"),
        b"{}",
    ]
    kafka.put(source, 0, values, [b"k"] * len(values))
    run.ran()
    (number,) = registry.subjects["late"]
    found = [record["value"] for record in kafka.records(output, 0)]
    assert [value[:5] for value in found] == [framed(number, b"")] * 2
    assert [read(LATE, value[5:]) for value in found] == [
        {"carrier": "AA", "minutes": 20.0},
        {"carrier": "BB", "minutes": 30.0},
    ]
    gates = [(row["carrier"], row["gate"]) for row in kafka.values(f"{kafka.name}-gates")]
    assert gates == [("AA", "?"), ("BB", "B7")]
    aside = kafka.records(f"{source}-dead-letters", 0)
    said = [{h["key"]: h["value"].decode() for h in record["headers"]}["anabranch.error"] for record in aside]
    assert said[0].startswith(f"schema {later} wasn't one of the subject's when the job first ran: {old}, {new}")
    assert said[1].startswith(f"the value isn't Avro of schema {new}")
    assert said[2] == "the value doesn't begin with the id of a registered schema"
    assert [record["value"] for record in aside] == values[2:]


def test_a_subject_that_nobody_has_written_to_yet(site: Site, tmp_path: Path, registry: FakeRegistry) -> None:
    """Even with a schema file: a job that knows no schema of values could never read any."""
    site.log.create("flights", 1)
    streams = avro(tmp_path, flights=OLD, late=LATE)
    streams["flights"] = streams["flights"].model_copy(update={"format": "confluent"})
    settings = bound(site, streams, registry.url, on_error="dead-letter")
    with pytest.raises(ConfigError, match="knows no subject 'flights-value'"):
        site.deployed(late("flights", "late"), settings)
    number = registry.register("flights-value", OLD)
    site.put("flights", 0, [framed(number, written(OLD, carrier="AA", delay=20))], [b"k"])
    site.deployed(late("flights", "late"), settings).ran()
    assert [read(LATE, record["value"])["carrier"] for record in site.records("late", 0)] == ["AA"]


def test_a_test_gives_and_gets_bytes(spark: SparkSession, tmp_path: Path, registry: FakeRegistry) -> None:
    """And registers nothing."""
    registry.register("flights-value", OLD)
    (tmp_path / "late.avsc").write_text(json.dumps(LATE))
    config = tmp_path / "anabranch.toml"
    config.write_text(
        f'[formats]\nregistry = "{registry.url}"\n[streams.flights]\nformat = "confluent"\n'
        '[streams.late]\nformat = "confluent"\nschema_file = "late.avsc"\n'
    )
    value = framed(100, written(OLD, carrier="AA", delay=20))
    result = run(late("flights", "late"), {"flights": [value]}, config=config)
    assert result["late"] == [framed(0, b"") + b"\x04AA" + struct.pack("<d", 20)]
    assert list(registry.subjects) == ["flights-value"]
    with pytest.raises(UsageError, match=r"row 0 of the input 'flights' can't be put: it is a dict.* 'confluent'"):
        run(late("flights", "late"), {"flights": [{"carrier": "AA"}]}, config=config)


def test_protobuf_says_what_is_missing(site: Site) -> None:
    site.log.create("flights", 1)
    with pytest.raises(ConfigError, match=r'set .streams.flights. schema_file = "flights.desc"'):
        site.deployed(late("flights", "late"), bound(site, {"flights": StreamSettings(format="protobuf")}))
