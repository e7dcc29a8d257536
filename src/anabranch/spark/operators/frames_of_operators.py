"""Expresses operators between sources and sinks by calls on DataFrames. These DataFrames have the user's columns and a
hidden column; see :mod:`anabranch.spark.values.meta_column`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from anabranch.errors import GraphError
from anabranch.event_time import windows
from anabranch.event_time.windows import START_AND_END, Session, Sliding, Tumbling, Window
from anabranch.model.graph import Node
from anabranch.operators.keys import KeyColumns
from anabranch.operators.rules import is_by_intake, is_timed, is_windowed, on_late
from anabranch.operators.times import EventTime
from anabranch.spark.functions import arrow, driver_calls, job_functions, wrap
from anabranch.spark.functions.buckets import Bucket
from anabranch.spark.functions.calling import UserFunction
from anabranch.spark.functions.wrap import Batches, CallSettings, Rejecting
from anabranch.spark.internals import query_plan
from anabranch.spark.operators import faulty_rows, joining, late_rows, lookups, merging, processing
from anabranch.spark.operators.expressions import without_hidden
from anabranch.spark.operators.faulty_rows import Fault
from anabranch.spark.operators.labels import label
from anabranch.spark.operators.routing import Routing
from anabranch.spark.values import codec, meta_column
from anabranch.task_progress.counts import ReportAddress

_WINDOW, _INTAKE = "_anabranch_window", "_anabranch_intake"
_END = "_anabranch_end"
_BEHIND = 1
"""How many ms a session window stays open after the watermark has reached its end. Spark adds a row to a session even
if the row's time is exactly the end of the session, so a session that ends at the watermark must still be open.
"""
_FUNCTIONS = ("map_arrow", "map", "flat_map", "filter")
_NOT_STATELESS = (
    "Aggregate",
    "Distinct",
    "Deduplicate",
    "Window",
    "Sort",
    "GlobalLimit",
    "FlatMapGroups",
    "TransformWithState",
    "EventTimeWatermark",
)


def _nobody(seconds: dict[Bucket, float]) -> None:
    """Does nothing; see :attr:`Workers.busy`."""


@dataclass(frozen=True)
class Workers:
    """How functions of the job run in Python workers. For ``threads``, ``busy`` and ``line``, see
    :class:`anabranch.spark.functions.wrap.CallSettings`.

    Attributes:
        routing: distributes rows among Spark tasks before the functions of the nodes ``routed`` get the rows. None if
            rows stay in their Spark tasks.
        message_seconds: how long a function may work on one message.
        inputs: the streams by source number, for error messages.
    """

    home: str = ""
    threads: int = 1
    busy: Callable[[dict[Bucket, float]], None] = _nobody
    routing: Routing | None = None
    routed: Collection[int] = ()
    line: ReportAddress | None = None
    message_seconds: float = math.inf
    inputs: Mapping[int, str] = dataclasses.field(default_factory=dict)


@dataclass(frozen=True)
class Context:
    """Everything that operators need in addition to DataFrames.

    Attributes:
        functions: the functions of the job, by node.
        keys: the key columns after each node.
        times: the event-time column after each node.
        changed: those of the stage's nodes after which rows may have keys or event times that a function has changed.
        on_error: returns the object that receives rows that can't be processed; None if such a row fails the lane.
        on_null_key: like ``on_error``, for rows with a null key that reach state or a shuffle inside the query.
        on_late: returns the object that receives late rows that become dead letters.
        watermarked: adds the lane's watermark to a DataFrame. Gets the event-time column, and how many ms to subtract
            from the watermark.
        following: adds the same watermark to another DataFrame of the same operator.
        shuffle_partitions: the number of Spark tasks after a shuffle inside the query.
        own_state: a condition that is true for rows from the state of the lane's own tasks; None if all rows qualify.
        own_tasks: the buckets of the lane's own tasks, by task number; None if the folder has state of no other tasks.
        table: returns the current table of a ``join_table``.
    """

    functions: Mapping[int, Callable[..., Any]]
    keys: Mapping[int, KeyColumns]
    times: Mapping[int, EventTime]
    changed: Collection[int] = ()
    on_error: Rejecting | None = None
    on_null_key: Rejecting | None = None
    on_late: Rejecting | None = None
    watermarked: Callable[[DataFrame, str, int], DataFrame] | None = None
    following: Callable[[DataFrame, str, int], DataFrame] | None = None
    workers: Workers = Workers()
    shuffle_partitions: int = 4
    factor: int = 1
    own_state: Column | None = None
    own_tasks: Mapping[int, frozenset[int]] | None = None
    table: Callable[[Node, SparkSession], DataFrame] | None = None


def apply(node: Node, inputs: Sequence[DataFrame], context: Context) -> DataFrame:
    """Apply an operator, and return the resulting DataFrame. Spark's AnalysisExceptions aren't caught here;
    :mod:`anabranch.spark.query.resolution` explains them.
    """
    frame = inputs[0]
    args = node.args
    match node.kind:
        case "where":
            return frame.where(shown(args["condition"], frame))
        case "select":
            return meta_column.once(_selected(frame, args["expressions"]))
        case "with_columns":
            columns = {name: F.expr(shown(expression, frame)) for name, expression in args["columns"].items()}
            return frame.withColumns(columns)
        case "merge":
            return merging.merged(node, inputs)
        case "transform":
            return _transform(node, frame, context)
        case "partition_by":
            return _shuffle(node, frame, context)
        case "agg":
            return _agg(node, frame, context)
        case "process":
            return _process(node, frame, context)
        case "join_table":
            assert context.table is not None
            return lookups.joined(node, frame, context.table(node, frame.sparkSession))
        case "join":
            return _join(node, inputs, context)
        case kind if kind in _FUNCTIONS:
            return _function(node, frame, context)
    raise AssertionError(f"no DataFrame form of {node.kind}")


def _selected(frame: DataFrame, expressions: Iterable[str]) -> DataFrame:
    chosen: list[str] = []
    for expression in expressions:
        is_star = expression.strip() == "*"
        chosen += map(codec.quoted, _visible(frame).names) if is_star else [shown(expression, frame)]
    return frame.selectExpr(*chosen, meta_column.NAME)


def shown(expression: str, frame: DataFrame) -> str:
    """The expression, changed so that stars among a function's arguments don't stand for the hidden column."""
    if "*" not in expression:
        return expression  # early, because Spark would have to analyze the frame to list its columns
    return without_hidden(expression, _visible(frame).names, meta_column.NAME)


def _transform(node: Node, frame: DataFrame, context: Context) -> DataFrame:
    result = driver_calls.called(context.functions[node.id], frame)
    if not isinstance(result, DataFrame):
        raise GraphError(f"{label(node)} returned {type(result).__name__}", "return a DataFrame")
    if meta_column.NAME not in result.columns:
        raise GraphError(
            f"{label(node)} drops the column {meta_column.NAME}",
            f'keep it: select("…", "{meta_column.NAME}"), or use select and with_columns of the stream, which do',
        )
    check_stateless(node, frame, result)
    return result


def check_stateless(node: Node, before: DataFrame, after: DataFrame) -> None:
    """Raise GraphError if a stateless operator has added a stateful step to the plan."""
    count = query_plan.count
    added = next((word for word in _NOT_STATELESS if count(after, word) > count(before, word)), None)
    if added is not None:
        raise GraphError(
            f"{label(node)} adds a stateful step ({added}); {node.kind} is stateless",
            "use agg of the stream, after a partition_by if the key is another one",
        )


def _function(node: Node, frame: DataFrame, context: Context) -> DataFrame:
    declared = node.args.get("schema")
    result = codec.parse_schema(declared) if declared else _visible(frame)
    kind, called = node.kind, label(node)
    function = job_functions.of_node(node, context.functions, context.workers.home)
    given = to_arrow_schema(result, timezone="UTC")
    workers = context.workers
    seconds = workers.message_seconds
    how = CallSettings(context.on_error, context.factor, workers.threads, workers.busy, workers.line, workers.inputs)

    def run(batches: Batches) -> Batches:
        user = UserFunction(kind, function.value, given, function.home, seconds, function)
        yield from wrap.wrap(user, called, how)(batches)

    if context.workers.routing is not None and node.id in context.workers.routed:
        frame = context.workers.routing.routed(frame)
    schema = StructType([*result.fields, frame.schema[meta_column.NAME]])
    mapped = arrow.mapped(frame, run, schema)
    if node.kind != "map_arrow":
        return mapped
    columns = context.keys[node.id].columns
    known = bool(columns) and set(columns) <= set(result.names)
    key = stage_key(mapped, columns) if known else F.lit(None).cast("binary")
    return mapped.withColumn(meta_column.NAME, F.col(meta_column.NAME).withField("key", key))


def _visible(frame: DataFrame) -> StructType:
    return StructType([f for f in frame.schema.fields if f.name != meta_column.NAME])


def stage_key(frame: DataFrame, columns: Sequence[str]) -> Column:
    """The key bytes of the stage key's columns."""
    key = frame.select(*[codec.quoted(name) for name in columns])
    return codec.encode_key([(frame[codec.quoted(f.name)], f.dataType) for f in key.schema.fields])


