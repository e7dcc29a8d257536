"""JSON, text and bytes."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StructType

from anabranch.errors import GraphError
from anabranch.spark import codec
from anabranch.spark.faults import ExplainValue, OfJson

__all__ = ["JsonReader", "JsonWriter", "OpaqueReader", "OpaqueWriter"]


@dataclass(frozen=True)
class JsonReader:
    """JSON objects, read by a declared schema."""

    schema: StructType
    wanted: str = "JSON of the declared schema"

    @property
    def explain(self) -> ExplainValue:
        return OfJson(tuple((field.name, field.dataType.simpleString()) for field in self.schema))

    def opened(self, value: Column) -> Column:
        return codec.try_json(value, self.schema)

    def fault(self, opened: str) -> Column:
        return codec.json_fault(opened)

    def pruned(self, only: Set[str]) -> JsonReader:
        return replace(self, schema=codec.pruned(self.schema, only))


@dataclass(frozen=True)
class OpaqueReader:
    """Values that are one column, ``value``: text, or bytes as they are."""

    text: bool
    schema: None = None
    wanted: str = "anything"

    @property
    def explain(self) -> ExplainValue:
        return OfJson(())

    def opened(self, value: Column) -> Column:
        return value.cast("string") if self.text else value

    def fault(self, opened: str) -> None:
        return None

    def pruned(self, only: Set[str]) -> OpaqueReader:
        return self


@dataclass(frozen=True)
class JsonWriter:
    """A JSON object of all columns; those that are null are left out."""

    def encode(self, frame: DataFrame, names: Sequence[str], where: str) -> Column:
        return codec.encode_json(frame, names)


@dataclass(frozen=True)
class OpaqueWriter:
    """The one column ``value``."""

    name: str

    def encode(self, frame: DataFrame, names: Sequence[str], where: str) -> Column:
        if list(names) != ["value"]:
            raise GraphError(
                f'{where} writes the columns {", ".join(names)} to a stream of format "{self.name}"',
                'select one column named value, or set the stream\'s format to "json"',
            )
        return frame["value"].cast("binary")
