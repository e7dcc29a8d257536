"""Checks that a stage meets the requirements of a join of two streams."""

from __future__ import annotations

from collections.abc import Mapping

from anabranch.errors import GraphError
from anabranch.model.graph import Graph, Node
from anabranch.operators.keys import KeyColumns
from anabranch.planning import stages
from anabranch.planning.stages import Stage

__all__ = ["check"]


def check(graph: Graph, stage: Stage, join: Node, keys: Mapping[int, KeyColumns]) -> None:
    """Raise GraphError if the sides of a join have different key columns, or if both sides get rows of the same
    operator. Also raise GraphError if a side reads a broadcast.
    """
    where = f"join {join.name!r} ({join.where})"
    left, right = (keys[i].columns for i in join.inputs)
    if left != right:
        raise GraphError(
            f"{where} takes rows with the key {_listed(left)} on its left, and {_listed(right)} on its right",
            "the sides are joined by their stage keys: give these the same names in read(..., key=...) or partition_by",
        )
    before = [list(stages.upstream(graph, stage, graph[i])) for i in join.inputs]
    shared = next((node for node in before[0] if node in before[1]), None)
    if shared is not None:
        raise GraphError(
            f"{where} takes rows of {shared.kind} {shared.name!r} on both sides",
            "put a partition_by on one of them: the sides of a join must come from different streams",
        )
    broadcast = next((n for side in before for n in side if n.kind == "read" and n.args.get("broadcast")), None)
    if broadcast is not None:
        raise GraphError(
            f"{where} takes the broadcast {broadcast.args['stream']!r} ({broadcast.where}), which no task has alone",
            "leave out broadcast=True, so that each task has the records of its keys; or use join_table",
        )


def _listed(columns: tuple[str, ...]) -> str:
    return ", ".join(map(repr, columns))
