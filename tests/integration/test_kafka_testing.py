"""``anabranch.testing`` on a real broker: the same results as on the embedded log, and nothing left behind."""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from anabranch import Job, tumbling
from anabranch.errors import AnabranchError, JobFailedError, UsageError
from anabranch.systems.kafka.broker import Cluster
from anabranch.testing import BATCH, KILL, Message, Result, run

pytestmark = pytest.mark.usefixtures("spark")

PATIENCE = 60.0
STREAMS = "late-flights", "delays-by-dest-1", "by-dest"


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
    """The values of each key, in order, with its partition."""
    found: dict[tuple[int, bytes | None], list[Any]] = defaultdict(list)
    for record in result.records(stream):
        found[record.partition, record.key].append(record.value)
    return dict(found)


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


def test_windows_behind_a_partition_by_are_exact_when_the_job_is_killed(broker: str) -> None:
    rows: list[Any] = [{**flight(n), "n": n, "at": f"2013-01-01T{n // 4:02}:{n % 4 * 15:02}:00Z"} for n in range(40)]
    inputs = {"flights": [*rows[:25], KILL, *rows[25:]]}
    here = run(hourly(), inputs, partitions=1, max_rows_per_batch=10)
    there = run(hourly(), inputs, partitions=1, max_rows_per_batch=10, broker=broker)
    assert set(there.streams) == set(here.streams) == {"delays-by-dest-1", "fifths", "hours", "flights-dead-letters"}
    for stream in there.streams:
        assert by_key(there, stream) == by_key(here, stream)
    assert len(there["hours"]) == 18, "the last hour is open"
    assert len(there["delays-by-dest-1"]) == 40
    (pending,) = there.kills
    assert len(pending) == 3
    assert all(each.batch == each.committed + 1 for each in pending)


def test_state_goes_on_after_each_part(broker: str) -> None:
    job = Job("sums")
    job.read("in", key="k string", schema="n int").agg(sum="sum(n)").write("out")
    rows = [{"k": "a", "n": 1}, {"k": "b", "n": 2}, BATCH, {"k": "a", "n": 3}, KILL, {"k": "b", "n": 4}]
    assert by_key(run(job, {"in": rows}, broker=broker), "out") == by_key(run(job, {"in": rows}), "out")


def test_dead_letters_name_the_job_and_the_stream_as_the_test_does(broker: str) -> None:
    job = Job("dividing")
    job.read("in", schema="n int").partition_by("n").map(lambda m: {"n": 1 // m["n"]}, name="f").write("out")
    rows = [{"n": 1}, KILL, "no JSON", {"n": 0}, {"n": 1}]
    here = run(job, {"in": rows}, on_error="dead-letter", partitions=1)
    there = run(job, {"in": rows}, on_error="dead-letter", partitions=1, broker=broker)
    assert there["out"] == here["out"] == [{"n": 1}, {"n": 1}]
    for stream in ("in-dead-letters", "dividing-f-1-dead-letters", "dividing-by-n-1-dead-letters"):
        if stream in here.streams:
            told = [
                [(r.value, {k: v for k, v in r.headers if k != "anabranch.offset"}) for r in each.records(stream)]
                for each in (here, there)
            ]
            assert told[0] == told[1]
            assert len(told[0]) == 1
    assert len(here.streams) == 4


def test_what_fails_says_so_in_the_names_of_the_test_and_leaves_nothing(broker: str) -> None:
    before = left(broker)
    job = Job("failing")
    job.read("in", schema="n int").map(lambda message: {"n": 1 // message["n"]}).write("out")
    with pytest.raises(JobFailedError, match=r"^job failing failed: lane .*ZeroDivisionError") as error:
        run(job, {"in": [{"n": 0}]}, broker=broker)
    assert "anabranch-test" not in str(error.value)
    assert left(broker) == before
