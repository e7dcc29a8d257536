"""Jobs that write tables, on real Spark: the columns, replays, several outputs of one lane, and what is refused."""

from __future__ import annotations

from typing import Any

import duckdb
import polars as pl
import psycopg
import pyarrow.parquet as pq
import pytest
from psycopg.rows import dict_row

from anabranch import Job, crash_points
from anabranch.config import OutputSettings, Settings
from anabranch.errors import ConflictError, NotFoundError
from tests.integration.harness import Site
from tests.support.iceberg import iceberg_catalog, iceberg_rows

SCHEMA = "number int, name string, at timestamp, tags array<string>"


@pytest.fixture
def site(site: Site) -> Site:
    site.system.create("orders", 2)
    return site


def settings(site: Site, **job: Any) -> Settings:
    outputs = {name: OutputSettings(to="parquet", path=str(site.root / name)) for name in ("large", "all")}
    return site.settings(**job).model_copy(update={"outputs": outputs})


def put(site: Site, first: int, count: int) -> None:
    for partition in range(2):
        numbers = range(first + partition, first + count, 2)
        values = [
            {"number": n, "name": f"name {n}", "at": f"2026-01-01T00:00:{n % 60:02d}Z", "tags": ["a", str(n)]}
            for n in numbers
        ]
        site.put("orders", partition, values, [f"k{n}".encode() for n in numbers])


def job() -> Job:
    made = Job("shop")
    orders = made.read("orders", key="customer string", schema=SCHEMA)
    orders.where("number >= 10").select("number", "customer", "number * 2 as twice").write("large")
    orders.write("all")
    orders.where("number % 7 = 0").write("sevens")
    return made


def numbers(site: Site, output: str) -> list[int]:
    files = list((site.root / output).glob("*.parquet"))
    if not files:
        return []
    found = duckdb.sql(f"select number from read_parquet('{site.root / output}/*.parquet')").fetchall()
    return sorted(n for (n,) in found)


def test_rows_are_columns_of_tables_once_each(site: Site) -> None:
    """Two tables and a stream in one stage; a batch that fails after one of the tables has it is run again."""
    put(site, 0, 20)
    deployed = site.deployed(job(), settings(site))
    assert sorted({lane.group for lane in deployed.lanes}) == ["outputs-embedded", "outputs-parquet"]
    deployed.ran()
    put(site, 20, 20)
    failed = 0

    def fail(step: str, lane: str, batch: int) -> None:
        nonlocal failed
        if step == crash_points.NAMED and not failed:
            failed += 1
            raise RuntimeError("it fails once")

    with crash_points.watched(fail):
        assert "it fails once" in deployed.failure()
    deployed.ran()
    assert failed == 1
    assert numbers(site, "all") == list(range(40))
    assert numbers(site, "large") == list(range(10, 40))
    assert sorted(v["number"] for v in site.values("sevens")) == list(range(0, 40, 7))
    first = duckdb.sql(f"select * from read_parquet('{site.root}/all/*.parquet') where number = 3")
    assert [(name, str(kind)) for name, kind in zip(first.columns, first.types, strict=True)] == [
        ("number", "INTEGER"),
        ("name", "VARCHAR"),
        ("at", "TIMESTAMP WITH TIME ZONE"),
        ("tags", "VARCHAR[]"),
        ("customer", "VARCHAR"),
    ]
    (row,) = first.to_arrow_table().to_pylist()
    assert (row["customer"], row["name"], row["tags"], row["at"].timestamp()) == (
        "k3",
        "name 3",
        ["a", "3"],
        1767225603,
    )


def test_a_batch_of_many_tasks_is_one_file(site: Site) -> None:
    put(site, 0, 20)
    site.deployed(job(), settings(site)).ran()
    (file,) = (site.root / "all").glob("*.parquet")
    assert pq.read_metadata(file).num_rows == 20


