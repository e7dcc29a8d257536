"""The embedded log in a backup: a cut through a stream, copied and made a stream elsewhere."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from anabranch.errors import ConflictError
from anabranch.systems.archive import DeletedError, Publication, StreamCut
from anabranch.systems.embedded import EmbeddedSystem, LaneWriter, Log, fence
from anabranch.systems.embedded.archive import EmbeddedArchive
from anabranch.systems.retention import Retention
from tests.unit.systems.embedded.helpers import contents, put


@pytest.fixture
def log(tmp_path: Path) -> Log:
    made = Log(tmp_path / "streams", now=lambda: 5)
    made.create("out", 2)
    return made


def copied(log: Log, cut: StreamCut, folder: Path) -> Path:
    """What a backup has of a stream, in a folder."""
    archive = EmbeddedArchive(log)
    for file in archive.files("out", cut):
        (folder / file.name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(archive.folder / file.name, folder / file.name)
    for name, text in archive.descriptions("out", cut).items():
        (folder / name).write_text(text)
    return folder


def last_entries(archive: EmbeddedArchive, cut: StreamCut, folder: Path) -> list[bytes]:
    return [(folder / name).read_bytes() for name in archive.last_entries("out", cut)]


def test_a_cut_is_a_stream_elsewhere_without_what_came_after_it(log: Log, tmp_path: Path) -> None:
    writer = LaneWriter(log, "j", "lane", epoch=1)
    put(writer, log, "out", 0, 0, b"a", b"b")
    put(writer, log, "out", 1, 0, b"c")
    cut = EmbeddedArchive(log).cut("out")
    assert cut.ends == (2, 1)
    put(writer, log, "out", 0, 1, b"d")
    fence(log, "out", "j", "lane", 3)
    assert EmbeddedArchive(log).batches("out", cut) == [{"lane": 0}, {"lane": 0}]
    assert EmbeddedArchive(log).later("out", cut) == [
        [Publication(2, 3, "lane", 1), Publication(3, 3)],
        [Publication(2, 1)],
    ]

    other = EmbeddedArchive(Log(tmp_path / "elsewhere"))
    other.folder.mkdir()
    (beside := other.folder / ".restoring").mkdir()
    other.adopt("out", copied(log, cut, beside))
    there = Log(tmp_path / "elsewhere")
    assert there.streams() == ["out"]
    assert there.describe("out") == log.describe("out")
    assert [contents(there, "out", number) for number in range(2)] == [[b"a", b"b"], [b"c"]]
    again = LaneWriter(there, "j", "lane", epoch=1001)
    assert again.known_batch("out", 0) == 0
    assert put(again, there, "out", 0, 1, b"d")
    put(again, there, "out", 1, 1, b"e")
    assert contents(there, "out", 1) == [b"c", b"e"], "a partition without new records can be written, too"


def test_a_stream_that_has_all_of_a_cut_stays(log: Log, tmp_path: Path) -> None:
    archive = EmbeddedArchive(log)
    writer = LaneWriter(log, "j", "lane", epoch=1)
    put(writer, log, "out", 0, 0, b"a")
    cut = archive.cut("out")
    entries = last_entries(archive, cut, copied(log, cut, tmp_path / "copy"))
    assert archive.is_there("out", cut, entries)
    put(writer, log, "out", 0, 1, b"b")
    assert archive.is_there("out", cut, entries), "it may have more"
    assert not EmbeddedArchive(Log(tmp_path / "nowhere")).is_there("out", cut, entries)


def test_another_stream_of_the_name_or_an_older_one_is_refused(log: Log, tmp_path: Path) -> None:
    archive = EmbeddedArchive(log)
    old = archive.cut("out")
    copied(log, old, tmp_path / "old")
    put(LaneWriter(log, "j", "lane", epoch=1), log, "out", 0, 0, b"a")
    cut = archive.cut("out")
    entries = last_entries(archive, cut, copied(log, cut, tmp_path / "copy"))
    with pytest.raises(ConflictError, match=r"it lacks records that the backup has, from .*out/0/manifest/0*1.json on"):
        EmbeddedArchive(Log(tmp_path / "old")).is_there("out", cut, entries)
    another = Log(tmp_path / "another")
    another.create("out", 2)
    with pytest.raises(ConflictError, match="it isn't the one that was backed up"):
        EmbeddedArchive(another).is_there("out", cut, entries)


def test_a_cut_of_a_stream_that_begins_later_is_that_stream_elsewhere(log: Log, tmp_path: Path) -> None:
    writer = LaneWriter(log, "j", "lane", epoch=1)
    for batch in range(4):
        put(writer, log, "out", 0, batch, b"%d" % batch)
    log.retain("out", Retention(bytes=0))
    log.purge("out", {0: 2})
    cut = EmbeddedArchive(log).cut("out")
    assert (cut.starts, cut.ends) == ((2, 0), (4, 0))
    other = EmbeddedArchive(Log(tmp_path / "elsewhere"))
    (beside := other.folder / ".restoring").mkdir(parents=True)
    other.adopt("out", copied(log, cut, beside))
    there = Log(tmp_path / "elsewhere")
    assert there.describe("out") == log.describe("out")
    assert there.starts("out") == log.starts("out")
    assert contents(there, "out", 0, 2) == [b"2", b"3"]
    assert put(LaneWriter(there, "j", "lane", epoch=2), there, "out", 0, 4, b"4")
    assert EmbeddedSystem(there.root).faults("out") == []
    files = list(EmbeddedArchive(log).files("out", cut))
    assert not any(EmbeddedArchive(log).is_deleted("out", each) for each in files)
    log.expire("out")
    with pytest.raises(DeletedError, match=r"out/0/manifest/0*3.json"):
        list(EmbeddedArchive(log).files("out", cut))
    assert {each.entry for each in files if EmbeddedArchive(log).is_deleted("out", each)} == {3}
