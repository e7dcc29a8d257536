"""Values of records between bytes and columns, in each of the formats."""

from __future__ import annotations

from anabranch.errors import GraphError
from anabranch.formats import Format
from anabranch.spark import codec
from anabranch.spark.values.avro import AvroReader, AvroWriter
from anabranch.spark.values.plain import JsonReader, JsonWriter, OpaqueReader, OpaqueWriter
from anabranch.spark.values.protobuf import ProtobufReader, ProtobufWriter
from anabranch.spark.values.way import Reader, Writer

__all__ = ["Reader", "Writer", "reading", "writing"]


def reading(format_: Format, declared: str | None, where: str) -> Reader:
    """How values become columns. ``declared``: the columns that the job's ``read`` declares.

    Raises:
        GraphError: too much is declared, too little, or what the stream's own schema hasn't.
    """
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
        return JsonReader(codec.parse_schema(declared))
    made = ProtobufReader.of(format_, where) if format_.name == "protobuf" else AvroReader.of(format_, where)
    return made.narrowed(codec.parse_schema(declared), where) if declared else made


def writing(format_: Format) -> Writer:
    """How columns become values."""
    if format_.name == "json":
        return JsonWriter()
    if format_.name in ("string", "raw"):
        return OpaqueWriter(format_.name)
    return ProtobufWriter(format_) if format_.name == "protobuf" else AvroWriter(format_)
