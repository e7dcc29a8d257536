"""Makes Spark raise one of anabranch's own errors when a query reaches a certain record."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F


def for_record(before: str, after: Column, cure: str, partition: Column, offset: Column) -> Column:
    """A column that fails the lane with an OperatorError when Spark evaluates it. The error's text consists of
    ``before``, the row's partition and offset, ``after``, and ``cure``.

    The error's name is assembled only during the evaluation. If query plans contained this name, other errors whose
    texts include a plan would be mistaken for this error.
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
