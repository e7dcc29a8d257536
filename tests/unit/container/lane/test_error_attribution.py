"""Which operator is named for an error of Spark's, and on which offsets."""

from __future__ import annotations

from anabranch import Job
from anabranch.container.lane import error_attribution
from anabranch.model.graph import Node
from tests.support.paths import EXCEPTIONS

FAILURES = EXCEPTIONS
SQL = """[CAST_INVALID_INPUT] The value 'x' of the type "STRING" cannot be cast to "INT". SQLSTATE: 22018
== SQL (line 1, position 1) ==
cast(dest as int)
^^^^^^^^^^^^^^^^^
"""
FRAME = """[DIVIDE_BY_ZERO] Division by zero.
== DataFrame ==
"__truediv__" was called from
jobs.py:12
"""


def nodes(transforms: int = 1) -> tuple[Node, ...]:
    job = Job("j")
    rows = job.read("a", key="k string", schema="dest string")
    rows = rows.where("dest <> 'z'").select("k", "cast(dest as int) as n")
    for number in range(transforms):
        rows = rows.transform(lambda frame: frame, name=f"own-{number}")
    rows.write("out")
    return job.graph.nodes


RANGES = {"embedded/a/1": (7, 7), "embedded/a/0": (5, 9), "embedded/a/2": (0, 1)}


def test_the_operator_whose_sql_it_is() -> None:
    found = error_attribution.operator_error(SQL, "the first line", nodes(), RANGES)
    assert found is not None
    assert found.what.startswith("select 'select' (")
    assert found.what.endswith("): the first line, on offsets 5 to 8 of embedded/a/0, offsets 0 to 0 of embedded/a/2")
    assert "try_cast" in found.cure


def test_the_only_transform_for_what_it_says_of_a_line() -> None:
    found = error_attribution.operator_error(FRAME, "Division by zero.", nodes(), {})
    assert found is not None
    assert found.what.startswith("transform 'own-0' (")
    assert found.what.endswith("): Division by zero. at jobs.py:12")


def test_nobody_is_named_without_a_reason() -> None:
    assert error_attribution.operator_error(FRAME, "x", nodes(transforms=2), {}) is None
    assert error_attribution.operator_error(FRAME, "x", nodes(transforms=0), {}) is None
    assert error_attribution.operator_error("java.io.IOException: disk full", "x", nodes(), {}) is None
    assert error_attribution.operator_error(SQL.replace("dest", "other"), "x", nodes(transforms=0), {}) is None


def test_a_real_error_of_spark_s() -> None:
    text = (FAILURES / "divide_by_zero.txt").read_text()
    job = Job("j")
    job.read("a", schema="n int").select("1 / (n - n) as x").write("out")
    found = error_attribution.operator_error(text, "Division by zero.", job.graph.nodes, {})
    assert found is not None
    assert found.what.startswith("select 'select' (")
