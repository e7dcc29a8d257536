"""Reads the values of CSV and JSON files for a ``join_table``. Spark's own readers guess: they round decimals, read
10:15 as a time today, and drop the zone of a time or the time of a date. Here, such a value raises an error.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from anabranch.model.graph import Node
from anabranch.spark.operators.labels import label
from anabranch.spark.query import sql_errors
from anabranch.spark.values import codec
from anabranch.spark.values.plain import JsonReader

__all__ = ["csv_column", "json_rows"]

_NUMBER = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"
_FLOATING = f"{_NUMBER}|(?i:[+-]?inf(inity)?|nan)"
_DATE = "[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
_FORMS: dict[type[DataType], str] = {
    DecimalType: _NUMBER,
    FloatType: _FLOATING,
    DoubleType: _FLOATING,
    DateType: _DATE,
    TimestampType: f"{_DATE}([T ].+)?",
    TimestampNTZType: f"{_DATE}([T ][0-9:.]+)?",
}
"""For types to which Spark casts more texts than it should, the texts that may be cast."""
_FRACTION, _EXPONENT = r"\.([0-9]*?)0*\s*$", "[eE]"
_BYTE_ORDER_MARK = "\ufeff"
_ROW = "_anabranch_row"
_READ_AS = r"(; )?(to read it as null, |if it counts from 1970, |for days since 1970 )?declare read_as=[^)]*"
"""The part of an explanation that suggests ``read_as``, which ``join_table`` doesn't have."""


def csv_column(node: Node, value: Column, field: StructField) -> Column:
    """The column that ``field`` declares. ``value`` contains its values as text. If a text isn't exactly a value of the
    declared type, evaluating the column raises an OperatorError.
    """
    kind = field.dataType
    cast = F.when(_is_exact(value, kind), value.try_cast(kind))
    column = f"{label(node)}: the column {field.name!r} of {node.args['path']}"
    failing = sql_errors.failing(
        f"{column} is {kind.simpleString()}, and has the value '",
        value.cast("string"),
        f'\'\n  correct the value, or declare the column as string: schema="{field.name} string"',
    )
    return F.when(value.isNotNull() & cast.isNull(), failing.cast(kind)).otherwise(cast).alias(field.name)


def _is_exact(value: Column, kind: DataType) -> Column:
    """Whether a text means exactly the value to which Spark casts it. A decimal isn't rounded, a number doesn't become
    infinite, a date or time has all its parts, and no zone is dropped.
    """
    form = _FORMS.get(type(kind))
    if form is None:
        return F.lit(True)
    text = value.cast("string")
    exact = text.rlike(rf"^\s*({form})\s*$")
    if isinstance(kind, DecimalType):
        digits = F.length(F.regexp_extract(text, _FRACTION, 1))
        exact &= (digits <= kind.scale) & ~text.rlike(_EXPONENT) | _is_kept(text, kind)
    if isinstance(kind, FloatType | DoubleType):
        exact &= F.abs(value.try_cast(kind)).isin(float("inf")) == text.rlike("(?i:inf)")
    return exact


def _is_kept(text: Column, kind: DecimalType) -> Column:
    """Whether a number with an exponent, such as ``0E-18``, is the number that the type holds."""
    widest = DecimalType(38, min(38, 38 - kind.precision + kind.scale))
    return text.rlike(_EXPONENT) & F.coalesce(text.try_cast(kind) == text.try_cast(widest), F.lit(False))


def json_rows(node: Node, spark: SparkSession) -> DataFrame:
    """The columns that ``schema`` declares, from JSON files with an object in each line. Values are read by the rules
    for records; see docs/reference/values.md. Reading a line that breaks these rules raises an OperatorError. Columns
    by which a folder is partitioned have their declared types.

    Raises:
        GraphError: a declared type can't be read from JSON.
    """
    path, fields = node.args["path"], codec.parse_schema(node.args["schema"]).fields
    lines, types = spark.read.text(path), {field.name.lower(): field.dataType for field in fields}
    folders = {name.lower(): name for name in lines.columns[1:] if name.lower() in types}
    if folders:
        of_folders = [StructField(name, types[lower]) for lower, name in folders.items()]
        lines = spark.read.schema(StructType([StructField("value", StringType()), *of_folders])).text(path)
    reader = JsonReader.of(StructType([each for each in fields if each.name.lower() not in folders]), {}, label(node))
    text = lines["value"]
    value = F.when(F.startswith(text, F.lit(_BYTE_ORDER_MARK)), F.expr("substring(value, 2)")).otherwise(text)
    opened = reader.opened(value.cast("binary"))
    reason = F.regexp_replace(reader.reason(value.cast("binary")), _READ_AS, "")
    failing = sql_errors.failing(
        f"{label(node)}: a line of its table can't be read: ",
        F.concat(reason, F.lit("; it is in "), F.col("_metadata.file_path")),
        "\n  correct the line, or declare the columns in schema= as the file has them, and cast them in SQL",
    )
    row = F.when(opened.isNull(), failing.cast(reader.schema)).otherwise(opened)
    rows = lines.where(text.rlike(r"\S")).withColumn(_ROW, row)
    return rows.select(
        *(
            rows[codec.quoted(folders[each.name.lower()])].alias(each.name)
            if each.name.lower() in folders
            else rows[_ROW][each.name].alias(each.name)
            for each in fields
        )
    )
