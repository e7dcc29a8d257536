"""What is told of an operator that Spark refuses when a job is planned."""

from __future__ import annotations

from typing import NoReturn

import pytest
from pyspark.errors import ParseException, PySparkException, PythonException

from anabranch import Job
from anabranch.errors import GraphError
from anabranch.spark.query import resolution

IN_WORKER = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "/home/me/job/prices.py", line 12, in of
    return 1 / row["n"]
ZeroDivisionError: division by zero
"""
SQL = """
[PARSE_SYNTAX_ERROR] Syntax error at or near end of input. SQLSTATE: 42601 (line 1, pos 3)

== SQL ==
n >
---^^^
"""


@pytest.mark.parametrize(
    ("error", "said", "cure"),
    [
        (PythonException(IN_WORKER), "ZeroDivisionError: division by zero at prices.py:12 in of", "fix the function"),
        (
            ParseException(SQL),
            "[PARSE_SYNTAX_ERROR] Syntax error at or near end of input. SQLSTATE: 42601 (line 1, pos 3)",
            "fix the expression, or the schema it reads from",
        ),
    ],
    ids=["worker", "SQL"],
)
def test_an_error_of_spark_is_told_by_its_first_line_or_by_what_it_quotes(
    error: PySparkException, said: str, cure: str
) -> None:
    def build() -> NoReturn:
        raise error

    job = Job("j")
    job.read("in", schema="n int").transform(lambda frame: frame).write("out")
    with pytest.raises(GraphError) as raised:
        resolution.explained(job.graph[1], build, "/home/me/job")
    assert raised.value.what.endswith(f"): {said}")
    assert raised.value.cure == cure
