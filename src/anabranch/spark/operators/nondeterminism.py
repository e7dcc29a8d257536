"""Refuses keys that depend on functions such as ``rand()``, because these keys would be different if a batch were
computed again.

If a batch were computed again after a crash, a row could get a different key. The row could then be in the output
twice, or not at all. (``current_timestamp()`` is allowed, because it is always the same for a batch.) The results of
Python functions can't be checked.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from anabranch.errors import GraphError
from anabranch.model.graph import Node
from anabranch.spark.internals import query_plan
from anabranch.spark.operators.labels import label
from anabranch.spark.values import codec

__all__ = ["check"]


def check(node: Node, frames: Mapping[int, DataFrame]) -> None:
    """Raises GraphError if an operator's key isn't deterministic."""
    for key in _keys(node):
        if query_plan.is_by_chance(frames[node.inputs[0]].select(F.expr(key))):
            raise GraphError(
                f"{label(node)} has the key {key.strip('`')}, which changes when a batch is computed again: the "
                "row would be in the output twice, or not at all",
                "compute it from the content of the record: a hash such as xxhash64(column) spreads rows like rand()",
            )


def _keys(node: Node) -> list[str]:
    match node.kind:
        case "partition_by":
            return [codec.quoted(name) for name in node.args["columns"]]
        case "agg":
            return [codec.quoted(name) for name in node.args["by"]]
        case "write" if "key" in node.args:
            return [node.args["key"]]
    return []
