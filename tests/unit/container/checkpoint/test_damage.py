"""What is unusable in a lane's folder is removed only if the lane can do without it: snapshots, and pending batches."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from anabranch.container.checkpoint import checksums, damage
from anabranch.container.checkpoint.folder import Folder
from anabranch.event_time.progress import Progress
from anabranch.model.lane import Lane
from anabranch.spark.query.planned_batch import Batch
from tests.unit.container.checkpoint.test_durable_copies import OnDisk
from tests.unit.coordinator.helpers import FIRST, lane

ITS = lane(FIRST, stateful=True)
CHANGES = "state/0/0/1.changelog"
SNAPSHOT = "state/0/0/1.snapshot"
BAD_SUM = b"crc\0\0\0\2\0wrong"


class Local(Folder):
    """A folder without Spark, whose query has an id."""

    def __init__(self, root: Path) -> None:
        self.tree = OnDisk(root)
        self.uri = str(root)
        for name in (f"state/0/{number}/1.changelog" for number in range(ITS.state_partitions)):
            self.put(name, b"changes")
        self.put("offsets/0", b'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1}\n{"stream":"a","positions":{"0":1}}')
        self.put("commits/0", b'v1\n{"nextBatchWatermarkMs":0}')
        self.put("metadata", b'{"id":"x"}')
        self.put(SNAPSHOT, b"all")
        self.put(checksums.name_of(SNAPSHOT), BAD_SUM)

    def put(self, name: str, content: bytes) -> None:
        path = Path(self.uri, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


@pytest.mark.parametrize("changes", [b"changes", b""])
def test_a_repair_removes_a_snapshot_only_if_the_state_can_do_without_it(tmp_path: Path, changes: bytes) -> None:
    folder = Local(tmp_path)
    folder.put(CHANGES, changes)
    damage.repair(folder, ITS, None)
    assert folder.exists(SNAPSHOT) is not bool(changes)
    assert folder.exists(checksums.name_of(SNAPSHOT)) is not bool(changes)


def test_a_snapshot_never_looks_usable_while_it_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, seen = Local(tmp_path), []
    remove = folder.tree.remove

    def removed(name: str, *, durable: bool = False) -> None:
        remove(name, durable=durable)
        seen.append(useless(folder, ITS) or not folder.exists(SNAPSHOT))

    monkeypatch.setattr(folder.tree, "remove", removed)
    assert damage.mend(folder, ITS, 0) is None
    assert len(seen) == 2
    assert all(seen)


@pytest.mark.parametrize(
    "mend", [lambda folder: damage.mend(folder, ITS, -1), lambda folder: damage.repair(folder, ITS, None)]
)
def test_what_a_power_cut_has_left_of_a_query_that_had_planned_nothing_is_mended(
    tmp_path: Path, mend: Callable[[Folder], object]
) -> None:
    folder = Local(tmp_path)
    for name in ("offsets", "commits", "state"):
        shutil.rmtree(tmp_path / name)
    for name in ("metadata", "sources/0/0", "sources/0/.0.crc", "sources/1/0"):
        folder.put(name, b"")
    folder.put("sources/2/0", b'\0v1\n{"in":{"0":3}}')
    mend(folder)
    assert folder.tree.all_files() == ["metadata", "sources/2/0"]
    assert json.loads(folder.tree.read("metadata"))["id"]


def useless(folder: Folder, its: Lane) -> list[str]:
    return [name for name, _ in damage.checkpoint(folder, its).useless_snapshots()]


class Pending(Local):
    """One with a pending batch that ends at ``end``. The batch before it ended at 9."""

    def __init__(self, root: Path, end: int) -> None:
        super().__init__(root)
        self.end = end
        self.put("offsets/1", b'v1\n{"batchWatermarkMs":0,"batchTimestampMs":2}\n{"stream":"a","positions":{"0":1}}')

    def batch(self, number: int) -> Batch:
        return Batch(number, {"flights": {0: 9}}, {"flights": {0: self.end}}, Progress())


@pytest.mark.parametrize(
    ("end", "published", "last"),
    [(4, 0, 0), (9, 0, 1), (12, 0, 1), (4, 1, 1)],
    ids=["before it begins", "where it begins", "later", "before it begins, but a part of it is in an output"],
)
def test_a_pending_batch_that_ends_before_it_begins_is_forgotten(
    tmp_path: Path, end: int, published: int, last: int
) -> None:
    folder = Pending(tmp_path, end)
    damage.mend(folder, ITS, published)
    assert (folder.planned(), folder.committed()) == (last, 0)
