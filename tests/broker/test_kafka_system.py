"""A Kafka cluster as a system: its streams, what readers see of transactions, and what errors say."""

from __future__ import annotations

import multiprocessing
import pickle
import uuid
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from anabranch.config import KafkaSettings
from anabranch.errors import AnabranchError, ConflictError, NotFoundError, UsageError
from anabranch.model.hashing import partition_for
from anabranch.systems.contract import Appender, PartlyWrittenError, System
from anabranch.systems.kafka.cluster import Cluster
from anabranch.systems.kafka.system import INTERNAL, KafkaSystem
from anabranch.systems.kafka.topics import Topics
from tests.broker.kafka_streams import (
    AT_MS,
    batch,
    delete,
    key_for,
    made,
    put,
    read,
    record,
    settings,
    stream,
    system,
    transaction,
    writer,
)
from tests.support.kafka_peers import RACK

__all__ = ["settings", "stream", "system"]  # fixtures

pytestmark = pytest.mark.integration


@pytest.fixture
def limited(system: KafkaSystem) -> str:
    """A stream that takes no more than 300,000 bytes at once."""
    name = f"s-{uuid.uuid4().hex}"
    Topics(Cluster(system.settings)).create(name, 1, {"max.message.bytes": "300000"})
    return name


def test_it_is_a_system(system: KafkaSystem, stream: str) -> None:
    as_contract: System = system
    appender: Appender = as_contract.appender(stream)
    appender.close()
    assert as_contract.name == "kafka"


def test_a_stream_is_made_once(system: KafkaSystem) -> None:
    name = made(system, 3)
    assert name in system.streams()
    assert system.partitions(name) == 3
    assert system.starts(name) == system.ends(name) == system.high_watermarks(name) == {0: 0, 1: 0, 2: 0}
    system.create(name, 3)
    with pytest.raises(ConflictError, match="already exists, with 3 partitions instead of 4"):
        system.create(name, 4)


def test_a_stream_that_is_made_anew_is_another(system: KafkaSystem, stream: str) -> None:
    first = system.id(stream)
    assert system.id(stream) == first
    delete(system, stream)
    system.create(stream, 1)
    assert system.id(stream) != first


def test_an_internal_stream_keeps_what_is_older_than_any_retention(system: KafkaSystem) -> None:
    from confluent_kafka.admin import ConfigResource, ResourceType  # type: ignore[attr-defined]

    name = f"s-{uuid.uuid4().hex}"
    system.create(name, 1, internal=True)
    resource = ConfigResource(ResourceType.TOPIC, name)
    found: Any = Cluster(system.settings).ask(lambda admin: admin.describe_configs([resource]))[resource]
    assert {key: found[key].value for key in INTERNAL} == INTERNAL
    assert INTERNAL["retention.ms"] == "-1"


def test_names_of_topics_go_both_ways(settings: KafkaSettings, stream: str) -> None:
    shadowed = made(KafkaSystem(settings))
    system = KafkaSystem(settings, {"late.flights": stream, shadowed: f"other-{shadowed}"})
    assert "late.flights" in system.streams()
    assert not {stream, shadowed, f"other-{shadowed}"} & set(system.streams())
    assert system.partitions("late.flights") == 1
    put(system, "late.flights", b"a")
    assert read(system, "late.flights", (0, 1)) == read(KafkaSystem(settings), stream, (0, 1)) == [(0, b"a")]
    with pytest.raises(NotFoundError, match=f"no stream {shadowed} "):
        system.ends(shadowed)
    system.create(shadowed, 2)
    assert KafkaSystem(settings).partitions(f"other-{shadowed}") == 2
    assert shadowed in system.streams()


def test_what_kafka_keeps_for_itself_is_no_stream(system: KafkaSystem, stream: str) -> None:
    transaction(writer(system.settings), stream, b"a")
    names = system.streams()
    assert names == sorted(names)
    assert not [name for name in names if name.startswith("__")]


def test_a_stream_that_is_not_there_is_named_with_the_nearest(system: KafkaSystem, stream: str) -> None:
    near = stream[:-1]
    for ask in (
        lambda: system.partitions(near),
        lambda: system.id(near),
        lambda: system.ends(near),
        lambda: system.ends(near, [0]),
        lambda: system.racks(near),
        lambda: system.expand(near, 2),
        lambda: system.appender(near),
        lambda: read(system, near, (0, 1)),
        lambda: system.purge(near, {0: 0}),
        lambda: system.offset_at(near, 0),
    ):
        with pytest.raises(NotFoundError, match=rf"there is no stream {near} on .*; did you mean {stream}\?"):
            ask()
    assert near not in system.streams()


def test_a_partition_that_is_not_there_is_named(system: KafkaSystem, stream: str) -> None:
    for ask in (lambda: system.ends(stream, [0, 7]), lambda: read(system, stream, (0, 1), partition=7)):
        with pytest.raises(NotFoundError, match=f"{stream} has no partition 7"):
            ask()


def test_a_position_that_brokers_refuse_is_named(system: KafkaSystem, stream: str) -> None:
    gone = f"gone-{stream}"
    with pytest.raises(AnabranchError, match=f"committing the position of group job.0 in {gone}, partition 1 on"):
        system.commit_positions("job.0", {stream: {0: 0}, gone: {1: 4}})


@pytest.mark.parametrize("name", ["a/b", "", "..", ".", "ü", "a" * 250, "a\n"])
def test_what_can_be_no_topic_is_refused(system: KafkaSystem, name: str) -> None:
    with pytest.raises(UsageError, match="can't be the name of a stream"):
        system.create(name, 1)


