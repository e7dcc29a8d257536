"""Which damage to a lane's folder is seen, and which batch the lane can go on from: on folders that lanes have left."""

from __future__ import annotations

import json
import shutil
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from anabranch.container.checkpoint import checksums, soundness
from anabranch.container.checkpoint.soundness import Checkpoint, Resumption
from tests.support.paths import OLD_JOBS
from tests.unit.coordinator.helpers import lane

LAST = 5
"""The last batch of the stateful lane; its state is that of version 6."""

Harm = Callable[[Path], None]


@pytest.fixture(scope="session")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a lane with state that was stopped after its batch 5."""
    folder = tmp_path_factory.mktemp("stopped")
    with tarfile.open(OLD_JOBS / "stopped-9a32a78.tar.xz") as archive:
        archive.extractall(folder)  # ours; Python 3.11.2 has no filters
    return next(folder.glob(".anabranch/lanes/delays/1-*/1"))


@pytest.fixture
def folder(stopped: Path, tmp_path: Path) -> Path:
    return shutil.copytree(stopped, tmp_path / "lane")


def checkpoint(folder: Path, partitions: int = 1, least: int = -1) -> Checkpoint:
    files = [path for path in folder.rglob("*") if path.is_file()]
    sizes = {str(path.relative_to(folder)): path.stat().st_size for path in files}
    return Checkpoint(sizes, lambda name: (folder / name).read_bytes(), partitions, least=least)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def half_without_checksum(path: Path) -> None:
    half(path)
    no_checksum(path)


def gone(path: Path) -> None:
    path.unlink()


def no_checksum(path: Path) -> None:
    (path.parent / f".{path.name}.crc").unlink()


def other_content(path: Path) -> None:
    path.write_bytes(path.read_bytes()[::-1])


NEEDED = ["offsets/4", "offsets/5", "commits/5", "state/0/0/6.changelog", "state/0/0/1.changelog"]


def test_a_whole_folder_has_no_faults(folder: Path) -> None:
    assert soundness.faults(checkpoint(folder)) == []
    assert checkpoint(folder).planned == checkpoint(folder).committed == LAST


@pytest.mark.parametrize("harm", [empty, half, gone, other_content])
@pytest.mark.parametrize("name", NEEDED)
def test_a_file_that_is_needed_is_named(folder: Path, name: str, harm: Harm) -> None:
    harm(folder / name)
    assert name in [fault.name for fault in soundness.faults(checkpoint(folder))] or harm is gone
    assert soundness.faults(checkpoint(folder)) or name == "commits/5"  # such a batch is as one that is to be run again


@pytest.mark.parametrize("name", NEEDED)
def test_a_missing_checksum_is_no_fault(folder: Path, name: str) -> None:
    no_checksum(folder / name)
    assert soundness.faults(checkpoint(folder)) == []


@pytest.mark.parametrize("name", ["offsets/5", "commits/5"])
def test_half_a_file_of_json_is_a_fault_without_its_checksum(folder: Path, name: str) -> None:
    half_without_checksum(folder / name)
    assert [fault.name for fault in soundness.faults(checkpoint(folder))] == [name]


@pytest.mark.parametrize("name", ["offsets/2", "commits/3", "state/0/0/left-over"])
def test_what_no_restart_reads_is_no_fault(folder: Path, name: str) -> None:
    empty(folder / name)
    assert soundness.faults(checkpoint(folder)) == []


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "is empty"),
        (bytes(20), "is damaged"),
        (b"\0v1", "is damaged"),
        (b'\0v1\n{"in":{"0"', "is damaged"),
        (b'\0v1\n{"in":{"0":3}}', ""),
        (b"of a source that isn't Kafka's", ""),
    ],
)
@pytest.mark.parametrize(
    ("others", "read"),
    [
        ([], True),
        (["starting.json"], True),
        (["starting.json", "offsets/0"], True),
        (["offsets/0"], False),
        (["starting.json", "offsets/0", "commits/0"], False),
    ],
)
def test_where_a_source_begins_is_looked_at_until_a_batch_is_committed(
    content: bytes, problem: str, others: list[str], read: bool
) -> None:
    """It isn't removed if only it says where a batch begins that was planned."""
    files = {"sources/0/0": b'\0v1\n{"in":{"0":3}}', "sources/1/0": content, **dict.fromkeys(others, b"{}")}
    there = Checkpoint({name: len(text) for name, text in files.items()}, files.__getitem__)
    found = [(name, fault.problem.partition(" (")[0]) for name, fault in there.useless_begins()]
    assert found == ([("sources/1/0", problem)] if problem and read else [])


