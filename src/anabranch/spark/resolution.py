"""Runs a graph on empty frames: finds the columns after each operator, and the errors that only Spark sees."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from anabranch.errors import AnabranchError, GraphError
from anabranch.formats import JSON, Format
from anabranch.model.graph import Graph, Node
from anabranch.operators import rule
from anabranch.operators.rules import is_boundary
from anabranch.planning import stages
from anabranch.spark import codec, evaluation, hidden, lookups, values
from anabranch.spark import intake as intakes
from anabranch.spark.labels import label
from anabranch.spark.operators import Context, apply, check_stateless
from anabranch.spark.records import SCHEMA


def dumped(schemas: Mapping[int, StructType]) -> dict[str, str]:
    """Schemas as they travel in a :class:`Program`."""
    return {str(node): schema.json() for node, schema in schemas.items()}


def restored(schemas: Mapping[str, str]) -> dict[int, StructType]:
    """The inverse of :func:`dumped`."""
    return {int(node): StructType.fromJson(json.loads(text)) for node, text in schemas.items()}


def columns(
    graph: Graph, functions: Mapping[int, Callable[..., Any]], formats: Mapping[str, Format]
) -> dict[int, StructType]:
    """The schema after each operator, hidden column apart, by the active session.

    ``formats`` are those of streams that aren't JSON.

    Raises:
        GraphError: an expression or a function doesn't fit; names the operator.
    """
    frames: dict[int, DataFrame] = {}
    times = stages.event_times(graph)
    table = partial(lookups.load, functions=functions, records=lookups.nothing, formats=formats)
    for stage in stages.cut(graph):
        context = Context(functions=functions, keys=stages.key_columns(graph, stage), times=times, table=table)
        for node in stage.nodes:
            frame = explained(node, lambda n=node, c=context: _after(graph, n, frames, c, formats))  # type: ignore[misc]
            if frame is not None:
                frames[node.id] = frame
    return {i: StructType([f for f in frame.schema if f.name != hidden.NAME]) for i, frame in frames.items()}


def _after(
    graph: Graph,
    node: Node,
    frames: Mapping[int, DataFrame],
    context: Context,
    formats: Mapping[str, Format],
) -> DataFrame | None:
    if node.kind == "read":
        raw = SparkSession.active().createDataFrame([], SCHEMA)
        return _read(node, raw, formats.get(node.args["stream"], JSON))
    inputs = [frames[i] for i in node.inputs]
    if is_boundary(node) or node.kind == "write":
        stream = stages.stream_of(graph, node)
        encoded = evaluation.encode(inputs[0], evaluation.Sink(0, node, values.writing(formats.get(stream, JSON))))
        if not is_boundary(node):
            return None
        visible = StructType([f for f in inputs[0].schema if f.name != hidden.NAME])
        encoded.select(codec.parse_json(F.col("value"), visible))  # the stage after it reads it so
        return inputs[0]
    if rule(node).sink:
        return None
    frame = apply(node, inputs, context)
    if node.kind in ("select", "with_columns"):
        check_stateless(node, inputs[0], frame)
    return frame


def _read(node: Node, raw: DataFrame, format_: Format) -> DataFrame:
    intake = intakes.of_graph(node, format_, keyed=False)
    rows = intake.rows(intake.opened(raw), F.lit(0), "", fail=False)
    intake.check(rows)
    return rows


def explained(node: Node, build: Callable[[], DataFrame | None]) -> DataFrame | None:
    """What ``build`` gives; what it raises, as a GraphError that names the operator."""
    try:
        return build()
    except AnabranchError:
        raise
    except (AnalysisException, ParseException, PySparkException) as error:
        first = str(error).strip().split("\n")[0]
        raise GraphError(f"{label(node)}: {first}", "mend the expression, or the schema it reads from") from None
    except Exception as error:
        raise GraphError(
            f"{label(node)} raised {type(error).__name__}: {error}",
            "mend the function: it was called on no rows",
        ) from error