def test_what_the_cluster_refuses_to_make_says_which_setting(settings: KafkaSettings, system: KafkaSystem) -> None:
    thrice = KafkaSystem(settings.model_copy(update={"replication_factor": 3}))
    with pytest.raises(UsageError, match="replication") as error:
        thrice.create(f"s-{uuid.uuid4().hex}", 1)
    assert "[systems.kafka] replication_factor" in error.value.cure
    with pytest.raises(UsageError, match="can't have 0 partitions"):
        system.create(f"s-{uuid.uuid4().hex}", 0)


def test_a_stream_is_widened_to_a_multiple(system: KafkaSystem) -> None:
    name = made(system, 2)
    with system.appender(name) as appender:
        appender.append(batch([record(b"before", b"k")]))
        system.expand(name, 4)
        assert system.partitions(name) == 4
        assert list(system.ends(name)) == [0, 1, 2, 3]
        keys = [f"k{number}".encode() for number in range(100)]
        appender.append(batch(record(key, key) for key in keys))
    placed: dict[bytes, int] = {}
    for number, end in system.ends(name).items():
        placed |= {value: number for _, value in read(system, name, (0, end), partition=number)}
    assert {key: placed[key] for key in keys} == {key: partition_for(key, 4) for key in keys}
    system.expand(name, 4)
    for wrong in (3, 2, 6):
        with pytest.raises(UsageError, match="has 4 partitions and can't have"):
            system.expand(name, wrong)


def test_timestamps_that_kafka_has_no_room_for_become_the_first(system: KafkaSystem, stream: str) -> None:
    times = [-5_000_000, 0, 999, 1_999]
    with system.appender(stream) as appender:
        appender.append(batch({**record(b"v"), "timestamp": at} for at in times))
    (found,) = [records for _, records in system.read(stream, 0, [(0, 4)])]
    assert found.column("timestamp").cast(pa.int64()).to_pylist() == [1000, 1000, 1000, 1000]


def test_keys_go_where_murmur2_says_and_null_keys_everywhere(system: KafkaSystem) -> None:
    name = made(system, 5)
    keys = [b"", b"a", b"\x00", b"\xff\xfe\xfd", "Zürich 東京".encode(), *(b"key-%d" % number for number in range(200))]
    with system.appender(name) as appender:
        appender.append(batch([record(b"keyed", key) for key in keys] + [record(b"keyless")] * 50))
    keyless: list[int] = []
    placed: dict[bytes, int] = {}
    for number, end in system.ends(name).items():
        for _, records in system.read(name, number, [(0, end)]):
            for key in records.column("key").to_pylist():
                if key is None:
                    keyless.append(number)
                else:
                    placed[key] = number
    assert placed == {key: partition_for(key, 5) for key in keys}
    assert sorted(keyless) == sorted(list(range(5)) * 10)


@pytest.mark.parametrize("size", [299_950, 300_001, 2_000_000])
def test_a_record_that_is_too_large_is_named_with_the_limit(system: KafkaSystem, limited: str, size: int) -> None:
    large = np.random.default_rng(1).bytes(size)
    with system.appender(limited) as appender:
        with pytest.raises(PartlyWrittenError, match="is too large") as error:
            appender.append(batch([record(b"small"), record(b"small"), record(large, b"k")]))
        assert f"record 2 of the batch for {limited} is too large with {size + 1:,} bytes: at most 300,000" in str(
            error.value
        )
        assert "max.message.bytes" in error.value.cure
        written = system.ends(limited)[0]
        assert error.value.published == written
        assert f"{written} record" in error.value.what
        assert appender.append(batch([record(b"after")])) == 1
    assert read(system, limited, (0, system.ends(limited)[0]))[-1][1] == b"after"


def test_many_records_below_the_limit_are_written(system: KafkaSystem, limited: str) -> None:
    large = np.random.default_rng(1).bytes(100_000)
    with system.appender(limited) as appender:
        assert appender.append(batch(record(large) for _ in range(20))) == 20


def test_a_batch_larger_than_the_queue_is_written(settings: KafkaSettings, stream: str) -> None:
    system = KafkaSystem(settings.model_copy(update={"client": {"queue.buffering.max.messages": "1000"}}))
    with system.appender(stream) as appender:
        assert appender.append(batch([record(b"v")]).take(pa.array(np.zeros(10_000, np.int64)))) == 10_000
    assert system.ends(stream) == {0: 10_000}


def test_an_offset_is_found_by_time(system: KafkaSystem) -> None:
    name = made(system, 2)
    with system.appender(name) as appender:
        appender.append(batch(record(b"v", key_for(1, 2), at_ms=AT_MS + number * 1000) for number in range(5)))
    at = AT_MS * 1000
    for unix_us, offset in ((0, 0), (-1, 0), (at, 0), (at + 1, 1), (at + 4_000_000, 4), (at + 4_000_001, 5)):
        assert system.offset_at(name, unix_us) == {0: 0, 1: offset}


def test_racks_of_partitions_are_those_of_their_brokers(system: KafkaSystem) -> None:
    assert system.racks(made(system, 2)) == {0: (RACK,), 1: (RACK,)}


def _ends(system: KafkaSystem, stream: str, answer: Any) -> None:
    answer.put(system.ends(stream))


def test_it_travels_to_other_processes(settings: KafkaSettings, stream: str) -> None:
    system = KafkaSystem(settings, {"mine": stream}, f"{stream}-controls")
    put(system, "mine", b"a")
    system.tell("mine", {"lane": "l"})
    twin = pickle.loads(pickle.dumps(system))
    assert twin.ends("mine") == {0: 1}
    assert twin.controls("mine", 0, -1, 1) == ([{"lane": "l"}], 0)
    context = multiprocessing.get_context("fork")
    answer = context.Queue()
    child = context.Process(target=_ends, args=(system, "mine", answer))
    child.start()
    assert answer.get(timeout=20) == {0: 1}
    child.join(20)
