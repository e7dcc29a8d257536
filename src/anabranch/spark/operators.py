"""Each operator as DataFrame calls. Frames carry the user's columns and the hidden one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from anabranch.errors import GraphError
from anabranch.model.graph import Node
from anabranch.operators.keys import KeyColumns
from anabranch.spark import codec, hidden
from anabranch.spark import functions as user_functions

_FUNCTIONS = ("map_arrow", "map", "flat_map", "filter")
_NOT_STATELESS = ("Aggregate", "Distinct", "Deduplicate", "Window", "Sort", "GlobalLimit", "FlatMapGroups")


@dataclass(frozen=True)
class Context:
    """What operators need besides frames: functions by node, key columns after each node, and null-key policy.

    ``home`` is the job's folder. ``shuffle_partitions`` is for shuffles inside the query.
    """

    functions: Mapping[int, Callable[..., Any]]
    keys: Mapping[int, KeyColumns]
    on_null_key: str = "fail"
    home: str = ""
    shuffle_partitions: int = 4


def label(node: Node) -> str:
    return f"{node.kind} {node.name!r} ({node.where})"


def apply(node: Node, inputs: Sequence[DataFrame], context: Context) -> DataFrame:
    """The frame after an operator. AnalysisExceptions of Spark pass; see ``resolve`` for who explains them."""
    frame = inputs[0]
    args = node.args
    match node.kind:
        case "where":
            return frame.where(args["condition"])
        case "select":
            return frame.selectExpr(*args["expressions"], hidden.NAME) if not _star(args) else _select_star(frame, args)
        case "with_columns":
            columns = {name: F.expr(expression) for name, expression in args["columns"].items()}
            return frame.withColumns(columns)
        case "merge":
            merged = frame
            for other in inputs[1:]:
                merged = merged.unionByName(other)
            return merged
        case "transform":
            return _transform(node, frame, context)
        case "partition_by":
            return _shuffle(node, frame, context)
        case "agg":
            return _agg(node, frame, context)
        case kind if kind in _FUNCTIONS:
            return _function(node, frame, context)
    raise AssertionError(f"no DataFrame form of {node.kind}")


def _star(args: dict[str, Any]) -> bool:
    return any(e.strip() == "*" for e in args["expressions"])


def _select_star(frame: DataFrame, args: dict[str, Any]) -> DataFrame:
    visible = [name for name in frame.columns if name != hidden.NAME]
    expressions: list[str] = []
    for expression in args["expressions"]:
        expressions += [f"`{name}`" for name in visible] if expression.strip() == "*" else [expression]
    return frame.selectExpr(*expressions, hidden.NAME)


def _transform(node: Node, frame: DataFrame, context: Context) -> DataFrame:
    result = context.functions[node.id](frame)
    if not isinstance(result, DataFrame):
        raise GraphError(f"{label(node)} returned {type(result).__name__}", "return a DataFrame")
    if hidden.NAME not in result.columns:
        raise GraphError(
            f"{label(node)} drops the column {hidden.NAME}",
            f'keep it: select("…", "{hidden.NAME}"), or use select and with_columns of the stream, which do',
        )
    check_stateless(node, frame, result)
    return result


def check_stateless(node: Node, before: DataFrame, after: DataFrame) -> None:
    """Raises GraphError if an operator that keeps no state has added a step that does (a window function, say)."""
    held, plan = (str(frame._jdf.queryExecution().analyzed().toString()) for frame in (before, after))
    added = next((word for word in _NOT_STATELESS if plan.count(word) > held.count(word)), None)
    if added is not None:
        raise GraphError(
            f"{label(node)} adds a stateful step ({added}); {node.kind} is stateless",
            "use agg of the stream, after a partition_by if the key is another one",
        )


def _function(node: Node, frame: DataFrame, context: Context) -> DataFrame:
    declared = node.args.get("schema")
    result = codec.parse_schema(declared) if declared else _visible(frame)
    run = user_functions.wrap(
        node.kind,
        context.functions[node.id],
        to_arrow_schema(result, timezone="UTC"),
        label(node),
        context.home,
    )
    schema = StructType([*result.fields, frame.schema[hidden.NAME]])
    mapped = frame.mapInArrow(run, schema)
    if node.kind != "map_arrow":
        return mapped
    columns = context.keys[node.id].columns
    known = bool(columns) and set(columns) <= set(result.names)
    key = stage_key(mapped, columns) if known else F.lit(None).cast("binary")
    return mapped.withColumn(hidden.NAME, F.col(hidden.NAME).withField("key", key))


def _visible(frame: DataFrame) -> StructType:
    return StructType([f for f in frame.schema.fields if f.name != hidden.NAME])


def stage_key(frame: DataFrame, columns: Sequence[str]) -> Column:
    """Key bytes of the stage key's columns."""
    key = frame.select(*[f"`{name}`" for name in columns])
    return codec.encode_key([(frame[f"`{f.name}`"], f.dataType) for f in key.schema.fields])


def without_null_keys(frame: DataFrame, policy: str, what: str) -> DataFrame:
    """Drop rows with a null key, or fail the lane at the first."""
    key = hidden.field("key")
    if policy == "drop":
        return frame.where(key.isNotNull())
    message = (
        f'anabranch.errors.OperatorError: a message with a null key reached {what}, and on_null_key is "fail"\n'
        f'  filter such rows before, or set [job] on_null_key = "drop"\n\n'
    )
    return frame.where(F.when(key.isNotNull(), F.lit(True)).otherwise(F.raise_error(F.lit(message)).cast("boolean")))


def _shuffle(node: Node, frame: DataFrame, context: Context) -> DataFrame:
    key = stage_key(frame, node.args["columns"])
    zero = F.lit(0)
    keyed = frame.withColumn(hidden.NAME, F.col(hidden.NAME).withField("key", key).withField("task", zero))
    checked = without_null_keys(keyed, context.on_null_key, label(node))
    return checked.repartition(context.shuffle_partitions, hidden.field("key"))


def _agg(node: Node, frame: DataFrame, context: Context) -> DataFrame:
    columns = context.keys[node.inputs[0]].columns
    by = [*columns, *node.args["by"]]
    checked = without_null_keys(frame, context.on_null_key, label(node))
    aggregates = [F.expr(expression).alias(name) for name, expression in node.args["aggregates"].items()]
    task = hidden.field("task").alias("_task")
    grouped = checked.groupBy(task, *[F.col(f"`{name}`") for name in by]).agg(*aggregates)
    visible = [F.col(f"`{name}`") for name in grouped.columns if name != "_task"]
    return grouped.select(*visible, hidden.of_result(F.col("_task"), stage_key(grouped, columns)))
