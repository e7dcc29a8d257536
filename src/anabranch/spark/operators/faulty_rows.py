"""Removes from a DataFrame the rows that can't be processed further."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from anabranch.spark.functions import arrow
from anabranch.spark.functions import wrap as user_functions
from anabranch.spark.functions.wrap import Rejecting
from anabranch.spark.query import sql_errors
from anabranch.spark.values import meta_column

__all__ = ["Fault", "without"]

_NUMBER = "_anabranch_fault"


@dataclass(frozen=True)
class Fault:
    """A reason why rows can't be processed further.

    Attributes:
        wrong: a condition that is true for rows with the fault.
        error: what is wrong with the rows, in words.
        setting: the setting in ``[job]`` that determines what happens to rows with the fault.
        by: returns the object that receives rows with the fault. If ``by`` is None, the first row with the fault fails
            the lane.
    """

    wrong: Column
    error: str
    setting: str
    by: Rejecting | None


def without(frame: DataFrame, what: str, faults: Sequence[Fault], inputs: Mapping[int, str]) -> DataFrame:
    """The DataFrame without the rows that have any of the faults. When Spark computes the result, each row that is left
    out goes to the receiver of one of the row's faults. If that fault's ``by`` is None, the row fails the lane.

    Faults with the same ``by`` are handled in one step, because each receiver can write only once in a Spark task.

    Args:
        what: the label of the operator that the rows reach.
        inputs: the streams by source number, for error messages.
    """
    for by in dict.fromkeys(fault.by for fault in faults):
        its = [fault for fault in faults if fault.by is by]
        if by is None:
            for fault in its:
                frame = frame.where(F.when(fault.wrong, _failing(what, fault, inputs)).otherwise(F.lit(True)))
            continue
        number = F.lit(0)
        for index, fault in reversed([*enumerate(its, 1)]):
            number = F.when(fault.wrong, F.lit(index)).otherwise(number)
        errors = [fault.error for fault in its]
        frame = arrow.mapped(
            frame.withColumn(_NUMBER, number), user_functions.rejecting(_NUMBER, errors, what, by), frame.schema
        )
    return frame


def _failing(what: str, fault: Fault, inputs: Mapping[int, str]) -> Column:
    cure = f'filter such rows before, or set [job] {fault.setting} = "dead-letter" or "drop"'
    origin = meta_column.field("partition"), meta_column.field("offset")
    source = meta_column.field("source")
    streams = [F.when(source == number, F.lit(f" of {stream}")) for number, stream in inputs.items()]
    before = f"{fault.error} in a row that reached {what}, of partition "
    return sql_errors.for_record(before, F.coalesce(*streams, F.lit("")), cure, *origin)
