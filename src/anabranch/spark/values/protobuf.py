"""Protocol buffers, by Spark's own functions."""

from __future__ import annotations

import base64
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.protobuf.functions import from_protobuf, to_protobuf
from pyspark.sql.types import StructType

from anabranch.errors import GraphError
from anabranch.formats import Format
from anabranch.spark import codec
from anabranch.spark.values import way

__all__ = ["ProtobufReader", "ProtobufWriter"]


@dataclass(frozen=True)
class ProtobufReader:
    """Values are messages of one kind."""

    format: Format
    schema: StructType

    @classmethod
    def of(cls, format_: Format, where: str) -> ProtobufReader:
        """The reader of a stream. GraphError if Spark can't read the descriptor set."""
        return cls(format_, columns(format_, where))

    def narrowed(self, declared: StructType, where: str) -> ProtobufReader:
        """With the columns that are declared. GraphError if the message has others."""
        way.check_declared(declared, self.schema, where, f"the message {self.format.message}")
        return replace(self, schema=declared)

    def opened(self, value: Column) -> Column:
        return _decoded(value, self.format)

    def fault(self, opened: str) -> Column:
        return F.col(opened).isNull()

    def reason(self, value: Column) -> Column:
        return F.when(value.isNull(), "the value is null").otherwise(f"the value is no message {self.format.message}")

    def pruned(self, only: Set[str]) -> ProtobufReader:
        return replace(self, schema=codec.pruned(self.schema, only))


@dataclass(frozen=True)
class ProtobufWriter:
    """Writes messages of one kind."""

    format: Format

    def encode(self, frame: DataFrame, names: Sequence[str], where: str) -> Column:
        held = columns(self.format, where)
        way.check_written(frame, names, held, where, f"the message {self.format.message}")
        struct = F.struct(*[frame[codec.quoted(name)] for name in names])
        return to_protobuf(struct, self.format.message, binaryDescriptorSet=_descriptors(self.format))


def columns(format_: Format, where: str) -> StructType:
    """The columns of a message. GraphError if Spark can't read the descriptor set, or it hasn't that message."""
    try:
        frame = SparkSession.active().range(0).select(_decoded(F.lit(b""), format_).alias("v"))
        found = frame.schema["v"].dataType
    except Exception as error:
        raise GraphError(
            f"{where}: Spark can't take its message {format_.message}: {str(error).strip().splitlines()[0]}",
            "make the schema file by protoc --include_imports --descriptor_set_out; anabranch doctor says whether "
            "Spark's module for protocol buffers is there",
        ) from None
    assert isinstance(found, StructType)
    return found


def _decoded(value: Column, format_: Format) -> Column:
    options = {"mode": "PERMISSIVE"}
    return from_protobuf(value, format_.message, options=options, binaryDescriptorSet=_descriptors(format_))


def _descriptors(format_: Format) -> bytes:
    return base64.b64decode(format_.schema)
