"""What shares a lane, and which uses of state and of keys are refused, with what to do instead."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from anabranch import Job, tumbling
from anabranch.errors import GraphError
from anabranch.model.graph import Graph
from anabranch.planning import groups, stages
from anabranch.planning.groups import Group
from anabranch.planning.stages import Stage


class Systems(dict[str, str]):
    """Every stream is embedded, but those that are named ``kafka-…``."""

    def __missing__(self, stream: str) -> str:
        return "kafka" if stream.startswith("kafka-") else "embedded"


def cut(job: Job) -> list[Group]:
    graph: Graph = job.graph
    cut_stages: tuple[Stage, ...] = stages.cut(graph)
    return [group for stage in cut_stages for group in groups.cut(graph, stage, Systems())]


def shape(job: Job) -> list[tuple[str, str, list[str], list[str]]]:
    return [(g.stage, g.name, [n.name for n in g.sources], [n.name for n in g.nodes]) for g in cut(job)]


def test_stateless_outputs_of_a_system_share_a_lane() -> None:
    job = Job("j")
    a = job.read("a", key="k string")
    a.where("x").write("one")
    a.map(str).write("two")
    a.partition_by("x").write("three")
    assert shape(job) == [
        ("0", "outputs-embedded", ["a"], ["a", "where", "one", "map", "two", "by-x"]),
        ("1", "outputs-embedded", ["by-x"], ["by-x", "three"]),
    ]


def test_another_system_a_function_and_state_have_lanes_of_their_own() -> None:
    job = Job("j")
    a = job.read("a", key="k string")
    a.write("one")
    a.write("kafka-two")
    a.foreach_batch(print)
    counts = a.where("x").agg(n="count(*)", name="counts")
    counts.write("three")
    counts.foreach_batch(print, name="report")
    a.agg(n="sum(x)", name="sums").write("four")
    assert shape(job) == [
        ("0", "outputs-embedded", ["a"], ["a", "one"]),
        ("0", "outputs-kafka", ["a"], ["a", "kafka-two"]),
        ("0", "foreach-batch", ["a"], ["a", "foreach-batch"]),
        ("0", "counts", ["a"], ["a", "where", "counts", "three", "report"]),
        ("0", "sums", ["a"], ["a", "sums", "four"]),
    ]
    assert [g.stateful.name if g.stateful else None for g in cut(job)] == [None, None, None, "counts", "sums"]


def test_a_group_holds_only_the_sources_that_lead_to_its_outputs() -> None:
    job = Job("j")
    a, b = job.read("a", key="k int"), job.read("b", key="k int")
    a.merge(b).write("both")
    b.agg(n="count(*)").write("n")
    assert [sources for _, _, sources, _ in shape(job)] == [["a", "b"], ["b"]]


def test_branches_and_where_they_meet_again() -> None:
    job = Job("j")
    a, b = job.read("a"), job.read("b")
    a.merge(b).map(str).write("one")
    (straight,) = cut(job)
    assert (straight.branches, [node.name for node in straight.nodes if straight.rejoins(node)]) == (False, [])

    job = Job("j")
    a = job.read("a")
    a.where("x").map(str).merge(a.where("y"), job.read("b")).write("one")
    a.merge(a).write("two")
    (parted,) = cut(job)
    assert (parted.branches, [node.kind for node in parted.nodes if parted.rejoins(node)]) == (True, ["merge", "merge"])


def test_a_boundary_is_read_in_one_stage_and_written_in_the_one_before() -> None:
    job = Job("j")
    job.read("a").partition_by("x").partition_by("y").write("out")
    first, second, third = cut(job)
    assert [n.name for n in first.sinks] == ["by-x"] == [n.name for n in second.sources]
    assert [n.name for n in second.sinks] == ["by-y"] == [n.name for n in third.sources]
    assert [n.name for n in second.readers(second.sources[0])] == ["by-y"]


REFUSED: list[tuple[Callable[[Job], object], str, str]] = [
    (
        lambda j: j.read("a").agg(n="count(*)").write("o"),
        "agg 'agg' (test_groups.py:{line}) keeps state but has no stage key: read 'a' (test_groups.py:{line}) declares",
        '.partition_by("column") before it, or declare the message key',
    ),
    (
        lambda j: j.read("a", key="k string").select("x").agg(n="count(*)").write("o"),
        "has no stage key: select (test_groups.py:{line}) drops or replaces the key column 'k'",
        "partition_by",
    ),
    (
        lambda j: j.read("a", key="k int").merge(j.read("b", key="l int")).agg(n="count(*)").write("o"),
        "has no stage key: merge (test_groups.py:{line}) joins ('k',) with ('l',)",
        "partition_by",
    ),
    (
        lambda j: j.read("a", key="k int").agg(n="count(*)").agg(m="max(n)").write("o"),
        "agg 'agg-2' (test_groups.py:{line}) comes after agg 'agg' in one stage",
        'put a partition_by(…, via="stream") between them',
    ),
    (
        lambda j: (
            j.read("a", key="k int").agg(k2="1", name="one").partition_by("k2", via="spark").agg(m="max(1)").write("o")
        ),
        "comes after agg 'one'",
        'put a partition_by(…, via="stream") between them',
    ),
    (
        lambda j: j.read("a", key="k int").agg(n="count(*)").merge(j.read("b", key="k int")).write("o"),
        "merge (test_groups.py:{line}) takes rows of the stateful agg 'agg'",
        "merge before the stateful operator",
    ),
    (
        lambda j: split_and_merged(j).agg(n="count(*)").write("o"),
        "brings branches of 'a' together again before the stateful agg 'agg'",
        "one branch",
    ),
    (
        lambda j: j.read("a").map_arrow(str).write("o"),
        "write 'o' (test_groups.py:{line}) has no key: after map_arrow (test_groups.py:{line})",
        'write(..., key="an expression")',
    ),
    (
        lambda j: j.read("a", key="k int").select("x").map_arrow(str).where("x").write("o"),
        "write 'o' (test_groups.py:{line}) has no key: after map_arrow (test_groups.py:{line})",
        "read(..., key=...)",
    ),
    (
        lambda j: j.read("a", key="k int").map_arrow(str, schema="x int").write("o"),
        "map_arrow (test_groups.py:{line}) drops or replaces the key column 'k'",
        "read(..., key=...)",
    ),
    (
        lambda j: j.read("a", key="k int").map(str, schema="x int").agg(n="count(*)").write("o"),
        "has no stage key: map (test_groups.py:{line}) drops or replaces the key column 'k'",
        "partition_by",
    ),
]


def split_and_merged(job: Job) -> object:
    a = job.read("a", key="k int")
    return a.where("x").merge(a.where("y"))


@pytest.mark.parametrize(("build", "what", "cure"), REFUSED)
def test_what_is_refused_names_the_operator_and_the_cure(build: Callable[[Job], object], what: str, cure: str) -> None:
    job = Job("j")
    build(job)
    with pytest.raises(GraphError) as caught:
        cut(job)
    line = job.graph.nodes[-1].where.rpartition(":")[2]
    assert what.replace("{line}", line) in caught.value.what
    assert cure in caught.value.cure


@pytest.mark.parametrize(
    "build",
    [
        lambda j: j.read("a").map_arrow(str).write("o", key="x"),
        lambda j: j.read("a", key="k int").map_arrow(str).write("o"),
        lambda j: j.read("a", key="k int").map_arrow(str, schema="x int, k int").select("x").write("o"),
        lambda j: j.read("a", key="k int").map(str, schema="x int").write("o"),
        lambda j: j.read("a").map_arrow(str).partition_by("x").write("o"),
        lambda j: j.read("a").map_arrow(str).foreach_batch(print),
        lambda j: j.read("a").map(str).flat_map(str).filter(str).write("o"),
        lambda j: (
            j.read("a").map_arrow(str).partition_by("x").agg(n="count(*)").partition_by("n").agg(m="max(n)").write("o")
        ),
        lambda j: split_and_merged(j).partition_by("k").agg(n="count(*)").write("o"),
        lambda j: j.read("a", key="k int").merge(j.read("b", key="k int")).agg(n="count(*)").write("o"),
    ],
)
def test_what_is_not(build: Callable[[Job], object]) -> None:
    job = Job("j")
    build(job)
    assert cut(job)


def test_the_sources_that_move_a_group_s_watermark() -> None:
    late = {"event_time": "at", "watermark": "1 minute"}
    job = Job("j")
    a = job.read("a", key="k string", schema="at timestamp", **late)
    b = job.read("b", key="k string", schema="at timestamp", **late)
    a.merge(b).window(tumbling("1 hour")).agg(n="count(*)", name="both").write("hours")
    a.where("k > 'x'").write("some")
    b.partition_by("k", name="by-k").window(tumbling("1 hour")).agg(n="count(*)", name="later").write("again")
    timed = {(g.stage, g.name): [source.name for source in g.timed(job.graph)] for g in cut(job)}
    assert timed == {
        ("0", "outputs-embedded"): ["b"],
        ("0", "both"): ["a", "b"],
        ("1", "later"): ["by-k"],
    }
