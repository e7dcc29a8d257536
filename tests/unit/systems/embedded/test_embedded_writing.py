"""Publishing to the embedded log: exactly once, whoever races, replays, is fenced or dies."""

from __future__ import annotations

import contextlib
import multiprocessing
import threading
from pathlib import Path

import pytest

from anabranch.errors import ConflictError, FencedError, LogError
from anabranch.systems.embedded import (
    LaneWriter,
    Log,
    SegmentRef,
    WriterMark,
    fence,
    foreign_writers,
    manifest,
)
from anabranch.systems.embedded import log as log_module
from tests.unit.systems.embedded.helpers import Killed, contents, killed_at, put, segment


@pytest.fixture
def log(tmp_path: Path) -> Log:
    log = Log(tmp_path)
    log.create("s", 2)
    return log


def check_dense(log: Log, stream: str, partition: int) -> None:
    folder = Path(log.root, stream, str(partition), "manifest")
    names = sorted(path.name for path in folder.glob("*.json"))
    assert names == [f"{n:020d}.json" for n in range(len(names))]
    end = 0
    for n in range(len(names)):
        entry = log.entry(stream, partition, n)
        assert entry is not None
        assert (entry.sequence, entry.base) == (n, end)
        assert entry.rows == sum(s.rows for s in entry.segments)
        end += entry.rows
    assert log.ends(stream)[partition].end == end


def race(root: Path, lane: str, batches: int) -> None:
    log = Log(root)
    writer = LaneWriter(log, "job", lane, 1)
    for batch in range(batches):
        assert put(writer, log, "s", 0, batch, *(f"{lane}/{batch}/{n}".encode() for n in range(batch % 3 + 1)))


@pytest.mark.parametrize("kind", ["thread", "process"])
def test_racing_writers_lose_nothing_and_leave_no_gap(log: Log, kind: str) -> None:
    lanes, batches = [f"lane-{n}" for n in range(4)], 25
    if kind == "thread":
        workers = [threading.Thread(target=race, args=(log.root, lane, batches)) for lane in lanes]
    else:
        spawn = multiprocessing.get_context("spawn")
        workers = [spawn.Process(target=race, args=(log.root, lane, batches)) for lane in lanes]  # type: ignore[misc]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    check_dense(log, "s", 0)
    found = contents(log, "s", 0)
    for lane in lanes:
        expected = [f"{lane}/{b}/{n}".encode() for b in range(batches) for n in range(b % 3 + 1)]
        assert [value for value in found if value and value.startswith(lane.encode() + b"/")] == expected
    assert len(found) == len(set(found)) == len(lanes) * sum(b % 3 + 1 for b in range(batches))


