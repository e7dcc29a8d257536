"""Joins of two streams as a job file states them: which are planned how, and which are refused with what cure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from anabranch import Job, tumbling
from anabranch.api.stream import Stream
from anabranch.errors import GraphError
from anabranch.grouping import groupers
from anabranch.planning import plan as planning
from anabranch.planning.plan import Plan, Surroundings
from anabranch.planning.real_time import RealTime

SIDE: dict[str, Any] = {"key": "k string", "schema": "n int, at timestamp", "event_time": "at", "watermark": "1 minute"}


def sides(job: Job, **other: Any) -> tuple[Stream, Stream]:
    return job.read("a", **SIDE), job.read("b", **{**SIDE, **other})


def planned(job: Job, counts: dict[str, int], grouper: str = "partition", **more: Any) -> Plan:
    around = Surroundings(
        factor=1,
        containers=1,
        grouper_name=grouper,
        grouper=groupers.named(grouper),
        partitions=counts,
        systems={},
        **more,
    )
    return planning.make(job.graph, around)


def joined() -> Job:
    job = Job("j")
    a, b = sides(job)
    a.join(b, within="10 minutes", prefix="b_", name="pairs").write("out")
    return job


def test_equal_counts_make_one_lane_of_both_streams() -> None:
    plan = planned(joined(), {"a": 4, "b": 4})
    (lane,) = plan.lanes
    assert (lane.group, lane.streams, lane.stateful, len(lane.ssps)) == ("pairs", ("a", "b"), True, 8)
    (stage,) = plan.model.stages
    assert [sorted(str(ssp) for ssp in task.ssps) for task in stage.tasks] == [
        [f"embedded/a/{p}", f"embedded/b/{p}"] for p in range(4)
    ]
    assert plan.warnings == ()


@pytest.mark.parametrize(("counts", "grouper"), [((12, 8), "partition"), ((4, 4), "ssp")])
def test_keys_that_are_apart_are_refused_with_the_grouper_that_has_them_together(
    counts: tuple[int, int], grouper: str
) -> None:
    with pytest.raises(GraphError) as refused:
        planned(joined(), dict(zip("ab", counts, strict=True)), grouper)
    told = str(refused.value)
    assert "join 'pairs'" in told
    assert 'grouper = "cogroup": this gives 4 tasks' in told


def test_cogroup_makes_tasks_of_the_common_divisor() -> None:
    (stage,) = planned(joined(), {"a": 12, "b": 8}, "cogroup").model.stages
    assert [len(task.ssps) for task in stage.tasks] == [5] * 4


def test_counts_without_a_common_divisor_are_warned_about() -> None:
    (warning,) = planned(joined(), {"a": 12, "b": 7}, "cogroup").warnings
    assert "embedded/a: 12, embedded/b: 7" in warning


def test_a_join_after_a_partition_by_has_the_counts_of_that_stream() -> None:
    job = Job("j")
    a, b = sides(job)
    keyed = [side.partition_by("n", name=f"by-n-of-{name}") for side, name in ((a, "a"), (b, "b"))]
    keyed[0].join(keyed[1], within="1 minute", prefix="b_").write("out")
    plan = planned(job, {"a": 4, "b": 4})
    assert [lane.stateful for lane in plan.lanes] == [False, False, True]
    assert plan.lanes[-1].upstream == (0, 1)


def test_sides_of_one_stream_can_be_joined_through_streams_of_their_own() -> None:
    job = Job("j")
    read = job.read("a", **SIDE)
    left, right = (read.partition_by("n", name=f"by-n-{side}") for side in ("left", "right"))
    left.join(right, within="1 minute", prefix="b_").write("out")
    assert planned(job, {"a": 4}).lanes[-1].upstream == (0,)


def windows_of(pairs: Stream) -> None:
    pairs.partition_by("n").window(tumbling("1 hour")).agg(n="count(*)").write("out")


@pytest.mark.parametrize(
    ("build", "told"),
    [
        (lambda a, b: a.join("b", within="1 minute"), "not a stream"),
        (lambda a, b: a.join(Job("k").read("b"), within="1 minute"), "two jobs: 'j' and 'k'"),
        (lambda a, b: a.join(b, within="soon"), "within 'soon' is no duration"),
        (lambda a, b: a.join(b, within="1 minute", how="outer"), "how='outer'"),
    ],
)
def test_what_is_no_join_is_refused_where_it_is_written(build: Callable[..., Any], told: str) -> None:
    with pytest.raises(GraphError, match=told):
        build(*sides(Job("j")))


@pytest.mark.parametrize(
    ("other", "build", "told"),
    [
        ({"key": "l string"}, lambda a, b: a.join(b, within="1 minute"), "the key 'k' on its left, and 'l'"),
        ({"key": None}, lambda a, b: a.join(b, within="1 minute"), "no stage key: read 'b'"),
        ({}, lambda a, b: a.select("n", "at").join(b, within="1 minute"), "drops or replaces the key column 'k'"),
        ({"event_time": None, "watermark": None}, lambda a, b: a.join(b, within="1 minute"), "declares no event_time="),
        ({}, lambda a, b: a.join(b.select("k", "n"), within="1 minute"), "event time column 'at'"),
        ({"broadcast": True}, lambda a, b: a.join(b, within="1 minute"), "the broadcast 'b'"),
        ({}, lambda a, b: a.join(a.where("n > 1"), within="1 minute"), "rows of read 'a' on both sides"),
        ({}, lambda a, b: a.join(a.merge(b), within="1 minute"), "rows of read 'a' on both sides"),
        ({}, lambda a, b: a.agg(n="count(*)").join(b, within="1 minute"), "comes after agg"),
        ({}, lambda a, b: a.join(b, within="1 minute").agg(n="count(*)"), "comes after join"),
    ],
)
def test_what_cannot_be_joined_is_refused(
    other: dict[str, Any], build: Callable[[Stream, Stream], Stream], told: str
) -> None:
    job = Job("j")
    a, b = sides(job, **other)
    build(a, b).write("out")
    b.write("seen")
    with pytest.raises(GraphError, match=told):
        planned(job, {"a": 4, "b": 4})


def test_rows_of_a_join_have_no_event_time() -> None:
    job = Job("j")
    a, b = sides(job)
    windows_of(a.join(b, within="1 minute", prefix="b_"))
    with pytest.raises(GraphError, match=r"no event time: join \(.*\) gives rows of its own"):
        planned(job, {"a": 4, "b": 4})


def test_no_join_in_real_time() -> None:
    around = {"default_system": "kafka", "real_time": RealTime("fail", "fail", "lane", {"kafka"})}
    with pytest.raises(GraphError, match='can\'t run with trigger "real-time": it waits for the watermark'):
        planned(joined(), {"a": 4, "b": 4}, **around)


def test_a_table_is_joined_without_state_and_not_before_it() -> None:
    job = Job("j")
    a = job.read("a", **SIDE)
    a.join_table("airports", on="n").write("out")
    a.join_table("airports.csv", on="n").partition_by("n").agg(n="count(*)").write("counts")
    plan = planned(job, {"a": 4, "b": 4})
    assert [(lane.group, lane.stateful) for lane in plan.lanes] == [("outputs-embedded", False), ("agg", True)]
    assert [job.graph[n].args["format"] for n in (1, 3)] == ["parquet", "csv"]
    job = Job("j")
    a = job.read("a", **SIDE)
    a.join_table("airports", on="n").agg(n="count(*)").write("out")
    with pytest.raises(GraphError, match=r"agg 'agg' .* comes after join_table 'join-table'"):
        planned(job, {"a": 4, "b": 4})


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"on": []}, "names no column"),
        ({"on": "n", "how": "right"}, "how='right'"),
        ({"on": "n", "refresh": "often"}, "refresh 'often' is no duration"),
        ({"on": "n", "format": "xml"}, "format='xml'"),
        (
            {"table": lambda spark: None, "on": "n", "schema": "n int"},
            "has format= or schema=, but the table isn't a path",
        ),
    ],
)
def test_what_is_no_table_is_refused_where_it_is_written(more: dict[str, Any], told: str) -> None:
    a, _ = sides(Job("j"))
    with pytest.raises(GraphError, match=told):
        a.join_table(**{"table": "airports", **more})
