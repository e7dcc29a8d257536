"""What is told of a table that can't be read, and whether the lane is tried again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkException, PythonException
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from anabranch import Job
from anabranch.container import error_text
from anabranch.container.error_text import Remedy
from anabranch.errors import OperatorError, StateError
from anabranch.spark.operators.lookups import Lookups, load, nothing


def failed(said: str, kind: type[PySparkException] = PySparkException) -> BaseException:
    """What the reading of a table raises if Spark says this."""

    def load(*_: Any) -> Any:
        raise kind(said)

    job = Job("j")
    read = job.read("in", key="k string", schema="dest string")
    read.join_table("airports.csv", on={"dest": "iata"}, schema="iata string, name string").write("out")
    with pytest.raises((OperatorError, PySparkException)) as raised:
        Lookups(load, {}, lambda: 0.0, "/home/me/job").now(job.graph[1], None)  # type: ignore[arg-type]
    return raised.value


def test_a_table_that_can_t_be_read_is_read_again() -> None:
    failure = error_text.failure(failed("[FAILED_READ_FILE] Encountered error while reading file\nand why"))
    assert failure.what.endswith("can't read its table: [FAILED_READ_FILE] Encountered error while reading file")
    assert failure.remedy is Remedy.ATTEMPT


def test_a_function_of_a_table_that_fails_in_a_worker_is_told_by_its_error_and_line() -> None:
    trace = "Traceback (most recent call last):\n  File \"/home/me/job/rates.py\", line 7, in rate\nKeyError: 'EUR'\n"
    failure = error_text.failure(failed(f"An exception was thrown from the Python worker:\n{trace}", PythonException))
    assert failure.what.endswith(" can't read its table: KeyError: 'EUR' at rates.py:7 in rate")
    assert failure.cure.startswith("fix the function")
    assert failure.remedy is Remedy.ATTEMPT


@pytest.mark.parametrize("kind", [SystemExit, GeneratorExit])
def test_a_function_of_a_table_can_t_end_the_thread_that_calls_it(kind: type[BaseException]) -> None:
    """Spark would wait for the thread's answer."""

    def rates(_: object) -> Any:
        raise kind("no rates today")

    job = Job("j")
    job.read("in", key="k string", schema="dest string").join_table(rates, on="dest").write("out")
    node = job.graph[1]
    with pytest.raises(RuntimeError, match=f"the function raised {kind.__name__}") as raised:
        load(node, None, {node.id: rates}, nothing, {})  # type: ignore[arg-type]
    assert isinstance(raised.value.__cause__, kind)


def test_a_lane_waits_for_what_a_table_lacks_wherever_spark_says_so() -> None:
    error = failed("Job aborted\nCaused by: org.apache.kafka.common.errors.TimeoutException: no answer")
    assert error_text.failure(error).remedy is Remedy.WAIT


def test_an_error_of_our_own_behind_a_table_is_told_and_counts() -> None:
    told = "Traceback\nanabranch.errors.LogError: /log/airports/0 is missing\n  restore it\n"
    error = failed(f"An exception was thrown from the Python worker\n{told}")
    assert error_text.is_final(error)
    assert error_text.failure(error).what == "/log/airports/0 is missing"


def columns(*names: str, **others: Any) -> StructType:
    kinds = {**dict.fromkeys(names, StringType()), **others}
    return StructType([StructField(name, kind) for name, kind in kinds.items()])


@pytest.mark.parametrize(
    ("now", "told"),
    [
        (columns("name", "country"), "the table's column 'iata', a column of `on`, is gone"),
        (columns("iata", "name"), "the table's column 'land', a column of `on`, is gone"),
        (columns("iata", "land"), "the table's column for 'name' was string, and is gone"),
        (columns("iata", "land", name=IntegerType()), "the table's column for 'name' was string, and is int"),
    ],
)
def test_a_table_that_has_lost_or_changed_a_column_fails_the_lane_at_once(now: StructType, told: str) -> None:
    def load(*_: Any) -> Any:
        return SimpleNamespace(schema=now)

    job = Job("j")
    read = job.read("in", key="k string", schema="dest string, country string")
    on = {"dest": "iata", "country": "land"}
    read.join_table("airports.csv", on=on, schema="iata string, land string, name string").write("out")
    stream = columns("k", "dest", "country")
    schemas = {0: stream, 1: StructType([*stream, *columns("name")])}
    with pytest.raises(StateError, match=told) as raised:
        Lookups(load, schemas, lambda: 0.0).now(job.graph[1], None)  # type: ignore[arg-type]
    assert error_text.is_final(raised.value)
