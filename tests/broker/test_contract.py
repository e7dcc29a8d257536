"""What :class:`anabranch.systems.contract.System` promises: the same tests for each system."""

from __future__ import annotations

import itertools
import pickle
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from anabranch.config import KafkaSettings
from anabranch.errors import ConflictError, NotFoundError, UsageError
from anabranch.model.hashing import partition_for
from anabranch.systems.contract import System
from anabranch.systems.embedded import EmbeddedSystem
from anabranch.systems.kafka.system import KafkaSystem
from anabranch.systems.records import RECORD_SCHEMA
from tests.broker.reading import values

pytestmark = pytest.mark.integration

AT = 1_700_000_000_000_000
KEYS = [b"", b"a", b"\x00\xff", "ключ".encode(), *(b"k%d" % n for n in range(20))]


@pytest.fixture(params=["embedded", "kafka"])
def system(request: pytest.FixtureRequest, tmp_path: Path) -> System:
    if request.param == "embedded":
        return EmbeddedSystem(tmp_path / "log")
    cluster = request.getfixturevalue("cluster")
    return KafkaSystem(KafkaSettings(bootstrap_servers=cluster.bootstrap_servers))


@pytest.fixture
def stream(system: System) -> str:
    """One of three partitions."""
    name = f"contract-{uuid.uuid4().hex}"
    system.create(name, 3)
    return name


def batch(keys: Sequence[bytes | None], **more: Any) -> pa.RecordBatch:
    """Records whose values are their places."""
    rows = [
        {"key": key, "value": b"%d" % place, "headers": None, "timestamp": AT, **more} for place, key in enumerate(keys)
    ]
    return pa.RecordBatch.from_pylist(rows, RECORD_SCHEMA)


def put(system: System, stream: str, keys: Sequence[bytes | None], **more: Any) -> None:
    appender = system.appender(stream)
    assert appender.append(batch(keys, **more)) == len(keys)
    appender.close()


def key_of(partition: int) -> bytes:
    return next(key for key in (b"%d" % n for n in itertools.count()) if partition_for(key, 3) == partition)


def test_a_stream_is_made_once_and_has_its_count(system: System, stream: str) -> None:
    assert system.partitions(stream) == 3
    assert system.counts()[stream] == 3
    assert stream in system.streams()
    assert system.streams() == sorted(system.streams())
    before = system.id(stream)
    system.create(stream, 3)
    assert system.id(stream) == before
    with pytest.raises(ConflictError, match=f"{stream}.*3 partitions"):
        system.create(stream, 4)


def test_a_stream_that_is_not_there_is_not_found(system: System, stream: str) -> None:
    none = f"{stream}-none"
    asked = [
        lambda: system.partitions(none),
        lambda: system.id(none),
        lambda: system.expand(none, 2),
        lambda: system.starts(none),
        lambda: system.ends(none),
        lambda: system.high_watermarks(none),
        lambda: list(system.read(none, 0, [(0, 1)])),
        lambda: system.appender(none).append(batch([None])),
    ]
    for ask in asked:
        with pytest.raises(NotFoundError, match=none):
            ask()
    assert none not in system.streams()


def test_a_stream_is_widened_to_a_multiple_and_keeps_what_it_has(system: System, stream: str) -> None:
    put(system, stream, KEYS)
    ends = system.ends(stream)
    for count in (4, 1, 0):
        with pytest.raises((UsageError, ConflictError)):
            system.expand(stream, count)
    system.expand(stream, 6)
    assert system.partitions(stream) == 6
    assert system.ends(stream) == {**ends, 3: 0, 4: 0, 5: 0}


def test_an_empty_stream_starts_where_it_ends(system: System, stream: str) -> None:
    assert system.starts(stream) == system.ends(stream) == system.high_watermarks(stream) == {0: 0, 1: 0, 2: 0}
    assert system.ends(stream, [1]) == {1: 0}


def test_each_key_goes_where_murmur2_says_in_order(system: System, stream: str) -> None:
    put(system, stream, KEYS * 2)
    for partition, end in system.ends(stream).items():
        got = [int(value) for _, value in values(system.read(stream, partition, [(0, end)]))]
        assert got == [n for n, key in enumerate(KEYS * 2) if partition_for(key, 3) == partition]


def test_records_come_back_as_they_were(system: System, stream: str) -> None:
    headers = [{"key": "a", "value": b"1"}, {"key": "a", "value": None}, {"key": "ü", "value": b"\xff"}]
    put(system, stream, [key_of(1)], headers=headers)
    put(system, stream, [key_of(1)], value=None)
    put(system, stream, [None])
    ((_, first), (_, second)) = [
        (offset, row)
        for offsets, records in system.read(stream, 1, [(0, 2)])
        for offset, row in zip(offsets.tolist(), records.to_pylist(), strict=True)
    ]
    assert (first["key"], first["value"], first["headers"]) == (key_of(1), b"0", headers)
    assert int(first["timestamp"].timestamp() * 1_000_000) == AT
    assert (second["key"], second["value"]) == (key_of(1), None)
    assert sum(system.ends(stream).values()) == 3


@pytest.mark.parametrize(
    ("ranges", "wanted"),
    [
        ([(0, 10)], list(range(10))),
        ([(0, 1), (3, 5), (9, 10)], [0, 3, 4, 9]),
        ([(4, 4)], []),
        ([], []),
    ],
)
def test_ranges_are_read_in_order(
    system: System, stream: str, ranges: list[tuple[int, int]], wanted: list[int]
) -> None:
    for _ in range(2):
        put(system, stream, [key_of(2)] * 5)
    assert values(system.read(stream, 2, ranges)) == [(n, b"%d" % (n % 5)) for n in wanted]


def test_answers_are_fresh_and_an_object_travels(system: System, stream: str) -> None:
    other: System = pickle.loads(pickle.dumps(system))
    assert other.name == system.name
    assert other.ends(stream)[0] == 0
    put(system, stream, [key_of(0)])
    assert other.ends(stream)[0] == system.ends(stream)[0] == 1


def test_nobody_has_told_anything_of_a_new_stream(system: System, stream: str) -> None:
    if isinstance(system, KafkaSystem):
        system = KafkaSystem(system.settings, controls_topic=f"{stream}-controls")
    assert system.controls(stream, 0, -1, 0)[0] == []
