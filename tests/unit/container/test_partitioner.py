"""Keys that another partitioner has placed are told; those from before an expansion aren't taken for such."""

from __future__ import annotations

import uuid
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from anabranch.container import partitioner_check
from anabranch.container.inputs import Inputs
from anabranch.model.hashing import partition_for
from anabranch.model.ssp import SSP
from anabranch.systems.embedded import EmbeddedSystem, LaneWriter, SegmentWriter
from tests.unit.coordinator.helpers import FIRST, lane
from tests.unit.systems.embedded.helpers import records


def key(partition: int, count: int) -> bytes:
    return next(k for k in (f"k{n}".encode() for n in range(1000)) if partition_for(k, count) == partition)


def put(system: EmbeddedSystem, partition: int, *keys: bytes | None) -> None:
    segment = SegmentWriter(system.log.root, "in", partition, 0)
    segment.write(records([b"{}"] * len(keys), keys))
    LaneWriter(system.log, "put", uuid.uuid4().hex, 1).publish("in", partition, 0, [segment.close()])


@pytest.fixture
def system(tmp_path: Path) -> EmbeddedSystem:
    found = EmbeddedSystem(tmp_path)
    found.create("in", 2)
    return found


def test_where_a_key_is_and_where_it_would_be_is_told_but_not_the_key(system: EmbeddedSystem) -> None:
    put(system, 0, key(0, 2), None)
    put(system, 1, key(1, 2), key(0, 2))
    assert partitioner_check.disagreeing(system, "in", [0], 2) == ""
    told = partitioner_check.disagreeing(system, "in", [0, 1], 2)
    assert "embedded/in isn't partitioned by murmur2: the key of the record at offset 1 of partition 1" in told
    assert "would be in 0 of 2" in told
    assert key(0, 2).decode() not in told


def test_records_from_before_an_expansion_are_where_they_belong(system: EmbeddedSystem) -> None:
    put(system, 0, key(2, 4))
    system.expand("in", 4)
    put(system, 2, key(2, 4))
    assert partitioner_check.disagreeing(system, "in", [0, 2], 2) == ""
    assert partitioner_check.disagreeing(system, "in", [0, 2], 4) != ""
    put(system, 3, key(2, 4))
    assert "of partition 3 would be in 2 of 4" in partitioner_check.disagreeing(system, "in", [3], 2)


@pytest.mark.parametrize("bucket", [-1, 1])
@pytest.mark.parametrize(("base", "count", "found"), [(2, 2, 2), (2, 8, 2), (3, 9, 3), (1, 4, 1)])
def test_a_lane_knows_the_base(base: int, count: int, found: int, bucket: int) -> None:
    def ssp(partition: int) -> SSP:
        return SSP(system="embedded", stream="in", partition=partition, key_bucket=bucket)

    mine = [ssp(p) for p in range(base - 1, count, base)]
    bases = {str(each): ssp(base - 1).whole for each in mine}
    its = msgspec.structs.replace(lane(FIRST), ssps=tuple(mine), base=bases)
    assert partitioner_check.bases(its, "in", count) == found


@pytest.mark.parametrize(("last", "count", "found"), [(7, 16, 8), (7, 8, 8), (3, 16, 4), (2, 12, 3), (3, 7, 7)])
def test_a_stream_may_have_grown_since_the_lane_was_planned(last: int, count: int, found: int) -> None:
    mine = tuple(SSP(system="embedded", stream="in", partition=p) for p in range(last + 1))
    its = msgspec.structs.replace(lane(FIRST), ssps=mine, base={str(each): each for each in mine})
    assert partitioner_check.bases(its, "in", count) == found


class OthersWrite(EmbeddedSystem):
    foreign_producers = True


def test_a_broadcast_may_have_its_keys_anywhere(system: EmbeddedSystem) -> None:
    system.create("rules", 2)
    read = tuple(SSP(system="kafka", stream="in", partition=partition) for partition in (0, 1))
    rules = SSP(system="kafka", stream="rules", partition=0)
    others_write = OthersWrite(system.log.root)
    systems: Any = SimpleNamespace(named=lambda _: others_write)
    mine = msgspec.structs.replace(lane(FIRST), ssps=read, broadcast=(rules,))
    assert Inputs(systems, mine, {}).warnings(()) == ()
    put(system, 0, key(1, 2))
    (told,) = Inputs(systems, mine, {}).warnings(())
    assert "embedded/in isn't partitioned by murmur2" in told
