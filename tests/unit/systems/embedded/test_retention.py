"""What streams no longer keep is deleted, and nothing else, whoever is killed, reads or writes meanwhile."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import threading
import traceback
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from anabranch.config.systems import KafkaSettings
from anabranch.container import error_text
from anabranch.errors import AnabranchError, FencedError, LogError, UsageError
from anabranch.systems.embedded import EmbeddedSystem, LaneWriter, Log, Slice, disk, fence, layout, read_slice
from anabranch.systems.embedded.expiry import Expiry
from anabranch.systems.embedded.spark import EmbeddedReader, Pieces
from anabranch.systems.kafka.system import KafkaSystem
from anabranch.systems.retention import Retention
from tests.unit.systems.embedded.helpers import Killed, contents, killed_at, put, segment

DAY = 86_400_000


class Clock:
    def __init__(self) -> None:
        self.ms = 100 * DAY

    def __call__(self) -> int:
        return self.ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def log(tmp_path: Path, clock: Clock) -> Log:
    made = Log(tmp_path / "root", now=clock)
    made.create("s", 1)
    return made


def filled(log: Log, clock: Clock, batches: int = 5) -> LaneWriter:
    """A batch of two records a day: ``0a`` and ``0b``, then ``1a`` …"""
    writer = LaneWriter(log, "job", "lane", 1)
    for batch in range(batches):
        put(writer, log, "s", 0, batch, b"%da" % batch, b"%db" % batch)
        clock.ms += DAY
    return writer


def files(log: Log, kind: str) -> int:
    return len([each for each in (log.root / "s" / "0" / kind).iterdir() if not each.name.startswith(".")])


def values(first: int, last: int) -> list[bytes]:
    return [b"%d%s" % (batch, each) for batch in range(first, last + 1) for each in (b"a", b"b")]


def test_what_is_older_than_the_retention_is_deleted_with_its_files(log: Log, clock: Clock) -> None:
    filled(log, clock)
    assert log.expire("s") == 0, "kept for ever, unless somebody says otherwise"
    log.retain("s", Retention(ms=3 * DAY))
    assert log.expire("s") == 4
    assert log.starts("s")[0].offset == 4
    assert log.ends("s")[0].end == 10
    assert contents(Log(log.root), "s", 0, 4) == values(2, 4)
    assert (files(log, "manifest"), files(log, "segments")) == (3, 3)
    assert log.expire("s") == 0
    clock.ms += 100 * DAY
    assert log.expire("s") == 4, "the last entry always stays: it knows what each lane has written"
    assert contents(log, "s", 0, 8) == values(4, 4)


def test_of_a_partition_with_too_many_bytes_the_oldest_are_deleted(log: Log, clock: Clock) -> None:
    filled(log, clock)
    size = segment(log, "s", 0, [b"9a", b"9b"]).bytes
    log.retain("s", Retention(bytes=2 * size + 1))
    assert log.expire("s") == 4, "three batches are just more than that"
    assert contents(log, "s", 0, 4) == values(2, 4)
    log.retain("s", Retention(bytes=2 * size))
    assert log.expire("s") == 2
    assert log.expire("s") == 0


def test_entries_that_an_older_version_wrote_count_with_their_bytes(log: Log, clock: Clock) -> None:
    filled(log, clock)
    for path in (log.root / "s" / "0" / "manifest").iterdir():
        entry = json.loads(path.read_text())
        del entry["total"]
        path.write_text(json.dumps(entry))
    log = Log(log.root, now=clock)
    put(LaneWriter(log, "job", "lane", 2), log, "s", 0, 5, b"5a", b"5b")
    size = segment(log, "s", 0, [b"9a", b"9b"]).bytes
    log.retain("s", Retention(bytes=2 * size))
    assert log.expire("s") == 8
    assert contents(log, "s", 0, 8) == values(4, 5)


def test_who_writes_deletes_what_is_no_longer_kept(log: Log, clock: Clock) -> None:
    filled(log, clock)
    log.retain("s", Retention(ms=2 * DAY))
    put(LaneWriter(Log(log.root, now=clock), "job", "other", 1), log, "s", 0, 0, b"x")
    assert log.starts("s")[0].offset == 6


def test_a_batch_does_not_fail_if_old_records_cannot_be_deleted(
    log: Log, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(log, clock)
    log.retain("s", Retention(ms=DAY))

    def refused(path: str, **_: object) -> None:
        raise PermissionError(13, "Permission denied", path)

    unlink = os.unlink
    monkeypatch.setattr(os, "unlink", lambda path, **_: refused(path) if ".arrow" in path else unlink(path))
    assert put(LaneWriter(log, "job", "other", 1), log, "s", 0, 0, b"x")
    with pytest.raises(LogError, match=r"records of s, in .*root, can't be deleted: Permission denied"):
        EmbeddedSystem(log.root).retain("s", Retention(ms=0))


def test_a_batch_does_not_fail_for_a_reader_of_a_newer_version(log: Log, clock: Clock) -> None:
    filled(log, clock)
    log.retain("s", Retention(ms=DAY))
    readers = Path(layout.readers_folder(log.root, "s"))
    readers.mkdir(exist_ok=True)
    (readers / "job.json").write_text('{"version": 99, "job": "job", "revision": "", "positions": {}}')
    assert put(LaneWriter(log, "job", "other", 1), log, "s", 0, 0, b"x")
    assert log.starts("s")[0].offset == 0  # nothing is deleted that such a reader may still need


def test_a_reader_that_is_overtaken_is_told_and_never_gets_less(log: Log, clock: Clock) -> None:
    filled(log, clock)
    reader = Log(log.root)
    planned = reader.slices("s", 0, 1, 9)
    log.retain("s", Retention(ms=3 * DAY))
    log.expire("s")
    for read in (lambda: reader.slices("s", 0, 1, 9), lambda: Log(log.root).slices("s", 0, 3, 4)):
        with pytest.raises(
            LogError, match=r"s, partition 0: the offset.* gone, deleted by the stream's reten"
        ) as caught:
            read()
        assert "the oldest record there is, 4" in caught.value.cure
        assert '[streams.s] on_data_loss = "earliest"' in caught.value.cure
    with pytest.raises(LogError, match=r"the offsets 1 to 3 are gone, deleted"):
        _read(planned)
    assert contents(reader, "s", 0, 4) == values(2, 4)


def test_a_file_that_is_deleted_after_it_was_looked_at_is_not_called_damaged(
    log: Log, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(log, clock)
    piece, *_ = log.slices("s", 0, 1, 9)
    looked, real = os.stat(piece.path), os.stat
    log.purge("s", {0: 4})
    monkeypatch.setattr(os, "stat", lambda path, **given: looked if path == piece.path else real(path, **given))
    with pytest.raises(LogError, match=r"the offsets 1 to 3 are gone, deleted"):
        _read([piece])


@pytest.mark.parametrize("loss", ["fail", "skip"])
def test_a_batch_that_is_overtaken_is_tried_again_if_lost_records_may_be_skipped(
    log: Log, clock: Clock, loss: str
) -> None:
    filled(log, clock)
    options = {"stream": "s", "partitions": "[0]", "starting": '{"0": 0}', "max_rows": "9", "loss": loss}
    reader = EmbeddedReader({**options, "root": str(log.root)}, bare=True)
    planned = reader.piece(0, 1, 9)
    log.purge("s", {0: 4})
    for read in (lambda: list(reader.read(planned)), lambda: reader.piece(0, 1, 9)):
        with pytest.raises(AnabranchError, match="the offsets 1 to 3 are gone, deleted") as caught:
            read()
        seen_by_the_lane = RuntimeError("".join(traceback.format_exception(caught.value)))
        assert error_text.is_final(seen_by_the_lane) == (loss == "fail")

    kept = reader.piece(0, 4, 9)
    assert isinstance(kept, Pieces)
    os.unlink(kept.slices[0].path)
    with pytest.raises(LogError, match="is missing"):
        list(reader.read(kept))


def test_a_reader_of_what_is_kept_is_not_disturbed(log: Log, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has looked where the partition begins, and then that is deleted: what it wants is there."""
    filled(log, clock)
    from anabranch.systems.embedded import partition

    real, purges = partition.read, iter([8])

    def read(folder: str, sequence: int) -> object:
        if folder.startswith(str(log.root)) and (before := next(purges, 0)):
            Log(log.root).purge("s", {0: before})
        return real(folder, sequence)

    monkeypatch.setattr(partition, "read", read)
    assert contents(Log(log.root), "s", 0, 8, 10) == values(4, 4)
    assert log.starts("s")[0].offset == 8


