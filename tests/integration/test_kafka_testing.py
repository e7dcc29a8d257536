"""``anabranch.testing`` on a real broker: the same results as on the embedded log, and nothing left behind."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from anabranch import Job, tumbling
from anabranch.errors import AnabranchError, ConfigError, JobFailedError, UsageError
from anabranch.spark.internals import class_path
from anabranch.testing import KILL, Message, Result, run
from anabranch.testing.broker import Cluster

pytestmark = pytest.mark.usefixtures("spark")

PATIENCE = 200.0


@pytest.fixture
def broker(cluster: Cluster) -> str:
    return cluster.bootstrap_servers


def left(broker: str) -> tuple[set[str], set[str]]:
    """The topics and the consumer groups that are there."""
    admin = AdminClient({"bootstrap.servers": broker})
    listed = admin.list_consumer_groups().result(PATIENCE)
    assert not listed.errors
    topics = admin.list_topics(timeout=PATIENCE).topics
    return {name for name in topics if not name.startswith("__")}, {each.group_id for each in listed.valid}


def by_key(result: Result, stream: str) -> dict[tuple[int, bytes | None], list[Any]]:
    """The values of each key, in order, with its partition. Windows that close together come in any order."""
    found: dict[tuple[int, bytes | None], list[Any]] = defaultdict(list)
    for record in result.records(stream):
        found[record.partition, record.key].append(record.value)
    if stream != "hours":
        return dict(found)
    return {key: sorted(values, key=lambda value: str(value["window_start"])) for key, values in found.items()}


def flight(number: int) -> dict[str, Any]:
    return {"tailnum": f"N{number % 3}", "dest": "MIA" if number % 2 else "SFO", "dep_delay": number}


def late() -> Job:
    job = Job("delays")
    flights = job.read("flights", key="tailnum string", schema="dest string, dep_delay int")
    flights.where("dep_delay >= 5").write("late-flights")
    return job


def test_records_come_out_as_from_the_embedded_log_and_nothing_is_left(broker: str) -> None:
    before = left(broker)
    rows = [*(flight(n) for n in range(20)), Message({"dest": "X", "dep_delay": 9}, key=None, headers={"a": "b"})]
    here, there = run(late(), {"flights": rows}), run(late(), {"flights": rows}, broker=broker)
    assert there.streams == here.streams
    assert by_key(there, "late-flights") == by_key(here, "late-flights")
    assert {r.headers for r in there.records("late-flights")} == {r.headers for r in here.records("late-flights")}
    assert left(broker) == before


def hourly() -> Job:
    job = Job("delays")
    schema = "dest string, n int, at timestamp"
    flights = job.read("flights", key="tailnum string", schema=schema, event_time="at", watermark="0 seconds")
    flights.where("n % 5 = 0").write("fifths")
    by_dest = flights.partition_by("dest")
    by_dest.window(tumbling("1 hour")).agg(n="count(*)", sum="sum(n)").write("hours")
    return job


@pytest.mark.long
def test_windows_behind_a_partition_by_are_exact_when_the_job_is_killed(broker: str) -> None:
    rows: list[Any] = [{**flight(n), "n": n, "at": f"2013-01-01T{n // 4:02}:{n % 4 * 15:02}:00Z"} for n in range(24)]
    inputs = {"flights": [*rows[:14], KILL, *rows[14:]]}
    here = run(hourly(), inputs, partitions=1, max_rows_per_batch=8, timeout=PATIENCE)
    there = run(hourly(), inputs, partitions=1, max_rows_per_batch=8, timeout=PATIENCE, broker=broker)
    assert set(there.streams) == set(here.streams) == {"delays-by-dest-1", "fifths", "hours", "flights-dead-letters"}
    for stream in there.streams:
        assert by_key(there, stream) == by_key(here, stream)
    assert len(there["hours"]) == 10, "the last hour is open"
    assert len(there["delays-by-dest-1"]) == 24
    (pending,) = there.kills
    assert len(pending) == len(here.kills[0]) == 2
    assert all(each.batch == each.committed + 1 for each in pending)


@pytest.mark.long
def test_dead_letters_name_the_job_and_the_stream_as_the_test_does(broker: str) -> None:
    job = Job("dividing")
    job.read("in", schema="n int").partition_by("n").map(lambda m: {"n": 1 // m["n"]}, name="f").write("out")
    inputs = {"in": [{"n": 1}, "no JSON", {"n": 0}, {"n": 1}]}
    here = run(job, inputs, on_error="dead-letter", partitions=1)
    there = run(job, inputs, on_error="dead-letter", partitions=1, broker=broker)
    assert there["out"] == here["out"] == [{"n": 1}, {"n": 1}]
    for stream in ("in-dead-letters", "dividing-by-n-1-dead-letters"):
        (letter,), (wanted,) = there.records(stream), here.records(stream)
        assert letter.value == wanted.value
        assert dict(letter.headers) == dict(wanted.headers)
        assert dict(letter.headers)["anabranch.job"] == b"dividing"


@pytest.mark.long
def test_what_fails_says_so_in_the_names_of_the_test_and_leaves_nothing(broker: str) -> None:
    before = left(broker)
    job = Job("failing")
    job.read("in", schema="n int").map(lambda message: {"n": 1 // message["n"]}).write("out")
    with pytest.raises(JobFailedError, match=r"^job failing failed: lane .*ZeroDivisionError") as error:
        run(job, {"in": [{"n": 0}]}, broker=broker)
    assert "anabranch-test" not in str(error.value)
    assert left(broker) == before


def test_what_goes_wrong_with_a_login_is_told_before_spark_starts(broker: str, tmp_path: Path) -> None:
    """The file's settings are kept, but for the address."""
    config = tmp_path / "anabranch.toml"
    config.write_text(
        '[systems.kafka]\nbootstrap_servers = "nowhere:1"\nsecurity_protocol = "SASL_PLAINTEXT"\n'
        'sasl_username = "ada"\nsasl_password = "${env:NO_SUCH_PASSWORD}"\n'
    )
    with pytest.raises(ConfigError, match=r"sasl_password refers to .*'NO_SUCH_PASSWORD', which isn't set"):
        run(late(), {"flights": []}, broker=broker, config=config)


def test_a_kill_needs_batches(tmp_path: Path) -> None:
    config = tmp_path / "anabranch.toml"
    config.write_text('[job]\ntrigger = "real-time"\n')
    with pytest.raises(UsageError, match=r'the inputs have a KILL, .* trigger is "real-time"'):
        run(late(), {"flights": [KILL]}, broker="localhost:1", config=config)


def test_a_session_without_the_connector_is_refused(broker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = left(broker)
    monkeypatch.setattr(class_path, "has_kafka_connector", lambda _: False)
    with pytest.raises(
        AnabranchError, match=r"session of this process has no Kafka connector(.|\n)*anabranch jars fetch"
    ):
        run(late(), {"flights": []}, broker=broker)
    assert left(broker) == before
