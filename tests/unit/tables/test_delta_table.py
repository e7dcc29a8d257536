"""A Delta table: fences that meet a commit in between, other writers, and what is refused."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import deltalake
import polars as pl
import pyarrow as pa
import pytest
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.schema import PrimitiveType

from anabranch.config import OutputSettings
from anabranch.container.error_text import is_final
from anabranch.errors import AnabranchError, ConfigError, ConflictError, FencedError, NotFoundError
from anabranch.tables import opening
from anabranch.tables.delta import DeltaFolder
from tests.unit.tables.helpers import LANE, SCHEMA, committed, owner, rows, written


def opened(path: Path, **settings: object) -> DeltaFolder:
    return DeltaFolder("orders", {"path": str(path / "table"), **settings})


@pytest.fixture
def table(tmp_path: Path) -> DeltaFolder:
    made = opened(tmp_path)
    made.prepare(SCHEMA, create=True)
    made.fence(owner(1), new=True)
    return made


def ids(path: Path) -> list[int]:
    return sorted(pl.read_delta(str(path / "table"))["id"].to_list())


def test_a_fence_between_the_look_and_the_commit_is_met(
    table: DeltaFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The protocol's own check: both name the lane's id, and the one that comes late has not seen the other."""
    committed(table, owner(1), 0, [1])
    look = deltalake.DeltaTable

    def slowly(path: Path) -> deltalake.DeltaTable:
        monkeypatch.setattr(deltalake, "DeltaTable", look)
        seen = look(path)
        opened(tmp_path).fence(owner(2), new=None)
        return seen

    monkeypatch.setattr(deltalake, "DeltaTable", slowly)
    with pytest.raises(FencedError, match="epoch 2 has taken over"):
        committed(table, owner(1), 1, [2])
    assert ids(tmp_path) == [1]