def keyless() -> Column:
    """A condition that is true for rows without a key, which state doesn't accept."""
    return meta_column.field("key").isNull()


def _keyless(context: Context) -> Fault:
    return Fault(keyless(), "the key is null", "on_null_key", context.on_null_key)


def _shuffle(node: Node, frame: DataFrame, context: Context) -> DataFrame:
    key = stage_key(frame, node.args["columns"])
    zero = F.lit(0)
    keyed = frame.withColumn(meta_column.NAME, F.col(meta_column.NAME).withField("key", key).withField("task", zero))
    checked = faulty_rows.without(keyed, label(node), [_keyless(context)], context.workers.inputs)
    return checked.repartition(context.shuffle_partitions, meta_column.field("key"))


def _agg(node: Node, frame: DataFrame, context: Context) -> DataFrame:
    columns = context.keys[node.inputs[0]].columns
    aggregates = [F.expr(shown(text, frame)).alias(name) for name, text in node.args["aggregates"].items()]
    frame = _into_state(node, node.inputs[0], frame, context)
    by = [F.col(codec.quoted(name)) for name in (*columns, *node.args["by"])]
    window = node.args.get("window")
    if window is not None:
        kind = windows.of_builtins(window)
        time = _INTAKE if is_by_intake(node) else context.times[node.inputs[0]].column
        if is_by_intake(node):
            frame = frame.withColumn(_INTAKE, F.current_timestamp())  # when the batch was planned, even in a replay
        if on_late(node) != "drop" and context.watermarked is not None:
            frame = _sifted(node, frame, late_rows.last_end(kind, F.col(codec.quoted(time))), context)
        if context.watermarked is not None:
            frame = context.watermarked(frame, time, _BEHIND if isinstance(kind, Session) else 0)
        by.append(_window(kind, F.col(codec.quoted(time))).alias(_WINDOW))
    grouped = frame.groupBy(meta_column.field("task").alias(joining.TASK), *by).agg(*aggregates)
    names = [name for name in grouped.columns if name not in (joining.TASK, _WINDOW, *node.args["aggregates"])]
    visible = [F.col(codec.quoted(name)) for name in names]
    if window is not None:
        start, end = START_AND_END
        visible += [F.col(f"{_WINDOW}.start").alias(start), F.col(f"{_WINDOW}.end").alias(end)]
    visible += [F.col(codec.quoted(name)) for name in node.args["aggregates"]]
    row = meta_column.of_result(F.col(joining.TASK), stage_key(grouped, columns))
    if window is not None:
        row = meta_column.of_window(row, F.col(f"{_WINDOW}.end"))
    result = grouped.select(*visible, row)
    return result if context.own_state is None else result.where(context.own_state)


