"""What every table must do, also that of docs/how-to/write-your-own-table.md; how settings bind outputs to them."""

from __future__ import annotations

import pickle
import sqlite3
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import duckdb
import polars as pl
import psycopg
import pyarrow as pa
import pytest

from anabranch import Job, config
from anabranch.cli import container
from anabranch.config import OutputSettings, Settings
from anabranch.coordinator.jobs import fencing
from anabranch.errors import ConfigError, FencedError, NotFoundError, StateError
from anabranch.launch import preparation
from anabranch.model.lane import Lane
from anabranch.spark.query.tables import TablePublisher
from anabranch.systems.systems import Systems
from anabranch.tables import Table
from anabranch.tables.opening import opened
from tests.support.iceberg import iceberg_catalog, iceberg_rows
from tests.support.paths import ROOT
from tests.unit.tables.helpers import LANE, SCHEMA, committed, owner, written

EXAMPLES = ROOT / "examples"
Ids = Callable[[], list[int]]


@pytest.fixture(params=["parquet", "delta", "iceberg", "postgresql", "sqlite_table:SqliteTable"])
def settings(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OutputSettings:
    monkeypatch.syspath_prepend(EXAMPLES)
    if request.param == "postgresql":
        return OutputSettings(to="postgresql", url=request.getfixturevalue("postgresql_url"), table="orders")
    if request.param == "iceberg":
        return OutputSettings(to="iceberg", table="shop.orders", catalog=iceberg_catalog(tmp_path))
    return OutputSettings(to=request.param, path=str(tmp_path / "orders"))


@pytest.fixture
def ids(settings: OutputSettings) -> Ids:
    """The rows, as one who knows nothing of anabranch sees them."""
    path = Path(settings.options.get("path", ""))

    def of_postgresql() -> list[int]:
        with psycopg.connect(settings.options["url"]) as connection:
            return [n for (n,) in connection.execute("select id from orders order by id")]

    def of_delta() -> list[int]:
        return sorted(pl.read_delta(str(path))["id"].to_list())

    def of_iceberg() -> list[int]:
        return sorted(iceberg_rows(settings.options)["id"].to_list())

    def of_sqlite() -> list[int]:
        return sorted(n for (n,) in sqlite3.connect(path).execute("select id from rows"))

    def of_parquet() -> list[int]:
        found = list(path.glob("*.parquet"))
        return sorted(n for (n,) in duckdb.sql(f"select id from '{path}/*.parquet'").fetchall()) if found else []

    readers = {"parquet": of_parquet, "delta": of_delta, "iceberg": of_iceberg, "postgresql": of_postgresql}
    return readers.get(settings.to, of_sqlite)


def test_a_table_keeps_its_contract(settings: OutputSettings, ids: Ids) -> None:
    def another() -> Table:
        return pickle.loads(pickle.dumps(opened("orders", settings)))  # type: ignore[no-any-return]

    old, new = another(), another()
    assert old.writers("orders") == []
    old.prepare(SCHEMA, create=True)
    new.prepare(SCHEMA, create=False)
    assert old.id() == new.id()
    with pytest.raises(StateError):
        old.fence(owner(1), new=False)
    old.fence(owner(1), new=True)
    assert old.last("orders", LANE) == -1
    committed(old, owner(1), 0, [1, 2], [3])
    committed(old, owner(1), 0, [1, 2], [3])
    lost = written(old, owner(1), [4])

    new.fence(owner(2), new=None)
    new.fence(owner(2), new=False)
    with pytest.raises(FencedError, match="epoch 2 has taken over"):
        old.commit(owner(1), 1, lost)
    with pytest.raises(FencedError):
        old.fence(owner(1), new=None)
    with pytest.raises(StateError, match="is new"):
        new.fence(owner(3), new=True)
    assert ids() == [1, 2, 3]
    committed(new, owner(2), 1, [4])
    committed(new, owner(2), 0, [1, 2, 3])
    committed(new, owner(2), 1, [4, 4])
    assert ids() == [1, 2, 3, 4]
    with pytest.raises(StateError, match="used to contain them up to 2: it was restored from an older copy"):
        new.commit(replace(owner(2), committed=2), 3, written(new, owner(2), [5]))
    assert (ids(), new.last("orders", LANE)) == ([1, 2, 3, 4], 1)
    new.fence(owner(3, "0-bbbbbbbb"), new=None)
    assert new.last("orders", LANE) == 1
    if settings.to != "delta":  # which can't tell
        assert (new.writers("orders"), new.writers("none")) == ([LANE], [])


def nested(nulls: bool) -> pa.Schema:
    """Columns inside which there can be nulls, or can't."""
    return pa.schema(
        [
            ("id", pa.int64()),
            ("tags", pa.list_(pa.field("element", pa.string(), nullable=nulls))),
            ("place", pa.struct([pa.field("x", pa.int64(), nullable=nulls)])),
            ("counts", pa.map_(pa.string(), pa.field("value", pa.int64(), nullable=nulls))),
        ]
    )


@pytest.mark.parametrize("nulls", [True, False])
@pytest.mark.parametrize("settings", ["parquet", "delta", "iceberg", "postgresql"], indirect=True)
def test_a_table_takes_nested_values_whether_or_not_they_can_be_null(
    settings: OutputSettings, ids: Ids, nulls: bool
) -> None:
    table = opened("orders", settings)
    table.prepare(nested(nulls), create=True)
    table.fence(owner(1), new=True)
    for batch, schema in enumerate([nested(nulls), nested(not nulls)]):
        table.prepare(schema, create=False)
        row = {"id": batch, "tags": ["a"], "place": {"x": 1}, "counts": [("b", 2)]}
        writer = table.writer(owner(1), schema)
        writer.write(pa.RecordBatch.from_pylist([row], schema=schema))
        table.commit(owner(1), batch, writer.close())
    assert ids() == [0, 1]


def test_a_replay_with_the_same_parts_changes_nothing(settings: OutputSettings, ids: Ids) -> None:
    table = opened("orders", settings)
    table.prepare(SCHEMA, create=True)
    table.fence(owner(1), new=True)
    parts = written(table, owner(1), [1, 2])
    for each in (table, table, opened("orders", settings)):
        each.commit(owner(1), 0, parts)
        assert ids() == [1, 2]


def test_a_table_that_does_not_exist_is_said_not_to(settings: OutputSettings) -> None:
    table = opened("orders", settings)
    for call in (table.id, lambda: table.prepare(SCHEMA, create=False), lambda: table.last("orders", LANE)):
        with pytest.raises(NotFoundError):
            call()


@pytest.mark.parametrize("whole", [True, False])
def test_a_table_of_one_s_own_that_is_made_anew_is_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: bool
) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)
    path = tmp_path / "orders"
    table = opened("orders", OutputSettings(to="sqlite_table:SqliteTable", path=str(path)))  # type: ignore[call-arg]
    table.prepare(SCHEMA, create=True)
    table.fence(owner(1), new=True)
    committed(table, owner(1), 0, [1])
    former = table.id()
    table.prepare(SCHEMA, create=True)
    assert (table.id(), table.last("orders", LANE)) == (former, 0)
    if whole:
        path.unlink()
    else:
        sqlite3.connect(path).execute("drop table rows")
    with pytest.raises(NotFoundError, match="has no table"):
        table.id()
    table.prepare(SCHEMA, create=True)
    assert table.id() != former
    assert table.last("orders", LANE) == -1


