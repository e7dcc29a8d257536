"""Keys that another try gives other values, by ``rand()`` and the like: they can't decide where a row goes.

A batch that is computed again, after a crash, would send the row elsewhere: it would be in the output twice, or not at
all. (``current_timestamp()`` is the same in each try.) What Python functions give can't be known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from anabranch.errors import GraphError
from anabranch.model.graph import Node
from anabranch.spark import codec
from anabranch.spark.labels import label

__all__ = ["check"]


def check(node: Node, frames: Mapping[int, DataFrame]) -> None:
    """Raises GraphError if an operator's key is by chance. ``frames``: of those before it."""
    for key in _keys(node):
        if _by_chance(frames[node.inputs[0]].select(F.expr(key))):
            raise GraphError(
                f"{label(node)} has the key {key.strip('`')}, which is another one when a batch is computed again: the "
                "row would be in the output twice, or not at all",
                "take it from what is in the record: a hash, as xxhash64(column), spreads rows as rand() does",
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


def _by_chance(frame: DataFrame) -> bool:
    """Whether a column comes of an expression that isn't deterministic, however many steps before."""
    plan = frame._jdf.queryExecution().analyzed()
    queue = [(plan, {_id(column) for column in _items(plan.output())})]
    while queue:
        plan, wanted = queue.pop()
        children = list(_items(plan.children()))
        if plan.nodeName() == "Union":
            places = [n for n, column in enumerate(_items(plan.output())) if _id(column) in wanted]
            for child in children:
                ids = [_id(column) for column in _items(child.output())]
                queue.append((child, {ids[place] for place in places}))
            continue
        if plan.nodeName() in ("Project", "Aggregate"):
            made = plan.projectList() if plan.nodeName() == "Project" else plan.aggregateExpressions()
            found = [each for each in _items(made) if _id(each) in wanted]
            if not all(each.deterministic() for each in found):
                return True
            wanted = {_id(used) for each in found for used in _items(each.references())}
        queue += [(child, wanted) for child in children]
    return False


def _id(expression: Any) -> int:
    return int(expression.exprId().id())


def _items(scala: Any) -> Iterator[Any]:
    several = scala.iterator()
    while several.hasNext():
        yield several.next()
