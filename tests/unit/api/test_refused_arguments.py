"""What operators refuse at once, with the line of the job file that gives it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql.types import StringType, StructField, StructType

from anabranch import Job, Processor, Stream, sliding, tumbling
from anabranch.errors import GraphError
from anabranch.event_time import durations

AGES = "99999999999999999999 weeks"


class Quiet(Processor):
    """A processor without state."""


def flights(**given: Any) -> Stream:
    return Job("j").read("flights", key="k string", schema="dest string, at timestamp", **given)


@pytest.mark.parametrize("partitions", [True, 2.0, 2.5, math.nan, math.inf, "3", 0, -1])
def test_a_number_of_partitions_is_a_whole_one(partitions: Any) -> None:
    with pytest.raises(GraphError, match=r"partition_by at test_refused_arguments.py:\d+ has partitions="):
        flights().partition_by("dest", partitions=partitions)


@pytest.mark.parametrize("column", [["dest"], None, 5, ""])
def test_partition_by_takes_names_of_columns(column: Any) -> None:
    with pytest.raises(GraphError, match=r"partition_by at test_refused_arguments.py:\d+ was given .*, not a column"):
        flights().partition_by(column)


@pytest.mark.parametrize(
    "use",
    [
        lambda: flights().agg(by=5, n="count(*)"),  # type: ignore[arg-type]
        lambda: flights().agg(by=["dest", None], n="count(*)"),  # type: ignore[list-item]
        lambda: flights().agg(by="", n="count(*)"),
        lambda: flights().window(tumbling("1 hour")).agg(by=5, n="count(*)"),  # type: ignore[arg-type]
        lambda: flights().join_table("t", on=5),  # type: ignore[arg-type]
        lambda: flights().join_table("t", on=None),  # type: ignore[arg-type]
        lambda: flights().join_table("t", on={"dest": 5}),  # type: ignore[dict-item]
        lambda: flights().join_table("t", on={5: "dest"}),  # type: ignore[dict-item]
    ],
)
def test_columns_are_names(use: Callable[[], object]) -> None:
    with pytest.raises(GraphError, match=r"at test_refused_arguments.py:\d+ was given .*, not a column"):
        use()


@pytest.mark.parametrize("declared", [StructType([StructField("k", StringType())]), {"k": "string"}, ["k string"], 5])
@pytest.mark.parametrize(
    "use",
    [
        lambda declared: Job("j").read("in", key=declared),
        lambda declared: Job("j").read("in", schema=declared),
        lambda declared: Job("j").table("in", key=declared),
        lambda declared: Job("j").table("in", key="k string", schema=declared),
        lambda declared: flights().map(str, schema=declared),
        lambda declared: flights().flat_map(str, schema=declared),
        lambda declared: flights().map_arrow(str, schema=declared),
        lambda declared: flights().process(Quiet(), schema=declared),
        lambda declared: flights().join_table("t", on="k", schema=declared),
        lambda declared: flights().join_table("t", on="k", prefix=declared),
        lambda declared: flights().write("out", key=declared),
    ],
)
def test_declarations_are_text(use: Callable[[Any], object], declared: Any) -> None:
    with pytest.raises(
        GraphError, match=rf"test_refused_arguments.py:\d+ has \w+= of the type {type(declared).__name__}"
    ):
        use(declared)


@pytest.mark.parametrize("name", [5, None, "", ["in"]])
def test_a_stream_is_named_by_text(name: Any) -> None:
    for use in (Job("j").read, Job("j").table, flights().write):
        with pytest.raises(
            GraphError, match=r"at test_refused_arguments.py:\d+ was given .*, not the name of a stream"
        ):
            use(name, key="k string")


@pytest.mark.parametrize("forms", [["at"], "json", {"at": 5}, {5: "json"}])
def test_read_as_is_a_dict_of_texts(forms: Any) -> None:
    for use in (Job("j").read, Job("j").table):
        with pytest.raises(GraphError, match=r"at test_refused_arguments.py:\d+ has read_as="):
            use("in", key="k string", read_as=forms)


@pytest.mark.parametrize("function", [5, None, "drained"])
def test_on_drain_takes_a_function(function: Any) -> None:
    with pytest.raises(GraphError, match=r"on_drain at test_refused_arguments.py:\d+ was given .*, not a function"):
        Job("j").on_drain(function)


@pytest.mark.parametrize("name", ["", 5])
def test_event_time_is_a_column(name: Any) -> None:
    with pytest.raises(GraphError, match=r"read at test_refused_arguments.py:\d+ has event_time="):
        flights(event_time=name, watermark="1 minute")


@pytest.mark.parametrize(
    "use",
    [
        lambda: flights(event_time="at", watermark=AGES),
        lambda: flights(event_time="at", watermark="1 minute", event_time_range=("1900-01-01", AGES)),
        lambda: tumbling(AGES),
        lambda: sliding(AGES, "1 hour"),
        lambda: tumbling("10001 weeks " * 60),
    ],
)
def test_a_duration_is_not_longer_than_there_are_moments(use: Callable[[], object]) -> None:
    with pytest.raises(GraphError, match=r"longer than 10,000 years"):
        use()


@pytest.mark.parametrize("text", ["9" * 5000 + " weeks", AGES, "999999999999999 weeks"])
def test_a_duration_too_long_for_a_number_is_refused_as_such(text: str) -> None:
    with pytest.raises(ValueError, match="longer than 10,000 years"):
        durations.parse(text)
    assert durations.parse("520000 weeks") == 520_000 * 604_800_000


@pytest.mark.parametrize("earliest", ["19000101", "1900-W01-1"])
def test_a_date_is_kept_in_the_form_that_spark_knows(earliest: str) -> None:
    job = Job("j")
    job.read("in", schema="at timestamp", event_time="at", watermark="1 minute", event_time_range=(earliest, "1 day"))
    assert job.graph.nodes[0].args["event_time_range"][0] == "1900-01-01"