def _process(node: Node, frame: DataFrame, context: Context) -> DataFrame:
    columns = context.keys[node.inputs[0]].columns
    frame = _into_state(node, node.inputs[0], frame, context)
    declared = node.args.get("schema")
    result = codec.parse_schema(declared) if declared else _visible(frame)
    if is_timed(node) and context.watermarked is not None:
        frame = context.watermarked(frame, context.times[node.inputs[0]].column, 0)
    return processing.applied(
        frame,
        stage_key(frame, columns),
        processing.Process(
            label=label(node),
            function=job_functions.of_node(node, context.functions, context.workers.home),
            clock=node.args.get("timers"),
            result=to_arrow_schema(result, timezone="UTC"),
            columns=tuple(_visible(frame).names),
            keys=frame.select(*[codec.quoted(name) for name in columns]).schema,
            on_error=context.on_error,
            own=context.own_tasks,
            factor=context.factor,
            busy=context.workers.busy,
            line=context.workers.line,
            seconds=context.workers.message_seconds,
            inputs=context.workers.inputs,
        ),
        result,
    )


def _sifted(node: Node, frame: DataFrame, end: Column, context: Context) -> DataFrame:
    """The rows with a window that isn't closed yet. All other rows become dead letters or, if ``on_late`` is
    "fail", fail the lane. ``end`` is the end of a row's last window.
    """
    reject = context.on_late if on_late(node) == "dead-letter" else None
    return arrow.mapped(
        frame.withColumn(_END, end), late_rows.sifting(_END, node, reject, context.workers.inputs), frame.schema
    )


