"""What a refusal says of two versions of a job, in the words of its file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from anabranch import Job
from anabranch.model.graph import Graph
from anabranch.planning import differences


def graph(
    condition: str = "n > 0",
    name: str = "counted",
    aggregates: Callable[[Any], Any] = lambda rows: rows.agg(n="count(*)", s="sum(n)", name="counted"),
) -> Graph:
    job = Job("j")
    rows = job.read("in", key="k string", schema="n int").where(condition)
    aggregates(rows).write("out")
    return job.graph


def fingerprint(of: Graph) -> dict[str, str]:
    return {f"operator {node.name}": repr((node.kind, node.inputs, node.args)) for node in of.nodes}


def described(after: Graph) -> str:
    before = graph()
    found = differences.described(before, after, fingerprint(before), fingerprint(after))
    return "; ".join(each.replace(node.where, "HERE") if (node := after.nodes[0]) else each for each in found)


def test_the_same_differs_in_nothing() -> None:
    assert described(graph()) == ""


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (graph(condition="n > 1"), "condition is n > 1, and was n > 0"),
        (
            graph(aggregates=lambda rows: rows.agg(n="count(*)", s="max(n)", name="counted")),
            "aggregates.s is max(n), and was sum(n)",
        ),
        (graph(aggregates=lambda rows: rows.agg(n="count(*)", name="counted")), "aggregates.s is gone: sum(n)"),
        (
            graph(aggregates=lambda rows: rows.agg(n="count(*)", s="sum(n)", m="min(n)", name="counted")),
            "aggregates.m is new: min(n)",
        ),
        (graph(aggregates=lambda rows: rows.agg(n="count(*)", s="sum(n)", name="other")), "agg 'counted' is gone"),
        (
            graph(aggregates=lambda rows: rows.where("n < 9").agg(n="count(*)", s="sum(n)", name="counted")),
            "comes after 'where-2', and came after 'where'",
        ),
    ],
)
def test_operators_differ_in_what_the_file_says(after: Graph, said: str) -> None:
    assert said in described(after)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ({"partitions of kafka/in": "2"}, {"partitions of kafka/in": "4"}, ()),
        ({}, {"partitions of kafka/in": "2"}, ("input kafka/in is new",)),
        (
            {"output stream out": "a1"},
            {"output stream out": "b2"},
            ("output stream out was deleted and created again",),
        ),
        ({}, {"output stream doubled": ""}, ("output stream doubled is new",)),
        ({"table of_all": "a1"}, {}, ("table of_all is not written any more",)),
        ({"output stream out": "a1"}, {"output stream out": ""}, ("output stream out is gone",)),
        ({"factor": "1"}, {"factor": "4"}, ("[job] factor is 4, and was 1",)),
        ({"format of in": "json"}, {}, ("format of in is not set, and was json",)),
    ],
)
def test_other_things_do_by_their_names(before: dict[str, str], after: dict[str, str], said: tuple[str, ...]) -> None:
    assert differences.described(graph(), graph(), before, after) == said
