"""What can't be planned is refused, with the operator and the cure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from anabranch import Job
from anabranch.errors import GraphError, NotFoundError
from tests.unit.planning.delays import make
from tests.unit.planning.factory import around

REFUSED: list[tuple[Callable[[Job], Any], dict[str, int], type[Exception], str, str]] = [
    (
        lambda j: j.read("a").agg(n="count(*)").write("out"),
        {"a": 2},
        GraphError,
        "agg 'agg' (test_refused_plans.py:{line}) keeps state but has no stage key",
        "partition_by",
    ),
    (
        lambda j: j.read("a", key="k int").agg(n="count(*)").agg(n="count(*)").write("out"),
        {"a": 2},
        GraphError,
        "agg 'agg-2' (test_refused_plans.py:{line}) comes after agg 'agg'",
        'partition_by(…, via="stream") between them',
    ),
    (
        lambda j: j.read("a", key="k int").agg(n="count(*)").merge(j.read("b", key="k int")).write("out"),
        {"a": 2, "b": 2},
        GraphError,
        "merge (test_refused_plans.py:{line}) takes rows of the stateful agg 'agg'",
        "merge before",
    ),
    (
        lambda j: j.read("a").where("x"),
        {"a": 2},
        GraphError,
        "where 'where' (test_refused_plans.py:{line}) leads to no output",
        ".write(",
    ),
    (
        lambda j: feeding_itself(j).write("out"),
        {"a": 2},
        GraphError,
        "feeds the stage that it comes from",
        "partition_by before the other side",
    ),
    (
        lambda j: j.read("a").write("a"),
        {"a": 2},
        GraphError,
        "the job reads stream 'a' (test_refused_plans.py:{line}) and writes it too (test_refused_plans.py:{line})",
        "another stream",
    ),
    (
        lambda j: j.read("out").write("out"),
        {},
        GraphError,
        "the job reads stream 'out' (test_refused_plans.py:{line}) and writes it too",
        "another stream",
    ),
    (
        lambda j: j.read("a").partition_by("x").merge(j.read("j-by-x-1")).write("out"),
        {"a": 2, "j_by_x_1": 2},
        GraphError,
        "the job reads stream 'j-by-x-1' (test_refused_plans.py:{line}) and writes it too",
        "another stream",
    ),
    (
        lambda j: j.read("a").merge(j.read("a")).write("out"),
        {"a": 2},
        GraphError,
        "stream embedded/a as an input more than once",
        "read it once",
    ),
    (
        lambda j: j.read("a", broadcast=True).write("out"),
        {"a": 2},
        GraphError,
        "only broadcast inputs",
        "isn't broadcast",
    ),
    (
        lambda j: j.read("flihts").write("out"),
        {"flights": 2},
        NotFoundError,
        "read 'flihts' (test_refused_plans.py:{line}): there is no stream 'flihts' in embedded",
        "anabranch stream create flihts",
    ),
    (
        lambda j: j.read("a").map_arrow(str).write("out"),
        {"a": 2},
        GraphError,
        "write 'out' (test_refused_plans.py:{line}) has no key: after map_arrow",
        "write(..., key=",
    ),
]


def feeding_itself(job: Job) -> Any:
    a = job.read("a")
    return a.merge(a.partition_by("x"))


@pytest.mark.parametrize(("build", "partitions", "error", "what", "cure"), REFUSED)
def test_what_can_t_be_planned_names_the_operator_and_the_cure(
    build: Callable[[Job], Any], partitions: dict[str, int], error: type[Exception], what: str, cure: str
) -> None:
    job = Job("j")
    build(job)
    with pytest.raises(error) as caught:
        make(job, around(**partitions))
    line = job.graph.nodes[-1].where.rpartition(":")[2]
    assert what.replace("{line}", line) in caught.value.what  # type: ignore[attr-defined]
    assert cure in caught.value.cure  # type: ignore[attr-defined]
