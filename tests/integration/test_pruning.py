"""Which columns of a stream aren't parsed before state: those that no expression uses, and no others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from anabranch import Job, session, sliding, tumbling
from anabranch.api.stream import Stream
from anabranch.formats import JSON
from anabranch.planning import groups, stages
from anabranch.spark.operators.frames_of_operators import Context
from anabranch.spark.query import pruning
from anabranch.spark.values import decoding
from anabranch.systems.source import SCHEMA
from anabranch.testing import run

COLUMNS = "user string, n int, delay int, arr int, s struct<a: int, b: int>, xs array<int>, at timestamp"

CASES: dict[str, tuple[Callable[[Stream], Stream], str | None]] = {
    "an aggregate": (lambda s: s.agg(m="max(n)"), "n"),
    "only the number of rows": (lambda s: s.agg(m="count(*)"), ""),
    "a column with the name of a function": (lambda s: s.agg(m="max(user)"), "user"),
    "in other case and quotes": (lambda s: s.agg(m="max(`USER`)"), "user"),
    "in a condition": (lambda s: s.where("user <> 'bot'").agg(m="count(*)"), "user"),
    "in a condition of an aggregate": (lambda s: s.agg(m="count(*) filter (where user <> 'bot')"), "user"),
    "to group by": (lambda s: s.agg(by="user", m="count(*)"), "user"),
    "with the name of an earlier result": (
        lambda s: s.select("k", "arr as delay", "delay as dep").agg(m="sum(dep)", a="sum(delay)"),
        "arr delay",
    ),
    "with the name of a new column": (
        lambda s: s.with_columns(delay="arr", dep="delay").agg(m="sum(dep)", a="sum(delay)"),
        "arr delay",
    ),
    "a field": (lambda s: s.agg(m="max(s.a)"), "s"),
    "fields of a struct as columns": (lambda s: s.select("k", "s.*").agg(m="max(a)"), "s"),
    "several rows of one": (lambda s: s.select("*", "explode(xs) as x").agg(m="max(x)"), "xs"),
    "all columns, passed on": (lambda s: s.select("*", "n * 2 as twice").agg(m="max(twice)"), "n"),
    "all columns but one, passed on": (lambda s: s.select("k", "* except (k, xs)").agg(m="max(n)"), "n xs"),
    "all columns in a value": (lambda s: s.select("k", "to_json(struct(*)) as j").agg(m="max(j)"), None),
    "all columns in an aggregate": (lambda s: s.agg(m="max(to_json(struct(*)))"), None),
    "a window": (lambda s: s.window(tumbling("1 hour")).agg(m="max(n)"), "at n"),
    "windows that overlap": (lambda s: s.window(sliding("1 hour", "10 minutes")).agg(m="max(user)"), "at user"),
    "a session": (lambda s: s.window(session("1 hour")).agg(m="count(*)"), "at"),
    "a function": (lambda s: s.transform(lambda df: df, name="t").agg(m="max(n)"), None),
}


@pytest.mark.parametrize("name", CASES)
def test_the_columns_that_an_aggregation_uses_are_parsed_and_no_others(spark: SparkSession, name: str) -> None:
    follow, wanted = CASES[name]
    job = Job("j")
    follow(job.read("in", key="k string", schema=COLUMNS, event_time="at", watermark="1 minute")).write("out")
    (stage,) = stages.cut(job.graph)
    (group,) = groups.cut(job.graph, stage, {node.args["stream"]: "embedded" for node in stage.sinks})
    context = Context(job.functions, stages.key_columns(job.graph, stage), stages.event_times(job.graph))
    (source,) = group.sources
    taken = decoding.of_graph(source, JSON, keyed=False)
    rows = taken.rows(taken.opened(spark.createDataFrame([], SCHEMA)), F.lit(0), "", fail=False)
    needed = pruning.needed(group, source, rows.schema, context)
    assert needed == (None if wanted is None else {"k", *wanted.split()})


def test_a_condition_on_a_column_with_the_name_of_a_function_sees_the_column(spark: SparkSession) -> None:
    job = Job("j")
    read = job.read("in", key="k string", schema="n int, user string")
    read.where("user <> 'bot'").agg(m="count(*)", s="sum(n)").write("out")
    rows: list[dict[str, Any]] = [{"k": "a", "n": n, "user": ("bot", "ann", "zoe")[n % 3]} for n in range(6)]
    assert run(job, {"in": rows}, partitions=1).latest("out", "k") == {"a": {"k": "a", "m": 4, "s": 12}}
