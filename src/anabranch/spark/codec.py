"""Keys and values between bytes and columns (DESIGN.md section 3, "Key bytes")."""

from __future__ import annotations

from collections.abc import Sequence, Set

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
    StructField,
    StructType,
)

# Spark writes milliseconds by default; reading takes any number of digits.
_WRITE = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
_READ = {"mode": "FAILFAST"}
CORRUPT = "_anabranch_corrupt"


def parse_schema(declared: str) -> StructType:
    """``"carrier string, delay int"`` as a schema. Raises Spark's ParseException."""
    schema = StructType.fromDDL(declared)
    assert isinstance(schema, StructType)
    return schema


def parse_type(declared: str) -> DataType:
    """``"long"`` as that type, ``"n long, s string"`` as a struct. Raises Spark's ParseException."""
    return DataType.fromDDL(declared)


def pruned(schema: StructType, only: Set[str] | None) -> StructType:
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
    """The declared key columns from key bytes: the inverse of :func:`encode_key`. Null where :func:`key_fault` is."""
    if len(schema.fields) == 1:
        field = schema.fields[0]
        return [_decode_single(key, field.dataType).alias(field.name)]
    texts = _texts(key)
    return [_of_text(F.get(texts, F.lit(n)), f.dataType).alias(f.name) for n, f in enumerate(schema.fields)]


def key_fault(key: Column, schema: StructType) -> Column | None:
    """Whether key bytes aren't what is declared; None when all bytes are."""
    if len(schema.fields) > 1:
        texts = _texts(key)
        parts = [(F.get(texts, F.lit(n)), f.dataType) for n, f in enumerate(schema.fields)]
        fields = [text.isNotNull() & _of_text(text, kind).isNull() for text, kind in parts]
        wrong = F.coalesce(F.size(texts), F.lit(-1)) != len(schema.fields)
        return key.isNotNull() & (wrong | F.array_contains(F.array(*fields), True))
    kind = schema.fields[0].dataType
    if isinstance(kind, BinaryType | StringType):
        return None
    if isinstance(kind, LongType | IntegerType):
        return key.isNotNull() & (F.length(key) != (8 if isinstance(kind, LongType) else 4))
    return key.isNotNull() & _decode_single(key, kind).isNull()


def _texts(key: Column) -> Column:
    return F.from_json(key.cast("string"), "array<string>")


def _of_text(text: Column, kind: DataType) -> Column:
    if isinstance(kind, BinaryType):
        return F.try_to_binary(text, F.lit("base64"))
    if isinstance(kind, ArrayType | MapType | StructType):
        return F.from_json(text, kind)
    return text.try_cast(kind)


def _decode_single(key: Column, kind: DataType) -> Column:
    if isinstance(kind, BinaryType):
        return key
    if isinstance(kind, StringType):
        return key.cast("string")
    if isinstance(kind, LongType | IntegerType):
        width = 8 if isinstance(kind, LongType) else 4
        signed = F.conv(F.hex(key), 16, -10).cast("bigint")
        if isinstance(kind, LongType):
            number = signed
        else:
            number = F.when(signed >= 2**31, signed - 2**32).otherwise(signed).cast("int")
        return F.when(F.length(key) == width, number)
    return F.from_json(key.cast("string"), ArrayType(kind))[0]


def parse_json(value: Column, schema: StructType) -> Column:
    """The columns of a JSON value that we wrote. A generator, so that the optimiser doesn't parse once a column."""
    return F.inline(F.array(F.from_json(value.cast("string"), schema, _READ)))


def try_json(value: Column, schema: StructType) -> Column:
    """A JSON value as a struct with a last field ``CORRUPT``; see :func:`json_fault`."""
    tolerant = StructType([*schema.fields, StructField(CORRUPT, StringType())])
    return F.from_json(value.cast("string"), tolerant, {"columnNameOfCorruptRecord": CORRUPT})


def json_fault(struct: str) -> Column:
    """Whether a column of :func:`try_json` was not JSON of the schema."""
    return F.col(struct).isNull() | F.col(f"{struct}.{CORRUPT}").isNotNull()


def encode_json(frame: DataFrame, names: Sequence[str]) -> Column:
    """Value bytes of these columns: a JSON object."""
    return F.to_json(F.struct(*[frame[quoted(name)] for name in names]), _WRITE).cast("binary")


def with_true(value: Column, name: str) -> Column:
    """Value bytes that are a JSON object, with one more field."""
    text = value.cast("string")
    begin = F.substring(text, 1, F.length(text) - 1)
    comma = F.when(text == "{}", F.lit("")).otherwise(F.lit(","))
    return F.concat(begin, comma, F.lit(f'"{name}":true}}')).cast("binary")


def quoted(name: str) -> str:
    """A column's name as SQL takes it."""
    return f"`{name.replace('`', '``')}`"