def test_a_table_can_have_maps_with_keys_that_a_stream_in_json_cannot_have(site: Site) -> None:
    put(site, 0, 4)
    made = Job("shop")
    orders = made.read("orders", key="customer string", schema=SCHEMA)
    orders.select("number", "map(at, name) as names").write("all")
    site.deployed(made, settings(site)).ran()
    assert numbers(site, "all") == list(range(4))


def test_several_operators_write_one_table_with_their_columns_in_any_order(site: Site) -> None:
    put(site, 0, 20)
    made = Job("shop")
    orders = made.read("orders", key="customer string", schema=SCHEMA)
    orders.where("number < 10").select("number", "name", "customer").write("all")
    orders.where("number >= 10").select("customer", "number", "name").write("all")
    site.deployed(made, settings(site)).ran()
    found = duckdb.sql(f"select number, name, customer from read_parquet('{site.root}/all/*.parquet')").fetchall()
    assert sorted(found) == [(n, f"name {n}", f"k{n}") for n in range(20)]


@pytest.mark.long
def test_a_windowed_job_with_functions_writes_its_table_once(site: Site) -> None:
    put(site, 0, 20)
    made = Job("shop")
    orders = made.read("orders", key="customer string", schema=SCHEMA)
    orders.map(lambda order: {**order, "name": order["name"].upper()}).partition_by("name").agg(n="count(*)").write(
        "all"
    )
    site.deployed(made, settings(site)).ran()
    found = duckdb.sql(f"select name, n from read_parquet('{site.root}/all/*.parquet')").fetchall()
    assert sorted(found) == sorted((f"NAME {n}", 1) for n in range(20))


@pytest.mark.parametrize("kind", ["delta", "iceberg", "postgresql"])
@pytest.mark.suite(cases=1)
def test_other_kinds_of_tables(site: Site, kind: str, request: pytest.FixtureRequest) -> None:
    """A batch that fails when it is committed already is run again, and changes nothing."""
    put(site, 0, 20)
    if kind == "delta":
        bound = OutputSettings(to="delta", path=str(site.root / "all"))
    elif kind == "iceberg":
        bound = OutputSettings(to="iceberg", table="shop.all", catalog=iceberg_catalog(site.root))
    else:
        url = request.getfixturevalue("postgresql_url")
        bound = OutputSettings(to="postgresql", url=url, table="all orders")
    made = Job("shop")
    made.read("orders", key="customer string", schema=SCHEMA).write("all")
    deployed = site.deployed(made, settings(site).model_copy(update={"outputs": {"all": bound}}))

    def fail(step: str, lane: str, batch: int) -> None:
        if step == crash_points.NAMED:
            raise RuntimeError("it fails once")

    with crash_points.watched(fail):
        assert "it fails once" in deployed.failure()
    put(site, 20, 20)
    deployed.ran()
    if kind == "delta":
        found = pl.read_delta(str(site.root / "all")).to_dicts()
    elif kind == "iceberg":
        found = iceberg_rows(bound.options).to_dicts()
    else:
        with psycopg.connect(bound.options["url"], row_factory=dict_row) as connection:
            found = connection.execute('select * from "all orders"').fetchall()
    assert sorted(row["number"] for row in found) == list(range(40))
    (third,) = [row for row in found if row["number"] == 3]
    assert (third["customer"], third["tags"], third["at"].timestamp()) == ("k3", ["a", "3"], 1767225603)


def test_a_table_that_differs_is_refused(site: Site) -> None:
    put(site, 0, 2)
    site.deployed(job(), settings(site))
    other = Job("shop")
    other.read("orders", schema="number string").write("all")
    with pytest.raises(ConflictError, match="the job writes 'number' as string; in output all, the folder "):
        site.deployed(other, settings(site))
    away = settings(site).model_copy(
        update={"outputs": {"all": OutputSettings(to="parquet", path=str(site.root / "nowhere"))}}
    )
    with pytest.raises(NotFoundError, match="doesn't exist"):
        site.deployed(other, away, create=False)
