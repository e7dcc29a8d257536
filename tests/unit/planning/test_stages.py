"""Where a graph is cut into stages, what the stage key is in each of them, and which graphs can't be."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from anabranch import Job, tumbling
from anabranch.api.stream import Stream
from anabranch.errors import GraphError
from anabranch.model.graph import Graph
from anabranch.planning import stages
from anabranch.planning.stages import Stage


def named(several: tuple[object, ...]) -> list[str]:
    return [node.name for node in several]  # type: ignore[attr-defined]


def shape(graph: Graph) -> list[tuple[list[str], list[str], list[str]]]:
    """Sources, nodes and sinks of each stage, by name."""
    return [(named(s.sources), named(s.nodes), named(s.sinks)) for s in stages.cut(graph)]


def key_of(build: Callable[[Job], object]) -> tuple[tuple[str, ...], str]:
    """The key columns, and why there are none, before the only ``foreach_batch``."""
    job = Job("j")
    build(job)
    graph = job.graph
    (end,) = [n for n in graph.nodes if n.kind == "foreach_batch"]
    stage = next(s for s in stages.cut(graph) if end in s.nodes)
    found = stages.key_columns(graph, stage)[end.inputs[0]]
    return found.columns, found.lost


def test_a_job_without_partition_by_is_one_stage() -> None:
    job = Job("j")
    a, b = job.read("a"), job.read("b")
    a.where("x").merge(b).write("out")
    a.partition_by("x", via="spark").agg(n="count(*)").write("n")
    assert shape(job.graph) == [
        (
            ["a", "b"],
            ["a", "b", "where", "merge", "out", "by-x", "agg", "n"],
            ["out", "n"],
        )
    ]


def test_partition_by_ends_one_stage_and_begins_another() -> None:
    job = Job("delays")
    flights = job.read("flights", key="tail string")
    flights.write("copy")
    flights.partition_by("dest", "hour").agg(n="count(*)").partition_by("n").write("out")
    assert shape(job.graph) == [
        (["flights"], ["flights", "copy", "by-dest-hour"], ["copy", "by-dest-hour"]),
        (["by-dest-hour"], ["agg", "by-n"], ["by-n"]),
        (["by-n"], ["out"], ["out"]),
    ]
    first, second, third = stages.cut(job.graph)
    assert [s.id for s in (first, second, third)] == ["0", "1", "2"]
    assert [s.key for s in (first, second, third)] == [("tail",), ("dest", "hour"), ("n",)]
    assert [s.keyed for s in (first, second, third)] == [False, True, True]
    assert named(second.stateful) == ["agg"]
    assert second.shuffled is None
    assert stages.stream_of(job.graph, second.sources[0]) == "delays-by-dest-hour-1"
    assert stages.stream_of(job.graph, first.sources[0]) == "flights"


def test_streams_that_never_meet_are_stages_of_their_own() -> None:
    job = Job("j")
    a, b = job.read("a"), job.read("b")
    b.write("y")
    a.write("x")
    assert [s for s, _, _ in shape(job.graph)] == [["a"], ["b"]]


def test_a_stage_comes_after_those_it_reads_from() -> None:
    job = Job("j")
    late = job.read("late").partition_by("k", name="late-by-k")
    early = job.read("early").partition_by("k", name="early-by-k")
    early.partition_by("k", name="again").merge(late).write("out")
    cut = shape(job.graph)
    position = {name: n for n, (sources, _, _) in enumerate(cut) for name in sources}
    assert position["early"] < position["early-by-k"] < position["again"]
    assert position["late"] < position["late-by-k"] == position["again"]


def test_a_shuffle_inside_the_query_cuts_nothing() -> None:
    job = Job("j")
    job.read("a").partition_by("x", via="spark").agg(n="count(*)").write("out")
    (stage,) = stages.cut(job.graph)
    assert stage.shuffled is not None
    assert stage.shuffled.name == "by-x"
    assert stage.key == ()
    assert stage.keyed


@pytest.mark.parametrize(
    ("build", "columns"),
    [
        (lambda j: j.read("a", key="k string").foreach_batch(print), ("k",)),
        (lambda j: j.read("a", key="k string, `l m` int").foreach_batch(print), ("k", "l m")),
        (lambda j: j.read("a", key="k decimal(10, 2), l int").foreach_batch(print), ("k", "l")),
        (lambda j: j.read("a", key="k struct<a: int, b: map<int, int>>, l int").foreach_batch(print), ("k", "l")),
        (lambda j: j.read("a", key="k: string, l:int").foreach_batch(print), ("k", "l")),
        (lambda j: j.read("a", key="`a, b` string, `c``d` int").foreach_batch(print), ("a, b", "c`d")),
        (lambda j: j.read("a", key="k string COMMENT 'one, two', l int").foreach_batch(print), ("k", "l")),
        (lambda j: j.read("a", key="k string, -- it's, too\nl int").foreach_batch(print), ("k", "l")),
        (lambda j: j.read("a", key="k string, -- on \\\n, and on\nl int").foreach_batch(print), ("k", "l")),
        (lambda j: j.read("a", key="k/*, */ int, /* m /* n, */ o, */ l int").foreach_batch(print), ("k", "l")),
        (lambda j: j.read("a", key="k struct<a: int, -- b>,\nc: int>, l int").foreach_batch(print), ("k", "l")),
        (lambda j: j.read("a", key="`--k` int COMMENT '/* m', `/*l` int").foreach_batch(print), ("--k", "/*l")),
        (lambda j: j.read("a", key="k string").select("*", "1 as x").foreach_batch(print), ("k",)),
        (lambda j: j.read("a", key="k string").select(" k ", "x").foreach_batch(print), ("k",)),
        (lambda j: j.read("a", key="k string").select("`k`").foreach_batch(print), ("k",)),
        (lambda j: j.read("a", key="k string").where("k").with_columns(x="k").foreach_batch(print), ("k",)),
        (lambda j: j.read("a", key="k string").map(str).agg(n="sum(1)").foreach_batch(print), ("k",)),
        (lambda j: j.read("a", key="k int").merge(j.read("b", key="k int")).foreach_batch(print), ("k",)),
        (lambda j: j.read("a").partition_by("x", "y").where("x").foreach_batch(print), ("x", "y")),
        (lambda j: j.read("a", key="k int").partition_by("x", via="spark").where("x").foreach_batch(print), ("x",)),
    ],
)
def test_the_key_stays_in_its_columns(build: Callable[[Job], object], columns: tuple[str, ...]) -> None:
    assert key_of(build) == (columns, "")


@pytest.mark.parametrize(
    ("build", "why"),
    [
        (lambda j: j.read("a").foreach_batch(print), "read 'a' (test_stages.py:"),
        (lambda j: j.read("a", key="k string").select("x").foreach_batch(print), "key column 'k'"),
        (lambda j: j.read("a", key="k string").select("upper(k) as k").foreach_batch(print), "select (test_stages"),
        (lambda j: j.read("a", key="k string").select("x as k").foreach_batch(print), "key column 'k'"),
        (lambda j: j.read("a", key="k int, l int").select("k").foreach_batch(print), "key column 'l'"),
        (lambda j: j.read("a", key="k string").with_columns(k="1").foreach_batch(print), "with_columns (test_stages"),
        (lambda j: j.read("a", key="k string").with_columns(K="1").foreach_batch(print), "key column 'k'"),
        (lambda j: j.read("a", key="k int").merge(j.read("b", key="l int")).foreach_batch(print), "joins ('k',)"),
        (lambda j: j.read("a", key="k int").merge(j.read("b")).foreach_batch(print), "read 'b'"),
    ],
)
def test_a_key_that_is_lost_says_where(build: Callable[[Job], object], why: str) -> None:
    columns, lost = key_of(build)
    assert columns == ()
    assert why in lost


def refused(job: Job) -> GraphError:
    with pytest.raises(GraphError) as caught:
        stages.cut(job.graph)
    return caught.value


def test_an_empty_job_is_refused() -> None:
    assert "'j' has no operators" in refused(Job("j")).what


@pytest.mark.parametrize("kind", ["read", "where", "agg", "partition_by"])
def test_an_operator_that_leads_nowhere_is_named(kind: str) -> None:
    job = Job("j")
    a = job.read("a", key="k int", name="in")
    a.write("out")
    dangling = {
        "read": lambda: job.read("b"),
        "where": lambda: a.where("x"),
        "agg": lambda: a.agg(n="count(*)"),
        "partition_by": lambda: a.partition_by("x"),
    }
    dangling[kind]()
    error = refused(job)
    assert f"{kind} '{job.graph.nodes[-1].name}' (test_stages.py:" in error.what
    assert "leads to no output" in error.what
    assert ".write(" in error.cure


def test_a_stage_that_feeds_itself_is_refused() -> None:
    job = Job("j")
    a = job.read("a")
    a.merge(a.partition_by("k")).write("out")
    error = refused(job)
    assert "partition_by 'by-k' (test_stages.py:" in error.what
    assert "feeds the stage that it comes from" in error.what
    assert "partition_by before the other side" in error.cure


def test_what_leads_to_an_operator_ends_at_the_stage_s_sources() -> None:
    job = Job("j")
    a = job.read("a", key="k int").where("x").partition_by("k")
    b = job.read("b")
    a.merge(b.select("*")).map(str).write("out")
    a.write("other")
    graph = job.graph
    stage: Stage = stages.cut(graph)[-1]
    (out,) = [n for n in graph.nodes if n.name == "out"]
    assert named(tuple(stages.upstream(graph, stage, out))) == ["by-k", "b", "select", "merge", "map", "out"]


def hourly(job: Job, stream: str = "a", **time: str) -> Stream:
    """The rows of a stream by key, with event time unless told otherwise."""
    read = job.read(stream, key="k string", schema="at timestamp, x int", **(time or LATE))
    return read.partition_by("k", name=f"{stream}-by-k")


LATE = {"event_time": "at", "watermark": "1 minute"}


def ids(graph: Graph, *names: str) -> set[int]:
    return {node.id for node in graph.nodes if node.name in names}


def test_readers_need_a_watermark_where_it_leads_to_windows() -> None:
    job = Job("j")
    by_k = hourly(job)
    by_k.partition_by("x", name="on").window(tumbling("1 hour")).agg(n="count(*)").write("hours")
    by_k.partition_by("x", name="off").agg(n="count(*)").write("counts")
    assert stages.timed(job.graph) == ids(job.graph, "a-by-k", "on")


def test_nothing_needs_a_watermark_without_windows() -> None:
    job = Job("j")
    hourly(job).agg(n="count(*)").write("counts")
    assert stages.timed(job.graph) == set()


def test_event_time_goes_through_stages_and_gets_lost_by_name() -> None:
    job = Job("j")
    by_k = hourly(job)
    by_k.select("k", "x").write("one")
    by_k.where("x > 1").write("two")
    hourly(job, "b", event_time="at", watermark="1 minute").merge(by_k).write("three")
    graph = job.graph
    found = {node.name: stages.event_times(graph)[node.id] for node in graph.nodes}
    assert [found[name].column for name in ("a", "a-by-k", "where", "merge")] == ["at"] * 4
    assert found["select"].column == ""
    assert found["select"].lost.startswith("select (")


def test_functions_and_what_comes_after_them_may_change_keys_and_times() -> None:
    job = Job("j")
    rows = job.read("a", key="k string", schema="x int")
    rows.select("x", "k").filter(bool, name="kept").write("one")
    rows.map(str, schema="k string, x int", name="mapped").where("x > 3").write("two")
    rows.transform(lambda frame: frame, name="transformed").write("three")
    (stage,) = stages.cut(job.graph)
    found = stages.changed(job.graph, stage)
    assert ids(job.graph, "mapped", "where", "two", "transformed", "three") <= found
    assert not found & ids(job.graph, "a", "select")


def test_boundaries_refuse_rows_without_event_time_if_a_function_may_make_them_and_a_window_needs_it() -> None:
    job = Job("j")
    rows = job.read("a", key="k string", schema="x int, at timestamp", event_time="at", watermark="1 minute")
    mapped = rows.map(str, schema="k string, x int, at timestamp")
    hour = tumbling("1 hour")
    mapped.partition_by("x", name="to-window").window(hour).agg(n="count(*)").write("one")
    mapped.partition_by("x", name="to-count").agg(n="count(*)").write("two")
    again = mapped.partition_by("x", name="to-function").map(str, schema="x int, at timestamp")
    again.partition_by("x", name="after-function").window(hour).agg(n="count(*)").write("three")
    mapped.partition_by("x", name="two-before").partition_by("k", name="one-before").window(hour).agg(
        n="count(*)"
    ).write("four")
    turned = rows.partition_by("x", name="to-transform").transform(lambda df: df)
    turned.partition_by("x", name="after-transform").window(hour).agg(n="count(*)").write("nine")
    rows.partition_by("x", name="as-read").window(hour).agg(n="count(*)").write("five")
    filtered = mapped.partition_by("x", name="filtered").where("at is not null")
    filtered.window(hour).agg(n="count(*)").write("six")
    both = mapped.partition_by("x", name="two-ways")
    both.window(hour).agg(n="count(*)").write("seven")
    both.write("eight")
    graph = job.graph
    found = {graph[i].name for stage in stages.cut(graph) for i in stages.untimed_refused(graph, stage)}
    assert found == {"to-window", "after-function", "after-transform", "two-before"}
