"""Reads JSON values strictly with ``StrictJson.java``, and finds out why values can't be read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql import Column, SparkSession
from pyspark.sql.types import StringType, StructType

from anabranch.spark.internals import java, java_functions

__all__ = ["reason", "row"]


def row(
    value: Column,
    declared: StructType,
    wanted: Iterable[str],
    read_as: Mapping[str, str],
    result: StructType,
    array: bool = False,
) -> Column:
    """JSON bytes as a struct of the columns ``wanted``; null if the bytes can't be read as ``declared``.

    Args:
        declared: the declared columns, all of which are checked.
        wanted: the names of the columns of the result, in order.
        read_as: for each column that isn't read as its type implies, how to read it; see docs/reference/values.md.
        result: the type of the struct.
        array: whether the bytes are a message key in the form of a JSON array of the columns.
    """
    given = _arguments(declared, wanted, read_as, array, explains=False)
    return java_functions.applied("StrictJson", given, value, result)


def reason(value: Column, declared: StructType, read_as: Mapping[str, str], array: bool = False) -> Column:
    """Why JSON bytes can't be read, in words; null if they can be read."""
    given = _arguments(declared, declared.names, read_as, array, explains=True)
    return java_functions.applied("StrictJson", given, value, StringType())


def _arguments(
    declared: StructType, wanted: Iterable[str], read_as: Mapping[str, str], array: bool, explains: bool
) -> Any:
    def made(spark: SparkSession) -> list[Any]:
        names, ways = (java.java_class(spark, f"java.util.{kind}")() for kind in ("ArrayList", "HashMap"))
        for name in wanted:
            names.add(name)
        for name, way in read_as.items():
            ways.put(name, way)
        return [java_functions.java_type(spark, declared), names, ways, array, explains]

    return made
