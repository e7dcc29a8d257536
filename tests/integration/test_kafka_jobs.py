"""Jobs on a real broker: each output's promise, keys and headers, and what goes wrong with topics and records."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from anabranch import Job, Processor, Stream, Timers, ValueState
from anabranch.config import StreamSettings
from anabranch.model.hashing import partition_for
from anabranch.spark.query.publishing import Publishing
from tests.integration.harness import KafkaSite
from tests.integration.serving import until
from tests.support import kafka_peers

TEXTS = [b"", b"plain", b"\x00\x01\x7f", "ключ".encode(), "鍵🔑".encode()]
"""Keys that can be typed: other bytes don't go through a console."""
KEYS = [*TEXTS, b"\x00\xff\xfe"]


def filtering(kafka: KafkaSite, source: str, output: str = "out") -> Job:
    job = Job(f"{kafka.name}-filter")
    job.read(source, schema="n int").where("n % 2 = 0").write(f"{kafka.name}-{output}")
    return job


def numbers(kafka: KafkaSite, stream: str) -> list[int]:
    return [value["n"] for value in kafka.values(stream)]


def test_each_record_once_run_after_run(kafka: KafkaSite) -> None:
    source = kafka.create("in", 2)
    run = kafka.deployed(filtering(kafka, source), max_rows_per_batch=30)
    for first in (0, 100):
        for partition in (0, 1):
            rows = range(first + partition, first + 100, 2)
            kafka.put(source, partition, [{"n": n} for n in rows], [b"k%d" % partition] * 50)
        run.ran()
    assert sorted(numbers(kafka, f"{kafka.name}-out")) == list(range(0, 200, 2))
    ends = kafka.system.high_watermarks(f"{kafka.name}-out")
    admin = AdminClient({"bootstrap.servers": kafka.system.settings.bootstrap_servers})
    told = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(f"{kafka.name}-filter.0")])
    held = {each.partition: each.offset for each in told[f"{kafka.name}-filter.0"].result().topic_partitions}
    assert held == {0: 100, 1: 100}
    run.ran()
    assert run.rows_read() == 0
    assert kafka.system.high_watermarks(f"{kafka.name}-out") == ends


