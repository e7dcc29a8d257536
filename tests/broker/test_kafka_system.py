"""A Kafka cluster as a system: its streams, what readers see of transactions, and what errors say."""

from __future__ import annotations

import itertools
import multiprocessing
import pickle
import socket
import time
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import Producer

from anabranch.config import KafkaSettings
from anabranch.errors import AnabranchError, ConflictError, LogError, NotFoundError, UnsupportedFormatError, UsageError
from anabranch.model.hashing import partition_for
from anabranch.systems import fetching
from anabranch.systems.contract import Appender, System
from anabranch.systems.kafka import jars
from anabranch.systems.kafka.cluster import Cluster
from anabranch.systems.kafka.controls import ControlLog
from anabranch.systems.kafka.system import INTERNAL, KafkaSystem
from anabranch.systems.kafka.topics import Topics
from anabranch.systems.records import RECORD_SCHEMA
from anabranch.testing import broker
from tests.broker.reading import values
from tests.support.kafka_peers import RACK

pytestmark = pytest.mark.integration

AT_MS = 1_700_000_000_000


@pytest.fixture(scope="module")
def settings(cluster: broker.Cluster) -> KafkaSettings:
    return KafkaSettings(bootstrap_servers=cluster.bootstrap_servers)


@pytest.fixture
def system(settings: KafkaSettings) -> KafkaSystem:
    return KafkaSystem(settings)


@pytest.fixture
def stream(system: KafkaSystem) -> str:
    return made(system)


def made(system: KafkaSystem, partitions: int = 1) -> str:
    name = f"s-{uuid.uuid4().hex}"
    system.create(name, partitions)
    return name


@pytest.fixture
def limited(system: KafkaSystem) -> str:
    """A stream that takes no more than 300,000 bytes at once."""
    name = f"s-{uuid.uuid4().hex}"
    Topics(Cluster(system.settings)).create(name, 1, {"max.message.bytes": "300000"})
    return name


def record(value: bytes | None, key: bytes | None = None, headers: Any = None, at_ms: int = AT_MS) -> dict[str, Any]:
    return {"key": key, "value": value, "headers": headers, "timestamp": at_ms * 1000}


def key_for(partition: int, count: int) -> bytes:
    return next(
        key for key in (b"%d" % number for number in itertools.count()) if partition_for(key, count) == partition
    )


