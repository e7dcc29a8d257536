"""Converts keys and values between bytes and columns (docs/reference/operators.md, "Key bytes")."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from anabranch.spark.internals import strict_json, utf8

# By default, Spark writes times with milliseconds only, although it reads any number of digits.
_WRITE = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
# By default, Spark reserves the name _corrupt_record: it fills a column of this name itself, instead of parsing it.
_READ = {"mode": "FAILFAST", "columnNameOfCorruptRecord": "_anabranch_corrupt_record"}


def parse_schema(declared: str) -> StructType:
    """The schema for a declaration such as ``"carrier string, delay int"``. Raises ParseException if Spark can't parse
    the declaration.
    """
    schema = StructType.fromDDL(declared)
    assert isinstance(schema, StructType)
    return schema


def parse_type(declared: str) -> DataType:
    """The type for a declaration such as ``"long"``, or ``"n long, s string"`` for a struct. Raises ParseException if
    Spark can't parse the declaration.
    """
    return DataType.fromDDL(declared)


def pruned(schema: StructType, only: Set[str] | None) -> StructType:
    """The schema with only the fields whose names are in ``only``; all fields if ``only`` is None. If no field is in
    ``only``, the first field is kept, because a value must be parsed to find out whether it is readable.
    """
    if only is None:
        return schema
    return StructType([field for field in schema if field.name in only] or schema.fields[:1])


def encode_key(columns: Sequence[tuple[Column, DataType]]) -> Column:
    """The key bytes of one or several columns. If the only column is a string, a binary, an int or a bigint, the key is
    the column's bytes. Otherwise, the key is a JSON array. If the only column is null, the key is null. If there are
    several columns, a null column becomes a ``null`` in the array. Zeros have no sign; see :func:`unsigned_zeros`.
    """
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
    elements = [_element(unsigned_zeros(column, kind)) for column, kind in columns]
    array = F.concat(F.lit("["), F.concat_ws(",", *elements), F.lit("]")).cast("binary")
    return array if len(columns) > 1 else F.when(columns[0][0].isNotNull(), array)


def unsigned_zeros(column: Column, kind: DataType) -> Column:
    """The column with 0.0 instead of -0.0, at any depth, except in the keys of maps. To Spark, both are the same key,
    but their bytes differ.
    """
    return _with_floats(column, kind, _unsigned)


def _unsigned(number: Column, kind: DataType) -> Column:
    return F.when(number == F.lit(0.0).cast(kind), F.lit(0.0).cast(kind)).otherwise(number)


def _element(column: Column) -> Column:
    listed = F.to_json(F.array(column), {**_WRITE, "ignoreNullFields": "false"})
    return listed.substr(F.lit(2), F.length(listed) - F.lit(2))


def decode_key(key: Column, schema: StructType) -> list[Column]:
    """The declared key columns, decoded. If :func:`key_fault` is true for a key, the key's columns are null. (The only
    exception is a single string column, which then contains the invalid UTF-8.)
    """
    if _is_json(schema):
        parts = _parts(key, schema)
        return [parts[field.name].alias(field.name) for field in schema.fields]
    field = schema.fields[0]
    return [_decode_plain(key, field.dataType).alias(field.name)]


def key_fault(key: Column, schema: StructType) -> Column | None:
    """A condition that is true if key bytes don't fit the declaration; None if the declaration accepts all bytes."""
    if _is_json(schema):
        return key.isNotNull() & _parts(key, schema).isNull()
    kind = schema.fields[0].dataType
    if isinstance(kind, BinaryType):
        return None
    if isinstance(kind, StringType):
        return ~utf8.is_valid(key)
    return key.isNotNull() & (F.length(key) != (8 if isinstance(kind, LongType) else 4))


def key_reason(key: Column, schema: StructType) -> Column:
    """Why key bytes don't fit the declaration, in words."""
    declared = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in schema.fields)
    hexadecimal = F.concat(
        F.lower(F.hex(F.substring(key, 1, _SHOWN))), F.when(F.length(key) > _SHOWN, "…").otherwise("")
    )
    said = F.concat(F.lit("the key 0x"), hexadecimal, F.lit(f" isn't {declared!r}"))
    if not _is_json(schema):
        return said
    why = strict_json.reason(key, _as_parts(schema), {}, array=True)
    return F.concat(said, F.lit(": "), F.regexp_replace(why, "^the value", "it"))


_SHOWN = 40
"""How many bytes of an unreadable key the error text shows."""