def test_a_first_batch_runs_again_where_it_began_though_a_power_cut_has_emptied_spark_s_note_of_that(
    kafka: KafkaSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = kafka.create("in", 1)
    kafka.put(source, 0, [{"n": n} for n in range(4)], [b"k"] * 4)
    run = kafka.deployed(filtering(kafka, source))
    with monkeypatch.context() as patch:
        patch.setattr(Publishing, "finish", lambda *_: 1 / 0)
        run.failure()
    folder = run.folder(run.lanes[0])
    begin = Path(folder.uri, "sources/0/0")
    assert folder.pending
    assert begin.stat().st_size
    begin.write_bytes(b"")
    run.ran()
    assert numbers(kafka, f"{kafka.name}-out") == [0, 2]


def branched(job: Job, source: str, kafka: KafkaSite) -> list[str]:
    """A function in one of two branches: their rows are computed apart, and are of the same slots."""
    read = job.read(source, key="k string", schema="n int")
    read.map(_as_it_is, name="mapped").write(f"{kafka.name}-mapped")
    read.where("n >= 0").write(f"{kafka.name}-plain")
    read.where("n >= 0").partition_by("n", name="by-n").map(_as_it_is, name="again").write(f"{kafka.name}-far")
    return ["mapped", "plain", "far"]


def merged(job: Job, source: str, kafka: KafkaSite) -> list[str]:
    """Branches of one input that come together again."""
    read = job.read(source, key="k string", schema="n int")
    some, others = read.where("n % 4 < 2"), read.where("n % 4 >= 2")
    some.map(_as_it_is, name="mapped").merge(others).write(f"{kafka.name}-out")
    return ["out"]


def after_state(job: Job, source: str, kafka: KafkaSite) -> list[str]:
    """Branches behind a state, whose parts are the slots."""
    counted = job.read(source, key="k string", schema="n int").agg(by=["n"], c="count(*)", name="counts")
    counted.map(_as_it_is, name="mapped").write(f"{kafka.name}-mapped")
    counted.where("c > 0").write(f"{kafka.name}-plain")
    return ["mapped", "plain"]


def _as_it_is(message: dict[str, Any]) -> dict[str, Any]:
    return message


@pytest.mark.parametrize(
    ("build", "factor"),
    [
        pytest.param(branched, 4, marks=pytest.mark.long),
        (merged, 1),
        pytest.param(after_state, 1, marks=pytest.mark.long),
    ],
)
def test_branches_lose_nothing(
    kafka: KafkaSite, build: Callable[[Job, str, KafkaSite], list[str]], factor: int
) -> None:
    """With three partitions, above factor 1, the second one's records are in two Spark tasks."""
    source = kafka.create("in", 3)
    job = Job(f"{kafka.name}-{build.__name__}")
    outputs = build(job, source, kafka)
    run = kafka.deployed(job, max_rows_per_batch=30, factor=factor)
    for partition in range(3):
        keys = [b"k%d" % (3 * (n % 5) + partition) for n in range(40)]
        kafka.put(source, partition, [{"n": n} for n in range(partition, 120, 3)], keys)
    run.ran()
    for output in outputs:
        found = kafka.values(f"{kafka.name}-{output}")
        assert sorted(value["n"] for value in found) == list(range(120)), output


@pytest.mark.long
def test_stages_state_and_windows(kafka: KafkaSite) -> None:
    source = kafka.create("in", 2)
    job = Job(f"{kafka.name}-stages")
    read = job.read(source, key="k string", schema="n int, at timestamp", event_time="at", watermark="1 minute")
    read.agg(c="count(*)", s="sum(n)", name="running").write(f"{kafka.name}-running")
    from anabranch import tumbling

    by_n = read.with_columns(m="n % 3").partition_by("m", name="by-m")
    by_n.window(tumbling("1 hour")).agg(c="count(*)", name="hourly").write(f"{kafka.name}-hourly")
    run = kafka.deployed(job, max_rows_per_batch=25)
    for part in (0, 1):
        for partition in (0, 1):
            rows = [{"n": n, "at": f"2026-01-0{1 + part}T{n % 24:02}:10:00Z"} for n in range(48)]
            rows.sort(key=lambda row: str(row["at"]))
            kafka.put(source, partition, rows, [b"k%d" % partition] * 48)
        run.ran()
    last: dict[str, tuple[int, int]] = {}
    for value in kafka.values(f"{kafka.name}-running"):
        last[value["k"]] = (value["c"], value["s"])
    assert last == dict.fromkeys(["k0", "k1"], (96, 2 * sum(range(48))))
    hours = Counter((value["m"], value["window_start"]) for value in kafka.values(f"{kafka.name}-hourly"))
    assert set(hours.values()) == {1}
    assert sum(value["c"] for value in kafka.values(f"{kafka.name}-hourly")) == 2 * 96 - 4 * 2 // 2


@pytest.mark.parametrize("delivery", ["exactly-once", pytest.param("at-least-once", marks=pytest.mark.long)])
def test_keys_headers_and_nulls(kafka: KafkaSite, delivery: Any) -> None:
    """Both outputs put a key where the broker's own console producer does: by murmur2."""
    source, output = kafka.create("in", 3), f"{kafka.name}-out"
    kafka.put(source, 0, [b"v"] * len(KEYS), KEYS)
    plain = Producer({"bootstrap.servers": kafka.system.settings.bootstrap_servers})
    plain.produce(source, b"h", b"with", partition=1, headers=[("a", b"1"), ("a", None), ("b", "ü".encode())])
    plain.produce(source, None, b"null", partition=1)
    plain.produce(source, b"keyless", None, partition=2)
    plain.flush()
    job = Job(f"{kafka.name}-copy")
    job.read(source).write(output)
    settings = kafka.settings({source: "raw", output: "raw"})
    bound = StreamSettings(format="raw", delivery=delivery)
    kafka.deployed(job, settings.model_copy(update={"streams": {**settings.streams, output: bound}})).ran()

    console = kafka.create("console", 3)
    kafka_peers.said_to_the_console(kafka.system.settings.bootstrap_servers, console, [k.decode() for k in TEXTS])
    put = {r["key"]: p for p in range(3) for r in kafka.records(console, p)}
    assert put == {key: partition_for(key, 3) for key in TEXTS}

    found = [(p, r) for p in range(3) for r in kafka.records(output, p)]
    assert {r["key"]: p for p, r in found if r["key"] in KEYS} == {key: partition_for(key, 3) for key in KEYS}
    by_key = {r["key"]: r for _, r in found}
    assert len(found) == len(by_key) == len(KEYS) + 3
    assert by_key[b"null"]["value"] is None
    assert by_key[None]["value"] == b"keyless"
    headers = [(each["key"], each["value"]) for each in by_key[b"with"]["headers"]]
    assert headers == [("a", b"1"), ("a", None), ("b", "ü".encode())]


def test_what_cannot_be_read_or_processed_is_put_aside_once(kafka: KafkaSite) -> None:
    source = kafka.create("in", 2)
    kafka.put(source, 0, [{"n": 1}, b"{broken", {"n": 0}, {"n": 2}], [b"a", b"b", b"c", b"d"])
    kafka.put(source, 1, [b"worse"], [b"e"])
    job = Job(f"{kafka.name}-aside")
    job.read(source, schema="n int").map(lambda m: {"n": 4 // m["n"]}, name="f").write(f"{kafka.name}-out")
    run = kafka.deployed(job, on_error="dead-letter")
    run.ran()
    assert sorted(numbers(kafka, f"{kafka.name}-out")) == [2, 4]
    letters = kafka.all_records(f"{source}-dead-letters")
    said = {r["key"]: {h["key"]: h["value"].decode() for h in r["headers"]} for r in letters}
    assert len(letters) == len(said) == 3
    assert said[b"c"]["anabranch.error"].startswith("ZeroDivisionError")
    assert (said[b"e"]["anabranch.partition"], said[b"e"]["anabranch.offset"]) == ("1", "0")
    assert sum(report.progress.dead_letters for report in run.reports.values()) == 3


class Divides(Processor):
    """Divides by each message's number, which may be 0."""

    last = ValueState("int")

    def on_message(self, message: dict[str, Any], timers: Timers) -> Iterator[dict[str, Any]]:
        self.last.set(message["n"])
        yield {"k": message["k"], "n": 4 // message["n"]}


def test_what_a_stateful_operator_cannot_process_is_put_aside_together_with_null_keys(kafka: KafkaSite) -> None:
    """All of it is in one slot, which can be written only once in a batch."""
    source, output = kafka.create("in", 1), f"{kafka.name}-out"
    kafka.put(source, 0, [{"n": 1}, {"n": 0}, {"n": 2}, {"n": 4}], [b"a", b"b", None, b"c"])
    job = Job(f"{kafka.name}-divides")
    job.read(source, key="k string", schema="n int").process(Divides(), name="divides").write(output)
    run = kafka.deployed(job, on_error="dead-letter", on_null_key="dead-letter")
    run.ran()
    assert sorted(numbers(kafka, output)) == [1, 4]
    letters = kafka.all_records(f"{source}-dead-letters")
    assert sorted(record["value"] for record in letters) == [b'{"n": 0}', b'{"n": 2}']
    assert sum(report.progress.dead_letters for report in run.reports.values()) == 2


def test_a_record_larger_than_the_topic_takes_fails_the_lane_and_is_not_passed_over(kafka: KafkaSite) -> None:
    source, output = kafka.create("in", 1), f"{kafka.name}-out"
    run = kafka.deployed(filtering(kafka, source))
    _limit(kafka, output, 2000)
    kafka.put(source, 0, [b'{"n": 2}', b'{"n": 4}'], [b"k", random.Random(1).randbytes(5000)])
    told = run.failure()
    assert "max.message.bytes" in told
    assert output in told
    assert numbers(kafka, output) == []
    _limit(kafka, output, 20000)
    run.ran()
    assert numbers(kafka, output) == [2, 4]


@pytest.mark.long
def test_a_dead_letter_that_is_larger_than_its_topic_takes_is_cut(kafka: KafkaSite) -> None:
    """It has more headers than the record, which may be as large as the topic takes."""
    source = kafka.create("in", 1)
    values = [b'{"n": 2}', b"x" * 2000, b"y", b'{"n": 4}']
    kafka.put(source, 0, values, [b"k"] * 4)
    run = kafka.deployed(filtering(kafka, source), on_error="dead-letter")
    _limit(kafka, f"{source}-dead-letters", 2000)
    run.ran()
    assert numbers(kafka, f"{kafka.name}-out") == [2, 4]
    large, small = kafka.records(f"{source}-dead-letters", 0)
    told = {header["key"]: header["value"] for header in large["headers"]}
    assert told["anabranch.cut"] == b"the value had 2000 bytes; the whole record is where it was"
    assert (told["anabranch.offset"], small["value"]) == (b"1", b"y")
    assert 1000 < len(large["value"]) < 2000


def _limit(kafka: KafkaSite, topic: str, size: int) -> None:
    entry = ConfigEntry("max.message.bytes", str(size), incremental_operation=AlterConfigOpType.SET)
    admin = AdminClient({"bootstrap.servers": kafka.system.settings.bootstrap_servers})
    altered = admin.incremental_alter_configs([ConfigResource("topic", topic, incremental_configs=[entry])])
    for each in altered.values():
        each.result()


def test_a_topic_that_was_made_again_is_refused(kafka: KafkaSite) -> None:
    source = kafka.create("in", 1)
    kafka.put(source, 0, [{"n": 2}], [b"k"])
    run = kafka.deployed(filtering(kafka, source))
    run.ran()
    admin = AdminClient({"bootstrap.servers": kafka.system.settings.bootstrap_servers})
    for each in admin.delete_topics([source], operation_timeout=10).values():
        each.result()
    while source in kafka.system.streams():
        pass
    kafka.create("in", 1)
    kafka.put(source, 0, [{"n": 4}, {"n": 6}], [b"k", b"k"])
    assert f"stream kafka/{source} isn't the one that lane" in run.failure()
    assert numbers(kafka, f"{kafka.name}-out") == [2]


def test_a_topic_that_is_made_again_while_the_job_runs_fails_the_lane(kafka: KafkaSite) -> None:
    """Even if it is longer than the former one by the time the lane looks for more: its first records aren't skipped in
    silence.
    """
    source = kafka.create("in", 1)
    kafka.put(source, 0, [{"n": 2}], [b"k"])
    run = kafka.deployed(filtering(kafka, source))
    admin = AdminClient({"bootstrap.servers": kafka.system.settings.bootstrap_servers})
    with run.running(to="failed") as reports:
        until(lambda: all(report.progress.batch >= 0 for report in reports().values()))
        for each in admin.delete_topics([source], operation_timeout=10).values():
            each.result()
        while source in kafka.system.streams():
            pass
        kafka.create("in", 1)
        kafka.put(source, 0, [{"n": n} for n in range(100)], [b"k"] * 100)
        until(lambda: all(report.phase == "failed" for report in reports().values()))
    (report,) = run.reports.values()
    assert f"stream kafka/{source} isn't the one that lane" in (report.error or "")


def test_records_that_are_gone_before_they_were_read_fail_the_lane(kafka: KafkaSite) -> None:
    source = kafka.create("in", 1)
    kafka.put(source, 0, [{"n": 2}], [b"k"])
    run = kafka.deployed(filtering(kafka, source))
    run.ran()
    kafka.put(source, 0, [{"n": n} for n in range(4, 12, 2)], [b"k"] * 4)
    kafka.system.purge(source, {0: 3})
    told = run.failure()
    assert f"kafka/{source}/0" in told
    assert "offsets 1 to 2 are gone" in told
    assert "on_data_loss" in told

    settings = kafka.settings()
    bound = settings.model_copy(update={"streams": {source: StreamSettings(on_data_loss="earliest")}})
    run.settings = bound
    run.ran()
    assert numbers(kafka, f"{kafka.name}-out") == [2, 8, 10]


@pytest.mark.long
def test_a_batch_that_takes_longer_than_a_transaction_may_is_made_smaller(kafka: KafkaSite) -> None:
    source = kafka.create("in", 1)
    kafka.put(source, 0, [{"n": n} for n in range(40)], [b"k"] * 40)
    job = Job(f"{kafka.name}-slow")

    def slow(message: dict[str, Any]) -> dict[str, Any]:

        time.sleep(0.15)
        return message

    # Batches of one Arrow batch: the transaction is open from its first row on.
    job.read(source, schema="n int").map(slow, name="slow").write(f"{kafka.name}-out")
    settings = kafka.settings()
    short = settings.systems.kafka.model_copy(update={"transaction_timeout": "1 second"})
    systems = settings.systems.model_copy(update={"kafka": short})
    kafka.spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "1")
    try:
        kafka.deployed(job, settings.model_copy(update={"systems": systems})).ran()
    finally:
        kafka.spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert numbers(kafka, f"{kafka.name}-out") == list(range(40))


@pytest.mark.long
def test_keys_that_another_partitioner_has_placed_are_told(kafka: KafkaSite) -> None:
    source = kafka.create("in", 2)
    at_home = next(key for key in (b"a", b"b", b"c", b"d") if partition_for(key, 2) == 0)
    job = Job(f"{kafka.name}-odd")
    job.read(source, key="k string", schema="n int").agg(c="count(*)", name="counts").write(f"{kafka.name}-out")
    run = kafka.deployed(job)
    kafka.put(source, 0, [{"n": 1}], [at_home])
    (report,) = run.ran().values()
    assert report.warnings == ()
    kafka.put(source, 1, [{"n": 1}], [at_home])
    (report,) = run.ran().values()
    (warning,) = report.warnings
    told = "the key of the record at offset 0 of partition 1 would be in 0 of 2"
    assert f"kafka/{source} isn't partitioned by murmur2: {told}" in warning
    assert at_home.hex() not in warning


def straight(rows: Stream) -> Stream:
    return rows


def mixed(rows: Stream) -> Stream:
    return rows.transform(lambda frame: frame.repartition(3))


@pytest.mark.parametrize(("way", "factor"), [(straight, 4), (mixed, 1)])
@pytest.mark.long
def test_what_several_spark_tasks_put_aside_of_one_partition_is_there_once(
    kafka: KafkaSite, way: Callable[[Stream], Stream], factor: int
) -> None:
    """And before the output that it is left out of: the first run fails when it writes that."""
    source, output = kafka.create("in", 1), f"{kafka.name}-out"
    job = Job(f"{kafka.name}-{way.__name__}")
    read = way(job.read(source, key="k string", schema="n int, s string"))
    doubled = read.map(_unless(3), name="first").map_arrow(_twice, name="twice")
    doubled.map(_unless(7), name="second").write(output)
    run = kafka.deployed(job, on_error="dead-letter", factor=factor)
    _limit(kafka, output, 2000)
    rows = [{"n": n, "s": "" if n < 190 else random.Random(n).randbytes(3000).hex()} for n in range(200)]
    kafka.put(source, 0, rows, [b"k%d" % (n % 11) for n in range(200)])
    assert "max.message.bytes" in run.failure()
    assert (len(kafka.all_records(f"{source}-dead-letters")), kafka.values(output)) == (60, [])
    _limit(kafka, output, 2_000_000)
    run.ran()
    letters = Counter(json.loads(record["value"])["n"] for record in kafka.all_records(f"{source}-dead-letters"))
    assert letters == {n: 1 if n % 10 == 3 else 2 for n in range(200) if n % 10 in (3, 7)}
    assert run.reports[run.lanes[0].id].progress.dead_letters == 60
    found: dict[str, list[int]] = {}
    for value in kafka.values(output):
        found.setdefault(value["k"], []).append(value["n"])
    wanted = {f"k{k}": [n for n in range(k, 200, 11) if n % 10 not in (3, 7) for _ in (1, 2)] for k in range(11)}
    assert (found if way is straight else {k: sorted(each) for k, each in found.items()}) == wanted


def _unless(digit: int) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def checked(message: dict[str, Any]) -> dict[str, Any]:
        if message["n"] % 10 == digit:
            raise ValueError(message["n"])
        return message

    return checked


def _twice(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.take(pa.array([place for place in range(rows.num_rows) for _ in (1, 2)]))


@pytest.mark.long
def test_at_least_once_records_of_a_key_stay_in_order_above_factor_1(kafka: KafkaSite) -> None:
    source, output = kafka.create("in", 1), f"{kafka.name}-out"
    job = Job(f"{kafka.name}-ordered")
    job.read(source, key="k string", schema="n int").map(_as_it_is, name="mapped").write(output)
    settings = kafka.settings(factor=8, max_rows_per_batch=5000)
    bound = StreamSettings(delivery="at-least-once")
    run = kafka.deployed(job, settings.model_copy(update={"streams": {output: bound}}))
    kafka.put(source, 0, [{"n": n} for n in range(12_000)], [b"k%d" % (n * 7 % 101) for n in range(12_000)])
    run.ran()
    found: dict[str, list[int]] = {}
    for value in kafka.values(output):
        found.setdefault(value["k"], []).append(value["n"])
    assert found == {f"k{k}": [n for n in range(12_000) if n * 7 % 101 == k] for k in range(101)}


@pytest.mark.parametrize("trigger", ["micro-batch", "real-time"])
@pytest.mark.suite(cases=1)
def test_a_lane_without_markers_goes_on(kafka: KafkaSite, trigger: str) -> None:
    """One whose outputs are all at least once, and which puts nothing aside, has none to look for, nor to fence."""
    source, output = kafka.create("in", 1), f"{kafka.name}-out"
    settings = kafka.settings({source: "raw", output: "raw"}, trigger=trigger, on_error="drop")
    bound = StreamSettings(format="raw", delivery="at-least-once")
    job = Job(f"{kafka.name}-job")
    job.read(source).write(output)
    run = kafka.deployed(job, settings.model_copy(update={"streams": {**settings.streams, output: bound}}))
    for number in (1, 2):
        kafka.put(source, 0, [f"{number}".encode()])
        (report,) = run.run().values()
        assert report.phase == "ended", report.error
    assert [record["value"] for record in kafka.all_records(output)] == [b"1", b"2"]
