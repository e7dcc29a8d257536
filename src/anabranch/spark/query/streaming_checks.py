"""Finds out, before a lane runs, whether Spark would refuse to start the lane's query."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from anabranch.errors import GraphError
from anabranch.model.graph import Graph, Node
from anabranch.operators import rule
from anabranch.planning import groups, stages
from anabranch.planning.groups import Group
from anabranch.planning.stages import Stage
from anabranch.spark.internals import unsupported_operations
from anabranch.spark.operators import evaluation
from anabranch.spark.operators.frames_of_operators import Context, apply
from anabranch.spark.operators.labels import label
from anabranch.spark.values import codec

__all__ = ["check", "is_closing"]

Explained = Callable[[Node, Callable[[], DataFrame | None]], DataFrame | None]

_CURES = (
    (
        "istinct",
        "approx_count_distinct(column) can be kept up to date; or count(*) after a partition_by of that column",
    ),
    ("indow", "window functions look at many rows at once: use agg, or window(...).agg(...) of the stream"),
)
_CURE = "Spark can't keep this up to date as rows come: use agg, process or join of the stream"


def check(
    graph: Graph, stage: Stage, schemas: Mapping[int, StructType], context: Context, explained: Explained
) -> None:
    """Build the queries of a stage as lanes do, but with placeholders instead of the streams. Then let Spark check the
    queries without starting them.

    Args:
        schemas: the schemas of the rows of the stage's sources, by node id. Each schema includes the hidden column.
        explained: calls a function that builds the DataFrame of an operator. If the call raises an error, the operator
            is named in the error.

    Raises:
        GraphError: Spark can't run one of the queries as a stream.
    """
    context = replace(context, watermarked=_watermarked, following=_watermarked)
    kinds = {stages.stream_of(graph, node): "" for node in stage.sinks if node.kind != "foreach_batch"}
    for group in groups.cut(graph, stage, kinds):
        frames = {source.id: _stream(schemas[source.id]) for source in group.sources}
        built: list[tuple[Node, DataFrame]] = []
        for node in evaluation.streaming_nodes(group):
            frame = explained(node, partial(apply, node, [frames[i] for i in node.inputs], context))
            assert frame is not None
            frames[node.id] = frame
            built.append((node, frame))
        if built and _fault(group, built[-1][1]):
            faults = ((node, _fault(group, frame)) for node, frame in built)
            node, fault = next((node, fault) for node, fault in faults if fault)
            cure = next((cure for word, cure in _CURES if word in fault), _CURE)
            raise GraphError(f"{label(node)} can't run on a stream: {fault}", cure)


def is_closing(group: Group) -> bool:
    """Whether a group's query runs in Spark's append mode. Otherwise, it runs in update mode. (In real-time mode, every
    query runs in update mode, whatever this function returns.)
    """
    stateful = group.stateful
    return stateful is None or stateful.kind == "join" or stateful.args.get("emit") == "on_close"


def _fault(group: Group, frame: DataFrame) -> str:
    """Why Spark refuses to run a plan as a stream; empty if it doesn't refuse."""
    has_state = any(rule(node).stateful for node in group.nodes)
    return unsupported_operations.fault(frame, "Append" if is_closing(group) or not has_state else "Update")


def _stream(schema: StructType) -> DataFrame:
    nothing = [F.lit(None).cast(field.dataType).alias(field.name) for field in schema]
    return SparkSession.active().readStream.format("rate").load().select(*nothing)


def _watermarked(frame: DataFrame, column: str, behind: int) -> DataFrame:
    return frame.withWatermark(codec.quoted(column), f"{behind} milliseconds")
