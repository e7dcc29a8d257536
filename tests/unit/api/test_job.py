"""What a user writes: a job is a graph of named operators, and a mistake is told with its line and its cure."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from anabranch import Job, tumbling
from anabranch.api import arguments
from anabranch.api.first_rows import FirstRows
from anabranch.api.stream import Stream
from anabranch.errors import GraphError
from anabranch.model import document
from anabranch.model.graph import Graph

HERE = Path(__file__).name


def line_of(text: str) -> int:
    """The number of the only line of this file that ends in the comment ``# text``."""
    (number,) = [n for n, line in enumerate(Path(__file__).read_text().split("\n"), 1) if line.endswith(f"# {text}")]
    return number


def names(job: Job) -> list[str]:
    return [node.name for node in job.graph.nodes]


def test_a_job_is_a_graph_in_the_order_it_was_written() -> None:
    job = Job("delays")
    flights = job.read("flights", key="tailnum string", schema="dest string", start="latest")
    flights.where("dest is not null").write("late", key="dest")
    flights.partition_by("dest", partitions=3).agg(by="carrier", n="count(*)").write("by-dest")
    assert job.graph.job == "delays"
    assert [(n.id, n.kind, n.inputs) for n in job.graph.nodes] == [
        (0, "read", ()),
        (1, "where", (0,)),
        (2, "write", (1,)),
        (3, "partition_by", (0,)),
        (4, "agg", (3,)),
        (5, "write", (4,)),
    ]
    assert [n.args for n in job.graph.nodes] == [
        {
            "stream": "flights",
            "key": "tailnum string",
            "schema": "dest string",
            "broadcast": False,
            "start": "latest",
        },
        {"condition": "dest is not null"},
        {"stream": "late", "key": "dest"},
        {"columns": ["dest"], "via": "stream", "partitions": 3},
        {"by": ["carrier"], "aggregates": {"n": "count(*)"}, "emit": "on_update"},
        {"stream": "by-dest"},
    ]
    assert [n.id for n in job.graph.readers(0)] == [1, 3]
    assert job.functions == {}


def test_names_are_derived_from_what_an_operator_does_and_numbered_when_taken() -> None:
    job = Job("j")
    a = job.read("in")
    a.where("x").where("y").select("*").with_columns(z="1").write("out")
    a.partition_by("p", "q r").agg(n="count(*)").write("out")
    a.map(str).flat_map(str).filter(str).map_arrow(str).transform(str).merge(a).foreach_batch(print)
    assert names(job) == [
        "in",
        "where",
        "where-2",
        "select",
        "with-columns",
        "out",
        "by-p-q-r",
        "agg",
        "out-2",
        "map",
        "flat-map",
        "filter",
        "map-arrow",
        "transform",
        "merge",
        "foreach-batch",
    ]
    assert not any(node.named for node in job.graph.nodes)


def test_a_given_name_stands_and_a_derived_one_gives_way() -> None:
    job = Job("j")
    job.read("in", name="where").where("x").agg(n="count(*)", name="counts").write("counts", name="out.1")
    assert names(job) == ["where", "where-2", "counts", "out.1"]
    assert [node.named for node in job.graph.nodes] == [True, False, True, True]


@given(st.lists(st.text(min_size=1, max_size=40), min_size=1, max_size=12))
@example(["a_column_with_a_long_name_" + "x" * n for n in range(12)])
def test_a_derived_name_is_always_one_that_could_be_given(columns: list[str]) -> None:
    job = Job("j")
    stream = job.read("in")
    for _ in range(2):
        stream.partition_by(*columns)
    derived = names(job)[1:]
    assert len(set(derived)) == 2
    for name in derived:
        assert all(c.isascii() and (c.isalnum() or c in "._-") for c in name), name
        assert name[0].isalnum(), name
        arguments.check_name("operator", name)


def test_long_names_that_differ_at_their_ends_stay_different() -> None:
    job = Job("j")
    columns = [f"a_column_with_a_long_name_{n}" for n in range(12)]
    stream = job.read("in")
    stream.partition_by(*columns)
    stream.partition_by(*columns[:-1], "other")
    one, other = names(job)[1:]
    assert len(one) == len(other) == 95
    assert one != other


def test_streams_never_change_so_branches_are_free() -> None:
    job = Job("j")
    a = job.read("in")
    late, early = a.where("x > 1"), a.where("x < 1")
    late.merge(early).write("out")
    assert job.graph.nodes[3].inputs == (1, 2)


def test_functions_stay_beside_the_graph_by_node() -> None:
    def upper(message: dict[str, Any]) -> dict[str, Any]:
        return message

    job = Job("j")
    job.read("in").map(upper).foreach_batch(print)
    assert job.functions == {1: upper, 2: print}


def test_a_limit_per_key_is_a_process_that_says_how_many_rows_pass() -> None:
    job = Job("j")
    job.read("in", key="k string").limit_per_key(3).limit_per_key(1, name="first").write("out")
    state = {"passed": {"kind": "value", "type": "long"}}
    assert [(node.kind, node.name, node.args) for node in job.graph.nodes[1:3]] == [
        ("process", "limit-per-key", {"limit_per_key": 3, "state": state}),
        ("process", "first", {"limit_per_key": 1, "state": state}),
    ]
    assert isinstance(job.functions[1], FirstRows)


