"""Reads and writes Avro values, with or without the id of a registered schema in front."""

from __future__ import annotations

import json
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from functools import cache, reduce
from operator import or_

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro, to_avro
from pyspark.sql.types import StructType

from anabranch.errors import GraphError
from anabranch.formats import Format, avro_schema
from anabranch.spark.internals import strict_avro
from anabranch.spark.values import codec, way

__all__ = ["AvroReader", "AvroWriter"]

_READ = "_anabranch_read"
"""The name of a field that shows whether a value could be read. The field is in every reader's schema, but in no
writer's schema. If the value could be read, the field therefore has its default, true. Otherwise, the field is null.
"""

_ALL = 2**31 - 1
_HEAD = 5
"""The number of bytes that precede an Avro value if a registry is used: a zero byte, and the four bytes of the schema's
id.
"""


@dataclass(frozen=True)
class AvroReader:
    """Reads Avro values.

    Attributes:
        declared: the declared columns. All of them are checked.
        schema: the columns to return: either all declared columns, or only the columns that are needed.
        text: the reader's schema, as JSON.
        writers: the ids and schemas with which values may have been written. If values don't begin with ids, this is
            None, and the reader's schema applies to all values.
    """

    declared: StructType
    schema: StructType
    text: str
    writers: tuple[tuple[int, str], ...] | None

    @classmethod
    def of(cls, format_: Format, where: str) -> AvroReader:
        """The reader of a stream. Raises GraphError if Spark can't read the schema."""
        schema = columns(format_.schema, where)
        if format_.name == "avro":
            return cls(schema, schema, format_.schema, None)
        writers = tuple((int(id_), text) for id_, text in sorted(format_.writers.items()))
        return cls(schema, schema, format_.schema, writers)

    def narrowed(self, declared: StructType, where: str) -> AvroReader:
        """This reader, limited to the declared columns. For the errors, see :func:`way.check_declared`."""
        way.check_declared(declared, self.schema, where, "its Avro schema")
        return replace(self, declared=declared, schema=declared)

    def opened(self, value: Column) -> Column:
        text = _with_mark(self.text, self._decoded_columns.names)
        if self.writers is None:
            return F.when(strict_avro.reason(value, self.text).isNull(), _decoded(value, self.text, text))
        head, body = F.substring(value, 1, _HEAD), F.substring(value, _HEAD + 1, _ALL)
        ways = [
            (
                (head == F.lit(_head(id_))) & strict_avro.reason(value, checked, _HEAD).isNull(),
                _decoded(body, writer, text),
            )
            for id_, writer in self.writers
            for difference, checked in [self._compared(writer)]
            if difference is None
        ]
        if not ways:
            return F.lit(None).cast(_struct(self._decoded_columns))
        (condition, first), *others = ways
        return reduce(lambda chain, each: chain.when(*each), others, F.when(condition, first))

    @property
    def _decoded_columns(self) -> StructType:
        """The columns to decode. If values may have another schema than the reader's, these are all declared columns,
        because only Avro itself can find out whether a value can be converted.
        """
        alike = self.writers is None or all(json.loads(text) == json.loads(self.text) for _, text in self.writers)
        return self.schema if alike else self.declared

    def fault(self, opened: str) -> Column:
        return F.col(f"{opened}.{_READ}").isNull()

    def reason(self, value: Column) -> Column:
        return F.when(value.isNull(), "the value is null").otherwise(self._reason(value))

    def _reason(self, value: Column) -> Column:
        if self.writers is None:
            why = strict_avro.reason(value, self.text)
            return F.concat_ws(": ", F.lit("the value isn't Avro of its schema"), why)
        id_ = F.conv(F.hex(F.substring(value, 2, _HEAD - 1)), 16, 10)
        known = [id_ == F.lit(str(number)) for number, _ in self.writers]
        whys = [
            F.when(is_it, self._why(value, number, text))
            for is_it, (number, text) in zip(known, self.writers, strict=True)
        ]
        wrong = F.coalesce(*whys, F.lit(None))
        names = ", ".join(str(number) for number, _ in self.writers) or "none"
        new = F.concat(F.lit("schema "), id_, F.lit(f" wasn't one of the subject's when the job first ran: {names}"))
        framed = (F.length(value) >= _HEAD) & (F.substring(value, 1, 1) == F.lit(b"\0"))
        return (
            F.when(~framed, "the value doesn't begin with the id of a registered schema")
            .when(reduce(or_, known, F.lit(False)), wrong)
            .otherwise(new)
        )

    def _why(self, value: Column, number: int, writer: str) -> Column:
        difference, checked = self._compared(writer)
        if difference is not None:
            return F.lit(f"values of schema {number} aren't read: {difference}")
        why = F.coalesce(strict_avro.reason(value, checked, _HEAD), F.lit("that can't be read by the job's"))
        return F.concat(F.lit(f"the value isn't Avro of schema {number}: "), why)

    def _compared(self, writer: str) -> tuple[str | None, str]:
        return _compared(writer, self.text, frozenset(self.declared.names))

    def pruned(self, only: Set[str]) -> AvroReader:
        return replace(self, schema=codec.pruned(self.schema, only))


@dataclass(frozen=True)
class AvroWriter:
    """Writes Avro values with the schema of the stream's format."""

    format: Format

    def encode(self, frame: DataFrame, names: Sequence[str], where: str) -> Column:
        held = columns(self.format.schema, where)
        way.check_written(frame, names, held, where, "its Avro schema")
        value = to_avro(F.struct(*[frame[codec.quoted(name)] for name in names]), self.format.schema)
        return value if self.format.name == "avro" else F.concat(F.lit(_head(max(0, self.format.id))), value)


def columns(schema: str, where: str) -> StructType:
    """The columns of an Avro record. Raises GraphError if Spark can't read the schema."""
    try:
        found = SparkSession.active().range(0).select(from_avro(F.lit(b""), schema).alias("v")).schema["v"].dataType
    except Exception as error:
        raise GraphError(
            f"{where}: Spark can't take its Avro schema: {str(error).strip().splitlines()[0]}",
            "fix the schema; anabranch doctor says whether Spark's module for Avro is there",
        ) from None
    assert isinstance(found, StructType)
    return found


@cache
def _compared(writer: str, reader: str, names: frozenset[str]) -> tuple[str | None, str]:
    """Two items. The first is the reason why values with the writer's schema can't be read, or None if they can be
    read. The second is the schema with which values are checked.

    Args:
        names: the declared columns.
    """
    mine, its = json.loads(writer), avro_schema.cut(json.loads(reader), names)
    difference = avro_schema.difference(mine, its)
    return difference, writer if difference is not None else json.dumps(avro_schema.annotated(mine, its))


def _decoded(value: Column, writer: str, reader: str) -> Column:
    return from_avro(value, writer, {"mode": "PERMISSIVE", "avroSchema": reader})


def _with_mark(schema: str, names: Sequence[str]) -> str:
    """The schema as JSON, with only the named fields and the additional field :data:`_READ`."""
    record = avro_schema.cut(json.loads(schema), set(names))
    mark = {"name": _READ, "type": "boolean", "default": True}
    return json.dumps({**record, "fields": [*record["fields"], mark]})


def _struct(schema: StructType) -> str:
    return StructType([*schema.fields]).add(_READ, "boolean").simpleString()


def _head(number: int) -> bytes:
    return b"\0" + number.to_bytes(4, "big")
