"""A retention deletes nothing that a known reader has still to read, whoever is killed or deletes meanwhile."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from anabranch.errors import LogError, UnsupportedFormatError, UsageError
from anabranch.systems.embedded import EmbeddedSystem, LaneWriter, Log, disk, start
from anabranch.systems.embedded.log_readers import LogReaders
from anabranch.systems.readers import Reader, ReaderLag
from anabranch.systems.retention import Retention
from tests.unit.systems.embedded.helpers import Killed, contents, killed_at, put

ENTRIES = 5
"""Entries of two records each, so the partition ends at offset 10, and its last entry begins at 8."""


@pytest.fixture
def log(tmp_path: Path) -> Log:
    made = Log(tmp_path / "root", now=iter(range(1, 10**6)).__next__)
    made.create("s", 2)
    writer = LaneWriter(made, "writing", "lane", 1)
    for number in range(2):
        for batch in range(ENTRIES):
            put(writer, made, "s", number, batch, b"%da" % batch, b"%db" % batch)
    made.retain("s", Retention(ms=0))
    return made


def begins(log: Log) -> list[int]:
    return [each.offset for _, each in sorted(log.starts("s").items())]


def advanced(log: Log, job: str, positions: Mapping[int, int]) -> bool:
    readers = log.readers("s")
    return readers.advance(job, positions, readers.all()[job].revision)


@pytest.mark.parametrize(
    ("readers", "expected"),
    [
        ({}, [8, 8]),
        ({"j": {}}, [0, 0]),
        ({"j": {0: 4}}, [4, 0]),
        ({"j": {0: 5, 1: 3}}, [4, 2]),
        ({"j": {0: 10, 1: 10}}, [8, 8]),
        ({"j": {0: 10, 1: 2}, "k": {0: 6, 1: 10}}, [6, 2]),
        ({"j": {0: 10, 1: 10}, "k": {}}, [0, 0]),
    ],
    ids=["nobody", "unknown", "a partition unknown", "within entries", "all read", "two jobs", "one of two unknown"],
)
def test_what_is_still_to_be_read_stays(
    log: Log, readers: Mapping[str, Mapping[int, int]], expected: list[int]
) -> None:
    for job, positions in readers.items():
        log.readers("s").hold(job, positions)
    assert log.expire("s") == sum(expected)
    assert begins(log) == expected
    assert log.expire("s") == 0


def test_who_writes_heeds_readers_too(log: Log) -> None:
    log.readers("s").hold("j", {0: 4, 1: 4})
    assert put(LaneWriter(Log(log.root), "writing", "other", 1), log, "s", 0, 0, b"x")
    assert begins(log) == [4, 0]


def test_records_between_stages_are_purged_by_who_knows_that_they_were_read(log: Log) -> None:
    log.readers("s").hold_all("j")
    log.purge("s", {0: 6})
    assert begins(log) == [6, 0]


def test_a_user_may_accept_the_loss(log: Log) -> None:
    log.readers("s").hold("j", {0: 4})
    assert log.expire("s", past_readers=True) == 16
    assert begins(log) == [8, 8]
    assert log.readers("s").all()["j"].positions == {0: 4}


@pytest.mark.parametrize(
    ("known", "asked", "expected", "changes"),
    [
        (None, {0: 7}, {0: 7}, True),
        ({0: 7}, {0: 7}, {0: 7}, False),
        ({0: 7}, {0: 9}, {0: 7}, False),
        ({0: 7}, {0: 3}, {0: 3}, True),
        ({0: 7}, {1: 3}, {0: 7}, False),
        ({0: 7, 1: 2}, {0: 3, 1: 4}, {0: 3, 1: 2}, True),
    ],
)
def test_a_hold_lowers_and_never_raises(
    log: Log, known: Mapping[int, int] | None, asked: Mapping[int, int], expected: Mapping[int, int], changes: bool
) -> None:
    readers = log.readers("s")
    if known is not None:
        readers.hold("j", known)
    before = readers.all().get("j")
    readers.hold("j", asked)
    after = readers.all()["j"]
    assert after.positions == expected
    assert (before is None or after.revision != before.revision) is changes


def test_who_chooses_where_it_begins_keeps_all_under_a_new_revision(log: Log) -> None:
    readers = log.readers("s")
    readers.hold_all("j")
    first = readers.all()["j"]
    readers.hold_all("j")
    assert (first.positions, readers.all()["j"].positions) == ({}, {})
    assert not readers.advance("j", {0: 10}, first.revision), "what was computed before the choice"
    assert log.expire("s") == 0


def test_positions_only_rise_by_advancing(log: Log) -> None:
    readers = log.readers("s")
    assert not readers.advance("j", {0: 4}, ""), "nobody has registered"
    readers.hold("j", {0: 2, 1: 2})
    assert advanced(log, "j", {0: 4})
    assert readers.all()["j"].positions == {0: 4, 1: 2}
    assert advanced(log, "j", {0: 3, 1: 6})
    assert readers.all()["j"].positions == {0: 4, 1: 6}


def test_a_reader_is_forgotten_unless_it_has_begun_again(log: Log) -> None:
    readers = log.readers("s")
    readers.forget("j")
    readers.hold_all("j")
    readers.hold_all("k")
    readers.forget("j", revision="an earlier one")
    assert set(readers.all()) == {"j", "k"}
    readers.forget("j", revision=readers.all()["j"].revision)
    assert set(readers.all()) == {"k"}
    readers.forget("k")
    assert readers.all() == {}
    assert log.expire("s") == 16


STEPS_OF_HOLD = ["makedirs", *["fsync", "rename", "fsync"], "fsync", "fsync"]


def test_the_kills_reach_every_step(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    readers = log.readers("s")
    with killed_at(99, monkeypatch, after=False) as steps:
        readers.hold("j", {0: 4})
    assert [step for step in steps if step != "makedirs"] == STEPS_OF_HOLD[1:]
    with killed_at(99, monkeypatch, after=False) as steps:
        advanced(log, "j", {0: 6})
    assert steps == ["fsync", "rename", "fsync"]
    with killed_at(99, monkeypatch, after=False) as steps:
        readers.forget("j")
    assert steps == ["unlink", "fsync"]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", range(len(STEPS_OF_HOLD)))
@pytest.mark.parametrize("known", [False, True], ids=["new", "lowered"])
def test_killed_while_it_registers_a_reader_registers_again(
    log: Log, monkeypatch: pytest.MonkeyPatch, step: int, after: bool, known: bool
) -> None:
    readers = log.readers("s")
    if known:
        readers.hold("j", {0: 6, 1: 6})
    with killed_at(step, monkeypatch, after=after), contextlib.suppress(Killed):
        readers.hold("j", {0: 2, 1: 4})
    with killed_at(99, monkeypatch, after=False) as steps:
        Log(log.root).readers("s").hold("j", {0: 2, 1: 4})
    assert steps[-2:] == ["fsync", "fsync"], "the names are durable now, even if the killed process had made them"
    assert log.readers("s").all()["j"].positions == {0: 2, 1: 4}
    log.expire("s")
    assert begins(log) == [2, 4]
    assert EmbeddedSystem(log.root).faults("s") == []


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", range(3))
def test_killed_while_it_advances_the_old_or_the_new_position_counts(
    log: Log, monkeypatch: pytest.MonkeyPatch, step: int, after: bool
) -> None:
    log.readers("s").hold("j", {0: 2, 1: 2})
    with killed_at(step, monkeypatch, after=after), contextlib.suppress(Killed):
        advanced(log, "j", {0: 6})
    is_renamed = step > 1 or (step == 1 and after)
    assert log.readers("s").all()["j"].positions == {0: 6 if is_renamed else 2, 1: 2}
    assert advanced(log, "j", {0: 6})
    log.expire("s")
    assert begins(log) == [6, 2]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", range(2))
def test_killed_while_it_is_forgotten_a_reader_can_be_forgotten_again(
    log: Log, monkeypatch: pytest.MonkeyPatch, step: int, after: bool
) -> None:
    log.readers("s").hold_all("j")
    with killed_at(step, monkeypatch, after=after), contextlib.suppress(Killed):
        log.readers("s").forget("j")
    log.readers("s").forget("j")
    assert log.readers("s").all() == {}
    assert log.expire("s") == 16


def test_what_is_not_durable_is_no_registration(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", broken)
        with pytest.raises(LogError, match=r"j can't be registered as a reader of s in .*readers: Input/output error"):
            log.readers("s").hold("j", {0: 4})


def test_a_deletion_under_way_ends_before_a_reader_is_registered(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever deletes has looked for readers, found none, and is about to move the start. The reader sees that start,
    and not one that moves later."""
    seen: list[list[int]] = []
    registered = threading.Event()
    real = start.write

    def register() -> None:
        other = Log(log.root)
        other.readers("s").hold_all("j")
        registered.set()
        seen.append(begins(other))

    thread = threading.Thread(target=register)

    def write(path: str, begin: start.Start) -> None:
        if not thread.ident:
            thread.start()
            assert not registered.wait(0.3), "the reader waits for the deletion"
        real(path, begin)

    with monkeypatch.context() as patch:
        patch.setattr(start, "write", write)
        log.expire("s")
    thread.join()
    assert seen == [begins(log)]
    assert log.expire("s") == 0


