"""The properties of each kind of operator, as rules."""

from __future__ import annotations

from dataclasses import dataclass

from anabranch.api.timers import EVENT_TIME
from anabranch.model.graph import Node
from anabranch.operators import keys, times


@dataclass(frozen=True)
class Rule:
    """The properties of one kind of operator.

    Attributes:
        sql: whether the operator consists of SQL expressions, so that several branches can share one pass over the
            rows.
        sink: whether the operator ends a branch.
        function: whether Python functions of the job get the operator's rows, one by one or in Arrow batches.
        key: a function of a node and of the key columns of the rows that the node gets. It returns the key columns of
            the rows that the node emits or, if the key is lost, the reason.
        time: like ``key``, but for the event-time column.
    """

    sql: bool = False
    sink: bool = False
    stateful: bool = False
    function: bool = False
    key: keys.Effect = keys.kept
    time: times.Effect = times.kept


RULES: dict[str, Rule] = {
    "read": Rule(sql=True, key=keys.declared, time=times.declared),
    "where": Rule(sql=True),
    "select": Rule(sql=True, key=keys.selected, time=times.as_key(keys.selected)),
    "with_columns": Rule(sql=True, key=keys.not_replaced, time=times.as_key(keys.not_replaced)),
    "transform": Rule(),
    "map_arrow": Rule(function=True, key=keys.resulting, time=times.as_key(keys.resulting)),
    "map": Rule(function=True, key=keys.resulting, time=times.as_key(keys.resulting)),
    "flat_map": Rule(function=True, key=keys.resulting, time=times.as_key(keys.resulting)),
    "filter": Rule(function=True),
    "merge": Rule(),
    "partition_by": Rule(sql=True, sink=True, key=keys.partitioned),
    "agg": Rule(stateful=True, time=times.lost),
    "process": Rule(stateful=True, function=True, key=keys.resulting, time=times.lost),
    "join_table": Rule(),
    "join": Rule(stateful=True, time=times.lost),
    "write": Rule(sql=True, sink=True),
    "foreach_batch": Rule(sink=True),
}


def rule(node: Node) -> Rule:
    """The rule of a node. A ``partition_by`` with ``via="spark"`` has a rule of its own, because it is a shuffle inside
    the query and doesn't end a branch.
    """
    if is_shuffle(node):
        return Rule(key=keys.partitioned)
    return RULES[node.kind]


def outlives_drain(node: Node) -> bool:
    """Whether an operator has state that survives a drain. (The state of windows and joins doesn't: it only waits for
    time to advance, and a drain removes all of it.)
    """
    return rule(node).stateful and "window" not in node.args and node.kind != "join"


def is_windowed(node: Node) -> bool:
    """Whether this is an ``agg`` over windows of event time."""
    return node.kind == "agg" and "window" in node.args and not is_by_intake(node)


def is_by_intake(node: Node) -> bool:
    """Whether this is an ``agg`` over windows of processing time, the time at which a record's batch was planned."""
    return node.kind == "agg" and node.args.get("window", {}).get("time") == "processing"


def is_timed(node: Node) -> bool:
    """Whether an operator depends on the lane's watermark. If so, all its inputs need event time."""
    return node.kind == "join" or is_windowed(node) or node.args.get("timers") == EVENT_TIME


def on_late(node: Node) -> str:
    """What happens to an operator's late rows: "drop", "dead-letter" or "fail"."""
    return str(node.args.get("window", {}).get("on_late", "drop"))


def late_of(node: Node) -> str:
    """The name under which an operator's late rows become dead letters."""
    return f"{node.name}-late"


def is_shuffle(node: Node) -> bool:
    """Whether this is ``partition_by(via="spark")``."""
    return node.kind == "partition_by" and node.args["via"] == "spark"


def is_boundary(node: Node) -> bool:
    """Whether this is a ``partition_by`` through an intermediate stream, at which one stage ends and another begins."""
    return node.kind == "partition_by" and node.args["via"] == "stream"
