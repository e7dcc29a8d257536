"""Reads the files of a ``join_table``. A value that doesn't fit its declared column raises an error, and
never becomes null.
"""

from __future__ import annotations

import csv

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField

from anabranch.errors import GraphError
from anabranch.model.graph import Node
from anabranch.spark.operators.labels import label
from anabranch.spark.values import codec

__all__ = ["read"]


def read(node: Node, spark: SparkSession) -> DataFrame:
    """The table that a ``join_table`` reads from a file, or from a folder of files.

    Raises:
        GraphError: a CSV file's header lacks a declared column, or the headers of several files differ.
    """
    path, format_ = node.args["path"], node.args["format"]
    reader, declared = spark.read.format(format_), node.args.get("schema")
    if format_ == "csv" or declared:
        reader = reader.option("mode", "FAILFAST")
    if format_ != "csv":
        return (reader.schema(declared) if declared else reader).load(path)
    # With column pruning, Spark wouldn't notice that a line has too many or too few values.
    reader = reader.option("header", "true").option("columnPruning", "false")
    try:
        table = reader.load(path)
    except AnalysisException as error:
        if not declared or error.getCondition() != "UNABLE_TO_INFER_SCHEMA":
            raise
        return reader.schema(declared).load(path)  # a folder without files
    _check_headers(node, table)
    return _declared(node, table) if declared else table


def _declared(node: Node, table: DataFrame) -> DataFrame:
    """The declared columns of a CSV table, found by their names. (With a schema, Spark would find the columns by their
    positions, and a value that can't be cast would become null.)
    """
    found = {name.lower(): name for name in table.columns}
    fields = codec.parse_schema(node.args["schema"]).fields
    missing = next((field.name for field in fields if field.name.lower() not in found), None)
    if missing is not None:
        raise GraphError(
            f"{label(node)}: the header of {node.args['path']} has no column {missing!r}, but "
            f"{', '.join(table.columns) or 'is empty'}",
            "in schema=, declare columns of the header, under their names there; their order doesn't matter",
        )
    return table.select(*[_cast(node, table, found[field.name.lower()], field) for field in fields])


def _cast(node: Node, table: DataFrame, name: str, field: StructField) -> Column:
    value, text = table[codec.quoted(name)], isinstance(field.dataType, StringType)
    if text and isinstance(table.schema[name].dataType, StringType):
        return value.alias(field.name)
    cast = value.try_cast(field.dataType)
    kind, column = field.dataType.simpleString(), f"{label(node)}: the column {field.name!r} of {node.args['path']}"
    cure = f'correct the value, or declare the column as string: schema="{field.name} string"'
    # The error's name is assembled only during the evaluation; see sql_errors.for_record.
    failing = F.raise_error(
        F.concat(
            F.lit("anabranch.errors"),
            F.substring(F.concat(F.lit("."), value.cast("string")), 1, 1),
            F.lit(f"OperatorError: {column} is {kind}, and has the value '"),
            value.cast("string"),
            F.lit(f"'\n  {cure}\n\n"),
        )
    )
    return F.when(value.isNotNull() & cast.isNull(), failing.cast(field.dataType)).otherwise(cast).alias(field.name)


def _check_headers(node: Node, table: DataFrame) -> None:
    """Raises GraphError if the table's files have different headers. Spark reads all files by the header of one."""
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