def _read(pieces: list[Slice]) -> None:
    for piece in pieces:
        list(read_slice(piece))


@pytest.mark.parametrize("known", range(5))
def test_who_looks_again_after_long_finds_the_end(log: Log, clock: Clock, known: int) -> None:
    filled(log, clock, known)
    tails = log.ends("s")
    other = Log(log.root, now=clock)
    for batch in range(known, 8):
        put(LaneWriter(other, "job", "lane", 2 + batch), other, "s", 0, batch, b"%da" % batch, b"%db" % batch)
        clock.ms += DAY
    log.retain("s", Retention(ms=2 * DAY))
    log.expire("s")
    assert log.starts("s")[0].sequence > known
    assert log.ends("s", known=tails)[0].end == 16
    assert log.ends("s", known=tails)[0].sequence == Log(log.root).ends("s")[0].sequence


def test_a_number_is_never_taken_twice(log: Log, clock: Clock) -> None:
    """A writer that knew the end long ago would otherwise write where nobody looks any more."""
    asleep = filled(log, clock, 2)
    other = Log(log.root, now=clock)
    writer = LaneWriter(other, "job", "other", 1)
    for batch in range(6):
        put(writer, other, "s", 0, batch, b"%da" % (batch + 2), b"%db" % (batch + 2))
        clock.ms += DAY
    log.retain("s", Retention(ms=2 * DAY))
    log.expire("s")
    assert put(asleep, log, "s", 0, 2, b"8a", b"8b")
    assert not put(asleep, log, "s", 0, 2, b"8a", b"8b")
    start = log.starts("s")[0].offset
    assert contents(Log(log.root), "s", 0, start) == values(start // 2, 8)


def test_a_fence_holds_though_its_entry_is_deleted(log: Log, clock: Clock) -> None:
    asleep = filled(log, clock, 2)
    fence(Log(log.root, now=clock), "s", "job", "lane", 7)
    other = LaneWriter(log, "job", "other", 1)
    for batch in range(4):
        clock.ms += DAY
        put(other, log, "s", 0, batch, b"x")
    log.retain("s", Retention(ms=DAY))
    log.expire("s")
    with pytest.raises(FencedError, match="epoch 7 has taken over"):
        put(asleep, log, "s", 0, 2, b"late")


def test_a_lane_that_was_closed_and_forgotten_meanwhile_stays_stopped(log: Log, clock: Clock) -> None:
    """It has looked at the stream, and hasn't written to it yet."""
    asleep = LaneWriter(log, "job", "lane", 1)
    assert asleep.known_batch("s", 0) == -1
    fence(log, "s", "job", "lane", 3)
    with contextlib.suppress(FencedError):
        LaneWriter(log, "job", "lane", 3).close(["s"])
    for number in range(70):
        LaneWriter(log, "job", f"later{number}", 4).close(["s"])
        clock.ms += DAY
    log.retain("s", Retention(ms=DAY))
    log.expire("s")
    with pytest.raises(FencedError):
        put(asleep, log, "s", 0, 0, b"late")


@pytest.mark.parametrize("is_older", [False, True], ids=["numbered", "written by an older anabranch"])
def test_control_records_outlive_their_entries_one_of_each_lane(log: Log, clock: Clock, is_older: bool) -> None:
    writers = {lane: LaneWriter(log, "job", lane, 1) for lane in ("a", "b", "ended")}
    for batch in range(3):
        for lane, writer in writers.items():
            if lane == "ended" and batch:
                continue
            ref = [segment(log, "s", 0, [b"x"])]
            writer.publish("s", 0, batch, ref, control={"lane": lane, "watermark": batch})
        clock.ms += DAY
    whole, _ = log.controls("s", 0, -1, 7)
    log.retain("s", Retention(ms=2 * DAY))
    assert log.expire("s") == 3
    if is_older:
        path = log.root / "s" / "0" / "start.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "control_entries": []}))
        assert log.controls("s", 0, 2, 7)[0] == whole, "which ones were read isn't known"
    log.retain("s", Retention(ms=DAY))
    assert log.expire("s") == 2
    told, cursor = log.controls("s", 0, -1, 7)
    assert told == whole[2:], "the last of each before the start, and all after that"
    assert log.controls("s", 0, cursor, 7) == ([], cursor)
    assert log.controls("s", 0, 1, 7) == (told, cursor), "a cursor that was overtaken"
    for read in (3, 4, 5):
        assert log.controls("s", 0, read, 7) == (whole[read:], cursor), "nothing is heard again"


def test_an_intermediate_stream_is_purged_up_to_what_was_read(log: Log, clock: Clock) -> None:
    filled(log, clock)
    system = EmbeddedSystem(log.root)
    system.purge("s", {0: 5})
    assert system.starts("s") == {0: 4}, "an entry with records that are still to be read stays"
    assert contents(log, "s", 0, 4) == values(2, 4)
    system.purge("s", {})
    assert system.starts("s") == {0: 4}


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", range(16))
def test_killed_at_any_step_the_log_is_whole(
    log: Log, clock: Clock, monkeypatch: pytest.MonkeyPatch, step: int, after: bool
) -> None:
    writer = filled(log, clock)
    known = log.ends("s")
    log.retain("s", Retention(ms=3 * DAY))
    with killed_at(step, monkeypatch, after=after), contextlib.suppress(Killed):
        log.expire("s")
    fresh = Log(log.root, now=clock)
    start = fresh.starts("s")[0].offset
    assert start in (0, 4)
    assert contents(fresh, "s", 0, start) == values(start // 2, 4)
    assert fresh.ends("s") == known
    assert EmbeddedSystem(log.root).faults("s") == []
    assert put(writer, log, "s", 0, 5, b"5a", b"5b")
    fresh.expire("s")
    assert fresh.starts("s")[0].offset == 4
    assert contents(fresh, "s", 0, 4) == values(2, 5)
    assert (files(log, "manifest"), files(log, "segments")) == (4, 4), "nothing is left below the start"


def test_the_kills_reach_every_step(log: Log, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(log, clock)
    log.retain("s", Retention(ms=3 * DAY))
    with killed_at(99, monkeypatch, after=False) as steps:
        log.expire("s")
    assert steps == [*("fsync", "fsync", "rename", "fsync"), *["unlink"] * 5, "fsync", "fsync"]


def test_what_was_not_durable_is_not_deleted(log: Log, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(log, clock)
    log.retain("s", Retention(ms=3 * DAY))

    calls = iter(range(9))

    def broken(descriptor: int) -> None:
        if next(calls):  # the first one is of the end that it looks up
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(LogError, match="Input/output error"):
        log.expire("s")
    monkeypatch.undo()
    assert files(log, "segments") == 5
    assert contents(Log(log.root), "s", 0) == values(0, 4)


@pytest.mark.parametrize(
    ("harm", "text"),
    [
        (lambda path: path.write_bytes(b""), r"start\.json is damaged"),
        (lambda path: path.write_bytes(b'{"version": 9}'), r"start\.json has format version 9"),
        (lambda path: path.unlink(), r"00000000000000000000\.json is missing, and entries after it are there"),
    ],
    ids=["empty", "newer", "gone"],
)
def test_a_damaged_start_stops_everybody(log: Log, clock: Clock, harm: Callable[[Path], None], text: str) -> None:
    filled(log, clock)
    log.retain("s", Retention(ms=3 * DAY))
    log.expire("s")
    harm(log.root / "s" / "0" / "start.json")
    with pytest.raises(Exception, match=text):
        Log(log.root).ends("s")
    assert len(EmbeddedSystem(log.root).faults("s")) == 1


def test_a_stream_without_the_entry_that_it_begins_with_is_damaged(log: Log, clock: Clock) -> None:
    filled(log, clock)
    log.retain("s", Retention(ms=0))
    log.expire("s")
    (only,) = [each for each in (log.root / "s" / "0" / "manifest").iterdir() if each.suffix == ".json"]
    only.unlink()
    with pytest.raises(LogError, match=rf"{only.name} is missing, where the partition begins"):
        Log(log.root).ends("s")


def test_new_partitions_know_the_fences_of_old_ones_that_begin_later(log: Log, clock: Clock) -> None:
    filled(log, clock)
    fence(log, "s", "job", "lane", 9)
    log.retain("s", Retention(ms=0))
    log.expire("s")
    wider = log.expand("s", 2)
    assert wider.retention == Retention(ms=0)
    assert log.ends("s")[1].writers["lane"].epoch == 9
    assert {number: each.offset for number, each in log.starts("s").items()} == {0: 10, 1: 0}


def test_writers_and_whoever_deletes_do_not_disturb_each_other(log: Log) -> None:
    """Everything that was published stays in order, without a hole, from the start on; each batch once."""
    log.retain("s", Retention(bytes=4000))
    done = threading.Event()
    faults: list[BaseException] = []

    def write(lane: str) -> None:
        mine = Log(log.root)
        writer = LaneWriter(mine, "job", lane, 1)
        try:
            for batch in range(60):
                put(writer, mine, "s", 0, batch, b"%s%d" % (lane.encode(), batch))
        except BaseException as error:
            faults.append(error)

    def delete() -> None:
        mine = Log(log.root)
        try:
            while not done.is_set():
                mine.expire("s")
        except BaseException as error:
            faults.append(error)

    def read() -> None:
        mine, tails, at = Log(log.root), None, 0
        try:
            while not done.is_set():
                tails = mine.ends("s", known=tails)
                assert tails[0].end >= at, "an end never goes back"
                at = tails[0].end
        except BaseException as error:
            faults.append(error)

    writers = [threading.Thread(target=write, args=(lane,)) for lane in ("a", "b", "c")]
    others = [threading.Thread(target=each) for each in (delete, delete, read)]
    for thread in (*writers, *others):
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    for thread in others:
        thread.join()
    assert faults == []
    fresh = Log(log.root)
    start, tail = fresh.starts("s")[0].offset, fresh.ends("s")[0]
    assert 0 < start < tail.end == 180
    assert {lane: mark.rows for lane, mark in tail.writers.items()} == {"a": 60, "b": 60, "c": 60}
    kept = contents(fresh, "s", 0, start)
    assert len(kept) == 180 - start
    for lane in (b"a", b"b", b"c"):
        its = [int(value[1:]) for value in kept if value and value.startswith(lane)]
        assert its == list(range(60 - len(its), 60))
    assert EmbeddedSystem(log.root).faults("s") == []


def test_other_systems_say_who_sees_to_it() -> None:
    with pytest.raises(UsageError, match="kafka, which decides itself"):
        KafkaSystem(KafkaSettings()).retain("s", Retention(ms=1))


def test_what_a_frozen_writer_keeps_from_being_deleted_is_told(log: Log, clock: Clock) -> None:
    """It holds the lock for as long as it is frozen."""
    filled(log, clock)
    log.retain("s", Retention(ms=DAY))
    lock = str(log.root / "s" / "0" / ".lock")
    expiry = Expiry(str(log.root), clock, monotonic=count(step=8).__next__)
    with disk.shared(lock, ""), pytest.raises(LogError) as caught:
        expiry.expire(log.describe("s"), log.ends("s"), past_readers=False)
    assert caught.value.what == (
        f"records of s, partition 0, can't be deleted: other processes have held the lock {lock} for 30 s"
    )
    assert f"`fuser {lock}`" in caught.value.cure
    assert log.expire("s") == 8


def temporary(log: Log) -> list[str]:
    return [path.name for path in log.root.rglob("*.tmp")]


def test_what_killed_writers_have_left_goes_with_what_is_deleted(
    log: Log, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(log, clock)
    with killed_at(1, monkeypatch, after=False), contextlib.suppress(Killed):
        fence(log, "s", "job", "lane", 2)
    assert len(temporary(log)) == 1
    log.retain("s", Retention(ms=DAY))
    assert log.expire("s") == 8
    assert temporary(log) == []


@pytest.mark.parametrize("step", ["fsync", "rename", "link"])
def test_a_disk_that_fails_keeps_nothing_unfinished(
    log: Log, clock: Clock, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    filled(log, clock)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, step, full)
        for act in (lambda: log.retain("s", Retention(ms=DAY)), lambda: fence(log, "s", "job", "lane", 2)):
            with contextlib.suppress(OSError):
                act()
    assert temporary(log) == []
