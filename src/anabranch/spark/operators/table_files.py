"""Reads the files of a ``join_table``. A value that doesn't fit its declared column raises an error, and
never becomes null.
"""

from __future__ import annotations

import csv
import re
from urllib.parse import unquote

import pyarrow as pa
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, DecimalType, MapType, StringType, StructField, StructType

from anabranch.errors import GraphError, OperatorError
from anabranch.model.graph import Node
from anabranch.spark.internals import java
from anabranch.spark.operators import table_values
from anabranch.spark.operators.labels import label
from anabranch.spark.values import codec

__all__ = ["check_keys", "read"]

_WIDER = {
    "tinyint": ("smallint", "int", "bigint"),
    "smallint": ("int", "bigint"),
    "int": ("bigint", "double"),
    "float": ("double",),
    "binary": ("string",),
    "timestamp_ntz": ("timestamp",),
}
"""For each type that a column of a Parquet, ORC or Delta table can have, the other types that the job may declare for
the column. A binary column can be declared as a string, because some programs write strings to Parquet files without
marking them as strings. Times without a zone are read as times in UTC.
"""
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
_NESTED = (ArrayType, MapType, StructType)


def read(node: Node, spark: SparkSession) -> DataFrame:
    """The table that a ``join_table`` reads from a file, or from a folder of files.

    Raises:
        GraphError: a declared column is missing from the files, has another type there, or can't be read from JSON; or
            CSV files have different headers.
        OperatorError: the columns of JSON files can't be inferred.
    """
    path, format_ = node.args["path"], node.args["format"]
    declared = node.args.get("schema")
    if format_ in ("parquet", "orc") and declared:
        return _columnar(node, spark)
    if format_ == "json" and declared:
        return table_values.json_rows(node, spark)
    reader = spark.read.format(format_).option("mode", "FAILFAST")
    if format_ == "json":
        return _inferred(node, reader.options(allowSingleQuotes=False, allowNonNumericNumbers=False))
    if format_ == "csv":
        # With column pruning, Spark wouldn't notice that a line has too many or too few values.
        reader = reader.option("header", "true").option("columnPruning", "false")
    try:
        table = reader.load(path)
    except AnalysisException as error:
        if not declared or error.getCondition() != "UNABLE_TO_INFER_SCHEMA":
            raise
        return reader.schema(declared).load(path)  # a folder without files
    if format_ == "csv":
        _check_headers(node, table)
        table = reader.option("enforceSchema", _has_new_names(table)).load(path)
    return _declared(node, table) if declared else table


def _columnar(node: Node, spark: SparkSession) -> DataFrame:
    """The declared columns of Parquet or ORC files. By default, Spark would return nulls for a column that isn't in the
    files, and would read some types as narrower ones. Columns by which a folder is partitioned get their declared
    types.
    """
    path, fields = node.args["path"], codec.parse_schema(node.args["schema"]).fields
    reader = spark.read.format(node.args["format"])
    try:
        table = reader.load(path)
    except AnalysisException as error:
        if error.getCondition() != "UNABLE_TO_INFER_SCHEMA":
            raise
        return reader.schema(node.args["schema"]).load(path)  # a folder without files
    held = _of_files(node, table)
    columns = list(dict.fromkeys([*(each.name for schema in held for each in schema), *table.columns]))
    _check_names(node, columns, fields)
    names = {name.lower(): name for name in columns}
    read = []
    for field in fields:
        name = names[field.name.lower()]
        kinds = [each.dataType for schema in held for each in schema if each.name.lower() == name.lower()]
        for kind in kinds:
            _check_fits(node, field, kind)
        alone = len(held) == 1 and kinds and not isinstance(field.dataType, _NESTED)
        read.append(StructField(name, kinds[0] if alone else field.dataType))
    table = spark.read.format(node.args["format"]).schema(StructType(read)).load(path)
    both = zip(read, fields, strict=True)
    return table.select(*[table[codec.quoted(it.name)].cast(field.dataType).alias(field.name) for it, field in both])


def _of_files(node: Node, table: DataFrame) -> list[StructType]:
    """The columns in a table's files, without the columns by which a folder is partitioned. Returns one schema for all
    files or, if a column has different types in different files, one schema for each file.
    """
    reader = table.sparkSession.read.format(node.args["format"])
    try:
        # Without mergeSchema, one of the files would decide about the columns.
        merged = reader.option("mergeSchema", "true").option("recursiveFileLookup", "true").load(node.args["path"])
        return [merged.schema]
    except Exception:  # which class depends on where Spark merges; if the files are damaged, this fails again
        reader = table.sparkSession.read.format(node.args["format"])
        files = [re.sub(r"([\\\[\]{}*?])", r"\\\1", unquote(file)) for file in table.inputFiles()]
        return [reader.load(file).schema for file in files]


def _inferred(node: Node, reader: DataFrameReader) -> DataFrame:
    """The rows of JSON files, with the columns that Spark infers."""
    try:
        return reader.load(node.args["path"])
    except PySparkException:
        raise
    except Exception as error:  # Spark reads the file here if it has to infer the columns
        raise OperatorError(
            f"{label(node)} can't read its table: {java.reason(error)}",
            f"see that each line of {node.args['path']} is a JSON object",
        ) from error