def test_readers_writers_and_whoever_deletes_do_not_disturb_each_other(log: Log) -> None:
    """A reader registers, chooses the beginning, and reads everything from there, while all else goes on."""
    done, faults, rounds = threading.Event(), list[BaseException](), 5

    def guarded(act: object, *args: object) -> None:
        try:
            act(*args)  # type: ignore[operator]
        except BaseException as error:
            faults.append(error)

    def write() -> None:
        mine, batch = Log(log.root), ENTRIES
        writer = LaneWriter(mine, "writing", "another", 1)
        while not done.is_set():
            put(writer, mine, "s", 0, batch, b"%da" % batch, b"%db" % batch)
            batch += 1

    def delete() -> None:
        mine = Log(log.root)
        while not done.is_set():
            mine.expire("s")

    def read(job: str) -> None:
        for _ in range(rounds):
            mine = Log(log.root)
            readers = mine.readers("s")
            readers.hold_all(job)
            first, end = mine.starts("s")[0].offset, mine.ends("s")[0].end
            assert len(contents(mine, "s", 0, first, end)) == end - first
            assert mine.starts("s")[0].offset == first, "nothing is deleted that the reader has chosen"
            assert advanced(mine, job, {0: end})
            readers.forget(job)

    others = [threading.Thread(target=guarded, args=(each,)) for each in (write, delete, delete)]
    reading = [threading.Thread(target=guarded, args=(read, job)) for job in ("j", "k")]
    for thread in (*others, *reading):
        thread.start()
    for thread in reading:
        thread.join()
    done.set()
    for thread in others:
        thread.join()
    assert faults == []
    assert begins(log)[0] > 0


