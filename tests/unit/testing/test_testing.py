"""``anabranch.testing`` before anything runs: parts, messages, results, and inputs that can't be."""

from __future__ import annotations

import json
import math
import os
import sys
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from anabranch import Job
from anabranch.config import KafkaSettings, Settings, StreamSettings, SystemsSettings
from anabranch.errors import ConfigError, NotFoundError, UsageError
from anabranch.testing import BATCH, KILL, Message, Record, Result, brokers, keys, parts, run, running, session
from anabranch.testing.brokers import Names
from anabranch.testing.messages import Encoder
from anabranch.testing.result import decoded

AT = datetime(2013, 1, 1, tzinfo=UTC)


def shape(inputs: dict[str, list[Any]]) -> list[tuple[dict[str, list[Any]], Any]]:
    return [({s: [row for _, row in rows] for s, rows in part.rows.items()}, part.ends) for part in parts.cut(inputs)]


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        ({}, []),
        ({"a": []}, [({"a": []}, None)]),
        ({"a": [1, 2]}, [({"a": [1, 2]}, None)]),
        ({"a": [1, KILL, 2]}, [({"a": [1]}, KILL), ({"a": [2]}, None)]),
        ({"a": [1, BATCH]}, [({"a": [1]}, BATCH), ({"a": []}, None)]),
        (
            {"a": [1, KILL, 2, BATCH, 3], "b": [4, KILL, 5]},
            [({"a": [1], "b": [4]}, KILL), ({"a": [2], "b": [5]}, BATCH), ({"a": [3]}, None)],
        ),
        ({"a": [1], "b": [KILL]}, [({"a": [1], "b": []}, KILL), ({"b": []}, None)]),
    ],
)
def test_inputs_are_cut_together(inputs: dict[str, list[Any]], expected: list[Any]) -> None:
    assert shape(inputs) == expected


def test_a_row_keeps_its_place_in_the_list() -> None:
    assert [part.rows["a"] for part in parts.cut({"a": ["x", KILL, "y", "z"]})] == [[(0, "x")], [(2, "y"), (3, "z")]]


def test_a_dead_letter_that_is_nested_too_deeply_stays_bytes() -> None:
    value = b"[" * 2000 + b"]" * 2000
    assert decoded(value, "json", "flights-dead-letters") == value


def test_sentinels_must_agree() -> None:
    with pytest.raises(UsageError, match=r"after part 2: a has KILL, b has BATCH"):
        parts.cut({"a": [KILL, 1, KILL], "b": [KILL, BATCH]})


@pytest.mark.parametrize(
    ("row", "key", "value"),
    [
        ({"k": "a", "n": 1}, b"a", b'{"n":1}'),
        ({"n": 1}, None, b'{"n":1}'),
        ({"k": None, "n": None}, None, b'{"n":null}'),
        (b"\xff", None, b"\xff"),
        ("text", None, b"text"),
        (None, None, None),
        (Message({"k": "a", "n": 1}, key="b"), b"b", b'{"k":"a","n":1}'),
        (Message({"k": "a"}, key=None), None, b'{"k":"a"}'),
        (Message({"k": "a"}), b"a", b"{}"),
        (Message(None, key=b"\x00"), b"\x00", None),
        ({"k": "a", "at": AT}, b"a", b'{"at":"2013-01-01T00:00:00Z"}'),
    ],
)
def test_key_and_value_of_a_row(row: Any, key: bytes | None, value: bytes | None) -> None:
    made = Encoder("in", [("k", "string")], 2).encode(0, row)
    assert (made.key, made.value) == (key, value)