def check_keys(node: Node, table: pa.Table) -> None:
    """Raises GraphError if a key column of a table in JSON is null in all rows. Spark treats a column that is declared,
    but missing from the file, as a column of nulls.
    """
    if node.args.get("format") != "json" or not table.num_rows:
        return
    for name in node.args["on"].values():
        if table.column(name).null_count == table.num_rows:
            raise GraphError(
                f"{label(node)}: no row of {node.args['path']} has a value in its key column {name!r}",
                "in schema= and on=, use names that the rows have; case matters",
            )


def _has_new_names(table: DataFrame) -> bool:
    """Whether Spark may have made up names for columns of a CSV table. Spark does this if a name in the header is empty
    or occurs twice. A name that Spark has made up ends with the column's number. If no names were made up, Spark can
    compare the names with the header again when it reads rows, in case the file has been replaced since.
    """
    return any(name.endswith(str(number)) for number, name in enumerate(table.columns))


def _declared(node: Node, table: DataFrame) -> DataFrame:
    """The declared columns of a table, found by their names. (If Spark were given the schema, it would find the columns
    of a CSV file by their positions.)
    """
    found = {name.lower(): name for name in table.columns}
    fields = codec.parse_schema(node.args["schema"]).fields
    _check_names(node, table.columns, fields)
    made = _cast if node.args["format"] == "csv" else _widened
    return table.select(*[made(node, table, found[field.name.lower()], field) for field in fields])


def _check_names(node: Node, held: list[str], fields: list[StructField]) -> None:
    found = {name.lower() for name in held}
    missing = next((field.name for field in fields if field.name.lower() not in found), None)
    csv_ = node.args["format"] == "csv"
    if missing is not None:
        path, columns = node.args["path"], ", ".join(held)
        said = f"the header of {path} has no" if csv_ else f"{path} has no"
        place = "the header" if csv_ else "the files"
        raise GraphError(
            f"{label(node)}: {said} column {missing!r}, but {columns or 'is empty'}",
            f"in schema=, declare columns of {place}, under their names there; their order doesn't matter",
        )


def _widened(node: Node, table: DataFrame, name: str, field: StructField) -> Column:
    _check_fits(node, field, table.schema[name].dataType)
    return table[codec.quoted(name)].cast(field.dataType).alias(field.name)


def _check_fits(node: Node, field: StructField, held: DataType) -> None:
    wanted = field.dataType
    if not _fits(held, wanted):
        was, now = held.simpleString(), wanted.simpleString()
        raise GraphError(
            f"{label(node)}: the column {field.name!r} of {node.args['path']} is {was}, and is declared as {now}",
            f'declare it as the file has it: schema="{field.name} {was}"',
        )


def _fits(held: DataType, wanted: DataType) -> bool:
    """Whether the type ``wanted`` can hold all values of the type ``held``. In structs, fields that ``wanted`` doesn't
    declare are left out."""
    if isinstance(held, StructType) and isinstance(wanted, StructType):
        its = {field.name.lower(): field.dataType for field in held}
        return all(field.name.lower() in its and _fits(its[field.name.lower()], field.dataType) for field in wanted)
    if isinstance(held, ArrayType) and isinstance(wanted, ArrayType):
        return _fits(held.elementType, wanted.elementType)
    if isinstance(held, MapType) and isinstance(wanted, MapType):
        return _fits(held.keyType, wanted.keyType) and _fits(held.valueType, wanted.valueType)
    if isinstance(wanted, DecimalType) and held.simpleString() in _DIGITS:
        return wanted.precision - wanted.scale >= _DIGITS[held.simpleString()]
    if isinstance(held, DecimalType) and isinstance(wanted, DecimalType):
        whole = wanted.precision - wanted.scale >= held.precision - held.scale
        return whole and wanted.scale >= held.scale
    was, now = held.simpleString(), wanted.simpleString()
    return was == now or now in _WIDER.get(was, ())


def _cast(node: Node, table: DataFrame, name: str, field: StructField) -> Column:
    value, text = table[codec.quoted(name)], isinstance(field.dataType, StringType)
    if text and isinstance(table.schema[name].dataType, StringType):
        return value.alias(field.name)
    return table_values.csv_column(node, value, field)


def _check_headers(node: Node, table: DataFrame) -> None:
    """Raises GraphError if the table's files have different headers. Spark would apply one header to all files."""
    if len(table.inputFiles()) < 2:
        return
    lines = table.sparkSession.read.text(node.args["path"]).where("trim(value) <> ''")
    placed = lines.select(
        F.col("_metadata.file_path").alias("file"),
        F.struct(F.col("_metadata.file_block_start"), F.monotonically_increasing_id()).alias("place"),
        "value",
    )
    firsts = placed.groupBy("file").agg(F.min_by("value", "place").alias("header")).orderBy("file").collect()
    headers = {row["file"]: next(csv.reader([row["header"]])) for row in firsts}
    first = next(iter(headers), "")
    other = next((file for file, header in headers.items() if header != headers[first]), None)
    if other is not None:
        raise GraphError(
            f"{label(node)}: the files of {node.args['path']} have different headers: {first} has "
            f"{', '.join(headers[first])}, but {other} has {', '.join(headers[other])}",
            "give all files of the table the same header",
        )
