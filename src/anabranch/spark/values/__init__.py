"""Converts between the values of records and columns, in each format."""

from __future__ import annotations

from collections.abc import Mapping

from anabranch.errors import GraphError
from anabranch.formats import Format
from anabranch.spark.values import codec
from anabranch.spark.values.avro import AvroReader, AvroWriter
from anabranch.spark.values.plain import JsonReader, JsonWriter, OpaqueReader, OpaqueWriter, TableWriter
from anabranch.spark.values.protobuf import ProtobufReader, ProtobufWriter
from anabranch.spark.values.way import Reader, Writer

__all__ = ["Reader", "TableWriter", "Writer", "reading", "writing"]


def reading(format_: Format, declared: str | None, where: str, read_as: Mapping[str, str] | None = None) -> Reader:
    """The reader for a format and the columns that the job's ``read`` declares. ``where`` is the operator's name in
    error messages. Some columns aren't read in the way that their types imply: ``read_as`` maps such a column's name
    to the way to read the column.

    Raises:
        GraphError: the declaration doesn't fit the format or the stream's own schema, or Spark can't read the stream's
            own schema.
        ParseException: Spark can't parse ``declared``.
    """
    if read_as and format_.name != "json":
        raise GraphError(
            f'{where} has read_as=, but the stream\'s format is "{format_.name}"',
            "leave it out: only in JSON there is more than one way to write a type",
        )
    if format_.name in ("string", "raw"):
        if declared:
            raise GraphError(
                f'{where} declares a schema, but the stream\'s format is "{format_.name}"',
                'leave schema= out, or set the stream\'s format to "json"',
            )
        return OpaqueReader(text=format_.name == "string")
    if format_.name == "json":
        if not declared:
            raise GraphError(
                f"{where} reads JSON without a schema",
                'declare it: read(..., schema="carrier string, delay int"), or set the stream\'s format to "string"',
            )
        return JsonReader.of(codec.parse_schema(declared), read_as or {}, where)
    made = ProtobufReader.of(format_, where) if format_.name == "protobuf" else AvroReader.of(format_, where)
    return made.narrowed(codec.parse_schema(declared), where) if declared else made


def writing(format_: Format, ours: bool = False) -> Writer:
    """The writer for a format. ``ours`` says whether the stream is intermediate."""
    if format_.name == "json":
        return JsonWriter(ours)
    if format_.name in ("string", "raw"):
        return OpaqueWriter(format_.name)
    return ProtobufWriter(format_) if format_.name == "protobuf" else AvroWriter(format_)
