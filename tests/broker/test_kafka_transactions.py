"""Each batch of a slot is seen once by readers of committed records, whoever dies, freezes, wakes or alternates."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import Consumer, IsolationLevel, Producer, TopicPartition

from anabranch import crash_points
from anabranch.config import KafkaSettings
from anabranch.container import surroundings
from anabranch.errors import AnabranchError, ConfigError, StateError
from anabranch.model.hashing import partitions_for
from anabranch.systems.kafka import markers, transactions
from anabranch.systems.kafka.holder import Holder
from anabranch.systems.kafka.markers import Marker, Markers
from anabranch.systems.kafka.output import KafkaOutput
from anabranch.systems.kafka.transactions import SlotTransaction, SlotWriter, fence
from anabranch.systems.output import Target
from anabranch.systems.records import RECORD_SCHEMA
from tests.broker.slots import AT, PARTITIONS, PATIENCE, Place, fresh_process, marker, read, records, servers, spread

__all__ = ["fresh_process", "servers"]  # fixtures

pytestmark = pytest.mark.integration

# A Python worker: writes a batch for each line it reads, and kills itself at a step if it is told to.
WORKER = """
import json, os, signal, sys
from anabranch import crash_points
from anabranch.config import KafkaSettings
from anabranch.systems.kafka.transactions import SlotWriter
from tests.broker.slots import records, spread
for line in sys.stdin:
    told = json.loads(line)
    writer = SlotWriter(KafkaSettings(**told["settings"]), told["job"], told["lane"], "out", told["epoch"])
    def die(step, lane, batch):
        if step == told["die"]:
            os.kill(os.getpid(), signal.SIGKILL)
    try:
        with crash_points.watched(die), writer.open(0, told["batch"]) as transaction:
            done = transaction.done
            transaction.write(told["topic"], *spread(records(told["values"])))
            transaction.commit()
        print("done" if done else "committed", flush=True)
    except Exception as error:
        print(type(error).__name__, flush=True)
