"""Finds out whether bytes are UTF-8, with ``Utf8.java``."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.types import BooleanType

from anabranch.spark.internals import java_functions

__all__ = ["is_valid"]


def is_valid(value: Column) -> Column:
    """Whether bytes are UTF-8 or null. The result itself is never null."""
    return java_functions.applied("Utf8", lambda _: [], value, BooleanType())
