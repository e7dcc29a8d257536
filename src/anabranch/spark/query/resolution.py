"""Builds a graph's operators on empty DataFrames, to determine the columns after each operator, and to find the errors
that only Spark can detect.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from pyspark.errors import AnalysisException, ParseException, PySparkException, PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from anabranch.errors import AnabranchError, GraphError
from anabranch.event_time.windows import START_AND_END
from anabranch.formats import JSON, Format
from anabranch.model.graph import Graph, Node
from anabranch.operators import rule
from anabranch.operators.keys import KeyColumns
from anabranch.operators.rules import is_boundary
from anabranch.planning import stages
from anabranch.spark import values
from anabranch.spark.functions import error_text
from anabranch.spark.operators import evaluation, joining, lookups, nondeterminism
from anabranch.spark.operators.frames_of_operators import Context, apply, check_stateless
from anabranch.spark.operators.labels import label
from anabranch.spark.query import streaming_checks
from anabranch.spark.values import codec, meta_column
from anabranch.spark.values import decoding as intakes
from anabranch.systems.source import SCHEMA

_Built = TypeVar("_Built")


def dumped(schemas: Mapping[int, StructType]) -> dict[str, str]:
    """Schemas as JSON, by node, in the form that a :class:`anabranch.protocol.deployment.Program` stores."""
    return {str(node): schema.json() for node, schema in schemas.items()}


def restored(schemas: Mapping[str, str]) -> dict[int, StructType]:
    """The inverse of :func:`dumped`."""
    return {int(node): StructType.fromJson(json.loads(text)) for node, text in schemas.items()}


def columns(
    graph: Graph,
    functions: Mapping[int, Callable[..., Any]],
    formats: Mapping[str, Format],
    home: str,
    tables: Collection[str] = (),
) -> dict[int, StructType]:
    """The schema after each operator except ``write`` and ``foreach_batch``, by node, without the hidden column. Uses
    the active session.

    Args:
        home: the job's folder. If an exception comes from files in this folder, the error names the lines.
        tables: the outputs that are tables rather than streams.

    Raises:
        GraphError: an operator isn't valid. For example, an expression or a function doesn't fit its columns, a
            column's name isn't allowed, a key isn't deterministic, or Spark can't run the operator as a stream.
    """
    frames: dict[int, DataFrame] = {}
    named = partial(explained, home=home)
    times = stages.event_times(graph)
    table = partial(lookups.load, functions=functions, records=lookups.nothing, formats=formats)
    for stage in stages.cut(graph):
        context = Context(functions=functions, keys=stages.key_columns(graph, stage), times=times, table=table)
        for node in stage.nodes:
            named(node, partial(_check_declared, node, context.keys))
            frame = explained(node, partial(_after, graph, node, frames, context, formats, tables), home)
            named(node, partial(nondeterminism.check, node, frames))
            if frame is not None:
                own = frame.columns.index(meta_column.NAME)
                _check_names(node, [name for number, name in enumerate(frame.columns) if number != own])
                frames[node.id] = frame
        before = {source.id: frames[source.id].schema for source in stage.sources}
        streaming_checks.check(graph, stage, before, context, named)
    return {i: StructType([f for f in frame.schema if f.name != meta_column.NAME]) for i, frame in frames.items()}


def _after(
    graph: Graph,
    node: Node,
    frames: Mapping[int, DataFrame],
    context: Context,
    formats: Mapping[str, Format],
    tables: Collection[str],
) -> DataFrame | None:
    if node.kind == "read":
        raw = SparkSession.active().createDataFrame([], SCHEMA)
        return _read(node, raw, formats.get(node.args["stream"], JSON))
    inputs = [frames[i] for i in node.inputs]
    if is_boundary(node) or node.kind == "write":
        stream = stages.stream_of(graph, node)
        writer: values.Writer = values.TableWriter() if stream in tables else values.writing(formats.get(stream, JSON))
        encoded = evaluation.encode(inputs[0], evaluation.Sink(0, node, writer))
        if not is_boundary(node):
            return None
        visible = StructType([f for f in inputs[0].schema if f.name != meta_column.NAME])
        encoded.select(codec.parse_json(F.col("value"), visible))  # the columns as the next stage reads them
        return inputs[0]
    if rule(node).sink:
        return None
    frame = apply(node, inputs, context)
    if node.kind in ("select", "with_columns"):
        check_stateless(node, inputs[0], frame)
    return frame


def _check_names(node: Node, names: Sequence[str]) -> None:
    """Raises GraphError if two of the column ``names`` are equal (ignoring case, as Spark does), or if a name is
    reserved for anabranch's own columns.
    """
    known: dict[str, str] = {}
    for name in names:
        lower = name.lower()
        if lower.startswith(meta_column.NAME) or lower == joining.TASK:
            raise GraphError(
                f"{label(node)} has a column {name!r}: names that begin with {meta_column.NAME}, and {joining.TASK} "
                "are anabranch's own",
                "give it another name",
            )
        if lower in known:
            both = f"{known[lower]!r} twice" if name == known[lower] else f"{known[lower]!r} and {name!r}"
            raise GraphError(
                f"{label(node)} has the columns {both}; Spark doesn't tell upper from lower case in names",
                'give one of them another name, as in select("a", "b as c")',
            )
        known[lower] = name


def _check_declared(node: Node, keys: Mapping[int, KeyColumns]) -> None:
    """Like :func:`_check_names`, for the names that an operator declares. (It wouldn't be enough to check the names in
    the operator's DataFrame, because Spark may fail to build a DataFrame with wrong names.)
    """
    match node.kind:
        case "read":
            declared = [
                codec.parse_schema(text).names for text in (node.args.get("key"), node.args.get("schema")) if text
            ]
            _check_names(node, list(dict.fromkeys(name for names in declared for name in names)))
        case "with_columns":
            _check_names(node, [*node.args["columns"]])
        case "agg":
            window = START_AND_END if "window" in node.args else ()
            _check_names(node, [*keys[node.inputs[0]].columns, *node.args["by"], *window, *node.args["aggregates"]])


def _read(node: Node, raw: DataFrame, format_: Format) -> DataFrame:
    intake = intakes.of_graph(node, format_, keyed=False)
    rows = intake.rows(intake.opened(raw), F.lit(0), "", fail=False)
    intake.check(rows)
    return rows


def explained(node: Node, build: Callable[[], _Built], home: str) -> _Built:
    """The result of ``build``. An error that isn't anabranch's own is replaced by a GraphError that names the operator
    and, if the error comes from the job's files, the lines in these files.
    """
    try:
        return build()
    except AnabranchError:
        raise
    except (AnalysisException, ParseException, PySparkException) as error:
        raise GraphError(
            f"{label(node)}: {error_text.reason(error)}{error_text.traced(error, home)}",
            "fix the function"
            if isinstance(error, PythonException)
            else "fix the expression, or the schema it reads from",
        ) from None
    except pickle.PicklingError as error:
        raise GraphError(f"{label(node)}: {error}{error_text.traced(error, home)}", error_text.UNPICKLABLE) from error
    except Exception as error:
        raise GraphError(
            f"{label(node)} raised {error_text.described(error, home)}",
            "fix the function: it was called once, on a DataFrame without rows, to learn its columns",
        ) from error