"""


def test_each_record_of_each_slot_is_seen_once(servers: str) -> None:
    place = Place(servers, slots=2)
    assert place.markers() == {slot: marker(place, slot, batch=-1) for slot in range(2)}
    for batch in range(3):
        for slot in range(2):
            assert not place.write(batch, [f"{slot}.{batch}.{i}" for i in range(10)], slot)
    assert place.seen() == sorted(f"{slot}.{batch}.{i}" for batch in range(3) for slot in range(2) for i in range(10))
    assert place.markers() == {slot: marker(place, slot, batch=2, rows=30) for slot in range(2)}


def test_a_record_arrives_as_it_was_given(servers: str) -> None:
    place = Place(servers)
    headers = [{"key": "a", "value": b"\x00"}, {"key": "a", "value": None}, {"key": "", "value": b""}]
    rows = [
        {"key": b"k", "value": b"v", "headers": headers, "timestamp": AT},
        {"key": None, "value": b"no key", "headers": None, "timestamp": AT},
        {"key": b"", "value": None, "headers": [], "timestamp": AT},
        {"key": b"\xff\x00", "value": b"", "headers": None, "timestamp": datetime(1970, 1, 1, tzinfo=UTC)},
        {"key": b"\xff\x00", "value": b"", "headers": None, "timestamp": datetime(1969, 12, 31, tzinfo=UTC)},
    ]
    for batch, some in enumerate([rows, [{**row, "headers": None} for row in rows]]):
        with place.writer().open(0, batch) as transaction:
            given = pa.RecordBatch.from_pylist(some, schema=RECORD_SCHEMA)
            transaction.write(place.topic, given, np.array([0, 2, 0, 1, 1]))
            transaction.commit()
    at = round(AT.timestamp() * 1000)
    assert read(place.settings, place.topic) == [
        (0, b"k", b"v", [("a", b"\x00"), ("a", None), ("", b"")], at),
        (0, b"", None, None, at),
        (0, b"k", b"v", None, at),
        (0, b"", None, None, at),
        *[(1, b"\xff\x00", b"", None, 1)] * 4,  # Kafka's clients take 0 for now, and Kafka has no earlier times
        (2, None, b"no key", None, at),
        (2, None, b"no key", None, at),
    ]


def test_keys_go_where_kafkas_default_partitioner_puts_them(servers: str) -> None:
    place = Place(servers)
    place.create(f"{place.topic}-theirs")
    keys = [b"", b"\x00", b"\xff\xfe\xfd", "Zürich 🚆".encode(), *(f"key {i}".encode() for i in range(200))]
    given = records([key.hex() for key in keys], keys)
    with place.writer().open(0, 0) as transaction:
        transaction.write(place.topic, given, partitions_for(given.column("key"), PARTITIONS))
        transaction.commit()
    theirs = Producer({"bootstrap.servers": servers, "partitioner": "murmur2_random"})
    for key in keys:
        theirs.produce(f"{place.topic}-theirs", key.hex(), key)
    assert theirs.flush(PATIENCE) == 0
    ours, others = (
        sorted((partition, key) for partition, key, *_ in read(place.settings, topic))
        for topic in (place.topic, f"{place.topic}-theirs")
    )
    assert ours == others
    assert len(ours) == len(keys)


def test_a_batch_that_was_committed_is_not_written_again(servers: str) -> None:
    place = Place(servers)
    place.write(4, ["a", "b"])
    wait(lambda: not place.held_up)
    ends = place.ends(IsolationLevel.READ_UNCOMMITTED)
    for batch in (4, 3):
        assert place.write(batch, ["a", "b"])
        transactions.close()  # as in another worker
        assert place.write(batch, ["a", "b"])
    assert place.ends(IsolationLevel.READ_UNCOMMITTED) == ends
    assert not place.write(5, ["c"])
    assert place.seen() == ["a", "b", "c"]


def test_a_slot_without_rows_commits_its_marker(servers: str) -> None:
    place = Place(servers)
    place.write(0, [])
    with place.writer().open(0, 1) as transaction:
        transaction.commit()
    assert place.markers() == {0: marker(place, 0, batch=1)}
    assert place.seen("read_uncommitted") == []


def test_what_was_aborted_is_never_seen_and_the_producer_is_kept(servers: str) -> None:
    place = Place(servers)
    place.write(0, ["a"])
    with crash_points.watched(not_opening):
        with place.opened(1, ["lost"]):
            assert place.held_up
        wait(lambda: not place.held_up)
        assert not place.write(1, ["b"])
    assert place.seen() == ["a", "b"]
    assert "lost" in place.seen("read_uncommitted")


def test_a_worker_that_dies_before_its_commit_leaves_nothing_and_holds_up_nobody(servers: str) -> None:
    place = Place(servers)
    with worker(place) as tell:
        assert tell(0, ["a"]) == "committed"
        assert tell(1, ["b", "c"], die=crash_points.PRODUCED) == ""
    assert place.held_up
    with place.writer().open(0, 1) as transaction:
        assert not transaction.done
        assert not place.held_up, "opening the id ends the dead worker's transaction"
        transaction.write(place.topic, *spread(records(["b", "c"])))
        transaction.commit()
    assert place.seen() == ["a", "b", "c"]
    assert place.seen("read_uncommitted") == ["a", "b", "b", "c", "c"]


def test_a_worker_that_dies_after_its_commit_has_written(servers: str) -> None:
    place = Place(servers)
    with worker(place) as tell:
        assert tell(0, ["a"], die=crash_points.TRANSACTED) == ""
    assert place.write(0, ["a"])
    assert place.seen() == ["a"]


@pytest.mark.long
def test_workers_that_take_turns_never_meet_a_producer_that_was_superseded(servers: str) -> None:
    place = Place(servers)
    with worker(place) as one, worker(place) as other:
        for batch, tell in enumerate([one, other, one, one, other, other, one]):
            assert tell(batch, [f"{batch}"]) == "committed"
            assert tell(batch, [f"{batch}"]) == "done"
    assert place.seen() == [str(batch) for batch in range(7)]


def test_a_kept_producer_is_not_opened_again(servers: str) -> None:
    place = Place(servers)
    place.write(0, ["a"])
    with crash_points.watched(not_opening):
        place.write(0, ["a"])
        place.write(1, ["b"])
    transactions.close()  # as in another worker
    assert place.write(1, ["b"])
    with crash_points.watched(not_opening):
        place.write(2, ["c"])
    assert place.seen() == ["a", "b", "c"]


def test_a_kept_producer_does_not_wait_for_the_transaction_of_a_dead_worker(servers: str) -> None:
    place = Place(servers)
    place.write(0, ["a"])
    dead = Holder(place.settings, f"anabranch.{place.job}.{place.lane}.out.0")
    dead.begin()
    with Markers(place.settings, place.job, place.lane, "out") as reader:
        pending = changed(place.markers()[0], batch=1, instance=dead.instance)
        dead.mark(reader, 0, pending, time.monotonic() + PATIENCE)
    began = time.monotonic()
    assert not place.write(1, ["b"])
    assert time.monotonic() - began < 10, "it waited for the end of the dead worker's transaction"
    assert place.seen() == ["a", "b"]


def test_a_lane_without_a_topic_of_markers_is_an_error(servers: str) -> None:
    settings = KafkaSettings(bootstrap_servers=servers)
    job = f"job-{uuid.uuid4().hex[:8]}"
    assert markers.markers(settings, job, "1-00000000", "out", range(2)) == {0: None, 1: None}
    with pytest.raises(StateError, match="slot 0 of lane 1-00000000"):
        fence(settings, job, "1-00000000", "out", range(1), 2, new=False)


def test_offsets_that_were_set_by_hand_are_refused(servers: str) -> None:
    place = Place(servers)
    group = markers.group_id("anabranch", place.job, place.lane, "out")
    with closing(Consumer({"bootstrap.servers": servers, "group.id": group})) as tool:
        tool.commit(offsets=[TopicPartition(f"{place.job}-markers", 0, 0)], asynchronous=False)
    with pytest.raises(StateError, match="is not a marker"):
        place.write(0, ["never"])


@pytest.mark.parametrize(
    ("size", "limit"), [(1_000_000, "the producer's limit of 1000000"), (5_000, "the topic takes")]
)
def test_a_record_that_is_too_large_is_named(servers: str, size: int, limit: str) -> None:
    place = Place(servers, client={"compression.type": "none"})
    place.create(f"{place.topic}-small", **{"max.message.bytes": "3000"})
    transaction = place.opened(0, ["never"])
    with pytest.raises(AnabranchError, match=f"a record of {size + 3} bytes .* key b'big', is larger than {limit}"):
        finish(transaction, f"{place.topic}-small", records(["x" * size], [b"big"]))
    wait(lambda: not place.held_up)
    assert not place.write(0, ["a"])
    assert place.seen() == ["a"]


def test_many_records_fit_a_topic_that_takes_only_small_batches(servers: str) -> None:
    place = Place(servers)
    place.create(f"{place.topic}-small", **{"max.message.bytes": "20000"})
    output = KafkaOutput(place.writer(), {"small": f"{place.topic}-small"})
    given, partitions = spread(records([random.Random(n).randbytes(1000).hex() for n in range(200)]))
    writer = output.writer(0, 0)
    writer.write(Target("small", PARTITIONS), 0, partitions, given)
    writer.close()
    assert len(read(place.settings, f"{place.topic}-small")) == 200


@pytest.mark.parametrize("count", [1, 9])
def test_timestamps_that_a_topic_refuses_are_waited_for(servers: str, count: int) -> None:
    place = Place(servers)
    place.create(f"{place.topic}-strict", **{"message.timestamp.before.max.ms": "3600000"})  # AT is long ago
    transaction = place.writer().open(0, 0)
    with pytest.raises(AnabranchError, match="the topic refuses timestamps or values of these records") as caught:
        finish(transaction, f"{place.topic}-strict", records(["never"] * count, [b"k"] * count))
    awaited = surroundings.awaited(str(caught.value))
    assert awaited is not None
    assert awaited.name == "timestamps that Kafka accepts"


def test_a_record_without_a_key_for_a_compacted_topic_is_not(servers: str) -> None:
    place = Place(servers)
    place.create(f"{place.topic}-compacted", **{"cleanup.policy": "compact"})
    with pytest.raises(AnabranchError, match="failed to validate record") as caught:
        finish(place.writer().open(0, 0), f"{place.topic}-compacted", records(["never"] * 9, [None] * 9))
    assert surroundings.awaited(str(caught.value)) is None


def test_an_unknown_topic_is_named(servers: str) -> None:
    place = Place(servers, client={"topic.metadata.propagation.max.ms": "500"})
    with pytest.raises(AnabranchError, match=r"writing to topic .*-missing failed, slot 0 of lane .*, batch 0"):
        finish(place.writer().open(0, 0), f"{place.topic}-missing", records(["never"]))


@pytest.mark.parametrize("during", ["the batch", "the batch, and more is written", "the commit"])
def test_a_transaction_that_took_too_long_is_explained(servers: str, during: str) -> None:
    place = Place(servers, transaction_timeout="1 second")

    def until_the_broker_aborts(step: str, lane: str, batch: int) -> None:
        if step == (crash_points.PRODUCED if during == "the commit" else ""):
            wait(lambda: not place.held_up)

    transaction = place.opened(0, ["never"])
    assert place.held_up
    if during != "the commit":
        wait(lambda: not place.held_up)
    told = 'took longer in slot 0 than transaction_timeout = "1 second"'
    with crash_points.watched(until_the_broker_aborts), pytest.raises(AnabranchError, match=told):
        finish(transaction, place.topic, records(["never"] if during.endswith("written") else []))
    assert not place.write(0, ["a"])
    assert place.seen() == ["a"]


def test_a_timeout_that_brokers_do_not_allow_is_refused(servers: str) -> None:
    with pytest.raises(ConfigError, match='transaction_timeout = "4 minutes" is longer than the brokers allow'):
        Place(servers, transaction_timeout="4 minutes")


def test_more_records_than_the_queue_takes(servers: str) -> None:
    place = Place(servers, client={"queue.buffering.max.messages": "100"})
    values = [f"{i:05d}" for i in range(1_000)]
    place.write(0, values)
    assert place.seen() == values


def test_lanes_that_start_together_share_the_topic_of_markers(servers: str) -> None:
    place = Place(servers)
    for job, before in ((f"job-{uuid.uuid4().hex[:8]}", {}), (place.job, place.markers())):
        failures: list[BaseException] = []

        def prepare(slots: int, job: str = job, failures: list[BaseException] = failures) -> None:
            try:
                markers.prepare(place.settings, job, slots)
            except BaseException as error:
                failures.append(error)

        starting = [threading.Thread(target=prepare, args=[slots]) for slots in (2, 5, 3, 7, 7)]
        for thread in starting:
            thread.start()
        for thread in starting:
            thread.join(PATIENCE)
        assert failures == []
        topic = f"{job}-markers"
        assert len(place.admin.list_topics(topic, PATIENCE).topics[topic].partitions) == 7
        if before:
            assert place.markers() == before


def test_the_lanes_of_a_job_are_known_by_their_markers(servers: str) -> None:
    one, other = Place(servers), Place(servers)
    assert markers.lanes(one.settings, one.job) == {one.lane}
    fence(one.settings, one.job, other.lane, "out", range(1), 1, new=True)
    assert markers.lanes(one.settings, one.job) == {one.lane, other.lane}
    assert markers.lanes(one.settings, "job") == set()


def test_brokers_that_do_not_answer_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anabranch.systems.kafka.holder.PATIENCE", 0.2)
    with pytest.raises(AnabranchError, match=r"can't be opened at 127.0.0.1:1: "):
        SlotWriter(KafkaSettings(bootstrap_servers="127.0.0.1:1"), "job", "1-00000000", "out", 1).open(0, 0)


def changed(found: Marker | None, **fields: Any) -> Marker:
    assert found is not None
    return msgspec.structs.replace(found, **fields)


def finish(transaction: SlotTransaction, topic: str, given: pa.RecordBatch) -> None:
    transaction.write(topic, *spread(given))
    transaction.commit()


def not_opening(step: str, lane: str, batch: int) -> None:
    assert step != crash_points.OPENING, "the producer was opened again"


def wait(until: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not until():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@contextmanager
def worker(place: Place) -> Iterator[Callable[..., str]]:
    """A process that keeps its producers; calls write a batch there and give what it says: nothing if it died."""
    process = subprocess.Popen(
        [sys.executable, "-c", WORKER],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    told = {"settings": json.loads(place.settings.model_dump_json()), "topic": place.topic, "epoch": 1}
    told |= {"job": place.job, "lane": place.lane}

    def tell(batch: int, values: list[str], die: str = "") -> str:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps({**told, "batch": batch, "values": values, "die": die}) + "\n")
        process.stdin.flush()
        return process.stdout.readline().strip()

    try:
        yield tell
    finally:
        process.kill()
        process.wait(PATIENCE)
        process.stdin.close()
        process.stdout.close()
