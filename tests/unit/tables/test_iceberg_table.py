"""An Iceberg table: fences that meet a commit in between, other writers, and what is refused."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from pyiceberg.table import Table
from pyiceberg.transforms import DayTransform
from pyiceberg.types import LongType, StringType

from anabranch.config import OutputSettings
from anabranch.container.error_text import is_final
from anabranch.errors import AnabranchError, ConfigError, ConflictError, FencedError, LogError, NotFoundError
from anabranch.tables import durable_io, opening, schemas
from anabranch.tables.iceberg import IcebergTable
from tests.support import postgres
from tests.support.iceberg import iceberg_catalog, iceberg_rows
from tests.unit.tables.helpers import LANE, SCHEMA, committed, owner, rows, synced, written

NAME = "shop.orders"


def options(path: Path) -> dict[str, object]:
    return {"table": NAME, "catalog": iceberg_catalog(path)}


def opened(path: Path, **settings: object) -> IcebergTable:
    return IcebergTable("orders", {**options(path), **settings})


@pytest.fixture
def table(tmp_path: Path) -> IcebergTable:
    made = opened(tmp_path)
    made.prepare(SCHEMA, create=True)
    made.fence(owner(1), new=True)
    return made


def plain(path: Path) -> Table:
    """As others see it."""
    return load_catalog("default", **iceberg_catalog(path)).load_table(NAME)


def ids(path: Path) -> list[int]:
    return sorted(iceberg_rows(options(path))["id"].to_list())


def data(path: Path) -> list[Path]:
    return list((path / "warehouse").rglob("*.parquet"))


def test_a_fence_between_the_look_and_the_commit_is_met(
    table: IcebergTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pyiceberg itself would commit on top of what it has not looked at."""
    committed(table, owner(1), 0, [1])
    parts = written(table, owner(1), [2])
    look = SqlCatalog.load_table

    def slowly(*named: Any) -> Table:
        monkeypatch.setattr(SqlCatalog, "load_table", look)
        seen = look(*named)
        opened(tmp_path).fence(owner(2), new=None)
        return seen

    monkeypatch.setattr(SqlCatalog, "load_table", slowly)
    with pytest.raises(FencedError, match="epoch 2 has taken over"):
        table.commit(owner(1), 1, parts)
    assert ids(tmp_path) == [1]


def test_two_incarnations_that_commit_one_batch_at_once(table: IcebergTable, tmp_path: Path) -> None:
    """Of the same epoch even: one of them is a replay."""
    parts = [written(table, owner(1), [1, 2]) for _ in range(4)]
    _at_once(*[lambda each=each: opened(tmp_path).commit(owner(1), 0, each) for each in parts])  # type: ignore[misc]
    assert ids(tmp_path) == [1, 2]


def test_lanes_and_others_write_at_once(table: IcebergTable, tmp_path: Path) -> None:
    def work(lane: str, first: int) -> None:
        mine = opened(tmp_path)
        mine.fence(owner(1, lane), new=True)
        for batch in range(3):
            committed(mine, owner(1, lane), batch, [first + batch])

    def other() -> None:
        for n in range(9, 12):
            plain(tmp_path).append(pa.Table.from_batches([rows([n])]))

    _at_once(*[lambda n=n: work(f"0-{n:08x}", n * 3) for n in range(3)], other)  # type: ignore[misc]
    assert ids(tmp_path) == list(range(12))
    named = {each.manifest_path for s in plain(tmp_path).snapshots() for each in s.manifests(plain(tmp_path).io)}
    there = {f"file://{each}" for each in (tmp_path / "warehouse").rglob("*-m*.avro")}
    assert there == named, "commits that had lost left manifests"


