"""Reads and writes values in the formats JSON, text and bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    MapType,
    NullType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from anabranch.errors import GraphError
from anabranch.spark.internals import strict_json, utf8
from anabranch.spark.values import codec

__all__ = ["READ_AS", "JsonReader", "JsonWriter", "OpaqueReader", "OpaqueWriter", "TableWriter"]

_TIMES: tuple[type[DataType], ...] = (TimestampType, TimestampNTZType)
READ_AS: Mapping[str, tuple[type[DataType], ...]] = {
    "epoch-seconds": _TIMES,
    "epoch-millis": _TIMES,
    "epoch-micros": _TIMES,
    "epoch-days": (DateType,),
    "nan-is-null": (FloatType, DoubleType),
    "json": (StringType,),
}
"""The values of ``read_as=`` and, for each value, the column types for which the value is allowed. ``read_as=`` says
how to read a JSON column that isn't read as its type implies.
"""

_SIMPLE: tuple[type[DataType], ...] = (
    BooleanType,
    IntegralType,
    FloatType,
    DoubleType,
    DecimalType,
    BinaryType,
    DateType,
    *_TIMES,
)

_KEYS: tuple[type[DataType], ...] = (
    StringType,
    BooleanType,
    IntegralType,
    FloatType,
    DoubleType,
    DecimalType,
    NullType,
)
"""The types that the keys of maps in JSON can have. Spark writes keys of other types as their internal form: a
timestamp, for example, as a number of microseconds, and bytes as a string like ``[B@1f2a``.
"""


@dataclass(frozen=True)
class JsonReader:
    """Reads JSON objects strictly by a declared schema; see docs/reference/values.md.

    Attributes:
        declared: the declared columns. All of them are checked.
        schema: the columns that the rows have: either all declared columns, or only the columns that are needed.
        read_as: for each column that isn't read as its type implies, one of :data:`READ_AS`.
    """

    declared: StructType
    schema: StructType
    read_as: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, declared: StructType, read_as: Mapping[str, str], where: str) -> JsonReader:
        """The reader of a stream. Raises GraphError if a column's type can't be read from JSON, or if ``read_as``
        isn't valid or doesn't fit the columns.
        """
        for each in declared.fields:
            _check_type(each.name, each.dataType, where)
        kinds = {each.name: each.dataType for each in declared.fields}
        for name, way in read_as.items():
            if name not in kinds:
                raise GraphError(
                    f"{where} has read_as for the column {name!r}, which schema= doesn't declare",
                    f"it declares: {', '.join(kinds)}",
                )
            if way not in READ_AS:
                raise GraphError(f"{where} has read_as={{{name!r}: {way!r}}}", f"write one of: {', '.join(READ_AS)}")
            if not isinstance(kinds[name], READ_AS[way]):
                wanted = " or ".join(kind.typeName() for kind in READ_AS[way])
                raise GraphError(
                    f"{where} has read_as={{{name!r}: {way!r}}}, and {name!r} is {kinds[name].simpleString()}",
                    f'declare it so: "{name} {wanted}"',
                )
        return cls(declared, codec.nullable(declared), read_as)

    def opened(self, value: Column) -> Column:
        return strict_json.row(value, self.declared, self.schema.names, self.read_as, self.schema)

    def fault(self, opened: str) -> Column:
        return F.col(opened).isNull()

    def reason(self, value: Column) -> Column:
        return strict_json.reason(value, self.declared, self.read_as)

    def pruned(self, only: Set[str]) -> JsonReader:
        return replace(self, schema=codec.pruned(self.schema, only))


@dataclass(frozen=True)
class OpaqueReader:
    """Reads each value as a single column, ``value``: as text, or as unchanged bytes."""

    text: bool
    schema: None = None

    def opened(self, value: Column) -> Column:
        return value.cast("string") if self.text else value

    def fault(self, opened: str) -> Column | None:
        return ~utf8.is_valid(F.col(opened).cast("binary")) if self.text else None

    def reason(self, value: Column) -> Column:
        return F.lit("the value isn't UTF-8, and the stream's format is \"string\"")

    def pruned(self, only: Set[str]) -> OpaqueReader:
        return self


@dataclass(frozen=True)
class JsonWriter:
    """Writes a row's columns as a JSON object, without the columns that are null.

    ``ours`` says whether the stream is intermediate. In intermediate streams, NaN and infinity are preserved.
    """

    ours: bool = False

    def encode(self, frame: DataFrame, names: Sequence[str], where: str) -> Column:
        for name in names:
            _check_keys(name, frame.schema[name].dataType, where)
        return codec.encode_json(frame, names) if self.ours else codec.encode_finite_json(frame, names)


@dataclass(frozen=True)
class OpaqueWriter:
    """Writes rows that have only the column ``value``."""

    name: str

    def encode(self, frame: DataFrame, names: Sequence[str], where: str) -> Column:
        if list(names) != ["value"]:
            raise GraphError(
                f'{where} writes the columns {", ".join(names)} to a stream of format "{self.name}"',
                'select one column named value, or set the stream\'s format to "json"',
            )
        return frame["value"].cast("binary")


@dataclass(frozen=True)
class TableWriter:
    """Takes the place of a writer where an output may be a table. A table's rows aren't encoded."""

    def encode(self, frame: DataFrame, names: Sequence[str], where: str) -> Column:
        return F.lit(None).cast("binary")


def _check_keys(name: str, kind: DataType, where: str) -> None:
    """Raises GraphError if a column contains, at any depth, a map whose keys can't be written as JSON."""
    if isinstance(kind, ArrayType):
        return _check_keys(f"{name}[]", kind.elementType, where)
    if isinstance(kind, StructType):
        for each in kind.fields:
            _check_keys(f"{name}.{each.name}", each.dataType, where)
        return None
    if not isinstance(kind, MapType):
        return None
    if not isinstance(kind.keyType, _KEYS):
        raise GraphError(
            f"{where} writes {name!r} as {kind.simpleString()}, whose keys can't be written as JSON",
            "cast the keys to string: transform_keys(column, (k, v) -> cast(k as string))",
        )
    return _check_keys(f"{name}{{}}", kind.valueType, where)


def _check_type(name: str, kind: DataType, where: str) -> None:
    if isinstance(kind, ArrayType):
        return _check_type(f"{name}[]", kind.elementType, where)
    if isinstance(kind, StructType):
        for each in kind.fields:
            _check_type(f"{name}.{each.name}", each.dataType, where)
        return None
    if isinstance(kind, MapType) and type(kind.keyType) is StringType:
        return _check_type(f"{name}{{}}", kind.valueType, where)
    if not isinstance(kind, _SIMPLE) and type(kind) is not StringType:
        cure = "declare its keys as string" if isinstance(kind, MapType) else "declare it as string, and cast it in SQL"
        raise GraphError(f"{where} declares {name!r} as {kind.simpleString()}, which isn't read from JSON", cure)
    return None
