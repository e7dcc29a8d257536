"""What :class:`anabranch.systems.contract.System` promises: the same tests for each system."""

from __future__ import annotations

import itertools
import pickle
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from anabranch.config import Settings
from anabranch.errors import ConflictError, FencedError, NotFoundError, UsageError
from anabranch.event_time.control import Control
from anabranch.model.hashing import partition_for
from anabranch.model.lane import Lane
from anabranch.model.ssp import SSP
from anabranch.systems.contract import System
from anabranch.systems.output import Target, Written
from anabranch.systems.records import RECORD_SCHEMA
from anabranch.systems.systems import Systems
from tests.broker.reading import values
from tests.support.systems import lines

pytestmark = pytest.mark.integration

AT = 1_700_000_000_000_000
KEYS = [b"", b"a", b"\x00\xff", "ключ".encode(), *(b"k%d" % n for n in range(20))]


@pytest.fixture(params=["embedded", "kafka", "lines"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    """With streams in each of the systems that are shipped, and in one that isn't."""
    sections: dict[str, Any] = {"embedded": {"root": tmp_path / "log"}, "lines": lines(tmp_path / "lines")}
    if request.param == "kafka":
        sections["kafka"] = {"bootstrap_servers": request.getfixturevalue("cluster").bootstrap_servers}
    return Settings.model_validate({"systems": {"default": request.param, **sections}})


@pytest.fixture
def system(settings: Settings) -> System:
    return Systems(settings, f"job-{uuid.uuid4().hex[:8]}").named(settings.systems.default)


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
    assert system.controls(stream, 0, -1, 0)[0] == []


def lane(system: System, stream: str, job: str) -> Lane:
    ssp = SSP(system=system.name, stream="in", partition=0)
    return Lane(
        id=f"0-{uuid.uuid4().hex[:8]}",
        job=job,
        deployment=1,
        stage="0",
        group="0",
        seat="0",
        tasks=(),
        ssps=(ssp,),
        slots=(str(ssp),),
        outputs={stream: 3},
        systems={stream: system.name},
    )


def written(system: System, lane: Lane, epoch: int, batch_number: int, keys: Sequence[bytes]) -> list[Written]:
    """What a worker has written of a batch: these keys, to the partitions where they belong."""
    travelled = pickle.loads(pickle.dumps(system.publisher(lane, epoch).output))
    (stream,) = lane.outputs
    writer = travelled.writer(0, batch_number)
    numbers = np.array([partition_for(key, 3) for key in keys], dtype=np.int32)
    writer.write(Target(stream, 3), 0, numbers, batch(keys))
    found: list[Written] = writer.close()
    return found


def put_there(system: System, stream: str) -> list[bytes]:
    """The keys of all records, sorted."""
    found = [
        key
        for partition, end in system.ends(stream).items()
        for _, records in (system.read(stream, partition, [(0, end)]) if end else ())
        for key in records.column("key").to_pylist()
    ]
    return sorted(found)


@pytest.fixture
def mine(system: System, stream: str) -> Lane:
    return lane(system, stream, f"job-{uuid.uuid4().hex[:8]}")


def test_a_batch_is_published_once_however_often_it_is_repeated(system: System, stream: str, mine: Lane) -> None:
    assert system.published(mine) == -1
    publisher = system.publisher(mine, 1)
    publisher.take(new=True)
    keys = [key_of(0), key_of(1), key_of(2)]
    for _ in range(2):  # as after a crash before the commit
        publisher.publish(0, written(system, mine, 1, 0, keys), {})
        publisher.settle()
    again = system.publisher(mine, 2)
    again.take(new=False)
    again.publish(0, written(system, mine, 2, 0, keys), {})
    again.publish(1, written(system, mine, 2, 1, keys[:1]), {})
    again.settle()
    assert put_there(system, stream) == sorted([*keys, keys[0]])
    assert system.published(mine) == 1
    assert set(system.writers(mine.job, [stream])) == {mine.id}
    assert system.writers("another", [stream]) == {}


def test_nobody_below_a_fence_publishes_any_more(system: System, stream: str, mine: Lane) -> None:
    zombie = system.publisher(mine, 1)
    zombie.take(new=True)
    zombie.publish(0, written(system, mine, 1, 0, [key_of(0)]), {})
    for _ in range(2):
        system.fence(mine, 3, new=False)
    with pytest.raises(FencedError):
        zombie.publish(1, written(system, mine, 1, 1, [key_of(0)]), {})
    with pytest.raises((FencedError, ConflictError)):
        system.fence(mine, 2, new=False)
    system.recover(mine, 3, new=False)
    follower = system.publisher(mine, 3)
    follower.take(new=False)
    assert system.published(mine) == 0
    follower.publish(1, written(system, mine, 3, 1, [key_of(1)]), {})
    follower.settle()
    assert put_there(system, stream) == sorted([key_of(0), key_of(1)])


def test_controls_are_heeded_once_what_was_before_them_is_read(system: System, stream: str, mine: Lane) -> None:
    publisher = system.publisher(mine, 1)
    publisher.take(new=True)
    for number, keys in enumerate(([key_of(0)], [key_of(0)], [])):
        control = Control(mine.id, watermark=number, beside={mine.id: ()})
        publisher.settle()  # otherwise, Kafka may put the end of the previous transaction after the control record
        publisher.publish(number, written(system, mine, 1, number, keys), {Target(stream, 3): control})
    publisher.settle()
    end, cursor, heard = system.ends(stream)[0], -1, []
    for position in range(end + 1):
        found, cursor = system.controls(stream, 0, cursor, position)
        heard.append([each["watermark"] for each in found])
    assert [watermark for each in heard for watermark in each] == [0, 1, 2]
    assert heard[0] in ([], [0])  # it stands before the records that it was published with, or after them
    assert heard[-1][-1] == 2


def test_racks_positions_and_purging_are_for_those_that_have_them(system: System, stream: str) -> None:
    put(system, stream, [key_of(0)] * 4)
    system.commit_positions("job.0", {stream: {0: 4}})
    system.purge(stream, {0: 2})
    assert system.starts(stream)[0] in (0, 2)
    assert set(system.racks(stream)) in (set(), {0, 1, 2})
    assert system.offset(stream, "x", {1: 3, 0: 2})
    for check in system.checks().values():
        assert check()
