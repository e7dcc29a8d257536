"""Reads and writes protocol-buffer messages with ``Protobuf.java``, and finds out why messages can't be read."""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, SparkSession
from pyspark.sql.types import BinaryType, DataType, StringType, StructType

from anabranch.spark.internals import java_functions

__all__ = ["reason", "row", "written"]


def row(value: Column, files: bytes, message: str, declared: StructType, columns: StructType) -> Column:
    """The bytes of a message as a struct of the given columns; null if the bytes can't be read.

    Args:
        files: a serialized FileDescriptorSet.
        message: the message type's full name.
        declared: the declared columns, all of which are checked.
        columns: the columns of the result. They are among the declared columns.
    """
    return _applied(value, files, message, declared, columns, "row", columns)


def reason(value: Column, files: bytes, message: str, declared: StructType) -> Column:
    """Why the bytes of a message can't be read, in words; null if they can be read. For arguments, see :func:`row`."""
    return _applied(value, files, message, declared, declared, "reason", StringType())


def written(struct: Column, files: bytes, message: str, columns: StructType) -> Column:
    """The bytes of a message, made from a struct of the given columns. For other arguments, see :func:`row`."""
    return _applied(struct, files, message, columns, columns, "write", BinaryType())


def _applied(
    column: Column, files: bytes, message: str, declared: StructType, columns: StructType, mode: str, result: DataType
) -> Column:
    def arguments(spark: SparkSession) -> list[Any]:
        types = [java_functions.java_type(spark, each) for each in (declared, columns)]
        return [bytearray(files), message, *types, mode]

    return java_functions.applied("Protobuf", arguments, column, result)
