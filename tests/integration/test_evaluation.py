"""Branches of SQL in one pass give what each of them gives by itself, for jobs made at random."""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from anabranch import Job
from anabranch.api.stream import Stream
from anabranch.formats import JSON
from anabranch.planning import groups, stages
from anabranch.planning.groups import Group
from anabranch.spark import values
from anabranch.spark.operators import evaluation
from anabranch.spark.operators.evaluation import Sink
from anabranch.spark.operators.frames_of_operators import Context
from anabranch.spark.values import decoding
from anabranch.systems.source import SCHEMA

AT = dt.datetime(2026, 1, 2, 3, 4, 5)
ROWS = [{"a": a, "b": b} for a in (None, -1, 0, 1, 2, 7) for b in (None, "", "x", "0")]

# Each keeps the columns a (int), b (string) and k (string), so that any can follow any.
STEPS: list[tuple[str, Any]] = [
    ("where", "a > 0"),
    ("where", "a > 0 or b is null"),
    ("where", "not (b = 'x')"),
    ("where", "a"),
    ("where", "a is not null and 6 / if(a = 0, null, a) > 2"),
    ("where", "a != 0"),
    ("where", "exists(array(a, 2), x -> x = 2)"),
    ("select", ["*"]),
    ("select", ["b", "k", "a + 1 as a"]),
    ("select", ["cast(length(b) as int) as a", "concat(b, '!') as b", "k"]),
    ("select", ["a as z", "z + 1 as y", "cast(y as int) as a", "b", "k"]),
    ("with_columns", {"a": "a * 2"}),
    ("with_columns", {"A": "coalesce(a, 5)"}),
    ("with_columns", {"b": "concat(b, cast(a as string))", "c": "a + 1", "d": "c * 2"}),
    ("with_columns", {"a": "-a", "b": "string(a)"}),
    ("with_columns", {"s": "struct(a, b)", "a": "coalesce(a, length(b))"}),
]


def follow(stream: Stream, step: tuple[str, Any]) -> Stream:
    kind, given = step
    if kind == "where":
        return stream.where(f"cast({given} as boolean)")
    return stream.select(*given) if kind == "select" else stream.with_columns(**given)


def random_job(seed: int) -> Job:
    """A tree of up to seven operators with an output at every leaf and some in between."""
    choose = random.Random(seed)
    job = Job("j")
    streams = [job.read("in", key="k string", schema="a int, b string")]
    ends = set()
    for _ in range(choose.randint(1, 7)):
        parent = choose.randrange(len(streams))
        ends.discard(parent)
        ends.add(len(streams))
        streams.append(follow(streams[parent], choose.choice(STEPS)))
    for number in sorted(ends | {choose.randrange(len(streams))}):
        key = choose.choice([None, "a", "b", "k"])
        streams[number].write(f"out-{number}", key=key)
    return job


def records(spark: SparkSession) -> DataFrame:
    rows = [
        (f"k{n % 3}".encode() if n % 4 else None, str(row).replace("'", '"').replace("None", "null").encode(), AT, 0, n)
        for n, row in enumerate(ROWS)
    ]
    frame = spark.createDataFrame(rows, "key binary, value binary, timestamp timestamp, partition int, offset long")
    types = dict(part.split(" ", 1) for part in SCHEMA.split(", "))
    return frame.withColumn("headers", F.lit(None).cast(types["headers"])).select(*types)


def outputs(frame: DataFrame) -> list[str]:
    return sorted(str((r["output"], r["origin"], r["key"], r["value"])) for r in frame.collect())


def sinks_of(group: Group) -> dict[int, Sink]:
    return {node.id: Sink(number, node, values.writing(JSON)) for number, node in enumerate(group.sinks)}


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.suite(cases=2)
def test_one_pass_gives_what_each_branch_gives(spark: SparkSession, seed: int) -> None:
    job = random_job(seed)
    graph = job.graph
    (stage,) = stages.cut(graph)
    (group,) = groups.cut(graph, stage, {node.args["stream"]: "embedded" for node in stage.sinks})
    context = Context({}, stages.key_columns(graph, stage), stages.event_times(graph))
    (source,) = group.sources
    taken = decoding.of_graph(source, JSON, keyed=False)
    start = taken.rows(taken.opened(records(spark)), F.lit(0), "", fail=False)
    sinks = sinks_of(group)

    way = evaluation.trunk(group, {source.id: start}, context)
    assert way is not None
    last, frame = way
    assert evaluation.fans_out(group, last)
    fused = evaluation.fan_out(group, last, frame, sinks)
    assert fused is not None

    with evaluation.inside_batch(group, {source.id: start}, context) as ended:
        assert set(ended) == set(sinks)
        expected = outputs(evaluation.together(ended, sinks))
    assert outputs(fused) == expected


def test_the_jobs_made_at_random_have_something_to_say() -> None:
    shapes = [[node.kind for node in random_job(seed).graph.nodes] for seed in range(10)]
    assert max(kinds.count("write") for kinds in shapes) >= 3
    assert {kind for kinds in shapes for kind in kinds} == {"read", "where", "select", "with_columns", "write"}
