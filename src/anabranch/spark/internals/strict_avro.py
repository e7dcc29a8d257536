"""Finds out why Avro values can't be read, with ``StrictAvro.java``."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.types import StringType

from anabranch.spark.internals import java_functions

__all__ = ["reason"]


def reason(value: Column, schema: str, head: int = 0) -> Column:
    """Why bytes aren't exactly one Avro value of a schema (given as JSON), in words; null if they are.

    Args:
        head: how many bytes precede the value.
    """
    return java_functions.applied("StrictAvro", lambda _: [schema, head], value, StringType())