def test_where_a_source_begins_is_compared_with_its_checksum() -> None:
    files = {"sources/0/0": b'\0v1\n{"in":{"0":3}}', "sources/0/.0.crc": b"crc\0\0\0\2\0wrong"}
    there = Checkpoint({name: len(text) for name, text in files.items()}, files.__getitem__)
    ((name, fault),) = there.useless_begins()
    assert (name, fault.problem) == ("sources/0/0", "doesn't match its checksum (.0.crc)")


def test_state_that_is_gone_is_missed(folder: Path) -> None:
    assert soundness.faults(checkpoint(folder, partitions=2))[0].name == "state/0/1"
    shutil.rmtree(folder / "state")
    assert soundness.faults(checkpoint(folder))[0].name == "state"
    assert soundness.faults(checkpoint(folder, partitions=0)) == []


@pytest.mark.parametrize(
    ("name", "published", "resumed"),
    [
        ("offsets/5", 4, Resumption(4, pending=False)),
        ("offsets/5", 5, None),  # its output is seen, and where it ended isn't known
        ("offsets/4", 3, Resumption(3, pending=False)),
        ("offsets/4", 4, None),  # Spark reads it even if the lane goes on after batch 5
        ("commits/5", 5, Resumption(5, pending=True)),
        ("state/0/0/6.changelog", 5, Resumption(5, pending=True)),
        ("state/0/0/6.changelog", 6, None),
        ("state/0/0/5.changelog", 4, Resumption(4, pending=True)),
        ("state/0/0/5.changelog", 5, None),
        ("state/0/0/1.changelog", 5, None),
    ],
)
def test_a_lane_goes_on_from_the_last_batch_that_nothing_was_published_after(
    folder: Path, name: str, published: int, resumed: Resumption | None
) -> None:
    empty(folder / name)
    assert soundness.resumption(checkpoint(folder), 0, published) == resumed


def test_no_batch_of_another_lane_is_run_again(folder: Path) -> None:
    empty(folder / "state/0/0/6.changelog")
    assert soundness.resumption(checkpoint(folder), 6, -1) is None
    assert soundness.resumption(checkpoint(folder), 5, -1) == Resumption(5, pending=True)


def test_everything_that_the_last_seconds_wrote_may_be_empty(folder: Path) -> None:
    """https://github.com/influxdata/influxdb/issues/27654, https://github.com/elastic/logstash/issues/8218"""
    for name in ("offsets/5", "offsets/4", "commits/5", "commits/4", "commits/3", "state/0/0/6.changelog"):
        empty(folder / name)
    assert soundness.resumption(checkpoint(folder), 0, 3) == Resumption(3, pending=True)
    assert soundness.resumption(checkpoint(folder), 0, 4) is None


@pytest.mark.parametrize(("published", "resumed"), [(3, Resumption(3, pending=False)), (4, None), (5, None)])
def test_an_entry_that_is_missing_in_between_is_seen(folder: Path, published: int, resumed: Resumption | None) -> None:
    """https://github.com/apache/spark/pull/35458"""
    for name in ("offsets/4", "commits/4", "commits/5"):
        gone(folder / name)
    assert [fault.name for fault in soundness.faults(checkpoint(folder))] == ["offsets/4", "commits/4"]
    assert soundness.resumption(checkpoint(folder), 0, published) == resumed


def test_a_lane_whose_only_batch_is_damaged_begins_anew_if_nothing_was_published(folder: Path) -> None:
    for name in ("offsets", "commits", "state"):
        shutil.rmtree(folder / name)
    (folder / "offsets").mkdir()
    empty(folder / "offsets" / "0")
    assert soundness.resumption(checkpoint(folder), 0, -1) == Resumption(-1, pending=False)
    assert soundness.resumption(checkpoint(folder), 0, 0) is None


