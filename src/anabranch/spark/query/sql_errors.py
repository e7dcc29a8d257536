"""Errors that Spark raises on anabranch's behalf within a query."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F


def for_record(before: str, after: Column, cure: str, partition: Column, offset: Column) -> Column:
    """A condition that fails the lane with an OperatorError. The error's text is ``before``, the row's partition and
    offset, and ``after``.

    The error's name is composed when the condition is evaluated. Otherwise, query plans would contain the name, and
    other errors that print a plan would be taken for this one.
    """
    return F.raise_error(
        F.concat(
            F.lit("anabranch.errors"),
            F.substring(F.concat(F.lit("."), offset.cast("string")), 1, 1),
            F.lit(f"OperatorError: {before}"),
            partition.cast("string"),
            F.lit(" at offset "),
            offset.cast("string"),
            after,
            F.lit(f"\n  {cure}\n\n"),
        )
    ).cast("boolean")
