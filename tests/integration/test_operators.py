"""What each operator means, on real lanes: values, columns, keys, order, and what a mistake is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from anabranch import Job
from anabranch.api.stream import Stream
from tests.integration.harness import Site

ROWS = [
    {"a": 1, "b": "x"},
    {"a": 2, "b": None},
    {"a": None, "b": "y"},
    {"a": 4, "b": 'ü"\\'},
]
KEYS = [b"k1", None, b"k2", b"k1"]
SCHEMA = "a int, b string"


async def doubled_slowly(message: dict[str, Any]) -> dict[str, Any]:
    return {**message, "a": None if message["a"] is None else message["a"] * 2}


def upper_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    assert batch.schema.names == ["a", "b", "k"]
    return pa.RecordBatch.from_arrays(
        [batch["k"], pc.utf8_upper(batch["b"])],
        names=["k", "c"],
    )


def twice_as_table(batch: pa.RecordBatch) -> pa.Table:
    return pa.Table.from_batches([batch, batch])


CASES: dict[str, tuple[Callable[[Stream], Stream], list[dict[str, Any]]]] = {
    "where is SQL's: neither false nor null passes": (
        lambda s: s.where("a > 1"),
        [{"a": 2}, {"a": 4, "b": 'ü"\\', "k": "k1"}],
    ),
    "where not of a null is null": (lambda s: s.where("not (a > 1)"), [{"a": 1, "b": "x", "k": "k1"}]),
    "select of expressions": (
        lambda s: s.select("a * 10 as t", "upper(b) as u"),
        [{"t": 10, "u": "X"}, {"t": 20}, {"u": "Y"}, {"t": 40, "u": 'Ü"\\'}],
    ),
    "select of all and more": (
        lambda s: s.where("a = 1").select("*", "a + 1 as next"),
        [{"a": 1, "b": "x", "k": "k1", "next": 2}],
    ),
    "select may name what it has just made": (
        lambda s: s.where("a = 1").select("a + 1 as next", "next * 2 as more"),
        [{"next": 2, "more": 4}],
    ),
    "with_columns replaces whatever the case, as Spark does": (
        lambda s: s.where("a = 1").with_columns(B="'z'").select("*"),
        [{"a": 1, "B": "z", "k": "k1"}],
    ),
    "with_columns adds and replaces": (
        lambda s: s.where("a = 1").with_columns(b="concat(b, '!')", c="a + 1"),
        [{"a": 1, "b": "x!", "c": 2, "k": "k1"}],
    ),
    "map": (
        lambda s: s.map(lambda m: {**m, "a": (m["a"] or 0) + 1}).select("a"),
        [{"a": 2}, {"a": 3}, {"a": 1}, {"a": 5}],
    ),
    "map to other columns": (
        lambda s: s.map(lambda m: {"n": len(m), "l": [m["a"], 7]}, schema="n long, l array<int>"),
        [{"n": 3, "l": [1, 7]}, {"n": 3, "l": [2, 7]}, {"n": 3, "l": [None, 7]}, {"n": 3, "l": [4, 7]}],
    ),
    "async map": (
        lambda s: s.map(doubled_slowly).select("a", "b"),
        [{"a": 2, "b": "x"}, {"a": 4}, {"b": "y"}, {"a": 8, "b": 'ü"\\'}],
    ),
    "flat_map to none, one and several": (
        lambda s: s.flat_map(lambda m: [{"a": n} for n in range(m["a"] or 0)], schema="a int"),
        [{"a": 0}, {"a": 0}, {"a": 1}, {"a": 0}, {"a": 1}, {"a": 2}, {"a": 3}],
    ),
    "filter": (lambda s: s.filter(lambda m: m["b"] in ("x", "y")).select("b"), [{"b": "x"}, {"b": "y"}]),
    "filter of everything": (lambda s: s.filter(lambda m: False), []),
    "map_arrow with a schema": (
        lambda s: s.map_arrow(upper_batch, schema="k string, c string"),
        [{"k": "k1", "c": "X"}, {}, {"k": "k2", "c": "Y"}, {"k": "k1", "c": 'Ü"\\'}],
    ),
    "map_arrow of more rows than it got, as a table": (
        lambda s: s.where("a = 1").map_arrow(twice_as_table).select("a"),
        [{"a": 1}, {"a": 1}],
    ),
    "map_arrow of none": (lambda s: s.map_arrow(lambda batch: batch.slice(0, 0)), []),
    "transform": (
        lambda s: s.transform(lambda df: df.where("a is not null").withColumn("c", df.a * 3)).select("c"),
        [{"c": 3}, {"c": 6}, {"c": 12}],
    ),
    "explode": (
        lambda s: s.where("a = 2").select("explode(sequence(1, a)) as n"),
        [{"n": 1}, {"n": 2}],
    ),
}


STARS: dict[str, tuple[Callable[[Stream], Stream], list[dict[str, Any]]]] = {
    "fields of a struct as columns": (
        lambda s: s.where("a = 1").with_columns(s="struct(a, b)").select("k", "s.*"),
        [{"k": "k1", "a": 1, "b": "x"}],
    ),
    "the only field of a struct as a column": (
        lambda s: s.where("a = 1").select("struct(a) as s").select("s.*"),
        [{"a": 1}],
    ),
    "all columns but some": (lambda s: s.where("a = 1").select("* except (a, k)"), [{"b": "x"}]),
}


ALONE = [name for name in CASES if name.startswith(("map", "async", "flat", "filter", "transform", "explode"))]
SQL = [name for name in CASES if name.startswith(("where", "select", "with", "explode"))]


def several(site: Site, names: list[str]) -> None:
    every = CASES | STARS
    site.log.create("in", 1)
    site.put("in", 0, ROWS, KEYS)
    job = Job("j")
    stream = job.read("in", key="k string", schema=SCHEMA)
    for number, name in enumerate(names):
        every[name][0](stream).write(f"out-{number}")
    run = site.deployed(job)
    run.ran()
    for number, name in enumerate(names):
        assert site.values(f"out-{number}") == every[name][1], name
    assert run.rows_read() == len(ROWS)


@pytest.mark.parametrize("name", ["where is SQL's: neither false nor null passes", *ALONE])
@pytest.mark.suite(cases=4)
def test_an_operator_alone(site: Site, name: str) -> None:
    several(site, [name])


@pytest.mark.long
def test_sql_branches_of_one_read(site: Site) -> None:
    several(site, [name for name in SQL if name != "explode"])


@pytest.mark.long
def test_sql_branches_of_one_read_one_of_which_makes_several_rows_of_one(site: Site) -> None:
    several(site, SQL)


@pytest.mark.parametrize("name", STARS)
@pytest.mark.suite(cases=2)
def test_sql_branches_of_one_read_one_of_which_has_a_star(site: Site, name: str) -> None:
    several(site, [name, "where not of a null is null"])


@pytest.mark.long
def test_all_sorts_of_branches_of_one_read(site: Site) -> None:
    several(site, list(CASES))
