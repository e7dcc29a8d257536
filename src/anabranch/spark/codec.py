"""Keys and values between bytes and columns (DESIGN.md section 3, "Key bytes")."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
)

from anabranch.errors import GraphError
from anabranch.spark import hidden

# Spark writes milliseconds by default; reading takes any number of digits.
_WRITE = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
_READ = {"mode": "FAILFAST"}


def parse_schema(declared: str) -> StructType:
    """``"carrier string, delay int"`` as a schema. Raises Spark's ParseException."""
    schema = StructType.fromDDL(declared)
    assert isinstance(schema, StructType)
    return schema


def pruned(schema: StructType, only: set[str] | None) -> StructType:
    """The fields that are needed; one at least, for a value must still be JSON."""
    if only is None:
        return schema
    return StructType([field for field in schema if field.name in only] or schema.fields[:1])


def encode_key(columns: Sequence[tuple[Column, DataType]]) -> Column:
    """Key bytes of one or several columns. A single null is a null key; among several it is null in the array."""
    if len(columns) == 1:
        column, kind = columns[0]
        if isinstance(kind, BinaryType):
            return column
        if isinstance(kind, StringType):
            return column.cast("binary")
        if isinstance(kind, LongType):
            return F.unhex(F.lpad(F.hex(column), 16, "0"))
        if isinstance(kind, IntegerType):
            return F.unhex(F.right(F.lpad(F.hex(column.cast("bigint")), 16, "0"), F.lit(8)))
    elements = [_element(column) for column, _ in columns]
    array = F.concat(F.lit("["), F.concat_ws(",", *elements), F.lit("]")).cast("binary")
    return array if len(columns) > 1 else F.when(columns[0][0].isNotNull(), array)


def _element(column: Column) -> Column:
    listed = F.to_json(F.array(column), {**_WRITE, "ignoreNullFields": "false"})
    return listed.substr(F.lit(2), F.length(listed) - F.lit(2))


def decode_key(key: Column, schema: StructType) -> list[Column]:
    """The declared key columns from key bytes: the inverse of :func:`encode_key`."""
    if len(schema.fields) == 1:
        field = schema.fields[0]
        return [_decode_single(key, field.dataType).alias(field.name)]
    texts = F.from_json(key.cast("string"), "array<string>", _READ)
    return [_of_text(texts[number], f.dataType).alias(f.name) for number, f in enumerate(schema.fields)]


def _of_text(text: Column, kind: DataType) -> Column:
    if isinstance(kind, BinaryType):
        return F.unbase64(text)
    if isinstance(kind, ArrayType | MapType | StructType):
        return F.from_json(text, kind, _READ)
    return text.cast(kind)


def _decode_single(key: Column, kind: DataType) -> Column:
    if isinstance(kind, BinaryType):
        return key
    if isinstance(kind, StringType):
        return key.cast("string")
    if isinstance(kind, LongType | IntegerType):
        width = 16 if isinstance(kind, LongType) else 8
        signed = F.conv(F.hex(key), 16, -10).cast("bigint")
        if isinstance(kind, LongType):
            number = signed
        else:
            number = F.when(signed >= 2**31, signed - 2**32).otherwise(signed).cast("int")
        wrong = F.raise_error(
            F.concat(
                F.lit(f"anabranch.errors.LogError: a key of {width // 2} bytes is declared, found 0x"),
                F.hex(key),
            )
        )
        return F.when(key.isNull() | (F.length(key) == width // 2), number).otherwise(wrong.cast(kind))
    return F.from_json(key.cast("string"), ArrayType(kind), _READ)[0]


def parse_json(value: Column, schema: StructType) -> Column:
    """The columns of a JSON value. A generator, so that the optimiser doesn't parse once for each column."""
    return F.inline(F.array(F.from_json(value.cast("string"), schema, _READ)))


def decode_value(frame: DataFrame, format_: str, schema: StructType | None, where: str) -> list[Column]:
    """Columns of the value. A value that doesn't fit the schema fails the lane.

    Raises:
        GraphError: a JSON stream is read without a schema, or another one with it.
    """
    if format_ == "json":
        if schema is None:
            raise GraphError(
                f"{where} reads JSON without a schema",
                'declare it: read(..., schema="carrier string, delay int"), or set the stream\'s format to "string"',
            )
        return [parse_json(frame["value"], schema)]
    if schema is not None:
        raise GraphError(
            f'{where} declares a schema, but the stream\'s format is "{format_}"',
            'leave schema= out, or set the stream\'s format to "json"',
        )
    return [frame["value"].cast("string").alias("value") if format_ == "string" else frame["value"]]


def encode_value(frame: DataFrame, format_: str, where: str) -> Column:
    """Value bytes of a row, hidden column apart.

    Raises:
        GraphError: string and raw need one single column, ``value``.
    """
    names = [name for name in frame.columns if name != hidden.NAME]
    if format_ == "json":
        return F.to_json(F.struct(*[frame[_quoted(name)] for name in names]), _WRITE).cast("binary")
    if names != ["value"]:
        raise GraphError(
            f'{where} writes the columns {", ".join(names)} to a stream of format "{format_}"',
            'select one column named value, or set the stream\'s format to "json"',
        )
    return frame["value"].cast("binary")


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
