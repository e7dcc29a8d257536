"""The embedded log's streams and what is read from them."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import threading
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.config import Settings
from anabranch.errors import (
    ConfigError,
    ConflictError,
    LogError,
    NotFoundError,
    UnsupportedFormatError,
    UsageError,
)
from anabranch.model.job_model import Matched
from anabranch.systems.contract import System
from anabranch.systems.embedded import (
    Appender,
    EmbeddedSystem,
    LaneWriter,
    Log,
    SegmentWriter,
    append,
    fence,
    read_slice,
)
from anabranch.systems.records import RECORD_SCHEMA
from anabranch.systems.systems import Systems
from tests.unit.systems.embedded.helpers import Killed, contents, killed_at, put, records, segment


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "root")


@pytest.fixture
def filled(log: Log) -> Log:
    """Partition 0 of ``s``: a to e in three entries, the second of two segments, with a fence between."""
    log.create("s", 1)
    writer = LaneWriter(log, "job", "lane", 1)
    put(writer, log, "s", 0, 0, b"a", b"b")
    fence(log, "s", "job", "lane", 1)
    fence(log, "s", "job", "lane2", 1)
    writer.publish("s", 0, 1, [segment(log, "s", 0, [b"c"], 0), segment(log, "s", 0, [b"d"], 1)])
    put(writer, log, "s", 0, 2, b"e")
    return log


def test_a_stream_is_made_once(log: Log) -> None:
    assert log.streams() == []
    info = log.create("flights", 4)
    assert (info.name, info.partitions) == ("flights", 4)
    assert log.create("flights", 4) == info == Log(log.root).describe("flights")
    with pytest.raises(ConflictError, match="with 4 partitions instead of 3"):
        log.create("flights", 3)
    assert log.streams() == ["flights"]
    assert {p: tail.end for p, tail in log.ends("flights").items()} == dict.fromkeys(range(4), 0)


def test_many_make_the_same_stream(log: Log) -> None:
    made: set[str] = set()
    threads = [threading.Thread(target=lambda: made.add(Log(log.root).create("s", 3).id)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == {log.describe("s").id}


@pytest.mark.parametrize("name", ["", "a/b", "..", ".hidden", "a b", "ä", "x" * 250, "a\n"])
def test_names_that_are_refused(log: Log, name: str) -> None:
    with pytest.raises(UsageError):
        log.create(name, 1)
    with pytest.raises(UsageError):
        log.describe(name)
    assert not log.root.exists() or not list(log.root.iterdir())


def test_an_unknown_stream_names_the_nearest(log: Log) -> None:
    log.create("flights", 1)
    with pytest.raises(NotFoundError, match=r"did you mean flights\?[\s\S]*anabranch stream list"):
        log.describe("flihgts")
    with pytest.raises(NotFoundError, match="no partition 1"):
        log.ends("flights", [1])
    with pytest.raises(NotFoundError, match="no partition 7"):
        SegmentWriter(log.root, "flights", 7, 0).close()


@pytest.mark.parametrize("trimmed", [False, True])
def test_a_stream_without_its_description_is_not_created_anew(filled: Log, trimmed: bool) -> None:
    """It would be another one, with another id, in the same folder."""
    path = filled.root / "s" / "stream.json"
    if trimmed:
        filled.purge("s", {0: 5})
        assert filled.starts("s")[0].offset == 4
    content = path.read_bytes()
    path.unlink()
    log = Log(filled.root)
    for ask in (lambda: log.create("s", 1), lambda: log.create("s", 2), lambda: log.ends("s")):
        with pytest.raises(LogError, match=r"s/stream\.json is missing, but partition 0 of the stream has been"):
            ask()
    (fault,) = EmbeddedSystem(filled.root).faults("s")
    assert (fault.path, fault.lost) == (str(path), "all of s")
    path.write_bytes(content)
    assert log.ends("s")[0].end == 5
    shutil.rmtree(filled.root / "s")
    with pytest.raises(NotFoundError):
        log.describe("s")
    log.create("s", 2)


def test_a_stream_that_cannot_be_described_stops_only_who_uses_it(filled: Log) -> None:
    filled.create("other", 3)
    path = filled.root / "s" / "stream.json"
    path.write_bytes(path.read_bytes()[:-9])
    system = EmbeddedSystem(filled.root)
    assert (system.counts(), system.undescribed()) == ({"other": 3}, ["s"])
    systems = Systems(Settings.model_validate({"systems": {"embedded": {"root": str(filled.root)}}}))
    assert systems.absent([("embedded", "other"), ("embedded", "new")]) == [("embedded", "new")]
    with pytest.raises(LogError, match=r"s/stream\.json"):
        systems.absent([("embedded", "other"), ("embedded", "s")])
    systems.check_matches(Matched(system="embedded", pattern="oth.*", streams=()))
    with pytest.raises(LogError, match=r"s/stream\.json"):
        systems.check_matches(Matched(system="embedded", pattern="s|other", streams=()))


def test_a_root_without_links_is_refused(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    def link(*_: str) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", link)
    with pytest.raises(ConfigError, match=r"no hard links[\s\S]*systems.embedded"):
        log.create("s", 1)
    assert log.streams() == []
    assert [path.name for path in log.root.rglob("*")] == ["s"]


def test_only_a_multiple_of_partitions(log: Log) -> None:
    log.create("s", 4)
    for count in (0, 2, 6):
        with pytest.raises(UsageError, match="use a multiple, so that keys stay together: 8, 12"):
            log.expand("s", count)
    before = log.describe("s")
    known = log.ends("s")
    assert log.expand("s", 8).id == before.id
    assert log.expand("s", 8).partitions == 8
    assert list(log.ends("s", known=known)) == list(range(8)), "found by those who look already"
    put(LaneWriter(log, "job", "lane", 1), log, "s", 7, 0, b"x")
    assert contents(log, "s", 7) == [b"x"]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", range(45))
@pytest.mark.suite(cases=30)
def test_create_and_expand_are_all_or_nothing(
    log: Log, monkeypatch: pytest.MonkeyPatch, step: int, after: bool
) -> None:
    with killed_at(step, monkeypatch, after=after), contextlib.suppress(Killed):
        log.create("s", 2)
    fresh = Log(log.root)
    assert fresh.streams() in ([], ["s"])
    if fresh.streams():
        assert len(fresh.ends("s")) == 2
    fresh.create("s", 2)
    put(LaneWriter(fresh, "job", "lane", 1), fresh, "s", 1, 0, b"kept")
    with killed_at(step, monkeypatch, after=after), contextlib.suppress(Killed):
        fresh.expand("s", 4)
    fresh = Log(log.root)
    assert len(fresh.ends("s")) in (2, 4)
    fresh.expand("s", 4)
    assert [tail.end for tail in fresh.ends("s").values()] == [0, 1, 0, 0]
    assert all("lane" in tail.writers for number, tail in fresh.ends("s").items() if number)
    assert contents(fresh, "s", 1) == [b"kept"]


def test_an_unchanged_log_costs_two_stats_a_partition(filled: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    known = filled.ends("s")
    calls: list[str] = []
    for name in ("stat", "open", "listdir", "scandir", "fsync"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *a, _real=real, _name=name, **k: (calls.append(_name), _real(*a, **k))[1])
    assert filled.ends("s", known=known) == known
    assert calls == ["stat", "stat", "stat"], "stream.json, the partition's next entry, and its known one"


@pytest.mark.parametrize("new", range(12))
def test_the_tail_is_found_from_any_known_one(log: Log, new: int) -> None:
    log.create("s", 1)
    known = log.ends("s")
    writer = LaneWriter(log, "job", "lane", 1)
    for batch in range(new):
        put(writer, log, "s", 0, batch, b"x")
    assert log.ends("s", known=known) == log.ends("s")
    assert log.ends("s")[0].sequence == log.ends("s")[0].end == new


def test_slices(filled: Log) -> None:
    for start in range(6):
        for end in range(start, 6):
            assert contents(filled, "s", 0, start, end) == [b"a", b"b", b"c", b"d", b"e"][start:end]
            assert contents(Log(filled.root), "s", 0, start, end) == [b"a", b"b", b"c", b"d", b"e"][start:end]
    pieces = filled.slices("s", 0, 1, 4)
    assert [(piece.offset, piece.skip, piece.rows) for piece in pieces] == [(1, 1, 1), (2, 0, 1), (3, 0, 1)]


@pytest.mark.parametrize(("start", "end"), [(0, 6), (5, 6), (9, 12), (-1, 2), (3, 1)])
def test_a_range_that_is_not_there(filled: Log, start: int, end: int) -> None:
    with pytest.raises(LogError, match=r"s, partition 0.*offsets"):
        filled.slices("s", 0, start, end)
    assert contents(filled, "s", 0) == [b"a", b"b", b"c", b"d", b"e"]


@pytest.mark.long
def test_a_cold_search_reads_few_entries(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    log.create("s", 1)
    writer = LaneWriter(log, "job", "lane", 1)
    for batch in range(300):
        put(writer, log, "s", 0, batch, b"%d" % batch)
    from anabranch.systems.embedded import partition

    reads: list[int] = []
    real = partition.read
    monkeypatch.setattr(partition, "read", lambda folder, n: (reads.append(n), real(folder, n))[1])
    cold = Log(log.root)
    cold.slices("s", 0, 200, 201)
    assert len(reads) < 25
    reads.clear()
    cold.slices("s", 0, 201, 202)
    assert len(reads) <= 2, "the next one begins where the last one ended"
    cold.slices("s", 0, 3, 4)
    assert contents(cold, "s", 0) == [b"%d" % n for n in range(300)]


@pytest.mark.long
@settings(max_examples=60)
@given(
    batches=st.lists(st.lists(st.lists(st.integers(0, 9), max_size=4), max_size=3), max_size=8),
    cuts=st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=8),
)
def test_any_slices_of_any_entries(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[list[int]]], cuts: list[tuple[int, int]]
) -> None:
    log = Log(tmp_path_factory.mktemp("log"))
    log.create("s", 1)
    writer = LaneWriter(log, "job", "lane", 1)
    model: list[bytes] = []
    reader = Log(log.root)
    for batch, slots in enumerate(batches):
        refs = []
        for slot, rows in enumerate(slots):
            piece = SegmentWriter(log.root, "s", 0, slot)
            for row in rows:  # several Arrow batches in a file
                piece.write(records([b"%d/%d/%d" % (batch, slot, n) for n in range(row)]))
                model += [b"%d/%d/%d" % (batch, slot, n) for n in range(row)]
            refs.append(piece.close())
        writer.publish("s", 0, batch, refs, control={"b": batch} if batch % 2 else None)
        assert contents(reader, "s", 0) == model
    for one, two in cuts:
        start, end = min(one, two, len(model)), min(max(one, two), len(model))
        assert contents(reader, "s", 0, start, end) == model[start:end]


@pytest.mark.parametrize(
    ("harm", "fault"),
    [
        (lambda path: path.unlink(), "is missing"),
        (lambda path: path.write_bytes(path.read_bytes()[:100]), r"was cut short: 100 of \d+ bytes"),
        (lambda path: path.write_bytes(path.read_bytes() + b"x"), "has grown"),
        (lambda path: path.write_bytes(bytes(path.stat().st_size)), "can't be read"),
    ],
)
def test_a_damaged_segment(filled: Log, harm: object, fault: str) -> None:
    (piece, *_) = filled.slices("s", 0, 0, 2)
    harm(Path(piece.path))  # type: ignore[operator]
    with pytest.raises(LogError, match=rf"segments/.*arrow.*offsets 0 to 1, {fault}") as caught:
        list(read_slice(piece))
    assert "restore the file from a backup" in caught.value.cure


def test_a_segment_with_fewer_records_than_its_manifest_says(filled: Log) -> None:
    (piece,) = filled.slices("s", 0, 4, 5)
    import msgspec

    with pytest.raises(LogError, match="2 records fewer"):
        list(read_slice(msgspec.structs.replace(piece, rows=3)))


def test_a_hole_in_the_manifest(filled: Log) -> None:
    folder = Path(filled.root, "s", "0", "manifest")
    (folder / f"{1:020d}.json").unlink()
    with pytest.raises(LogError, match=r"00000000000000000001\.json is missing"):
        Log(filled.root).ends("s")
    with pytest.raises(LogError, match="offsets 0 to 4"):
        Log(filled.root).slices("s", 0, 0, 5)
    shutil.rmtree(folder)
    with pytest.raises(LogError, match="manifest is missing"):
        Log(filled.root).ends("s")


@pytest.mark.parametrize(
    ("raw", "error", "text"),
    [
        (b'{"version": 9}', UnsupportedFormatError, "format version 9"),
        (b"{}", LogError, "damaged"),
        (b"", LogError, "damaged"),
        (
            b'{"version": 1, "sequence": 7, "kind": "data", "base": 0, "rows": 0, "at": 0}',
            LogError,
            "is entry 7",
        ),
    ],
)
def test_an_entry_that_cannot_be_understood(filled: Log, raw: bytes, error: type[Exception], text: str) -> None:
    last = filled.ends("s")[0].sequence
    Path(filled.root, "s", "0", "manifest", f"{last:020d}.json").write_bytes(raw)
    with pytest.raises(error, match=text):
        Log(filled.root).ends("s")
    with pytest.raises(error, match=text):
        put(LaneWriter(Log(filled.root), "job", "lane", 1), filled, "s", 0, 9, b"x")


def test_a_stream_that_was_removed_and_made_again(filled: Log) -> None:
    known = filled.ends("s")
    writer = LaneWriter(filled, "job", "lane", 1)
    writer.known_batch("s", 0)
    shutil.rmtree(filled.root / "s")
    filled.create("s", 1)
    with pytest.raises(LogError, match="deleted and created again"):
        filled.ends("s", known=known)
    with pytest.raises(LogError, match="deleted and created again"):
        put(writer, filled, "s", 0, 9, b"x")
    put(LaneWriter(filled, "job", "lane", 1), filled, "s", 0, 0, b"new")
    assert contents(filled, "s", 0) == [b"new"]


def test_anything_that_reads_arrow_reads_a_segment(filled: Log) -> None:
    (piece, *_) = filled.slices("s", 0, 0, 2)
    table = pa.ipc.open_file(piece.path).read_all()
    assert table.schema == RECORD_SCHEMA
    assert table["value"].to_pylist() == [b"a", b"b"]


def test_columns_are_cast_and_a_record_without_time_is_refused(log: Log) -> None:
    log.create("s", 1)
    batch = records([b"a"])
    spark = pa.schema(
        [
            pa.field("key", pa.binary()),
            pa.field("value", pa.binary()),
            pa.field(
                "headers",
                pa.list_(
                    pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
                ),
            ),
            pa.field("timestamp", pa.timestamp("us", "Europe/Berlin")),
        ]
    )
    writer = SegmentWriter(log.root, "s", 0, 0)
    writer.write(batch.cast(spark))
    untimed = pa.record_batch(
        [batch["key"], batch["value"], batch["headers"], pa.nulls(1, RECORD_SCHEMA.field("timestamp").type)],
        schema=RECORD_SCHEMA,
    )
    with pytest.raises(ValueError, match="no timestamp"):
        writer.write(untimed)
    LaneWriter(log, "job", "lane", 1).publish("s", 0, 0, [writer.close()])
    (piece,) = log.slices("s", 0, 0, 1)
    assert [part.to_pylist() for part in read_slice(piece)] == [batch.to_pylist()]


def test_an_aborted_segment_leaves_no_file(log: Log) -> None:
    log.create("s", 1)
    writer = SegmentWriter(log.root, "s", 0, 0)
    writer.abort()
    writer.write(records([b"a"]))
    writer.abort()
    assert list(Path(log.root, "s", "0", "segments").iterdir()) == []


def test_records_from_outside_go_by_key_and_round(log: Log) -> None:
    from anabranch.model.hashing import partition_for

    log.create("s", 4)
    keyed = [b"k%d" % (n % 10) for n in range(100)]
    assert append(log, "s", [records([b"%d" % n for n in range(100)], keyed)]) == 100
    for partition in range(4):
        expected = [b"%d" % n for n in range(100) if partition_for(keyed[n], 4) == partition]
        assert contents(log, "s", partition) == expected
    before = {p: tail.end for p, tail in log.ends("s").items()}
    with Appender(log, "s") as appender:
        for _ in range(4):
            appender.append(records([b"x", b"y", b"z"]))
    assert [tail.end - before[p] for p, tail in log.ends("s").items()] == [3, 3, 3, 3]
    assert all(mark.closed for tail in log.ends("s").values() for mark in tail.writers.values())


def test_the_embedded_system_is_a_system(filled: Log) -> None:
    system: System = EmbeddedSystem(filled.root)
    assert system.streams() == ["s"]
    assert system.partitions("s") == 1
    assert system.starts("s") == {0: 0}
    assert system.ends("s") == {0: 5}
    system.create("t", 1)
    system.expand("t", 2)
    assert system.ends("t") == {0: 0, 1: 0}


def test_control_records_are_heeded_once_all_before_them_was_read(log: Log) -> None:
    log.create("s", 2)
    writer = LaneWriter(log, "job", "lane", 1)
    for batch, rows in enumerate([2, 0, 3]):
        refs = [segment(log, "s", 0, [b"x"] * rows)] if rows else []
        assert writer.publish("s", 0, batch, refs, {"said": batch})
    assert not writer.publish("s", 0, 2, [], {"said": "again"}), "a replay"
    put(writer, log, "s", 0, 3, b"without one")
    said = [{"said": n} for n in range(3)]
    first = log.controls("s", 1, -1, 9)[1]
    assert log.controls("s", 0, -1, 0) == (said[:1], first + 1)
    assert log.controls("s", 0, -1, 1) == (said[:1], first + 1)
    assert log.controls("s", 0, -1, 2) == (said, first + 3)
    assert log.controls("s", 0, first + 1, 2) == (said[1:], first + 3)
    assert log.controls("s", 0, first + 3, 5) == ([], first + 4)
    assert contents(log, "s", 0) == [b"x"] * 5 + [b"without one"]