def test_a_damaged_file_of_a_reader_stops_the_retention_and_nothing_else(log: Log) -> None:
    log.readers("s").hold("j", {0: 4})
    path = log.root / "s" / "readers" / "j.json"
    path.write_bytes(b"")
    with pytest.raises(LogError, match=r"readers/j\.json is damaged") as caught:
        log.expire("s")
    assert caught.value.cure == (
        "stop and start job j, which writes the file again; or, if that job no longer exists: "
        "anabranch stream retain s --forget-reader j"
    )
    (fault,) = EmbeddedSystem(log.root).faults("s")
    assert (fault.path, fault.lost) == (str(path), "nothing of s, but its retention deletes nothing")
    assert put(LaneWriter(Log(log.root), "writing", "other", 1), log, "s", 0, 0, b"x"), "a batch doesn't fail"
    assert begins(log) == [0, 0]


@pytest.mark.parametrize("content", [b"", b'{"version": 1, "job": "j"'])
def test_a_job_replaces_its_own_damaged_file_and_is_a_reader_all_the_time(
    log: Log, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    log.readers("s").hold("j", {0: 4, 1: 4})
    path = log.root / "s" / "readers" / "j.json"
    path.write_bytes(content)
    with killed_at(99, monkeypatch, after=False) as steps:
        log.readers("s").hold("j", {0: 4, 1: 4})
    assert "unlink" not in steps
    assert log.readers("s").all()["j"].positions == {}, "what the damaged file said is not known"
    assert log.expire("s") == 0
    assert advanced(log, "j", {0: 4, 1: 4})
    assert log.expire("s") == 8


def test_a_file_of_a_newer_version_is_not_replaced(log: Log) -> None:
    log.readers("s").hold("j", {0: 4})
    path = log.root / "s" / "readers" / "j.json"
    path.write_bytes(b'{"version": 2}')
    with pytest.raises(UnsupportedFormatError, match=r"j\.json has format version 2"):
        log.readers("s").hold("j", {0: 4})
    assert path.read_bytes() == b'{"version": 2}'


@pytest.mark.parametrize("content", [b"", b'{"version": 2}'])
def test_a_damaged_file_of_one_job_does_not_stop_others(log: Log, content: bytes) -> None:
    readers = log.readers("s")
    readers.hold("k", {0: 4, 1: 4})
    (log.root / "s" / "readers" / "j.json").write_bytes(content)
    readers.hold("k", {0: 2, 1: 2})
    readers.hold_all("l")
    known = readers.of("k")
    assert known is not None
    assert readers.advance("k", {0: 6}, known.revision)
    assert readers.forget("l")
    assert readers.of("k") == Reader(job="k", revision=known.revision, positions={0: 6, 1: 2})
    assert readers.of("l") is None


def test_a_reader_with_a_damaged_file_can_be_forgotten(log: Log) -> None:
    log.readers("s").hold_all("j")
    (log.root / "s" / "readers" / "j.json").write_bytes(b"")
    assert log.readers("s").forget("j")
    assert not log.readers("s").forget("j")
    assert log.expire("s") == 16


def test_no_name_leads_out_of_the_folder(log: Log) -> None:
    readers = log.readers("s")
    for call in (readers.forget, readers.of, readers.hold_all):
        with pytest.raises(UsageError, match="can't be the name of a job"):
            call("../stream")
    with pytest.raises(UsageError, match="can't be the name of a stream"):
        log.readers("s/../s")
    assert log.describe("s").partitions == 2


def test_who_may_only_read_the_log_can_forget_who_is_no_reader(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    readers = log.readers("s")
    readers.hold("j", {0: 4})
    known = readers.of("j")
    assert known is not None

    def refuse(path: str, what: str) -> contextlib.AbstractContextManager[None]:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    monkeypatch.setattr(disk, "exclusive", refuse)
    assert not readers.forget("k")
    with pytest.raises(LogError, match=r"j can't be removed from the readers of s in .*readers: Permission denied"):
        readers.forget("j")
    with pytest.raises(LogError, match=r"what j has read of s can't be stored in .*readers: Permission denied"):
        readers.advance("j", {0: 5}, known.revision)


def test_what_each_reader_keeps(log: Log) -> None:
    assert log.lags("s") == []
    log.readers("s").hold("j", {0: 10, 1: 10})
    log.readers("s").hold("k", {0: 3, 1: 8})
    at = (log.root / "s" / "readers" / "k.json").stat().st_mtime
    by_job = {lag.job: lag for lag in log.lags("s")}
    assert by_job["k"] == ReaderLag(job="k", unread=9, overdue=6, changed_at=at)
    assert (by_job["j"].unread, by_job["j"].overdue) == (0, 0)
    log.retain("s", Retention())
    assert {lag.job: lag.overdue for lag in log.lags("s")} == {"j": 0, "k": 0}


@pytest.mark.parametrize("code", [errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC])
@pytest.mark.parametrize("retained", [False, True])
def test_a_job_that_may_only_read_a_stream_reads_it_unless_that_has_a_retention(
    log: Log, monkeypatch: pytest.MonkeyPatch, code: int, *, retained: bool
) -> None:
    log.retain("s", Retention(ms=1) if retained else Retention())

    def refuse(path: str, content: bytes) -> None:
        raise OSError(code, os.strerror(code), path)

    monkeypatch.setattr(disk, "replace", refuse)
    for register in (lambda: LogReaders(log).hold("s", "j", {0: 4}), lambda: LogReaders(log).hold_all("s", "j")):
        if retained or code == errno.ENOSPC:
            with pytest.raises(LogError, match="j can't be registered as a reader of s"):
                register()
        else:
            with capture_logs() as lines:
                register()
            assert [(line["job"], line["stream"]) for line in lines] == [("j", "s")]