def test_the_same_batch_by_many_at_once_is_there_once(log: Log) -> None:
    """Two drivers of one incarnation can't be, but a retry in another thread can."""
    start = threading.Barrier(6)
    published: list[bool] = []

    def publish() -> None:
        mine = Log(log.root)
        writer = LaneWriter(mine, "job", "lane", 1)
        ref = segment(mine, "s", 0, [b"x"])
        writer.known_batch("s", 0)
        start.wait()
        published.append(writer.publish("s", 0, 0, [ref]))

    threads = [threading.Thread(target=publish) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(published) == [False] * 5 + [True]
    assert contents(log, "s", 0) == [b"x"]
    check_dense(log, "s", 0)


def test_a_replay_writes_nothing(log: Log) -> None:
    first = LaneWriter(log, "job", "lane", 1)
    assert put(first, log, "s", 0, 4, b"a")
    assert put(first, log, "s", 0, 5, b"b")
    again = LaneWriter(Log(log.root), "job", "lane", 2)
    before = log.ends("s")
    assert again.known_batch("s", 0) == 5
    assert again.known_batch("s", 1) == -1
    assert not put(again, log, "s", 0, 5, b"B")
    assert not put(again, log, "s", 0, 4, b"A")
    assert log.ends("s") == before
    assert put(again, log, "s", 0, 6, b"c")
    assert contents(log, "s", 0) == [b"a", b"b", b"c"]


def test_batches_are_per_partition_and_per_lane(log: Log) -> None:
    one, two = LaneWriter(log, "job", "one", 1), LaneWriter(log, "job", "two", 1)
    assert put(one, log, "s", 0, 9, b"a")
    assert put(two, log, "s", 0, 0, b"b")
    assert put(one, log, "s", 1, 9, b"c")
    fence(log, "s", "job", "three", 1)
    assert foreign_writers(log, "s", "job") == {"one", "two"}, "and not who was only fenced"
    assert foreign_writers(log, "s", "other") == set()


def test_segments_are_in_order_of_slot_and_empty_ones_leave_no_trace(log: Log) -> None:
    writer = LaneWriter(log, "job", "lane", 1)
    refs = [segment(log, "s", 0, values, slot) for slot, values in [(10, [b"c"]), (2, [b"a", b"b"]), (3, [])]]
    assert writer.publish("s", 0, 0, refs)
    assert contents(log, "s", 0) == [b"a", b"b", b"c"]
    assert len(list(Path(log.root, "s", "0", "segments").iterdir())) == 2
    assert not writer.publish("s", 0, 1, [refs[2]])
    assert not writer.publish("s", 0, 1, [])
    assert log.ends("s")[0].sequence == 1


def test_a_control_record_takes_no_offset_and_counts_as_a_batch(log: Log) -> None:
    writer = LaneWriter(log, "job", "lane", 1)
    assert writer.publish("s", 0, 0, [], control={"watermark": 5})
    assert not writer.publish("s", 0, 0, [], control={"watermark": 6})
    entry = log.entry("s", 0, 1)
    assert entry is not None
    assert (entry.control, entry.rows, entry.kind) == ({"watermark": 5}, 0, "data")
    assert log.ends("s")[0].end == 0
    assert writer.known_batch("s", 0) == 0


@pytest.mark.parametrize("seen", ["published before", "looked before", "never looked"])
def test_a_fence_stops_the_old_writer(log: Log, seen: str) -> None:
    stale = LaneWriter(log, "job", "lane", 3)
    if seen == "published before":
        assert put(stale, log, "s", 0, 0, b"a")
    elif seen == "looked before":
        stale.known_batch("s", 0)
    before = contents(log, "s", 0)
    fence(log, "s", "job", "lane", 4)
    for partition in (0, 1):
        with pytest.raises(FencedError, match="epoch 4 has taken over"):
            put(stale, log, "s", partition, 1, b"late")
    with pytest.raises(FencedError):
        stale.close(["s"])
    assert contents(log, "s", 0) == before
    assert put(LaneWriter(log, "job", "lane", 4), log, "s", 0, 1, b"right")
    assert put(LaneWriter(log, "job", "other", 1), log, "s", 0, 0, b"another lane")


def test_a_writer_that_is_fenced_while_it_publishes(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has seen that it may, then freezes; what it links afterwards must not be there."""
    stale = LaneWriter(log, "job", "lane", 1)
    ref = segment(log, "s", 0, [b"late"])
    encode = manifest.encode

    def frozen(entry: manifest.Entry) -> bytes:
        monkeypatch.setattr(manifest, "encode", encode)
        fence(Log(log.root), "s", "job", "lane", 2)
        return encode(entry)

    monkeypatch.setattr(manifest, "encode", frozen)
    with pytest.raises(FencedError):
        stale.publish("s", 0, 0, [ref])
    assert contents(log, "s", 0) == []


def test_a_fence_is_idempotent_and_never_goes_back(log: Log) -> None:
    fence(log, "s", "job", "lane", 4)
    once = log.ends("s")
    fence(log, "s", "job", "lane", 4)
    assert log.ends("s") == once
    with pytest.raises(ConflictError, match="epoch 4 has it"):
        fence(log, "s", "job", "lane", 3)
    assert log.ends("s") == once


def test_a_fence_keeps_the_batch_that_was_published(log: Log) -> None:
    put(LaneWriter(log, "job", "lane", 1), log, "s", 0, 7, b"a")
    fence(log, "s", "job", "lane", 2)
    heir = LaneWriter(log, "job", "lane", 2)
    assert heir.known_batch("s", 0) == 7
    assert not put(heir, log, "s", 0, 7, b"again")


def test_nobody_writes_for_a_closed_lane(log: Log) -> None:
    writer = LaneWriter(log, "job", "lane", 1)
    put(writer, log, "s", 0, 0, b"a")
    writer.close(["s"])
    once = log.ends("s")
    writer.close(["s"])
    LaneWriter(log, "job", "lane", 2).close(["s"])
    assert log.ends("s") == once
    for epoch in (1, 2):
        for partition in (0, 1):
            with pytest.raises(FencedError, match="closed"):
                put(LaneWriter(log, "job", "lane", epoch), log, "s", partition, 1, b"late")
    with pytest.raises(FencedError, match="closed"):
        put(writer, log, "s", 0, 1, b"late")


@pytest.mark.parametrize("seen", ["published before", "looked before", "never looked"])
def test_a_writer_whose_lane_was_closed_and_forgotten(log: Log, seen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stale = LaneWriter(log, "job", "lane", 3)
    if seen == "published before":
        put(stale, log, "s", 0, 0, b"a")
    elif seen == "looked before":
        stale.known_batch("s", 0)
    heir = LaneWriter(log, "job", "lane", 4)
    heir.close(["s"])
    for n in range(manifest.CLOSED_KEPT):
        LaneWriter(log, "job", f"lane-{n}", 5 + n).close(["s"])
    tail = log.ends("s")[0]
    assert "lane" not in tail.writers
    assert len(tail.writers) == manifest.CLOSED_KEPT
    assert tail.floors == {"job": 4}
    with pytest.raises(FencedError):
        put(stale, log, "s", 0, 1, b"late")
    with pytest.raises(FencedError):
        put(stale, log, "s", 1, 1, b"late")


def test_open_lanes_are_never_forgotten_and_long_runners_stay(log: Log) -> None:
    runner = LaneWriter(log, "job", "runner", 1)
    put(runner, log, "s", 0, 0, b"a")
    for n in range(manifest.CLOSED_KEPT + 5):
        LaneWriter(log, "job", f"lane-{n}", 2 + n).close(["s"])
    assert log.ends("s")[0].writers["runner"] == WriterMark(job="job", batch=0, epoch=1, rows=1)
    assert put(runner, log, "s", 0, 1, b"b")
    assert put(runner, log, "s", 1, 1, b"its first there")


def test_fences_hold_in_partitions_that_come_later(log: Log) -> None:
    put(LaneWriter(log, "job", "lane", 1), log, "s", 0, 3, b"a")
    fence(log, "s", "job", "lane", 2)
    LaneWriter(log, "job", "done", 1).close(["s"])
    log.expand("s", 4)
    for lane in ("lane", "done"):
        with pytest.raises(FencedError):
            put(LaneWriter(log, "job", lane, 1), log, "s", 3, 4, b"late")
    heir = LaneWriter(log, "job", "lane", 2)
    assert heir.known_batch("s", 3) == -1
    assert put(heir, log, "s", 3, 4, b"right")


@pytest.mark.parametrize("moment", range(40))
@pytest.mark.suite(cases=14)
def test_a_fence_during_an_expansion_holds_everywhere(log: Log, moment: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """At whatever durable step of the expansion the fence comes."""
    import os

    steps = 0
    real = os.fsync

    def fencing(descriptor: int) -> None:
        nonlocal steps
        real(descriptor)
        steps += 1
        if steps == moment + 1:
            with monkeypatch.context() as inner:
                inner.setattr(os, "fsync", real)
                fence(Log(log.root), "s", "job", "lane", 2)

    monkeypatch.setattr(os, "fsync", fencing)
    log.expand("s", 4)
    monkeypatch.setattr(os, "fsync", real)
    if steps <= moment:
        fence(log, "s", "job", "lane", 2)
    for partition in range(4):
        with pytest.raises(FencedError):
            put(LaneWriter(log, "job", "lane", 1), log, "s", partition, 0, b"late")


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", range(30))
@pytest.mark.suite(cases=20)
def test_a_replay_makes_whole_what_a_kill_interrupted(
    log: Log, monkeypatch: pytest.MonkeyPatch, step: int, after: bool
) -> None:
    """Killed at any durable step of a batch: the log can be read, and a replay completes it."""

    def batch(writer: LaneWriter, number: int) -> None:
        for partition in (0, 1):
            put(writer, log, "s", partition, number, *(f"{number}/{n}".encode() for n in range(3)))

    batch(LaneWriter(log, "job", "lane", 1), 0)
    finished = False
    with killed_at(step, monkeypatch, after=after) as steps:
        try:
            batch(LaneWriter(log, "job", "lane", 1), 1)
            finished = True
        except Killed:
            pass
    assert finished == (len(steps) <= step), "every step is tried"
    first = [f"0/{n}".encode() for n in range(3)]
    both = first + [f"1/{n}".encode() for n in range(3)]
    for partition in (0, 1):
        assert contents(Log(log.root), "s", partition) in (first, both)
    heir = LaneWriter(Log(log.root), "job", "lane", 2)
    batch(heir, 1)
    batch(heir, 1)
    for partition in (0, 1):
        assert contents(Log(log.root), "s", partition) == both
        check_dense(log, "s", partition)


def test_the_kills_reach_every_step_of_a_batch(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    with killed_at(1_000, monkeypatch, after=False) as steps:
        writer = LaneWriter(log, "job", "lane", 1)
        put(writer, log, "s", 0, 0, b"a")
        put(writer, log, "s", 1, 0, b"a")
    assert 10 < len(steps) < 30
    assert {"fsync", "link", "unlink"} <= set(steps)


def test_a_batch_survives_an_error_in_the_same_process(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = LaneWriter(log, "job", "lane", 1)
    put(writer, log, "s", 0, 0, b"a")
    for step in range(8):
        with killed_at(step, monkeypatch, after=True), contextlib.suppress(Killed):
            put(writer, log, "s", 0, step + 1, b"x")
        put(writer, log, "s", 0, step + 1, b"x")
    assert contents(log, "s", 0) == [b"a"] + [b"x"] * 8


def test_an_entry_never_names_a_segment_that_is_not_durable(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    done: list[str] = []
    fsync, link = os.fsync, os.link
    monkeypatch.setattr(
        os, "fsync", lambda fd: (done.append("sync " + os.readlink(f"/proc/self/fd/{fd}")), fsync(fd))[1]
    )
    monkeypatch.setattr(os, "link", lambda a, b: (done.append(f"link {b}"), link(a, b))[1])
    put(LaneWriter(log, "job", "lane", 1), log, "s", 0, 0, b"a")
    at = next(n for n, step in enumerate(done) if step.startswith("link"))
    synced = [step.removeprefix(f"sync {log.root}/s/0/") for step in done[:at]]
    assert any(step.startswith("segments/") and step.endswith(".arrow") for step in synced)
    assert "segments" in synced
    assert any(step.startswith("manifest/.") for step in synced)
    assert done[at + 1 :] == [f"sync {log.root}/s/0/manifest"]


def test_what_a_reader_has_seen_is_durable(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer died between its link and the sync of the folder: whoever finds the entry syncs it."""
    known = log.ends("s")
    ref = segment(log, "s", 0, [b"a"])
    import os

    with killed_at(3, monkeypatch, after=False) as steps:
        writer = LaneWriter(log, "job", "lane", 1)
        monkeypatch.setattr(log_module.Streams, "tail", lambda self, info, number: known[number])
        with pytest.raises(Killed):
            writer.publish("s", 0, 0, [ref])
    monkeypatch.undo()
    assert steps == ["fsync", "link", "unlink", "fsync"]
    for look in (None, known):
        synced: list[int] = []
        real = os.fsync
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", lambda fd: (synced.append(fd), real(fd))[1])  # noqa: B023
            assert log.ends("s", [0], look)[0].end == 1
        assert synced


@pytest.mark.parametrize(
    ("ref", "fault"),
    [
        (SegmentRef(file="gone.arrow", rows=1, bytes=10, slot=0, partition=0), "is missing"),
        (None, "bytes instead of"),
    ],
)
def test_a_segment_that_is_not_as_it_was_written_is_refused(log: Log, ref: SegmentRef | None, fault: str) -> None:
    if ref is None:
        ref = segment(log, "s", 0, [b"a"])
        Path(log.root, "s", "0", "segments", ref.file).write_bytes(b"short")
    with pytest.raises(LogError, match=fault):
        LaneWriter(log, "job", "lane", 1).publish("s", 0, 0, [ref])
    with pytest.raises(ValueError, match="partition 0 was offered to partition 1"):
        LaneWriter(log, "job", "lane", 1).publish("s", 1, 0, [ref])
    assert log.ends("s")[0].sequence == 0