@pytest.mark.parametrize(
    ("fields", "known"),
    [
        ({}, -1),
        ({"last_batch": 7}, 0),  # batches from 1 on may have been discarded since, because they were damaged
        ({"first_batch": 6}, 5),
        ({"first_batch": 6, "last_batch": 5}, 5),
    ],
)
def test_a_folder_without_the_batches_that_the_store_knows_is_a_fault(
    folder: Path, fields: dict[str, Any], known: int
) -> None:
    least = soundness.least(lane("0-a", stateful=True, **fields))
    assert least == known
    assert soundness.faults(checkpoint(folder, least=least)) == []
    for name in ("offsets", "commits"):
        shutil.rmtree(folder / name)
    found = soundness.faults(checkpoint(folder, least=least))
    problem = f"has no batch after -1, but the store knows batch {known} of the lane"
    assert [(fault.name, fault.problem) for fault in found] == ([("offsets", problem)] if known >= 0 else [])
    first = fields.get("first_batch", 0)
    assert soundness.resumption(checkpoint(folder, least=least), first, -1) is None


def test_an_older_copy_than_what_a_lane_took_over_is_a_fault(folder: Path) -> None:
    (fault,) = soundness.faults(checkpoint(folder, least=6))
    assert fault.problem == "has no batch after 5, but the store knows batch 6 of the lane"
    assert soundness.resumption(checkpoint(folder, least=6), 7, -1) is None


def test_a_lane_that_has_ended_with_a_batch_never_begins_anew(folder: Path) -> None:
    for name in ("offsets", "commits", "state"):
        shutil.rmtree(folder / name)
    (folder / "offsets").mkdir()
    empty(folder / "offsets" / "0")
    assert soundness.resumption(checkpoint(folder, least=0), 0, -1) is None


def test_a_snapshot_without_one_of_its_tables_is_a_fault(folder: Path) -> None:
    store = folder / "state" / "0" / "0"
    described = {"sstFiles": [{"localFileName": "8.sst", "dfsSstFileName": "8-a.sst", "sizeBytes": 3}], "numKeys": 5}
    with zipfile.ZipFile(store / "4.zip", "w") as archive:
        archive.writestr("metadata", f"v1\n{json.dumps(described)}")
    changes = (store / "1.changelog").read_bytes()
    (store / "1.changelog").unlink()  # the snapshot has it
    assert soundness.faults(checkpoint(folder))[0].name == "state/0/0/SSTs/8-a.sst"
    (store / "SSTs").mkdir()
    (store / "SSTs" / "8-a.sst").write_bytes(b"12")
    assert "2 bytes instead of 3" in soundness.faults(checkpoint(folder))[0].problem
    (store / "1.changelog").write_bytes(changes)
    assert soundness.faults(checkpoint(folder)) == []
    assert [name for name, _ in checkpoint(folder).useless_snapshots()] == ["state/0/0/4.zip"]
    (store / "1.changelog").unlink()
    (store / "SSTs" / "8-a.sst").write_bytes(b"123")
    assert soundness.faults(checkpoint(folder)) == []
    assert checkpoint(folder).useless_snapshots() == []
    half(store / "4.zip")
    assert soundness.faults(checkpoint(folder))[0].name == "state/0/0/4.zip"


def test_a_snapshot_that_was_never_written_whole_is_passed_over(folder: Path) -> None:
    """Spark's maintenance writes snapshots, and nothing syncs them before the next batch."""
    for name in ("state/0/0/3.zip", "state/0/0/6.zip"):
        empty(folder / name)
    assert soundness.faults(checkpoint(folder)) == []
    useless = checkpoint(folder).useless_snapshots()
    assert [(name, fault.problem) for name, fault in useless] == [
        ("state/0/0/6.zip", "is empty"),
        ("state/0/0/3.zip", "is empty"),
    ]
    empty(folder / "state/0/0/6.changelog")
    assert soundness.faults(checkpoint(folder))[0].name == "state/0/0/6.zip"
    assert soundness.resumption(checkpoint(folder), 0, 5) == Resumption(5, pending=True)
    gone(folder / "state/0/0/2.changelog")
    assert soundness.resumption(checkpoint(folder), 0, 3) is None


def test_checksums_are_hadoops(folder: Path) -> None:
    files = [path for path in folder.rglob(".*.crc") if path.with_name(path.name[1:-4]).exists()]
    assert len(files) > 15
    for path in files:
        content = path.with_name(path.name[1:-4]).read_bytes()
        assert checksums.agrees(content, path.read_bytes())
        assert not checksums.agrees(content + b"x", path.read_bytes())
        assert not checksums.agrees(content, path.read_bytes()[:-1])
        assert checksums.agrees(content, b"")