@pytest.mark.parametrize("epoch", [1, 2])
def test_what_a_failed_batch_has_staged_goes_when_its_lane_starts_again(tmp_path: Path, epoch: int) -> None:
    """In this process or in another one."""
    table = opened("orders", OutputSettings(to="parquet", path=str(tmp_path)))  # type: ignore[call-arg]
    table.prepare(SCHEMA, create=True)
    table.fence(owner(1), new=True)
    written(table, owner(1), [1])
    table.fence(owner(1), new=True)
    assert list(tmp_path.rglob("*.part")), "another one than the owner may have fenced"
    lane = Lane(
        id=LANE, job="orders", deployment=0, stage="0", group="outputs", seat="0", tasks=(), ssps=(), epoch=epoch
    )  # fmt: skip
    TablePublisher(lane, epoch, {"orders": table}).take(new=False)
    assert not list(tmp_path.rglob("*.part"))


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    yield
    sys.modules.pop("sqlite_table", None)


def test_settings_bind_outputs(tmp_path: Path) -> None:
    (tmp_path / "anabranch.toml").write_text(
        """
        [outputs.orders]
        to = "parquet"
        path = "./tables/orders"
        target_file_mb = 64
        """
    )
    settings = config.load(tmp_path / "anabranch.toml")
    assert settings.outputs["orders"].options == {"path": str(tmp_path / "tables/orders"), "target_file_mb": 64}
    assert config.restored(config.dumped(settings)).outputs == settings.outputs
    systems = Systems(settings)
    assert systems.bound() == {"orders": "parquet"}
    assert [system.name for system in systems.used] == ["embedded"]
    with pytest.raises(ConfigError, match="'orders' is a table"):
        systems.of("orders")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            '[outputs.orders]\nto = "parkett"\npath = "x"',
            "goes to 'parkett', which is unknown; did you mean 'parquet'",
        ),
        ('[outputs.orders]\nto = "nothing:There"', "can't be imported"),
        ('[outputs.orders]\nto = "parquet"\npth = "x"', "orders"),
        ('[outputs.orders]\npath = "x"', "outputs.orders.to"),
        ('[outputs.orders]\nto = "parquet"\n[streams.orders]\n', "is both a stream"),
    ],
)
def test_wrong_settings_are_refused(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "anabranch.toml").write_text(text)
    with pytest.raises(ConfigError, match=told):
        Systems(config.load(tmp_path / "anabranch.toml")).table("orders")


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({"url": "postgresql://me:open@db/shop"}, False),
        ({"url": "postgresql://me:${env:PASSWORD}@db/shop"}, True),
        ({"url": "postgresql://db/shop"}, True),
        ({"url": "postgresql://db/shop?user=me&password=open"}, False),
        ({"url": "postgresql://db/shop?user=me&password=${env:PASSWORD}"}, True),
        ({"options": {"AWS_SECRET_ACCESS_KEY": "open"}}, False),
        ({"options": {"AWS_SECRET_ACCESS_KEY": "${env:KEY}"}}, True),
    ],
)
def test_a_coordinator_keeps_no_secret(options: dict[str, object], kept: bool) -> None:
    settings = Settings(outputs={"orders": OutputSettings(to="postgresql", **options)})  # type: ignore[arg-type]
    if kept:
        assert config.restored(config.dumped(settings)).outputs["orders"].options == options
        return
    with pytest.raises(ConfigError, match=r"the setting outputs.orders\.\S+ contains a secret in plain text"):
        config.dumped(settings)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("orders", "the job reads 'orders', which is a table"),
        ("orders-dead-letters", "puts dead letters aside in 'orders-dead-letters', which is a table"),
        ("large", None),
    ],
)
def test_a_table_is_only_written(tmp_path: Path, name: str, told: str | None) -> None:
    settings = Settings(outputs={name: OutputSettings(to="parquet", path=str(tmp_path))})  # type: ignore[call-arg]
    job = Job("shop")
    job.read("orders", schema="id int").write("large")
    if told is None:
        preparation.check_tables(job.graph, Systems(settings))
        return
    with pytest.raises(ConfigError, match=told):
        preparation.check_tables(job.graph, Systems(settings))


def test_a_container_that_writes_a_table_of_a_users_class_stops_without_its_coordinator() -> None:
    """Nobody can fence that for it."""
    job = Job("shop")
    job.read("orders", schema="id int").write("large")
    for to, survives in (("parquet", True), ("mine:Table", False)):
        settings = Settings(outputs={"large": OutputSettings(to=to)})
        assert (container.stops_because(job.graph, settings) == "") is survives


def test_a_coordinator_fences_what_it_can_import(tmp_path: Path) -> None:
    tables = {"one": OutputSettings(to="parquet", path=str(tmp_path)), "two": OutputSettings(to="not_here:Table")}  # type: ignore[call-arg]
    settings = Settings(outputs=tables)
    lane = Lane(
        id=LANE, job="orders", deployment=0, stage="0", group="outputs", seat="0", tasks=(), ssps=(), epoch=4,
        outputs={"one": 1, "two": 1}, systems={"one": "parquet", "two": "not_here:Table"},
    )  # fmt: skip
    table = Systems(settings).table("one")
    table.prepare(SCHEMA, create=True)
    fencing.fence(lane, settings.model_dump(mode="json"))
    with pytest.raises(FencedError, match="epoch 4 has taken over"):
        table.fence(owner(3), new=None)
