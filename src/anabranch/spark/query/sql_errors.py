"""Makes Spark raise one of anabranch's own errors when a query reaches a certain record."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F


def for_record(before: str, after: Column, cure: str, partition: Column, offset: Column) -> Column:
    """A column that fails the lane with an OperatorError when Spark evaluates it. The error's text consists of
    ``before``, the row's partition and offset, ``after``, and ``cure``.
    """
    place = F.concat(partition.cast("string"), F.lit(" at offset "), offset.cast("string"), after)
    return failing(before, place, f"\n  {cure}").cast("boolean")


def failing(before: str, told: Column, after: str) -> Column:
    """A column that raises an OperatorError when Spark evaluates it. The error's text consists of ``before``, ``told``
    and ``after``. ``told`` must depend on the row.

    The error's name is assembled only during the evaluation. If query plans contained this name, other errors whose
    texts include a plan would be mistaken for this error.
    """
    dot = F.substring(F.concat(F.lit("."), told), 1, 1)
    name = F.concat(F.lit("anabranch.errors"), dot, F.lit("OperatorError: "))
    return F.raise_error(F.concat(name, F.lit(before), told, F.lit(f"{after}\n\n")))