def test_a_graph_is_json_and_back() -> None:
    job = Job("j")
    read = job.read("in", key="k string").limit_per_key(2**63 - 1)
    read.map(str, schema="a int").partition_by("a", via="spark").agg(n="sum(a)").write("o")
    again = document.decode(document.encode(job.graph), Graph)
    assert again == job.graph
    assert msgspec.json.decode(document.encode(job.graph))["nodes"][3]["args"]["columns"] == ["a"]


def stream() -> Stream:
    return Job("j").read("in")


MISTAKES: list[tuple[Callable[[], object], str, str]] = [
    (lambda: Job(""), "job name ''", "begin"),
    (lambda: Job("a/b"), "job name 'a/b'", "letters, digits"),
    (lambda: Job("x" * 101), "job name 'xxx", "up to 100"),
    (lambda: Job(7), "job name 7", "letters"),  # type: ignore[arg-type]
    (lambda: stream().map(str, name="a b"), "operator name 'a b'", "letters, digits"),
    (lambda: stream().agg(n="count(*)", name="in"), "two operators are named 'in'", "another name="),
    (lambda: Job("j").read("in", start="lates"), "start='lates'", "start='latest'"),  # type: ignore[arg-type]
    (lambda: Job("j").read("in", start=None), "start=None", "start='earliest'"),  # type: ignore[arg-type]
    (lambda: stream().select(), "select at", 'select("dest")'),
    (lambda: stream().with_columns(), "with_columns at", "with_columns(late="),
    (lambda: stream().where(""), "where at", "SQL as a string"),
    (lambda: stream().where(str), "where at", "map, filter"),  # type: ignore[arg-type]
    (lambda: stream().select("a", 3), "given 3", "SQL as a string"),  # type: ignore[arg-type]
    (lambda: stream().with_columns(a=None), "given None", "SQL as a string"),  # type: ignore[arg-type]
    (lambda: stream().partition_by(), "names no column", 'partition_by("dest")'),
    (lambda: stream().partition_by("a", via="kafka"), "via='kafka'", 'via="spark"'),  # type: ignore[arg-type]
    (lambda: stream().partition_by("a", partitions=0), "partitions=0", "from 1 on"),
    (lambda: stream().partition_by("a", via="spark", partitions=2), "partitions=2", 'via="stream"'),
    (lambda: stream().agg(), "agg at", 'agg(n="count(*)")'),
    (lambda: stream().agg(n="count(*)", emit="late"), "emit='late'", 'emit="on_update"'),  # type: ignore[arg-type]
    (lambda: stream().agg(n=1), "agg at", "SQL as a string"),  # type: ignore[arg-type]
    (lambda: stream().limit_per_key(0), "limit_per_key at", "from 1 on"),
    (lambda: stream().limit_per_key(-3), "n=-3", "from 1 on"),
    (lambda: stream().limit_per_key(2.0), "n=2.0", "whole number"),  # type: ignore[arg-type]
    (lambda: stream().limit_per_key(True), "n=True", "whole number"),
    (lambda: stream().limit_per_key("3"), "n='3'", "limit_per_key(3)"),  # type: ignore[arg-type]
    (lambda: stream().limit_per_key(None), "n=None", "whole number"),  # type: ignore[arg-type]
    (lambda: stream().limit_per_key(2**63), "n=9223372036854775808", "whole number"),
    (lambda: stream().limit_per_key(3, name="a b"), "operator name 'a b'", "letters, digits"),
    (lambda: stream().merge(), "nothing to merge with", "at least one"),
    (lambda: stream().merge(Job("other").read("in")), "two jobs: 'j' and 'other'", "by name"),
    (lambda: stream().merge([stream()]), "not a stream of the job", "a.merge(b, c)"),  # type: ignore[arg-type]
    (lambda: stream().merge(stream().window(tumbling("1 hour"))), "not a stream", "job.read"),  # type: ignore[arg-type]
    (lambda: stream().join([stream()], within="1 hour"), "not a stream", "a.join(b"),  # type: ignore[arg-type]
    (lambda: stream().map("upper"), "map at", "pass a function"),  # type: ignore[arg-type]
    (lambda: stream().foreach_batch(None), "foreach_batch at", "pass a function"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("wrong", "what", "cure"), MISTAKES)
def test_a_mistake_names_the_operator_and_the_cure(wrong: Callable[[], object], what: str, cure: str) -> None:
    with pytest.raises(GraphError) as caught:
        wrong()
    assert what in caught.value.what
    assert cure in caught.value.cure
    assert caught.value.exit_code == 2
    assert f"{HERE}:" in caught.value.what


def test_an_operator_knows_its_line() -> None:
    job = Job("j")
    a = job.read("in")  # the read
    a.select("*").where("x").map(str)  # three in one
    assert [n.where for n in job.graph.nodes] == [
        f"{HERE}:{line_of('the read')}",
        *[f"{HERE}:{line_of('three in one')}"] * 3,
    ]


def test_a_mistake_tells_its_line() -> None:
    a = stream()
    with pytest.raises(GraphError, match=f"{HERE}:{line_of('no columns')}"):
        a.select()  # no columns
    with pytest.raises(GraphError, match=f"{HERE}:{line_of('no SQL')}"):
        a.with_columns(a="1", b=" ")  # no SQL


def test_a_job_needs_no_spark() -> None:
    code = "import sys, anabranch; anabranch.Job('j').read('in').map(str).write('o'); print('pyspark' in sys.modules)"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "False"
