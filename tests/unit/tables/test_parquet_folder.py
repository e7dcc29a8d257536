"""A folder of Parquet files: what a plain glob of it shows, whatever happens between the steps of a commit."""

from __future__ import annotations

import os
import threading
from functools import partial
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pytest

from anabranch import crash_points
from anabranch.errors import (
    AnabranchError,
    ConfigError,
    ConflictError,
    FencedError,
    LogError,
    NotFoundError,
    StateError,
)
from anabranch.tables.files import FileRef, FileWriter, Folder, merged
from anabranch.tables.options import FolderOptions, checked
from anabranch.tables.parquet import ParquetFolder
from tests.unit.tables.helpers import LANE, SCHEMA, committed, owner, rows, written


def folder(path: Path, **settings: object) -> ParquetFolder:
    return ParquetFolder("orders", {"path": str(path / "table"), **settings})


@pytest.fixture
def table(tmp_path: Path) -> ParquetFolder:
    made = folder(tmp_path)
    made.prepare(SCHEMA, create=True)
    return made


def ids(path: Path) -> list[int]:
    """As DuckDB sees them, and as Polars does."""
    if not list((path / "table").glob("*.parquet")):
        return []
    glob = str(path / "table" / "*.parquet")
    found = sorted(n for (n,) in duckdb.sql(f"select id from read_parquet('{glob}')").fetchall())
    assert sorted(pl.scan_parquet(glob).collect()["id"].to_list()) == found
    return found


def test_each_batch_is_there_once(table: ParquetFolder, tmp_path: Path) -> None:
    table.fence(owner(1), new=True)
    committed(table, owner(1), 0, [1, 2], [3])
    committed(table, owner(1), 1, [4])
    committed(table, owner(1), 1, [4])
    committed(table, owner(1), 0, [1, 2, 3])
    assert ids(tmp_path) == [1, 2, 3, 4]
    assert table.last("orders", LANE) == 1
    assert table.writers("orders") == [LANE]
    assert table.writers("others") == []
    assert not list(tmp_path.rglob("*.part*")), "something was left"


def test_what_is_not_committed_is_not_seen(table: ParquetFolder, tmp_path: Path) -> None:
    table.fence(owner(1), new=True)
    written(table, owner(1), [1, 2])
    assert ids(tmp_path) == []
    table.fence(owner(2), new=False)
    assert not list(tmp_path.rglob("*.part")), "nobody will ever want it"


def test_an_older_epoch_is_fenced_whatever_it_has_seen(tmp_path: Path) -> None:
    old, new = folder(tmp_path), folder(tmp_path)
    old.prepare(SCHEMA, create=True)
    old.fence(owner(1), new=True)
    committed(old, owner(1), 0, [1])
    parts = written(old, owner(1), [2])
    new.fence(owner(2), new=False)
    with pytest.raises(FencedError, match="epoch 2 has taken over"):
        old.commit(owner(1), 1, parts)
    with pytest.raises(FencedError):
        old.fence(owner(1), new=False)
    committed(new, owner(2), 1, [2])
    with pytest.raises(FencedError):
        old.commit(owner(1), 2, parts)
    assert ids(tmp_path) == [1, 2]


