"""Streams of the embedded log are copied to a backup, also if their files are damaged or deleted meanwhile."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from anabranch.backup import stream_files
from anabranch.backup.cut import MovedOnError, PartitionCopy
from anabranch.errors import DamagedError
from anabranch.systems.archive import StreamCut
from anabranch.systems.embedded import LaneWriter, Log
from anabranch.systems.embedded.archive import EmbeddedArchive
from anabranch.systems.retention import Retention
from tests.unit.backup.trees import OnDisk
from tests.unit.systems.embedded.helpers import contents, put

BATCHES = 3


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """A log with a stream ``out`` of one partition, with a record in each of several batches."""
    made = Log(tmp_path / "streams", now=lambda: 5)
    made.create("out", 1)
    writer = LaneWriter(made, "delays", "lane", epoch=1)
    for batch in range(BATCHES):
        put(writer, made, "out", 0, batch, b"%d" % batch)
    return made


def cut(log: Log) -> StreamCut:
    return EmbeddedArchive(log).cut("out")


def copy(log: Log, at: StreamCut, place: Path) -> Path:
    """Where the streams of a backup in ``place`` are."""
    place.mkdir()
    stream_files.copy("delays", OnDisk(place), {"out": ("embedded", EmbeddedArchive(log))}, {"out": at})
    return place / "streams" / "embedded"


def first_segment(log: Log) -> Path:
    (file, *_) = [each for each in EmbeddedArchive(log).files("out", cut(log)) if each.size is not None]
    return log.root / file.name


def first_entry(log: Log) -> Path:
    return next((log.root / "out" / "0" / "manifest").glob("*1.json"))


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:40])


def expire(log: Log) -> None:
    """Delete all records but the last."""
    log.retain("out", Retention(bytes=0))
    log.purge("out", {0: BATCHES})


def test_a_stream_is_copied_whole(log: Log, tmp_path: Path) -> None:
    there = Log(copy(log, cut(log), tmp_path / "backup"))
    assert there.describe("out") == log.describe("out")
    assert contents(there, "out", 0) == contents(log, "out", 0) == [b"0", b"1", b"2"]


@pytest.mark.parametrize(
    ("damaged", "damage", "problem"),
    [
        (first_segment, truncate, r"has 40 bytes instead of \d+"),
        (first_segment, Path.unlink, "is missing"),
        (first_entry, truncate, ""),
        (first_entry, Path.unlink, "is missing"),
    ],
)
def test_a_damaged_file_ends_the_backup_and_is_named(
    log: Log, tmp_path: Path, damaged: Callable[[Log], Path], damage: Callable[[Path], None], problem: str
) -> None:
    at, path = cut(log), damaged(log)
    damage(path)
    with pytest.raises(DamagedError, match=f"{re.escape(str(path))} {problem}") as caught:
        copy(log, at, tmp_path / "backup")
    assert "anabranch check delays" in caught.value.cure


@pytest.mark.parametrize("damage", [truncate, Path.unlink])
def test_a_damaged_last_entry_ends_the_backup_before_anything_is_copied(
    log: Log, damage: Callable[[Path], None]
) -> None:
    at = cut(log)
    streams = {"out": ("embedded", EmbeddedArchive(log))}
    whole = {("out", 0): PartitionCopy(BATCHES, {"lane": BATCHES - 1}, [])}
    assert stream_files.partitions("delays", streams, {"out": at}) == whole
    path = log.root / EmbeddedArchive(log).last_entries("out", at)[0]
    damage(path)
    with pytest.raises(DamagedError, match=re.escape(str(path))):
        stream_files.partitions("delays", streams, {"out": at})


def test_a_stream_that_gets_more_partitions_lets_the_backup_be_tried_again(log: Log) -> None:
    streams, before = {"out": ("embedded", EmbeddedArchive(log))}, cut(log)
    log.expand("out", 2)
    with pytest.raises(MovedOnError, match="stream out had 1 partitions, and has 2 now"):
        stream_files.partitions("delays", streams, {"out": before})
    assert len(stream_files.partitions("delays", streams, {"out": cut(log)})) == 2


def test_files_that_retention_deletes_meanwhile_let_the_backup_be_tried_again(log: Log, tmp_path: Path) -> None:
    before = cut(log)
    expire(log)
    assert cut(log).starts > before.starts
    with pytest.raises(MovedOnError, match=r"stream out: .* was deleted"):
        copy(log, before, tmp_path / "backup")
    there = Log(copy(log, cut(log), tmp_path / "again"))
    assert there.starts("out") == log.starts("out")


def test_a_file_that_retention_deletes_after_it_was_listed_lets_the_backup_be_tried_again(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_cut = EmbeddedArchive.files

    def files(archive: EmbeddedArchive, stream: str, at: StreamCut) -> list[object]:
        listed = [*of_cut(archive, stream, at)]
        expire(log)
        return [*listed]

    monkeypatch.setattr(EmbeddedArchive, "files", files)
    with pytest.raises(MovedOnError, match=r"stream out: .* was deleted"):
        copy(log, cut(log), tmp_path / "backup")
