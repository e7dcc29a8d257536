"""What a process leaves that dies while it publishes, and what comes after it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from anabranch.model.lane import Lane
from anabranch.model.ssp import SSP
from anabranch.systems.output import Target, Written
from anabranch.systems.records import RECORD_SCHEMA
from tests.support.json_lines_system import JsonLinesSystem, partition
from tests.support.json_lines_system.partition import Entry

LANE = Lane(
    id="0-a",
    job="job",
    deployment=1,
    stage="0",
    group="0",
    seat="0",
    tasks=(),
    ssps=(SSP(system="lines", stream="in", partition=0),),
    outputs={"out": 2},
    systems={"out": "lines"},
)


@pytest.fixture
def system(tmp_path: Path) -> JsonLinesSystem:
    made = JsonLinesSystem("lines", tmp_path)
    made.create("out", 2)
    return made


def entry(batch: int, at: int) -> Entry:
    return Entry("job", "0-a", 1, batch, at, [{"key": None, "value": None, "headers": None, "timestamp": 0}])


@pytest.mark.parametrize(
    "torn", [b'{"job": "jo', b'{"job": "job", "lane": "0-a", "epoch": 9, "batch": 9, "at": 1}', b"\xff"]
)
def test_a_line_that_was_not_ended_never_was_one(tmp_path: Path, torn: bytes) -> None:
    """Nor does it take the next line with it, or stay in the middle of the file."""
    file = tmp_path / "0.jsonl"
    file.touch()
    assert partition.append(file, lambda known: entry(0, 0))
    with file.open("ab") as opened:
        opened.write(torn)
    assert [each.batch for each in partition.entries(file)] == [0]
    assert partition.append(file, lambda known: entry(1, known[-1].end))
    assert [(each.batch, each.at) for each in partition.entries(file)] == [(0, 0), (1, 1)]
    assert file.read_bytes().count(b"\n") == len(file.read_bytes().splitlines()) == 2


def written(system: JsonLinesSystem, *partitions: int) -> list[Written]:
    writer = system.publisher(LANE, 1).output.writer(0, 0)
    rows = [{"key": b"k", "value": b"%d" % p, "headers": None, "timestamp": 0} for p in partitions]
    batch = pa.RecordBatch.from_pylist(rows, RECORD_SCHEMA)
    writer.write(Target("out", 2), 0, np.array(partitions, dtype=np.int32), batch)
    found: list[Written] = writer.close()
    return found


def test_a_batch_that_was_published_to_one_partition_only_is_finished(system: JsonLinesSystem) -> None:
    publisher = system.publisher(LANE, 1)
    publisher.take(new=True)
    publisher.publish(0, written(system, 0), {})  # it dies before the other one
    assert system.ends("out") == {0: 1, 1: 0}
    again = system.publisher(LANE, 2)
    again.take(new=False)
    again.publish(0, written(system, 0, 1), {})
    assert system.ends("out") == {0: 1, 1: 1}


def test_nothing_is_left_of_what_was_published(system: JsonLinesSystem, tmp_path: Path) -> None:
    publisher = system.publisher(LANE, 1)
    publisher.publish(0, written(system, 0, 1), {})
    assert not list(tmp_path.glob("out/staged-*"))