def _window(window: Window, time: Column) -> Column:
    match window:
        case Tumbling(size):
            return F.window(time, _interval(size))
        case Sliding(size, slide):
            return F.window(time, _interval(size), _interval(slide))
        case Session(gap):
            return F.session_window(time, _interval(gap))


def _interval(milliseconds: int) -> str:
    return f"{milliseconds} milliseconds"


def _join(node: Node, inputs: Sequence[DataFrame], context: Context) -> DataFrame:
    left, right = (_into_state(node, i, frame, context) for i, frame in zip(node.inputs, inputs, strict=True))
    times = [context.times[i].column for i in node.inputs]
    if context.watermarked is not None and context.following is not None:
        left = context.watermarked(left, times[0], joining.GRACE)
        right = context.following(right, times[1], joining.GRACE)
    columns = context.keys[node.inputs[0]].columns
    joined = joining.joined(node, left, right, columns, times)
    visible = [F.col(codec.quoted(name)) for name in joined.columns if name != joining.TASK]
    result = joined.select(*visible, meta_column.of_result(F.col(joining.TASK), stage_key(joined, columns)))
    return result if context.own_state is None else result.where(context.own_state)


def _into_state(node: Node, before: int, frame: DataFrame, context: Context) -> DataFrame:
    """The rows of ``frame`` that the stateful operator ``node`` accepts: rows with a key and, for a ``join`` or for
    windows of event time, with an event time.

    What happens to rows that aren't accepted depends on whether a function of the job may have changed keys or event
    times in this stage:

    - If a function may have changed keys or event times, ``on_null_key`` and ``on_error`` determine whether these
      rows are rejected here or fail the lane.
    - If no function can have changed them, all that these rows lack is a key, because sources leave out records without
      event time. If ``on_null_key`` is "fail", such a row fails the lane. Otherwise, the rows are left out here, and
      :class:`anabranch.spark.query.rejections.Rejections` rejects their records.

    Args:
        before: the id of the operator that the rows come from.
    """
    fault, streams = _keyless(context), context.workers.inputs
    if not any(i in context.changed for i in node.inputs):
        if fault.by is not None:
            return frame.where(~fault.wrong)
        return faulty_rows.without(frame, label(node), [fault], streams)
    faults = [replace(fault, wrong=stage_key(frame, context.keys[before].columns).isNull())]
    if is_windowed(node) or node.kind == "join":
        time = F.col(codec.quoted(context.times[before].column))
        faults.append(Fault(time.isNull(), "the event time is null", "on_error", context.on_error))
    return faulty_rows.without(frame, label(node), faults, streams)
