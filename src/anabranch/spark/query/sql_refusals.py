"""Rejects an output's rows in SQL, for outputs that Spark's own sinks write. These sinks call no function of ours."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from anabranch.spark.functions.wrap import Rejecting
from anabranch.spark.query import sql_errors
from anabranch.spark.query.sink import Refusal

__all__ = ["accepted"]


def accepted(rows: DataFrame, refusals: Mapping[int, Refusal]) -> DataFrame:
    """The encoded rows that no output refuses. Refused rows are left out, and are neither counted nor written as dead
    letters. If such rows fail the lane, Spark raises an OperatorError when it reaches the first of them.

    Args:
        refusals: the rules by which outputs reject rows, by the output's number. An output without a rule accepts
            all rows.
    """
    for number, refusal in refusals.items():
        refused = (F.col("output") == number) & F.col("key").isNull()
        rows = rows.where(F.when(refused, _rejected(refusal)).otherwise(F.lit(True)))
    return rows


def _rejected(refusal: Refusal) -> Column:
    """False for a row without a key. If the row fails the lane, evaluating the column raises an OperatorError."""
    keyless = _left_out(refusal, "key", "on_null_key", refusal.keyless)
    if not refusal.time:
        return keyless
    row = F.from_json(F.col("value").cast("string"), StructType([StructField(refusal.time, StringType())]))
    untimed = _left_out(refusal, "event time", "on_error", refusal.untimed)
    return F.when(row[refusal.time].isNull(), untimed).otherwise(keyless)


def _left_out(refusal: Refusal, what: str, setting: str, by: Rejecting | None) -> Column:
    if by is not None:
        return F.lit(False)
    streams = [F.when(F.col("source") == number, F.lit(stream)) for number, stream in refusal.inputs.items()]
    place = F.concat(
        F.lit(", of partition "),
        F.col("partition").cast("string"),
        F.lit(" at offset "),
        F.col("origin").cast("string"),
        F.lit(" of "),
        F.coalesce(*streams, F.lit(None).cast("string")),  # null if the row is from state
    )
    before = f"the {what} is null in a row that reached {refusal.operator}"
    cure = f'filter such rows before, or set [job] {setting} = "drop"'
    return sql_errors.failing(before, F.coalesce(place, F.lit("")), f"\n  {cure}").cast("boolean")
