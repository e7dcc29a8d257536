"""Which Spark task works on which virtual tasks, and before which functions rows go there."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch import Job
from anabranch.planning import groups, stages
from anabranch.spark.operators import routing


@given(st.integers(1, 9), st.sampled_from([2, 4, 16, 64]), st.integers(1, 40))
def test_virtual_tasks_are_shared_out_evenly_and_partitions_cut_as_seldom_as_can_be(
    tasks: int, factor: int, cores: int
) -> None:
    virtual = [(7 * task, bucket) for task in range(tasks) for bucket in range(factor)]
    found = routing.over(reversed(virtual), factor, cores)
    if found is None:
        assert cores == 1
        return
    numbers = found.numbers
    assert set(numbers.values()) == set(range(found.count))
    sizes = Counter(numbers.values()).values()
    assert max(sizes) - min(sizes) <= 1
    cut = [task for task in range(tasks) if len({numbers[7 * task, bucket] for bucket in range(factor)}) > 1]
    assert len(cut) < found.count
    assert found.splits is bool(cut)


def test_a_lane_with_some_of_the_buckets_has_them_on_all_cores() -> None:
    found = routing.over([(3, bucket) for bucket in range(4)], 8, 2)
    assert found is not None
    assert [found.numbers[3, bucket] for bucket in range(4)] == [0, 0, 1, 1]


@pytest.mark.parametrize(("factor", "cores"), [(1, 8), (4, 1)])
def test_where_nothing_is_gained_rows_stay(factor: int, cores: int) -> None:
    assert routing.over([(0, bucket) for bucket in range(factor)], factor, cores) is None


def one(job: Job) -> None:
    job.read("in", schema="n int").where("n > 0").map(same, name="a").where("n > 1").map(same, name="b").write("out")


def none(job: Job) -> None:
    job.read("in", schema="n int").where("n > 0").write("out")


def branches(job: Job) -> None:
    read = job.read("in", schema="n int").filter(same, name="a")
    read.map(same, name="b").write("out")
    read.where("n > 0").map(same, name="c").write("far")


def apart(job: Job) -> None:
    read = job.read("in", schema="n int")
    read.map(same, name="a").write("out")
    read.map(same, name="b").write("far")


def merged(job: Job) -> None:
    left, right = (job.read(stream, schema="n int") for stream in ("in", "other"))
    left.map(same, name="a").merge(right).map(same, name="b").write("out")


def transformed(job: Job) -> None:
    job.read("in", schema="n int").map(same, name="a").transform(same, name="t").map(same, name="b").write("out")


def stateful(job: Job) -> None:
    read = job.read("in", key="k string", schema="n int").map(same, name="a")
    read.agg(c="count(*)").map(same, name="b").write("out")


def same(given: Any) -> Any:
    return given


@pytest.mark.parametrize(
    ("build", "wanted"),
    [
        (one, {"a"}),
        (none, set()),
        (branches, {"a"}),
        (apart, {"a", "b"}),
        (merged, {"a", "b"}),
        (transformed, {"a", "b"}),
        (stateful, {"a"}),
    ],
)
def test_rows_are_routed_before_functions_that_don_t_find_them_in_place(build: Any, wanted: set[str]) -> None:
    job = Job("job")
    build(job)
    graph = job.graph
    (stage,) = stages.cut(graph)
    written = [stages.stream_of(graph, sink) for sink in stage.sinks]
    (group,) = groups.cut(graph, stage, dict.fromkeys(written, "embedded"))
    assert {graph[node].name for node in routing.before(group)} == wanted