def test_a_fence_between_the_look_and_the_entry_is_met(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The zombie is frozen after it has looked; only one of the two can make the entry of that number."""
    old, new = folder(tmp_path), folder(tmp_path)
    old.prepare(SCHEMA, create=True)
    old.fence(owner(1), new=True)
    link = os.link

    def slowly(part: Path, entry: Path) -> None:
        monkeypatch.setattr(os, "link", link)
        new.fence(owner(2), new=None)
        link(part, entry)

    monkeypatch.setattr(os, "link", slowly)
    with pytest.raises(FencedError):
        committed(old, owner(1), 0, [1])
    assert ids(tmp_path) == []
    assert new.last("orders", LANE) == -1


class Killed(BaseException):
    pass


@pytest.mark.parametrize("by", ["a replay under a higher epoch", "a fence only"])
def test_a_kill_before_files_are_shown_is_made_good(table: ParquetFolder, tmp_path: Path, by: str) -> None:
    table.fence(owner(1), new=True)

    def kill(step: str, lane: str, batch: int) -> None:
        if step == crash_points.NAMED:
            raise Killed

    with crash_points.watched(kill), pytest.raises(Killed):
        committed(table, owner(1), 0, [1, 2], [3])
    assert ids(tmp_path) == []

    after = folder(tmp_path)
    after.fence(owner(2), new=None)
    after.fence(owner(3), new=None)
    assert ids(tmp_path) == [1, 2, 3]
    if by.startswith("a replay"):
        committed(after, owner(3), 0, [1, 2, 3])
    assert ids(tmp_path) == [1, 2, 3]
    assert after.last("orders", LANE) == 0


def test_a_zombie_that_shows_its_files_late_changes_nothing(tmp_path: Path) -> None:
    old, new = folder(tmp_path), folder(tmp_path)
    old.prepare(SCHEMA, create=True)
    old.fence(owner(1), new=True)

    def freeze(step: str, lane: str, batch: int) -> None:
        if step == crash_points.NAMED:
            new.fence(owner(2), new=None)
            committed(new, owner(2), 1, [3])

    with crash_points.watched(freeze):
        committed(old, owner(1), 0, [1, 2])
    assert ids(tmp_path) == [1, 2, 3]


def test_lanes_write_at_once(table: ParquetFolder, tmp_path: Path) -> None:
    def work(lane: str, first: int) -> None:
        mine = folder(tmp_path)
        mine.fence(owner(1, lane), new=True)
        for batch in range(10):
            committed(mine, owner(1, lane), batch, [first + batch])

    threads = [threading.Thread(target=work, args=(f"0-{n:08x}", n * 10)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ids(tmp_path) == list(range(40))


def test_small_files_of_many_tasks_become_one(tmp_path: Path) -> None:
    table = folder(tmp_path, target_file_mb=1)
    table.prepare(SCHEMA, create=True)
    table.fence(owner(1), new=True)
    committed(table, owner(1), 0, *([n] for n in range(20)))
    (file,) = (tmp_path / "table").glob("*.parquet")
    assert pl.read_parquet(file)["id"].to_list() == list(range(20)), "in the order of the tasks"
    assert not list(tmp_path.rglob("*.part"))


def test_large_files_are_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anabranch.tables.files.GROUP_ROWS", 20_000)
    table = folder(tmp_path, target_file_mb=1)
    table.prepare(SCHEMA, create=True)
    table.fence(owner(1), new=True)
    writer = table.writer(owner(1), SCHEMA)
    for n in range(20):
        writer.write(rows(range(n * 20_000, (n + 1) * 20_000), name=os.urandom(8).hex()))
    parts = writer.close()
    assert len(parts) > 2
    table.commit(owner(1), 0, parts)
    assert ids(tmp_path) == list(range(400_000))
    sizes = [path.stat().st_size for path in (tmp_path / "table").glob("*.parquet")]
    assert max(sizes) < 2 << 20


def test_what_is_wrong_is_told(table: ParquetFolder, tmp_path: Path) -> None:
    with pytest.raises(StateError, match="knows nothing of lane"):
        table.fence(owner(1), new=False)
    with pytest.raises(StateError, match="knows nothing of lane"):
        table.commit(owner(1), 0, [])
    table.fence(owner(1), new=True)
    committed(table, owner(1), 3, [1])
    with pytest.raises(StateError, match=r"is new, but .* holds batch 3 of it"):
        table.fence(owner(2), new=True)
    (tmp_path / "other").mkdir()
    with pytest.raises(NotFoundError, match="doesn't exist"):
        ParquetFolder("orders", {"path": str(tmp_path / "other")}).prepare(SCHEMA, create=False)
    (tmp_path / "other" / "file").touch()
    with pytest.raises(NotFoundError, match="holds files, but isn't a table"):
        ParquetFolder("orders", {"path": str(tmp_path / "other")}).prepare(SCHEMA, create=True)
    for column, told in (
        (("more", pa.int64()), "writes a column 'more'"),
        (("id", pa.string()), "writes 'id' as string"),
    ):
        schema = pa.schema([*(field for field in SCHEMA if field.name != column[0]), column])
        with pytest.raises(ConflictError, match=told):
            table.prepare(schema, create=True)
    with pytest.raises(ConflictError, match=r"has a column 'at' .*, which the job doesn't write"):
        table.prepare(pa.schema(list(SCHEMA)[:2]), create=False)
    table.prepare(pa.schema(list(SCHEMA)[::-1]), create=False)


@pytest.mark.parametrize("create", [True, False])
@pytest.mark.parametrize("above", [True, False])
def test_a_file_in_the_place_of_the_folder_is_no_table(tmp_path: Path, create: bool, above: bool) -> None:
    file = tmp_path / "file"
    file.touch()
    path = file / "table" if above else file
    with pytest.raises(NotFoundError, match="is a file" if create else "isn't a table"):
        ParquetFolder("orders", {"path": str(path)}).prepare(SCHEMA, create=create)


def test_a_folder_of_files_whose_head_is_gone_does_not_become_another_table(
    table: ParquetFolder, tmp_path: Path
) -> None:
    table.fence(owner(1), new=True)
    committed(table, owner(1), 0, [1])
    head = tmp_path / "table" / "_anabranch" / "table.json"
    whole = head.read_bytes()
    head.unlink()
    for create, told in ((True, "holds files, but isn't a table"), (False, "isn't a table: .* is missing")):
        with pytest.raises(NotFoundError, match=told):
            table.prepare(SCHEMA, create=create)
    head.write_bytes(whole[:-1])
    with pytest.raises(LogError, match=r"table\.json is damaged"):
        table.prepare(SCHEMA, create=True)
    head.write_bytes(whole)
    table.prepare(SCHEMA, create=True)


def test_a_table_whose_making_was_broken_off_is_made(tmp_path: Path) -> None:
    (tmp_path / "table" / "_anabranch").mkdir(parents=True)
    folder(tmp_path).prepare(SCHEMA, create=True)
    assert folder(tmp_path).id()


def test_a_part_that_is_gone_or_cut_short_is_not_committed(table: ParquetFolder, tmp_path: Path) -> None:
    table.fence(owner(1), new=True)
    parts = written(table, owner(1), [1, 2])
    (staged,) = tmp_path.rglob("*.part")
    staged.write_bytes(staged.read_bytes()[:-1])
    with pytest.raises(LogError, match="bytes instead of"):
        table.commit(owner(1), 0, parts)
    staged.unlink()
    with pytest.raises(LogError, match="is missing"):
        table.commit(owner(1), 0, parts)
    assert ids(tmp_path) == []
    committed(table, owner(1), 0, [1, 2])
    assert ids(tmp_path) == [1, 2]


@pytest.mark.parametrize("at", ["a task", "the entry"])
def test_a_full_disk_loses_nothing(
    table: ParquetFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    table.fence(owner(1), new=True)
    committed(table, owner(1), 0, [1])

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        parts = written(table, owner(1), [2]) if at == "the entry" else []
        patch.setattr("os.fsync", full)
        work = partial(table.commit, owner(1), 1, parts) if parts else partial(written, table, owner(1), [2])
        with pytest.raises(AnabranchError, match="No space left on device"):
            work()
    assert ids(tmp_path) == [1]
    committed(table, owner(1), 1, [2])
    assert ids(tmp_path) == [1, 2]


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, "outputs.orders.path isn't set"),
        ({"path": "s3://bucket/orders"}, "hard links"),
        ({"path": "hdfs:/orders"}, "hard links"),
        ({"path": "/x", "pth": 1}, "did you mean 'path'"),
        ({"path": "/x", "target_file_mb": 0}, "outputs.orders.target_file_mb has the value 0"),
    ],
)
def test_settings_are_checked(settings: dict[str, object], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        ParquetFolder("orders", settings)


def test_a_number_from_the_environment_is_text_to_begin_with() -> None:
    assert checked(FolderOptions, "orders", {"path": "/x", "target_file_mb": "64"}).target_file_mb == 64


def test_a_merge_writes_no_more_than_the_target() -> None:
    """Whatever a batch has, the driver's part of it is bounded."""
    refs = [FileRef(f"f{n}", 1, 600) for n in range(10)]
    assert merged(Folder(Path("/nowhere")), refs, 1000) == refs


def test_merging_reads_no_more_at_once_than_a_row_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its 64 MB are much less in a file, if they are compressed well."""
    schema, store, refs = pa.schema([("name", pa.string())]), Folder(tmp_path), list[FileRef]()
    rows = pa.RecordBatch.from_arrays([pa.repeat("x" * 10_000, 1_600)], schema=schema)
    for _ in range(2):
        writer = FileWriter(store, schema, 1 << 20)
        for _ in range(12):
            writer.write(rows)
        refs += writer.close()
    sizes, write = list[int](), FileWriter.write

    def noted(self: FileWriter, rows: pa.RecordBatch) -> None:
        sizes.append(rows.nbytes)
        write(self, rows)

    monkeypatch.setattr(FileWriter, "write", noted)
    (one,) = merged(store, refs, 1 << 20)
    assert one.rows == 2 * 12 * 1_600
    assert max(sizes) < 90 << 20