def test_a_table_that_others_change_all_the_time_is_told(
    table: IcebergTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be better the next time: the error isn't final."""

    def loses(*_: object) -> None:
        raise CommitFailedException("others were first")

    parts = written(table, owner(1), [1], [2])
    with monkeypatch.context() as patch:
        patch.setattr(SqlCatalog, "commit_table", loses)
        patch.setattr("anabranch.tables.iceberg.LONGEST_WAIT", 0.0)
        with pytest.raises(AnabranchError, match="is being changed by somebody else") as caught:
            table.commit(owner(1), 0, parts)
    assert not is_final(caught.value)
    table.commit(owner(1), 0, parts)
    assert ids(tmp_path) == [1, 2]


@pytest.mark.parametrize("told", [CommitFailedException, CommitStateUnknownException])
def test_a_commit_whose_answer_is_lost_happens_once(
    table: IcebergTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: type[Exception]
) -> None:
    """It was sent again on the way and refused; or nobody knows."""
    commit = SqlCatalog.commit_table

    def lost(*given: Any) -> None:
        commit(*given)
        raise told("lost")

    parts = written(table, owner(1), [1])
    with monkeypatch.context() as patch:
        patch.setattr(SqlCatalog, "commit_table", lost)
        if told is CommitFailedException:
            table.commit(owner(1), 0, parts)
        else:
            with pytest.raises(AnabranchError, match="its catalog doesn't answer as it should: lost"):
                table.commit(owner(1), 0, parts)
    committed(table, owner(1), 0, [1])
    assert ids(tmp_path) == [1]
    assert len(data(tmp_path)) == 1


def test_only_so_many_former_metadata_files_are_kept_as_the_table_says(table: IcebergTable, tmp_path: Path) -> None:
    with plain(tmp_path).transaction() as change:
        change.set_properties({"write.metadata.previous-versions-max": "3"})
    for batch in range(6):
        committed(table, owner(1), batch, [batch])
    table.fence(owner(2), new=False)
    found = plain(tmp_path)
    there = {f"file://{each}" for each in (tmp_path / "warehouse").rglob("*.metadata.json")}
    assert there == {found.metadata_location, *(each.metadata_file for each in found.metadata.metadata_log)}
    assert len(there) == 1 + 3
    assert ids(tmp_path) == list(range(6))


def test_a_former_metadata_file_that_cannot_be_deleted_does_not_fail_a_commit(
    table: IcebergTable, tmp_path: Path
) -> None:
    with plain(tmp_path).transaction() as change:
        change.set_properties({"write.metadata.previous-versions-max": "1"})
    for each in plain(tmp_path).metadata.metadata_log:
        Path(each.metadata_file.removeprefix("file://")).unlink()
    committed(table, owner(1), 0, [1])
    committed(table, owner(1), 1, [2])
    assert ids(tmp_path) == [1, 2]


def test_marks_outlive_snapshots(table: IcebergTable, tmp_path: Path) -> None:
    committed(table, owner(1), 0, [1])
    committed(table, owner(1), 1, [2])
    other = plain(tmp_path)
    other.append(pa.Table.from_batches([rows([3])]))
    for snapshot in other.snapshots()[:-1]:
        other.maintenance.expire_snapshots().by_id(snapshot.snapshot_id).commit()
    assert len(plain(tmp_path).snapshots()) == 1
    assert (table.last("orders", LANE), table.writers("orders")) == (1, [LANE])
    committed(table, owner(1), 1, [2])
    assert ids(tmp_path) == [1, 2, 3]


def test_a_table_that_was_rolled_back_goes_on_behind_what_was_written(table: IcebergTable, tmp_path: Path) -> None:
    committed(table, owner(1), 0, [1])
    before = plain(tmp_path).current_snapshot()
    assert before is not None
    committed(table, owner(1), 1, [2])
    plain(tmp_path).manage_snapshots().rollback_to_snapshot(before.snapshot_id).commit()
    committed(table, owner(1), 1, [2])
    committed(table, owner(1), 2, [3])
    assert ids(tmp_path) == [1, 3]


def test_a_catalog_in_postgresql(
    postgres_server: postgres.Server, postgresql_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its password by reference; when its connections end, that is told, and the next attempt has others."""
    url = postgresql_url.replace("postgresql://", "postgresql+psycopg://")
    monkeypatch.setenv("CATALOGS_PASSWORD", postgres.PASSWORD)
    shown = {**iceberg_catalog(tmp_path), "uri": url.replace(postgres.PASSWORD, "${env:CATALOGS_PASSWORD}")}
    table = opened(tmp_path, catalog=shown)
    table.prepare(SCHEMA, create=True)
    table.fence(owner(1), new=True)
    committed(table, owner(1), 0, [1])
    parts = written(table, owner(1), [2])
    with postgres_server.admin() as connection:
        connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", [url.rpartition("/")[2]]
        )
    with pytest.raises(AnabranchError, match="its catalog doesn't answer as it should") as caught:
        table.commit(owner(1), 1, parts)
    assert not is_final(caught.value)
    assert postgres.PASSWORD not in str(caught.value)
    table.commit(owner(1), 1, parts)
    found = iceberg_rows({"table": NAME, "catalog": {**iceberg_catalog(tmp_path), "uri": url}})
    assert sorted(found["id"].to_list()) == [1, 2]


def test_snapshots_tell_whose_they_are(table: IcebergTable, tmp_path: Path) -> None:
    committed(table, owner(1), 7, [1])
    newest = plain(tmp_path).current_snapshot()
    assert newest is not None
    assert newest.summary is not None
    told = newest.summary.additional_properties
    whose = {"job": "orders", "lane": LANE, "epoch": "1", "batch": "7"}
    assert {name: told[f"anabranch.{name}"] for name in whose} == whose


def test_small_files_of_many_tasks_become_one(table: IcebergTable, tmp_path: Path) -> None:
    committed(table, owner(1), 0, *([n] for n in range(20)))
    assert len(data(tmp_path)) == 1
    assert ids(tmp_path) == list(range(20))


def test_a_killed_tasks_files_are_never_seen(table: IcebergTable, tmp_path: Path) -> None:
    committed(table, owner(1), 0, [1])
    written(table, owner(1), [2])
    opened(tmp_path).fence(owner(2), new=None)
    assert ids(tmp_path) == [1]
    named = {task.file.file_path for task in plain(tmp_path).scan().plan_files()}
    (orphan,) = [each for each in data(tmp_path) if f"file://{each}" not in named]
    assert orphan.name.startswith(f"{LANE}-1-")


def test_columns_as_they_are_outside(tmp_path: Path) -> None:
    """Nested ones, small numbers, and columns that only the table has; a renamed one keeps its rows."""
    catalog = load_catalog("default", **iceberg_catalog(tmp_path))
    kinds = {
        "tags": pa.list_(pa.string()), "counts": pa.map_(pa.string(), pa.int16()), "small": pa.int16(),
        "place": pa.struct([("x", pa.float32())]), "price": pa.decimal128(10, 2), "raw": pa.binary(),
    }  # fmt: skip
    schema = pa.schema(list(kinds.items()))
    table = opened(tmp_path)
    table.prepare(schema, create=True)
    with catalog.load_table(NAME).update_schema() as update:
        update.add_column("more", LongType())
    table.prepare(schema, create=False)
    table.fence(owner(1), new=True)
    row = {
        "tags": ["a", None],
        "counts": [("b", 2)],
        "small": 3,
        "place": {"x": 0.5},
        "price": None,
        "day": None,
        "raw": b"r",
    }
    for _ in range(2):
        writer = table.writer(owner(1), schema)
        writer.write(pa.RecordBatch.from_pylist([row], schema=schema))
        parts = writer.close()
    table.commit(owner(1), 0, parts)
    with catalog.load_table(NAME).update_schema() as update:
        update.rename_column("small", "little")
    (found,) = iceberg_rows(options(tmp_path)).to_dicts()
    assert (found["tags"], found["place"], found["raw"], found["little"]) == (["a", None], {"x": 0.5}, b"r", 3)
    assert found["more"] is None
    with pytest.raises(ConflictError, match="writes a column 'small'"):
        table.writer(owner(1), schema)


def test_what_is_wrong_is_told(table: IcebergTable, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"the Iceberg table shop\.none doesn't exist"):
        opened(tmp_path, table="shop.none").prepare(SCHEMA, create=False)
    with pytest.raises(NotFoundError, match="doesn't exist"):
        opened(tmp_path, table="none.none").prepare(SCHEMA, create=False)
    told_of = {
        ("more", pa.int64()): r"writes a column 'more' \(int64\)",
        ("id", pa.string()): "writes 'id' as string; in output orders, the Iceberg table shop.orders it is long",
        ("at", pa.timestamp("ns")): "writes 'at' as timestamp",
    }
    for column, told in told_of.items():
        schema = pa.schema([*(field for field in SCHEMA if field.name != column[0]), column])
        with pytest.raises(ConflictError, match=told):
            table.prepare(schema, create=True)
    with plain(tmp_path).update_schema(allow_incompatible_changes=True) as update:
        update.add_column("must", StringType(), required=True, default_value="")
    with pytest.raises(ConflictError, match="a column 'must' that may not be null"):
        table.prepare(SCHEMA, create=True)


NEVER_NULL = pa.field("x", pa.int64(), nullable=False)


@pytest.mark.parametrize(
    ("kind", "held", "written"),
    [
        (pa.list_(NEVER_NULL), "list<long not null>", "list<long>"),
        (pa.map_(pa.string(), NEVER_NULL), "map<string, long not null>", "map<string, long>"),
        (pa.struct([NEVER_NULL]), "struct<x: long not null>", "struct<x: long>"),
        (pa.list_(pa.list_(NEVER_NULL)), "list<list<long not null>>", "list<list<long>>"),
    ],
)
def test_nulls_inside_a_column_where_the_table_allows_none_are_refused(
    tmp_path: Path, kind: pa.DataType, held: str, written: str
) -> None:
    schema = pa.schema([("more", kind)])
    catalog = load_catalog("default", **iceberg_catalog(tmp_path))
    catalog.create_namespace("shop")
    catalog.create_table(NAME, schema)
    opened(tmp_path).prepare(schema, create=False)
    with pytest.raises(ConflictError, match=rf"writes 'more' as {written}; in .* it is {held}\n") as caught:
        opened(tmp_path).prepare(schemas.nullable(schema), create=False)
    assert caught.value.cure == schemas.NO_NULLS


@pytest.mark.parametrize("kind", [pa.duration("us"), pa.null()])
def test_a_column_of_a_type_that_iceberg_lacks_is_named(tmp_path: Path, kind: pa.DataType) -> None:
    schema = pa.schema([*SCHEMA, ("note", kind)])
    with pytest.raises(ConflictError, match=r"can't have the columns of the job: .*note"):
        opened(tmp_path).prepare(schema, create=True)


def test_a_table_that_gets_another_schema_while_the_job_runs(table: IcebergTable, tmp_path: Path) -> None:
    parts = written(table, owner(1), [1])
    with plain(tmp_path).update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("name")
    with pytest.raises(ConflictError, match="writes a column 'name'"):
        table.commit(owner(1), 0, parts)
    with pytest.raises(ConflictError, match="writes a column 'name'"):
        table.writer(owner(1), SCHEMA)
    assert table.last("orders", LANE) == -1


def test_a_partitioned_table_is_refused(table: IcebergTable, tmp_path: Path) -> None:
    with plain(tmp_path).update_spec() as update:
        update.add_field("at", DayTransform())
    with pytest.raises(ConflictError, match="is partitioned"):
        table.prepare(SCHEMA, create=True)


def test_a_null_where_none_may_be_is_told(table: IcebergTable, tmp_path: Path) -> None:
    with plain(tmp_path).update_schema(allow_incompatible_changes=True) as update:
        update.update_column("name", required=True)
    writer = table.writer(owner(1), SCHEMA)
    with pytest.raises(ConflictError, match="'name' is null, which it may not be"):
        writer.write(pa.RecordBatch.from_pylist([{"id": 1}], schema=SCHEMA))


@pytest.mark.parametrize(
    ("catalog", "told"),
    [
        ({"uri": "sqlite:////nowhere/at/all.db", "type": "sql"}, "its catalog doesn't answer as it should"),
        ({"uri": "http://127.0.0.1:1", "type": "rest"}, "its catalog doesn't answer as it should"),
        ({"type": "none"}, "outputs.orders.catalog isn't a catalog that pyiceberg can use"),
        ({"uri": "nosuch://db/x", "type": "sql"}, "catalog that pyiceberg can use: Can't load plugin"),
        ({"uri": "${env:NOT_SET_HERE}", "type": "sql"}, "outputs.orders.catalog.uri refers to the environment"),
    ],
)
def test_a_catalog_that_is_away_or_wrong_is_told(tmp_path: Path, catalog: dict[str, str], told: str) -> None:
    with pytest.raises(AnabranchError, match=told):
        opened(tmp_path, catalog=catalog).last("orders", LANE)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"table": "orders"}, "a table is named with its namespace"),
        ({"catalog": {"uri": "sqlite:///catalog.db"}}, "uri must be whole"),
        ({"catalog": {"warehouse": "./warehouse"}}, "warehouse must be whole"),
        ({"tabel": "x.y"}, "did you mean 'table'"),
    ],
)
def test_settings_are_checked(tmp_path: Path, settings: dict[str, object], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        opened(tmp_path, **settings)


def test_the_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyiceberg", None)
    monkeypatch.delitem(sys.modules, "anabranch.tables.iceberg")
    with pytest.raises(ConfigError, match="pyiceberg is missing") as caught:
        opening.opened("orders", OutputSettings(to="iceberg", table="a.b"))  # type: ignore[call-arg]
    assert caught.value.cure == 'install it: pip install "anabranch[iceberg]"'


def _at_once(*works: object) -> None:
    failed: list[BaseException] = []

    def run(work: object) -> None:
        try:
            work()  # type: ignore[operator]
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(each,)) for each in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed


def test_metadata_are_durable_before_the_catalog_names_them(
    table: IcebergTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = written(table, owner(1), [1])
    folder = tmp_path / "warehouse" / "shop" / "orders" / "metadata"
    before, durable = set(folder.iterdir()), synced(monkeypatch)
    table.commit(owner(1), 0, parts)
    made = set(folder.iterdir()) - before
    assert {path.suffix for path in made} == {".avro", ".json"}
    assert made <= set(durable)
    assert durable[-2:] == [Path(plain(tmp_path).metadata_location.removeprefix("file://")), folder]


def test_a_new_table_is_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    durable = synced(monkeypatch)
    opened(tmp_path).prepare(SCHEMA, create=True)
    folder = tmp_path / "warehouse" / "shop" / "orders" / "metadata"
    assert {*folder.iterdir(), *list(folder.parents)[:4]} <= set(durable)


@pytest.mark.parametrize("damage", ["", "{", "{}"])
def test_damaged_metadata_are_named_as_such(table: IcebergTable, tmp_path: Path, damage: str) -> None:
    Path(plain(tmp_path).metadata_location.removeprefix("file://")).write_text(damage)
    with pytest.raises(LogError, match=r"the metadata file that its catalog names is empty or damaged"):
        table.fence(owner(2), new=False)


def test_a_class_for_files_that_the_user_has_chosen_is_used(tmp_path: Path) -> None:
    chosen = "pyiceberg.io.fsspec.FsspecFileIO"
    properties = {**iceberg_catalog(tmp_path), "py-io-impl": chosen}
    assert durable_io.used_by(load_catalog("default", **properties)).properties["py-io-impl"] == chosen
