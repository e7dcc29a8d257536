"""Rows that must not reach the next stage are rejected by Spark itself, if its own sink writes them."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from anabranch.spark.query import sql_refusals
from anabranch.spark.query.sink import Refusal

SCHEMA = "output int, key binary, value binary, source int, partition int, origin long"
ROWS = [
    (0, None, b"{}", 0, 3, 6),  # of an output that accepts all rows
    (1, b"a", b"{}", 0, 3, 7),
    (1, None, b'{"a.t":"2026-01-02"}', 0, 3, 8),
    (1, None, b'{"a.t":null}', 0, 3, 9),
]
LABEL = "partition_by 'by-d' (job.py:3)"


def drop(_: str) -> Any:
    raise AssertionError("no function of ours is called")


def accepted(spark: SparkSession, rows: list[Any], refusal: Refusal) -> DataFrame:
    return sql_refusals.accepted(spark.createDataFrame(rows, SCHEMA), {1: refusal})


@pytest.mark.parametrize("time", ["", "a.t"])
def test_rows_to_drop_are_left_out(spark: SparkSession, time: str) -> None:
    rows = accepted(spark, ROWS, Refusal(LABEL, drop, drop, time, {0: "kafka/in"}))
    assert [row["origin"] for row in rows.collect()] == [6, 7]


@pytest.mark.parametrize(
    ("keyless", "untimed", "row", "told"),
    [
        (None, drop, ROWS[2], ("key", ", of partition 3 at offset 8 of kafka/in", "on_null_key")),
        (drop, None, ROWS[3], ("event time", ", of partition 3 at offset 9 of kafka/in", "on_error")),
        (None, drop, (1, None, b'{"a.t":"2026-01-02"}', -1, 0, 0), ("key", "", "on_null_key")),  # from state
    ],
)
def test_a_row_that_fails_the_lane_is_named(
    spark: SparkSession, keyless: Any, untimed: Any, row: Any, told: tuple[str, str, str]
) -> None:
    refusal = Refusal(LABEL, keyless, untimed, "a.t", {0: "kafka/in"})
    others = [each for each in ROWS if each != row and each != ROWS[2 if keyless is None else 3]]
    assert [each["origin"] for each in accepted(spark, others, refusal).collect()] == [6, 7]
    with pytest.raises(Exception, match="OperatorError: ") as caught:
        accepted(spark, [*others, row], refusal).collect()
    what, place, setting = told
    assert f"OperatorError: the {what} is null in a row that reached {LABEL}{place}\n" in str(caught.value)
    assert f'filter such rows before, or set [job] {setting} = "drop"\n' in str(caught.value)
