"""Streams joined with tables: each batch has one version, read again when it is old; rows stay where they are."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from anabranch import Job
from anabranch.errors import GraphError, StateError
from anabranch.model.graph import Node
from anabranch.spark.operators.lookups import Lookups, everything, load, nothing
from anabranch.spark.query import resolution
from anabranch.systems.embedded.system import EmbeddedSystem
from anabranch.systems.systems import Systems
from tests.integration.harness import Site

AIRPORTS = "iata string, name string, zone int"


def save(folder: Path, *rows: tuple[str, str, int]) -> str:
    folder.mkdir(exist_ok=True)
    (folder / "part.csv").write_text("iata,name,zone\n" + "".join(f"{i},{n},{z}\n" for i, n, z in rows))
    return str(folder)


def job(path: str, **more: Any) -> Job:
    made = Job("j")
    read = made.read("in", key="k string", schema="n int, dest string")
    at = {"on": {"dest": "iata"}, "format": "csv", "schema": AIRPORTS, **more}
    read.join_table(path, **at).where("zone is null or zone < 9").write("out")
    return made


def loading(made: Job) -> Callable[[Node, SparkSession], DataFrame]:
    return partial(load, functions=made.functions, records=nothing, formats={})


def test_rows_find_theirs_once_more_after_a_restart(site: Site, tmp_path: Path) -> None:
    path = save(tmp_path / "airports", ("ATL", "Atlanta", 5), ("BOS", "Boston", 5))
    site.log.create("in", 2)
    for partition in (0, 1):
        rows = [{"n": n, "dest": ("ATL", "BOS", "XXX")[n % 3]} for n in range(6)]
        site.put("in", partition, rows, [b"k"] * 6)
    deployed = site.deployed(job(path, how="left"))
    deployed.ran()
    wanted = [{"k": "k", "n": n, "dest": d, **extra} for n, (d, extra) in enumerate(2 * _found())]
    assert site.values("out") == 2 * wanted
    save(tmp_path / "airports", ("ATL", "Hartsfield", 5), ("XXX", "Nowhere", 9))
    site.put("in", 0, [{"n": 6, "dest": "ATL"}, {"n": 7, "dest": "XXX"}], [b"k"] * 2)
    deployed.ran()
    now = {"k": "k", "n": 6, "dest": "ATL", "name": "Hartsfield", "zone": 5}
    assert site.values("out") == [*2 * wanted, now]


def _found() -> list[tuple[str, dict[str, Any]]]:
    return [("ATL", {"name": "Atlanta", "zone": 5}), ("BOS", {"name": "Boston", "zone": 5}), ("XXX", {})]


def test_a_table_is_read_again_when_it_is_old(spark: SparkSession, tmp_path: Path) -> None:
    path = save(tmp_path / "airports", ("ATL", "Atlanta", 5))
    made = job(path, refresh="1 minute")
    node, at = made.graph[1], [100.0]
    lookups = Lookups(loading(made), resolution.columns(made.graph, {}, {}, __file__), lambda: at[0])

    def names() -> list[str]:
        return [row.name for row in lookups.now(node, spark).collect()]

    assert names() == ["Atlanta"]
    save(tmp_path / "airports", ("ATL", "Hartsfield", 5))
    at[0] = 159.9
    assert names() == ["Atlanta"]
    at[0] = 160.0
    assert names() == ["Hartsfield"]


def test_a_table_that_has_changed_its_columns_fails_the_lane(spark: SparkSession) -> None:
    rows: list[Any] = [[("ATL", 5)], "iata string, zone int"]
    made = Job("j")
    read = made.read("in", key="k string", schema="n int, dest string")
    read.join_table(lambda spark: spark.createDataFrame(*rows), on={"dest": "iata"}).write("out")
    lookups = Lookups(loading(made), resolution.columns(made.graph, made.functions, {}, __file__), lambda: 0.0)
    node: Node = made.graph[1]
    rows[:] = [[("ATL", 5, "new")], "iata string, zone int, more string"]
    assert lookups.now(node, spark).columns == ["iata", "zone"]
    rows[:] = [[("ATL", "5")], "iata string, zone string"]
    fresh = Lookups(loading(made), lookups.schemas, lambda: 0.0)
    with pytest.raises(StateError, match="column for 'zone' was int, and is string"):
        fresh.now(node, spark)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"on": "dest"}, "the table has no column 'dest', but iata, name, zone"),
        ({"on": {"nowhere": "iata"}}, "the stream has no column 'nowhere'"),
    ],
)
def test_columns_that_do_not_fit_are_refused(
    tmp_path: Path, spark: SparkSession, more: dict[str, Any], told: str
) -> None:
    with pytest.raises(GraphError, match=told):
        resolution.columns(job(save(tmp_path / "airports"), **more).graph, {}, {}, __file__)


@pytest.mark.parametrize("policy", ["dead-letter", "fail"])
@pytest.mark.suite(cases=1)
def test_a_record_of_a_table_that_cannot_be_read_stops_no_lane_but_where_it_shall(site: Site, policy: str) -> None:
    for stream in ("in", "airports"):
        site.log.create(stream, 1)
    bad = [b"{", b'{"name": 5}', b"\xff"]
    site.put("airports", 0, [{"name": "Atlanta"}, *bad, {"name": "gone"}, None], [*[b"A"] * 4, b"X", b"X"])
    site.put("in", 0, [{"n": 1, "dest": "A"}], [b"k"])
    made = Job("j")
    airports = made.table("airports", key="iata string", schema="name string")
    made.read("in", schema="n int, dest string").join_table(airports, on={"dest": "iata"}).write("out")
    deployed = site.deployed(made, on_error=policy)
    if policy == "fail":
        assert "airports/0 at offset 3 can't be read: the value isn't UTF-8" in deployed.failure()
        return
    deployed.ran()
    assert [(value["dest"], value["name"]) for value in site.values("out")] == [("A", "Atlanta")]


def test_a_stream_is_a_table_of_what_it_says_last(site: Site) -> None:
    for stream in ("in", "airports"):
        site.log.create(stream, 2)
    site.put("airports", 0, [{"name": "old"}, {"name": "Atlanta"}, {"name": "gone"}, None], [b"A", b"A", b"X", b"X"])
    site.put("airports", 1, [{"name": "Boston"}], [b"B"])
    for partition in (0, 1):
        site.put("in", partition, [{"n": n, "dest": "ABX"[n]} for n in range(3)], [b"k"] * 3)
    made = Job("j")
    read = made.read("in", key="k string", schema="n int, dest string")
    airports = made.table("airports", key="iata string", schema="name string")
    read.join_table(airports, on={"dest": "iata"}).write("out")
    deployed = site.deployed(made)
    deployed.ran()
    assert [(value["dest"], value["name"]) for value in site.values("out")] == 2 * [("A", "Atlanta"), ("B", "Boston")]


@pytest.mark.parametrize("how", ["inner", "left"])
@pytest.mark.parametrize("table", [(), (("XXX", "Nowhere", 9),)], ids=["an empty table", "a table without a match"])
@pytest.mark.suite(cases=2)
def test_a_batch_of_which_nothing_can_come_out_still_puts_aside_what_it_cannot_read(
    site: Site, tmp_path: Path, table: tuple[tuple[str, str, int], ...], how: str
) -> None:
    site.log.create("in", 1)
    made = Job("j")
    read = made.read("in", key="k string", schema="n int, dest string")
    airports = save(tmp_path / "airports", *table)
    joined = read.join_table(airports, on={"dest": "iata"}, format="csv", schema=AIRPORTS, how=how)
    joined.where("zone = 5").write("out")
    deployed = site.deployed(made, on_error="dead-letter")
    for number in range(2):
        site.put("in", 0, [{"n": number, "dest": "ATL"}, b"{"], [b"k"] * 2)
        deployed.ran()
        assert site.values("out") == []
        assert [record["value"] for record in site.records("in-dead-letters", 0)] == [b"{"] * (number + 1)


def test_state_before_a_join_with_an_empty_table_is_kept(site: Site, tmp_path: Path) -> None:
    site.log.create("in", 1)
    made = Job("j")
    counted = made.read("in", key="dest string", schema="n int").agg(several="count(*)")
    path = save(tmp_path / "airports")
    counted.join_table(path, on={"dest": "iata"}, format="csv", schema=AIRPORTS).write("out")
    deployed = site.deployed(made)
    site.put("in", 0, [{"n": 1}] * 3, [b"ATL"] * 3)
    deployed.ran()
    assert site.values("out") == []
    save(tmp_path / "airports", ("ATL", "Atlanta", 5))
    site.put("in", 0, [{"n": 1}], [b"ATL"])
    deployed.ran()
    assert [(value["dest"], value["several"]) for value in site.values("out")] == [("ATL", 4)]


def test_a_stream_that_gets_partitions_while_it_is_read_is_read_as_far_as_it_was_known(
    site: Site, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.log.create("airports", 1)
    site.put("airports", 0, [{"name": "Atlanta"}], [b"ATL"])

    class Growing(EmbeddedSystem):
        def starts(self, stream: str) -> dict[int, int]:
            found = super().starts(stream)
            self.expand(stream, 2)
            site.put(stream, 1, [{"name": "Boston"}], [b"BOS"])
            return found

    systems = Systems(site.settings())
    monkeypatch.setattr(systems, "of", lambda _: Growing(site.log.root))
    name, records = everything(systems, "airports", spark)
    assert (name, [row["key"] for row in records.collect()]) == ("embedded/airports", [b"ATL"])
