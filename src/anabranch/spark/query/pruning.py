"""Determines which columns of a source a stateful lane needs, so that the other columns aren't parsed. (Spark can't
determine this, because it can't look into anabranch's parsing.)
"""

from __future__ import annotations

import re
from collections.abc import Set

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from anabranch.model.graph import Node
from anabranch.operators import rule
from anabranch.operators.rules import is_windowed
from anabranch.planning.groups import Group
from anabranch.spark.operators import expressions
from anabranch.spark.operators.frames_of_operators import Context, apply
from anabranch.spark.values import codec, meta_column

_PASSED_ON = re.compile(r"^\s*\*|\.\s*\*")
"""Matches stars that can't hide the use of a column: ``*`` and ``* except (a)`` only pass columns on, and
``s.*`` names the column ``s``.
"""

Needs = dict[tuple[str, int], Set[str] | None]
"""The results of :func:`needed`. Each key consists of the name of a group and the id of one of the group's sources."""


def needed(group: Group, source: Node, schema: StructType, context: Context) -> set[str] | None:
    """The columns of a source that the operators up to and including the stateful operator need. None if they need all
    columns, or if this can't be determined.

    A column is needed if the column's name is in an expression of the operators up to the stateful operator. Otherwise,
    Spark analyzes the operators without the column: the column is needed if the analysis fails, or if the result's
    columns differ. The analysis alone doesn't suffice, because a name may have another meaning if there is no such
    column: ``user``, for example, is then a function, and ``delay`` may be an earlier result of the same ``select``.

    ``schema`` is the schema of the source's DataFrame, including the hidden column.
    """
    way = _way(group, source)
    if way is None:
        return None
    texts = [text for node in way for text in _expressions(node)]
    if any(expressions.has_star(_PASSED_ON.sub(" ", text)) for text in texts):
        return None
    texts += _columns(way[-1], context)
    complete = _result(way, schema, context)
    visible = [field.name for field in schema if field.name != meta_column.NAME]
    kept = {name for name in visible if any(expressions.names(text, name) for text in texts)}
    kept |= {
        name for name in visible if name not in kept and _result(way, _without(schema, {name}), context) != complete
    }
    left_out = set(visible) - kept
    return kept if left_out and _result(way, _without(schema, left_out), context) == complete else None


def _way(group: Group, source: Node) -> list[Node] | None:
    """The operators after the source, up to and including the stateful operator. None unless all of these conditions
    are true:

    - The operators form a single path from the group's only source.
    - All operators before the stateful operator are SQL operators.
    - The stateful operator calls no function.
    """
    if group.stateful is None or rule(group.stateful).function or len(group.sources) > 1:
        return None
    way, node = [], source
    while node is not group.stateful:
        readers = group.readers(node)
        if len(readers) != 1:
            return None
        node = readers[0]
        if not (rule(node).sql or node is group.stateful):
            return None
        way.append(node)
    return way


def _expressions(node: Node) -> list[str]:
    """The SQL expressions of an operator."""
    match node.kind:
        case "where":
            return [node.args["condition"]]
        case "select":
            return [*node.args["expressions"]]
        case "with_columns":
            return [*node.args["columns"].values()]
        case "agg":
            return [*node.args["aggregates"].values()]
    raise AssertionError(f"no expressions of {node.kind}")


def _columns(stateful: Node, context: Context) -> list[str]:
    """The columns by which a stateful operator groups its rows and, if it has windows, the event-time column. The names
    are quoted for SQL.
    """
    before = stateful.inputs[0]
    time = [context.times[before].column] if is_windowed(stateful) else []
    return [codec.quoted(name) for name in (*context.keys[before].columns, *stateful.args["by"], *time)]


def _without(schema: StructType, names: set[str]) -> StructType:
    return StructType([field for field in schema if field.name not in names])


def _result(way: list[Node], schema: StructType, context: Context) -> StructType | None:
    """The schema after the operators. None if Spark can't analyze them without the columns that ``schema`` lacks."""
    frame: DataFrame = SparkSession.active().createDataFrame([], schema)
    try:
        for node in way:
            frame = apply(node, [frame], context)
        return frame.schema
    except AnalysisException:
        return None