def _is_json(schema: StructType) -> bool:
    return len(schema.fields) > 1 or not isinstance(
        schema.fields[0].dataType, BinaryType | StringType | LongType | IntegerType
    )


def _parts(key: Column, schema: StructType) -> Column:
    parts = _as_parts(schema)
    return strict_json.row(key, parts, parts.names, {}, nullable(parts), array=True)


def _as_parts(schema: StructType) -> StructType:
    """The schema of the elements of a key's JSON array. If the key has only one column, the element can't be null,
    because the whole key would then be null.
    """
    return StructType([StructField(f.name, f.dataType, nullable=len(schema.fields) > 1) for f in schema.fields])


def _decode_plain(key: Column, kind: DataType) -> Column:
    if isinstance(kind, BinaryType):
        return key
    if isinstance(kind, StringType):
        return key.cast("string")
    width = 8 if isinstance(kind, LongType) else 4
    signed = F.conv(F.hex(key), 16, -10).cast("bigint")
    if isinstance(kind, LongType):
        number = signed
    else:
        number = F.when(signed >= 2**31, signed - 2**32).otherwise(signed).cast("int")
    return F.when(F.length(key) == width, number)


def nullable(schema: StructType) -> StructType:
    """The same columns, all nullable."""
    return StructType([StructField(f.name, _nullable(f.dataType)) for f in schema.fields])


def _nullable(kind: DataType) -> DataType:
    if isinstance(kind, StructType):
        return nullable(kind)
    if isinstance(kind, ArrayType):
        return ArrayType(_nullable(kind.elementType))
    if isinstance(kind, MapType):
        return MapType(kind.keyType, _nullable(kind.valueType))
    return kind


def parse_json(value: Column, schema: StructType) -> Column:
    """The columns of a JSON value that anabranch wrote. Because the expression is a generator (``inline``), Spark
    parses each value only once.
    """
    return F.inline(F.array(F.from_json(value.cast("string"), schema, _READ)))


def encode_json(frame: DataFrame, names: Sequence[str]) -> Column:
    """The named columns as the bytes of a JSON object for :func:`parse_json`. NaN and infinity become text."""
    return F.to_json(F.struct(*[frame[quoted(name)] for name in names]), _WRITE).cast("binary")


def encode_finite_json(frame: DataFrame, names: Sequence[str]) -> Column:
    """The named columns as the bytes of a JSON object. NaN and infinity become null, because JSON lacks them."""
    kinds = {field.name: field.dataType for field in frame.schema.fields}
    columns = [_with_floats(frame[quoted(name)], kinds[name], _finite).alias(name) for name in names]
    return F.to_json(F.struct(*columns), _WRITE).cast("binary")


def _finite(number: Column, kind: DataType) -> Column:
    return F.when(F.abs(number) < F.lit(float("inf")).cast(kind), number)


def _with_floats(column: Column, kind: DataType, change: Callable[[Column, DataType], Column]) -> Column:
    """The column with each of its floating-point numbers replaced by what ``change`` returns for the number and its
    type. Numbers in arrays, structs and the values of maps are replaced, too.
    """
    if not _has_floats(kind):
        return column
    if isinstance(kind, ArrayType):
        return F.transform(column, lambda item: _with_floats(item, kind.elementType, change))
    if isinstance(kind, MapType):
        return F.transform_values(column, lambda _, item: _with_floats(item, kind.valueType, change))
    if isinstance(kind, StructType):
        fields = [_with_floats(column[field.name], field.dataType, change).alias(field.name) for field in kind.fields]
        return F.when(column.isNotNull(), F.struct(*fields))
    return change(column, kind)


def _has_floats(kind: DataType) -> bool:
    if isinstance(kind, ArrayType):
        return _has_floats(kind.elementType)
    if isinstance(kind, MapType):
        return _has_floats(kind.valueType)
    if isinstance(kind, StructType):
        return any(_has_floats(field.dataType) for field in kind.fields)
    return isinstance(kind, FloatType | DoubleType)


def with_true(value: Column, name: str) -> Column:
    """A JSON object's bytes with an additional field ``name`` whose value is true."""
    text = value.cast("string")
    begin = F.substring(text, 1, F.length(text) - 1)
    comma = F.when(text == "{}", F.lit("")).otherwise(F.lit(","))
    return F.concat(begin, comma, F.lit(f'"{name}":true}}')).cast("binary")


def quoted(name: str) -> str:
    """A column's name for use in SQL."""
    return f"`{name.replace('`', '``')}`"