def test_two_incarnations_that_commit_one_batch_at_once(table: DeltaFolder, tmp_path: Path) -> None:
    """Of the same epoch even: one of them is a replay."""
    parts = [written(table, owner(1), [1, 2]) for _ in range(4)]
    threads = [threading.Thread(target=opened(tmp_path).commit, args=(owner(1), 0, each)) for each in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ids(tmp_path) == [1, 2]


def test_lanes_and_others_write_at_once(table: DeltaFolder, tmp_path: Path) -> None:
    def work(lane: str, first: int) -> None:
        mine = opened(tmp_path)
        mine.fence(owner(1, lane), new=True)
        for batch in range(5):
            committed(mine, owner(1, lane), batch, [first + batch])

    threads = [threading.Thread(target=work, args=(f"0-{n:08x}", n * 5)) for n in range(3)]
    for thread in threads:
        thread.start()
    for n in range(15, 20):
        deltalake.write_deltalake(tmp_path / "table", pa.Table.from_batches([rows([n])]), mode="append")
    for thread in threads:
        thread.join()
    assert ids(tmp_path) == list(range(20))


def test_a_table_that_others_change_all_the_time_is_told(
    table: DeltaFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be better the next time: the error isn't final."""

    def loses(*_: object, **__: object) -> None:
        raise CommitFailedError("others were first")

    parts = written(table, owner(1), [1])
    with monkeypatch.context() as patch:
        patch.setattr(deltalake.DeltaTable, "create_write_transaction", loses)
        with pytest.raises(AnabranchError, match="is being changed by somebody else") as caught:
            table.commit(owner(1), 0, parts)
    assert not is_final(caught.value)
    table.commit(owner(1), 0, parts)
    assert ids(tmp_path) == [1]


@pytest.mark.parametrize(("text", "told"), [("no room\nat all", "no room"), ("", "DeltaError")])
def test_an_error_of_a_commit_is_told(
    table: DeltaFolder, monkeypatch: pytest.MonkeyPatch, text: str, told: str
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise DeltaError(text)

    parts = written(table, owner(1), [1])
    monkeypatch.setattr(deltalake.DeltaTable, "create_write_transaction", fails)
    with pytest.raises(AnabranchError, match=rf"can't be written: {told}\n"):
        table.commit(owner(1), 0, parts)


def test_marks_outlive_checkpoints_and_compaction(table: DeltaFolder, tmp_path: Path) -> None:
    committed(table, owner(1), 0, [1])
    committed(table, owner(1), 1, [2])
    plain = deltalake.DeltaTable(tmp_path / "table")
    plain.optimize.compact()
    plain.create_checkpoint()
    plain.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    assert table.last("orders", LANE) == 1
    committed(table, owner(1), 1, [2])
    assert ids(tmp_path) == [1, 2]


def test_small_files_of_many_tasks_become_one(table: DeltaFolder, tmp_path: Path) -> None:
    committed(table, owner(1), 0, *([n] for n in range(20)))
    assert len(deltalake.DeltaTable(tmp_path / "table").file_uris()) == 1
    assert len(list((tmp_path / "table").glob("*.parquet"))) == 1
    assert ids(tmp_path) == list(range(20))


def test_a_table_may_have_more_columns(table: DeltaFolder, tmp_path: Path) -> None:
    deltalake.DeltaTable(tmp_path / "table").alter.add_columns([deltalake.Field("more", PrimitiveType("long"))])
    table.prepare(SCHEMA, create=False)
    committed(table, owner(1), 0, [1], [2])
    assert pl.read_delta(str(tmp_path / "table"))["more"].to_list() == [None, None]
    assert ids(tmp_path) == [1, 2]


def test_a_table_that_gets_another_schema_while_the_job_runs(table: DeltaFolder, tmp_path: Path) -> None:
    parts = written(table, owner(1), [1])
    others = pa.table({"id": ["a"], "name": ["b"]})
    deltalake.write_deltalake(tmp_path / "table", others, mode="overwrite", schema_mode="overwrite")
    with pytest.raises(ConflictError, match=r"writes 'id' as long; in .* it is string"):
        table.commit(owner(1), 0, parts)
    assert table.last("orders", LANE) == -1
    assert pl.read_delta(str(tmp_path / "table"))["id"].to_list() == ["a"]


def test_a_killed_tasks_files_are_never_seen_and_go_with_a_full_vacuum(table: DeltaFolder, tmp_path: Path) -> None:
    committed(table, owner(1), 0, [1])
    written(table, owner(1), [2])
    assert ids(tmp_path) == [1]
    assert len(list((tmp_path / "table").glob("*.parquet"))) == 2
    plain = deltalake.DeltaTable(tmp_path / "table")
    plain.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False, full=True)
    assert len(list((tmp_path / "table").glob("*.parquet"))) == 1
    assert ids(tmp_path) == [1]


def test_what_is_wrong_is_told(table: DeltaFolder, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="doesn't exist"):
        opened(tmp_path / "other").prepare(SCHEMA, create=False)
    told_of = {("more", pa.int64()): "writes a column 'more' .long.", ("id", pa.string()): "writes 'id' as string"}
    for column, told in told_of.items():
        schema = pa.schema([*(field for field in SCHEMA if field.name != column[0]), column])
        with pytest.raises(ConflictError, match=told):
            table.prepare(schema, create=True)
    deltalake.DeltaTable.create(tmp_path / "cut", deltalake.Schema.from_arrow(SCHEMA), partition_by=["name"])
    with pytest.raises(ConflictError, match="is partitioned by name"):
        DeltaFolder("orders", {"path": str(tmp_path / "cut")}).prepare(SCHEMA, create=True)
    (tmp_path / "file").touch()
    with pytest.raises(AnabranchError, match=r"can't be made|doesn't exist"):
        DeltaFolder("orders", {"path": str(tmp_path / "file" / "table")}).prepare(SCHEMA, create=True)
    with pytest.raises(ConfigError, match="local and shared folders"):
        DeltaFolder("orders", {"path": "s3://bucket/table"})


def test_the_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "deltalake", None)
    monkeypatch.delitem(sys.modules, "anabranch.tables.delta")
    with pytest.raises(ConfigError, match="deltalake is missing") as caught:
        opening.opened("orders", OutputSettings(to="delta", path="/tmp/x"))  # type: ignore[call-arg]
    assert caught.value.cure == 'install it: pip install "anabranch[delta]"'