def batch(records: Iterable[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(records), RECORD_SCHEMA)


def put(system: KafkaSystem, stream: str, *values: bytes) -> None:
    with system.appender(stream) as appender:
        appender.append(batch(record(value) for value in values))


def writer(settings: KafkaSettings) -> Producer:
    """A transactional producer; its transactions are of ``begin_transaction`` and so on."""
    producer, _ = Cluster(settings).open(Producer, {"transactional.id": uuid.uuid4().hex})
    producer.init_transactions(10)
    return producer


def transaction(producer: Producer, stream: str, *values: bytes, commit: bool = True) -> None:
    producer.begin_transaction()
    for value in values:
        producer.produce(stream, value, partition=0)
    producer.flush(10)
    if commit:
        producer.commit_transaction(10)
    else:
        producer.abort_transaction(10)


def read(system: System, stream: str, *ranges: tuple[int, int], partition: int = 0) -> list[tuple[int, bytes]]:
    return values(system.read(stream, partition, ranges))


def ends(system: KafkaSystem, stream: str) -> dict[int, int]:
    """The ends, once they are the high watermarks: a commit or an abort returns before its markers are written."""
    deadline = time.monotonic() + 10
    while (found := system.ends(stream)) != system.high_watermarks(stream):
        assert time.monotonic() < deadline
    return found


def delete(system: KafkaSystem, stream: str) -> None:
    cluster = Cluster(system.settings)
    cluster.ask(lambda admin: admin.delete_topics([stream], operation_timeout=10))


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
    with pytest.raises(ConflictError, match="is there already, with 3 partitions instead of 4"):
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


def test_an_end_is_the_last_stable_offset(system: KafkaSystem, stream: str) -> None:
    producer = writer(system.settings)
    transaction(producer, stream, b"a", b"b")
    assert ends(system, stream) == {0: 3}
    transaction(producer, stream, b"c", commit=False)
    assert ends(system, stream) == {0: 5}

    producer.begin_transaction()
    producer.produce(stream, b"open", partition=0)
    producer.flush(10)
    put(system, stream, b"behind")
    assert system.ends(stream) == {0: 5}
    assert system.high_watermarks(stream) == {0: 7}
    assert read(system, stream, (0, 5)) == [(0, b"a"), (1, b"b")]
    producer.commit_transaction(10)
    assert ends(system, stream) == {0: 8}
    assert read(system, stream, (0, 8)) == [(0, b"a"), (1, b"b"), (5, b"open"), (6, b"behind")]


@pytest.fixture
def gappy(system: KafkaSystem, stream: str) -> str:
    """a b | x y | c d | z |, in transactions, of which x y and z were aborted: markers at 2, 5, 8 and 10."""
    producer = writer(system.settings)
    transaction(producer, stream, b"a", b"b")
    transaction(producer, stream, b"x", b"y", commit=False)
    transaction(producer, stream, b"c", b"d")
    transaction(producer, stream, b"z", commit=False)
    assert ends(system, stream) == {0: 11}
    return stream


@pytest.mark.parametrize(
    ("ranges", "found"),
    [
        ([(0, 11)], {0: b"a", 1: b"b", 6: b"c", 7: b"d"}),
        ([(0, 3)], {0: b"a", 1: b"b"}),
        ([(2, 6)], {}),
        ([(8, 11)], {}),
        ([(10, 11)], {}),
        ([(1, 7)], {1: b"b", 6: b"c"}),
        ([(0, 1), (1, 2), (7, 8)], {0: b"a", 1: b"b", 7: b"d"}),
        ([(1, 4), (9, 11)], {1: b"b"}),
        ([(3, 3)], {}),
        ([], {}),
    ],
)
def test_ranges_hold_what_was_committed(
    system: KafkaSystem, gappy: str, ranges: list[tuple[int, int]], found: dict[int, bytes]
) -> None:
    assert read(system, gappy, *ranges) == list(found.items())


def test_a_range_before_an_open_transaction_ends(system: KafkaSystem, gappy: str) -> None:
    producer = writer(system.settings)
    producer.begin_transaction()
    producer.produce(gappy, b"open", partition=0)
    producer.flush(10)
    assert read(system, gappy, (6, 11)) == [(6, b"c"), (7, b"d")]
    producer.abort_transaction(10)


def test_a_range_that_was_not_written_is_an_error_within_bounded_time(settings: KafkaSettings, gappy: str) -> None:
    hasty = KafkaSystem(settings, patience=1.0)
    with pytest.raises(LogError, match=rf"{gappy}/0 ends at offset 11, before 12"):
        read(hasty, gappy, (6, 12))
    with pytest.raises(LogError, match=rf"{gappy}/0 ends at offset 11, before 20"):
        read(hasty, gappy, (20, 21))


def test_ranges_far_apart_are_sought(system: KafkaSystem, stream: str) -> None:
    put(system, stream, *(b"%d" % number for number in range(5000)))
    ranges = [(3, 5), (10, 11), (2500, 2502), (4999, 5000)]
    wanted = [offset for start, end in ranges for offset in range(start, end)]
    assert read(system, stream, *ranges) == [(offset, b"%d" % offset) for offset in wanted]
    assert read(system, stream, (0, 5000)) == [(offset, b"%d" % offset) for offset in range(5000)]


def test_records_that_are_gone_are_counted(system: KafkaSystem, stream: str) -> None:
    put(system, stream, *(b"%d" % number for number in range(10)))
    system.purge(stream, {0: 4})
    assert system.starts(stream) == {0: 4}
    with pytest.raises(
        LogError, match=rf"{stream}/0 doesn't hold the 3 offsets from 1 on any more: the oldest kept is 4"
    ):
        read(system, stream, (1, 6))
    assert read(system, stream, (4, 6)) == [(4, b"4"), (5, b"5")]


def test_a_reader_may_stop_early(system: KafkaSystem, stream: str) -> None:
    put(system, stream, b"a", b"b")
    found = system.read(stream, 0, [(0, 1), (1, 2)])
    next(found)
    found.close()  # type: ignore[attr-defined]
    assert list(found) == []


def test_single_records_are_fetched(system: KafkaSystem, stream: str) -> None:
    put(system, stream, *(b"%d" % number for number in range(4000)))
    for offsets in ([], [0], [7, 9, 3999], [0, 1, 2, 1500, 1501]):
        assert values(fetching.fetch(system, stream, 0, offsets)) == [(offset, b"%d" % offset) for offset in offsets]


def test_a_record_that_cannot_be_fetched_is_named(system: KafkaSystem, gappy: str) -> None:
    assert values(fetching.fetch(system, gappy, 0, [1, 6])) == [(1, b"b"), (6, b"c")]
    with pytest.raises(LogError, match=rf"2 of 3 records of {gappy}/0 aren't there, the first at offset 3"):
        values(fetching.fetch(system, gappy, 0, [1, 3, 8]))


def test_records_come_back_as_they_were(system: KafkaSystem, stream: str) -> None:
    sent = batch(
        [
            record(b"plain", b"key"),
            record(None, b"deleted"),
            record(b"", b""),
            record(
                b"\x00\xff",
                None,
                [{"key": "a", "value": b"\x00"}, {"key": "a", "value": None}, {"key": "ü", "value": b""}],
            ),
            record(None, None, at_ms=1),
        ]
    )
    with system.appender(stream) as appender:
        assert appender.append(sent) == 5
        assert appender.append(sent.slice(0, 0)) == 0
        assert appender.append(sent.slice(3, 1)) == 1
    (found,) = [records for _, records in system.read(stream, 0, [(0, 6)])]
    assert found.to_pylist() == [*sent.to_pylist(), sent.to_pylist()[3]]


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
        with pytest.raises(AnabranchError, match="is too large") as error:
            appender.append(batch([record(b"small"), record(b"small"), record(large, b"k")]))
        assert f"record 2 of the batch for {limited} is too large with {size + 1:,} bytes: at most 300,000" in str(
            error.value
        )
        assert "max.message.bytes" in error.value.cure
        written = system.ends(limited)[0]
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
    for unix_ms, offset in ((0, 0), (-1, 0), (AT_MS, 0), (AT_MS + 1, 1), (AT_MS + 4000, 4), (AT_MS + 4001, 5)):
        assert system.offset_at(name, unix_ms) == {0: 0, 1: offset}


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


def test_controls_are_heard_in_order_when_what_was_before_them_is_read(system: KafkaSystem) -> None:
    name, other = made(system, 2), made(system)
    log = ControlLog(Topics(Cluster(system.settings)), f"{name}-controls")
    assert log.heard(name, 0, -1, 10**9) == ([], -1)
    log.tell(name, {"lane": "x", "number": 0})
    put(system, other, b"elsewhere")
    log.tell(other, {"lane": "y", "number": 1})
    with system.appender(name) as appender:
        appender.append(batch([record(b"v", key_for(0, 2))] * 3))
    log.tell(name, {"lane": "x", "number": 2})
    log.tell(other, {"lane": "y", "number": 3})
    log.tell(name, {"lane": "z", "number": 4})

    for heard in (log, ControlLog(Topics(Cluster(system.settings)), f"{name}-controls")):
        assert heard.heard(name, 0, -1, 0) == ([{"lane": "x", "number": 0}], 1)
        assert heard.heard(name, 0, 1, 2) == ([], 1)
        assert heard.heard(name, 0, 1, 3) == ([{"lane": "x", "number": 2}, {"lane": "z", "number": 4}], 4)
        assert heard.heard(name, 0, 4, 3) == ([], 4)
        every = [{"lane": lane, "number": number} for lane, number in (("x", 0), ("x", 2), ("z", 4))]
        assert heard.heard(name, 1, -1, 0) == (every, 4), "nothing was written to partition 1"
        assert heard.heard(other, 0, -1, 0) == ([], 0)
        assert [control["number"] for control in heard.heard(other, 0, 0, 1)[0]] == [1, 3]
        heard.close()


def test_a_control_behind_an_open_transaction_waits_for_its_end(system: KafkaSystem, stream: str) -> None:
    """Its own rows may be among those that can't be read yet."""
    log = ControlLog(Topics(Cluster(system.settings)), f"{stream}-controls")
    producer = writer(system.settings)
    producer.begin_transaction()
    producer.produce(stream, b"open", partition=0)
    producer.flush(10)
    log.tell(stream, {"lane": "x"})
    assert log.heard(stream, 0, -1, system.ends(stream)[0]) == ([], -1)
    producer.commit_transaction(10)
    assert log.heard(stream, 0, -1, ends(system, stream)[0]) == ([{"lane": "x"}], 0)
    log.close()


def test_a_partition_that_came_later_has_nothing_before_a_control(system: KafkaSystem, stream: str) -> None:
    put(system, stream, b"a")
    told_system = KafkaSystem(system.settings, controls_topic=f"{stream}-controls")
    told_system.tell(stream, {"lane": "x"})
    system.expand(stream, 2)
    assert told_system.controls(stream, 0, -1, 0) == ([], -1)
    assert told_system.controls(stream, 1, -1, 0) == ([{"lane": "x"}], 0)


def test_controls_of_a_stream_that_was_made_anew_are_not_heard(system: KafkaSystem, stream: str) -> None:
    log = ControlLog(Topics(Cluster(system.settings)), f"{stream}-controls")
    log.tell(stream, {"lane": "x", "number": 0})
    log.close()
    delete(system, stream)
    system.create(stream, 1)
    log = ControlLog(Topics(Cluster(system.settings)), f"{stream}-controls")
    log.tell(stream, {"lane": "x", "number": 1})
    assert log.heard(stream, 0, -1, 0) == ([{"lane": "x", "number": 1}], 1)
    log.close()


def test_controls_of_others_are_seen_by_a_process_that_heard_before(system: KafkaSystem, stream: str) -> None:
    first, second = (ControlLog(Topics(Cluster(system.settings)), f"{stream}-controls", pause=0) for _ in range(2))
    cursor = -1
    for number in range(5):
        first.tell(stream, {"lane": "x", "number": number})
        found, cursor = second.heard(stream, 0, cursor, 0)
        assert found == [{"lane": "x", "number": number}]
        assert cursor == number
    first.close()
    second.close()


def test_a_foreign_record_among_the_controls_is_refused(system: KafkaSystem, stream: str) -> None:
    controls = made(system)
    log = ControlLog(Topics(Cluster(system.settings)), controls)
    put(system, controls, b'{"version": 2, "stream": "s", "id": "i", "ends": {}, "control": {}}')
    with pytest.raises(UnsupportedFormatError, match=f"{controls}, offset 0 has format version 2"):
        log.heard(stream, 0, -1, 0)
    log.close()


def test_a_cluster_that_is_down_is_named_within_bounded_time(capfd: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        system = KafkaSystem(KafkaSettings(bootstrap_servers=address), patience=0.5)
        for ask in (
            system.streams,
            lambda: system.create("s", 1),
            lambda: system.appender("s"),
            lambda: read(system, "s", (0, 1)),
        ):
            begun = time.monotonic()
            with pytest.raises(
                AnabranchError, match=f"cluster {address} didn't answer for 0.5 s: .*Connection refused"
            ) as error:
                ask()
            assert time.monotonic() - begun < 2
            assert "bootstrap_servers" in error.value.cure
    assert capfd.readouterr().err == ""


def test_a_name_that_nobody_knows_is_told() -> None:
    system = KafkaSystem(KafkaSettings(bootstrap_servers="no-such-host.invalid:9092"), patience=0.5)
    with pytest.raises(AnabranchError, match=r"didn't answer for 0.5 s: .*resolve"):
        system.streams()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[broker.Cluster, KafkaSettings]]:
    """A cluster that asks for passwords, and the right settings."""
    folder = jars.broker_folder()
    assert folder is not None
    with broker.start(tmp_path_factory.mktemp("guarded"), folder, sasl={"alice": 'p"w\\d'}) as cluster:
        yield (
            cluster,
            KafkaSettings(
                bootstrap_servers=cluster.bootstrap_servers,
                security_protocol="SASL_PLAINTEXT",
                sasl_username="alice",
                sasl_password='p"w\\d',
            ),
        )


def test_a_login_that_is_refused_is_told_at_once(
    guarded: tuple[broker.Cluster, KafkaSettings], capfd: pytest.CaptureFixture[str]
) -> None:
    cluster, right = guarded
    system = KafkaSystem(right)
    name = made(system)
    put(system, name, b"a")
    assert read(system, name, (0, 1)) == [(0, b"a")]

    wrong = KafkaSystem(right.model_copy(update={"sasl_password": "s3cret"}))
    for ask in (wrong.streams, lambda: wrong.appender(name), lambda: read(wrong, name, (0, 1))):
        begun = time.monotonic()
        with pytest.raises(AnabranchError, match=r"\(SASL_PLAINTEXT, PLAIN, user alice\) refuses the login") as error:
            ask()
        assert time.monotonic() - begun < 5
        assert "s3cret" not in str(error.value)
    without = KafkaSystem(KafkaSettings(bootstrap_servers=cluster.bootstrap_servers), patience=1.0)
    with pytest.raises(AnabranchError, match="security_protocol"):
        without.streams()
    assert capfd.readouterr().err == ""


def test_a_cluster_that_goes_away_fails_what_is_under_way(
    guarded: tuple[broker.Cluster, KafkaSettings], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, right = guarded
    system = KafkaSystem(right, patience=1.5)
    name = made(system)
    put(system, name, *[b"v" * 1000] * 3000)
    appender = system.appender(name)
    found = system.read(name, 0, [(0, 1), (2999, 3000)])
    next(found)
    cluster.kill()
    begun = time.monotonic()
    with pytest.raises(AnabranchError, match="didn't answer"):
        list(found)
    with pytest.raises(AnabranchError, match="didn't answer"):
        appender.append(batch([record(b"v")]))
    monkeypatch.setattr(appender, "partitions_of", lambda keys: np.zeros(len(keys), np.int32))
    with pytest.raises(AnabranchError, match=r"didn't answer.*; 0 records written"):
        appender.append(batch([record(b"v")]))
    with pytest.raises(AnabranchError, match="didn't answer"):
        system.ends(name)
    assert time.monotonic() - begun < 9
    appender.close()
    cluster.start_again()
    assert KafkaSystem(right).ends(name) == system.ends(name) == {0: 3000}