def test_partitions_by_key_in_turn_or_as_given() -> None:
    encoder = Encoder("in", [("k", "string")], 3)
    rows = [{"k": "a"}, {}, {"k": "b"}, {}, {}, {}, {"k": "a"}, Message({}, partition=2)]
    found = [encoder.encode(n, row).partition for n, row in enumerate(rows)]
    assert [found[n] for n in (1, 3, 4, 5)] == [0, 1, 2, 0]
    assert found[0] == found[6]
    assert found[7] == 2


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (7, r"row 4 of the input 'in' can't be put: it is 7"),
        ({"k": 7}, "the key column k is declared string, and was given 7"),
        ({"k": "a", "n": object()}, "row 4 of the input 'in' can't be put: .*object"),
        (Message({}, partition=2), "its partition is 2, and the stream has 2"),
        (Message({}, timestamp=datetime(2013, 1, 1)), "has no zone"),
    ],
)
def test_a_row_that_cannot_be_put(row: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Encoder("in", [("k", "string")], 2).encode(4, row)


@dataclass
class Leg:
    price: float


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_number_that_json_lacks_is_no_null(number: float) -> None:
    encoder = Encoder("in", [("k", "double")], 1)
    for content in (number, [1.5, [number]], {"a": {"b": number}}, (number,), {number}, Leg(number)):
        with pytest.raises(UsageError, match=r"row 3 .* its column price is .*neither NaN nor infinity"):
            encoder.encode(3, {"n": 1, "price": content})
    assert encoder.encode(0, {"k": number, "n": 1.5, "s": "NaN", "of": [1, None]}).value == (
        b'{"n":1.5,"s":"NaN","of":[1,null]}'
    )


@pytest.mark.parametrize(("kind", "value"), [("int", 2**31), ("int", "7"), ("bigint", True), ("binary", 1)])
def test_a_key_of_another_type(kind: str, value: Any) -> None:
    with pytest.raises(UsageError, match=f"declared {kind}"):
        keys.encode([("k", kind)], {"k": value})


@pytest.mark.parametrize(
    "text", ["2013-01-01T05:29:00Z", "2013-01-01", "20130101T000000", "2013-W01-1", "2013-01-01T05:29:00+02:00", "soon"]
)
@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz", "date"])
def test_text_in_a_key_is_not_repaired(kind: str, text: str) -> None:
    assert keys.encode([("at", kind)], {"at": text}) == f'["{text}"]'.encode()


@pytest.mark.parametrize(
    ("kind", "value", "made"),
    [
        ("timestamp", AT, '["2013-01-01T00:00:00.000000Z"]'),
        ("timestamp", datetime(2013, 1, 1), '["2013-01-01T00:00:00.000000Z"]'),
        ("timestamp_ntz", datetime(2013, 1, 1), '["2013-01-01T00:00:00.000000"]'),
        ("date", date(2013, 1, 1), '["2013-01-01"]'),
        ("decimal(10,2)", Decimal("1.5"), "[1.50]"),
        ("decimal(10,2)", Decimal("-1E+3"), "[-1000.00]"),
        ("decimal(10,2)", Decimal("1.234"), "[1.234]"),
        ("decimal(10,2)", 1.5, "[1.5]"),
        ("decimal(10,2)", 2, "[2.00]"),
        ("decimal(10,2)", True, "[true]"),
        ("decimal(38,0)", 2, "[2]"),
        ("decimal(38,0)", Decimal(10**37), f"[{10**37}]"),
        ("double", 1, "[1.0]"),
        ("double", -0.0, "[0.0]"),
        ("array<decimal(3,1)>", [Decimal("1.5"), None, Decimal(1), 2], "[[1.5,null,1.0,2.0]]"),
        ("array<array<double>>", [[1, 1.5], None, []], "[[[1.0,1.5],null,[]]]"),
        ("array<timestamp>", [datetime(2013, 1, 1)], '[["2013-01-01T00:00:00.000000Z"]]'),
        ("struct<a:decimal(3,1),b:string>", {"a": Decimal("1.5"), "b": 'ü"'}, '[{"a":1.5,"b":"ü\\""}]'),
    ],
)
def test_python_objects_in_a_key_are_written_as_spark_would(kind: str, value: Any, made: str) -> None:
    assert keys.encode([("k", kind)], {"k": value}) == made.encode()
    assert keys.encode([("n", "int"), ("k", kind)], {"n": 7, "k": value}) == f"[7,{made[1:]}".encode()


def test_a_decimal_that_is_no_number_is_no_key() -> None:
    with pytest.raises(UsageError, match="can't be part of a key"):
        keys.encode([("k", "decimal(10,2)")], {"k": Decimal("NaN")})


def record(value: Any, partition: int = 0, offset: int = 0) -> Record:
    return Record(
        partition, offset, b"k", value, (), AT, json.dumps(value).encode() if isinstance(value, dict) else value
    )


def test_a_result_gives_rows_records_and_the_latest() -> None:
    rows = [
        {"d": "a", "h": 1, "n": 1},
        {"d": "b", "h": 1, "n": 1},
        {"d": "a", "h": 2, "n": 1},
        {"d": "a", "h": 1, "n": 2},
    ]
    result = Result({"out": [record(row, offset=n) for n, row in enumerate(rows)], "empty": []})
    assert result["out"] == rows
    assert result["empty"] == []
    assert [each.offset for each in result.records("out")] == [0, 1, 2, 3]
    assert result.latest("out", "d") == {"a": rows[3], "b": rows[1]}
    assert result.latest("out", "d", "h") == {("a", 1): rows[3], ("b", 1): rows[1], ("a", 2): rows[2]}
    assert repr(result) == "Result(out: 4, empty: 0)"
    with pytest.raises(NotFoundError, match="writes no stream 'uot'; did you mean 'out'"):
        result["uot"]
    with pytest.raises(UsageError, match="names no column"):
        result.latest("out")
    with pytest.raises(UsageError, match="holds b'raw', which has no columns"):
        Result({"out": [record(b"raw")]}).latest("out", "d")


def test_the_latest_rows_by_columns_that_no_row_has_or_that_are_no_keys() -> None:
    rows = [{"dest": "MIA", "tags": ["a"], "n": 1}, {"tags": ["b"], "n": 2}]
    result = Result({"out": [record(row) for row in rows], "empty": []})
    assert result.latest("out", "dest") == {"MIA": rows[0], None: rows[1]}
    assert result.latest("empty", "dest") == {}
    with pytest.raises(UsageError, match="no row of 'out' has a column 'dset'; did you mean 'dest'"):
        result.latest("out", "n", "dset")
    for columns in (["tags"], ["n", "tags"]):
        with pytest.raises(UsageError, match=r"'out' has arrays or objects in .*tags, which can't be keys"):
            result.latest("out", *columns)


def copying() -> Job:
    job = Job("j")
    job.read("flights", schema="n int").write("out")
    return job


@pytest.mark.parametrize(
    ("inputs", "options", "error", "said"),
    [
        ({"fligths": []}, {}, UsageError, "doesn't read the input 'fligths'; did you mean 'flights'"),
        ({}, {}, UsageError, "reads 'flights' .*and the test has no input"),
        ({"flights": {"n": 1}}, {}, UsageError, "not a list of rows"),
        ({"flights": []}, {"partitions": {"out": 2}}, UsageError, "partitions are given for 'out'"),
        ({"flights": []}, {"max_rows": 7}, ConfigError, "unknown setting 'job.max_rows'"),
        ({"flights": []}, {"config": "nowhere.toml"}, NotFoundError, "no configuration file nowhere.toml"),
    ],
)
def test_what_cannot_be_run(inputs: Any, options: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        run(copying(), inputs, **options)


def test_a_folder_that_is_not_empty(tmp_path: Any) -> None:
    (tmp_path / "mine").touch()
    with pytest.raises(UsageError, match="isn't empty"):
        run(copying(), {"flights": []}, folder=tmp_path)


def test_on_a_broker_all_streams_of_a_job_have_topics_of_the_runs_own() -> None:
    job = Job("delays")
    job.read("flights", key="k string", schema="n int").partition_by("n").write("out")
    kafka = KafkaSettings(
        bootstrap_servers="theirs:9092",
        security_protocol="SASL_SSL",
        sasl_username="ada",
        client={"bootstrap.servers": "theirs:9093", "linger.ms": "5"},
    )
    streams = {"flights": StreamSettings(system="embedded", format="string"), "other": StreamSettings(system="kafka")}
    settings = Settings(systems=SystemsSettings(kafka=kafka), streams=streams)
    found = brokers.settings_on("here:1", settings, Names("run-1"), job.graph)
    assert {stream: (bound.system, bound.topic, bound.format) for stream, bound in found.streams.items()} == {
        "flights": ("kafka", "run-1-flights", "string"),
        "flights-dead-letters": ("kafka", "run-1-flights-dead-letters", "json"),
        "run-1-delays-by-n-1": ("kafka", "run-1-delays-by-n-1", "json"),
        "run-1-delays-by-n-1-dead-letters": ("kafka", "run-1-delays-by-n-1-dead-letters", "json"),
        "out": ("kafka", "run-1-out", "json"),
        "out-dead-letters": ("kafka", "run-1-out-dead-letters", "json"),
    }
    assert found.systems.default == "kafka"
    there = found.systems.kafka
    assert (there.bootstrap_servers, there.security_protocol, there.sasl_username) == ("here:1", "SASL_SSL", "ada")
    assert there.client["linger.ms"] == "5"
    assert "bootstrap.servers" not in there.client


def test_on_a_broker_an_input_with_a_pattern_is_one_topic() -> None:
    """Its unique name would hardly match."""
    job = Job("delays")
    job.read("flights", schema="n int").write("out")
    settings = Settings(streams={"flights": StreamSettings(pattern="flights-.*", format="string")})
    found = brokers.settings_on("here:1", settings, Names("run-1"), job.graph)
    assert found.patterns == {}
    flights = found.streams["flights"]
    assert (flights.topic, flights.format) == ("run-1-flights", "string")
    assert StreamSettings(**flights.model_dump(exclude_unset=True)) == flights


def test_names_on_a_broker_are_new_for_each_run_and_come_back_as_they_were() -> None:
    one, other = Names.new(), Names.new()
    assert one != other
    assert one.here(f"job {one.there('delays')} can't read {one.there('delays-by-n-1')}") == (
        "job delays can't read delays-by-n-1"
    )
    with pytest.raises(UsageError, match=r"^topic flights is gone\n  make flights$"), brokers.names_back(one):
        raise UsageError(f"topic {one.there('flights')} is gone", f"make {one.there('flights')}")


def test_a_test_writes_no_table(tmp_path: Path) -> None:
    (tmp_path / "anabranch.toml").write_text('[outputs.orders]\nto = "parquet"\npath = "x"\n')
    settings = running.settings_of(Job("shop"), tmp_path / "anabranch.toml", {}, tmp_path, None)
    assert settings.outputs == {}


@pytest.mark.parametrize(
    ("system", "jars", "default"),
    [("embedded", False, "embedded"), ("embedded", True, "kafka"), ("kafka", False, "kafka"), ("kafka", True, "kafka")],
)
def test_a_session_has_the_connector_where_its_jars_are_here_or_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: Any, jars: bool, default: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(session.running_context, "is_there", lambda: False)
    monkeypatch.setattr(session.session, "start", lambda settings: settings)
    (tmp_path / "spark-sql-kafka-0-10_2.13-4.2.0.jar").touch()
    kafka = KafkaSettings(jars=tmp_path if jars else None)
    started: Any = session.shared(Settings(systems=SystemsSettings(default=system, kafka=kafka)))
    assert started.systems == SystemsSettings(default=default, kafka=kafka)  # type: ignore[arg-type]


@pytest.mark.parametrize("before", [None, "", "/theirs"])
def test_only_the_sessions_java_gets_this_processs_module_path(
    monkeypatch: pytest.MonkeyPatch, before: str | None
) -> None:
    """Other processes that a test starts may run another Python."""
    if before is None:
        monkeypatch.delenv("PYTHONPATH", raising=False)
    else:
        monkeypatch.setenv("PYTHONPATH", before)
    monkeypatch.setattr(session.running_context, "is_there", lambda: False)
    monkeypatch.setattr(session.session, "start", lambda settings: os.environ["PYTHONPATH"].split(os.pathsep))
    folders = [path for path in sys.path if os.path.isdir(path)]
    started: Any = session.shared(Settings())
    assert started == ([before, *folders] if before else folders)
    assert os.environ.get("PYTHONPATH") == before


def test_a_session_that_does_not_start_leaves_the_module_path(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(settings: Settings) -> None:
        raise ConfigError("no session", "")

    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.setattr(session.running_context, "is_there", lambda: False)
    monkeypatch.setattr(session.session, "start", fails)
    with pytest.raises(ConfigError, match="no session"):
        session.shared(Settings())
    assert "PYTHONPATH" not in os.environ


def test_a_folder_without_jars_is_told_only_to_those_who_use_kafka(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session.running_context, "is_there", lambda: False)
    monkeypatch.setattr(session.session, "start", lambda settings: settings)
    systems = SystemsSettings(kafka=KafkaSettings(jars=tmp_path))
    started: Any = session.shared(Settings(systems=systems))
    assert started.systems.default == "embedded"


@pytest.mark.parametrize("format_", ["avro", "confluent", "protobuf"])
def test_a_dict_is_no_value_of_a_format_with_a_schema(format_: str) -> None:
    encoder = Encoder("flights", [], 1, format_)
    with pytest.raises(UsageError, match=f"it is a dict, and the stream's format is '{format_}'"):
        encoder.encode(0, {"carrier": "AA"})
    assert encoder.encode(0, b"\x01").value == b"\x01"
