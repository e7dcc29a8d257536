"""Determines how each operator affects the event-time column. Event-time windows, joins of streams and event-time
timers need this column.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from anabranch.model.graph import Node
from anabranch.operators import keys


@dataclass(frozen=True)
class EventTime:
    """The column that contains a row's event time. If no column does, ``lost`` says which operator lost the event time,
    and how."""

    column: str = ""
    lost: str = ""


Effect = Callable[[Node, EventTime], EventTime]


def kept(_node: Node, time: EventTime) -> EventTime:
    """The event-time column after an operator that doesn't change it."""
    return time


def lost(node: Node, _time: EventTime) -> EventTime:
    """No event-time column: the operator's results come from state, so they don't have a single event time."""
    return EventTime("", f"{node.kind} ({node.where}) gives rows of its own, which have no event time")


def declared(node: Node, _time: EventTime) -> EventTime:
    """The event-time column after a ``read``: the column that ``event_time=`` names."""
    column = str(node.args.get("event_time", ""))
    return EventTime(column, "" if column else f"read {node.name!r} ({node.where}) declares no event_time=")


def as_key(effect: keys.Effect) -> Effect:
    """Convert ``effect``, an operator's effect on key columns, into the operator's effect on the event-time column.
    This conversion is used for operators that treat the event-time column like a key column.
    """

    def run(node: Node, time: EventTime) -> EventTime:
        if not time.column:
            return time
        left = effect(node, keys.KeyColumns((time.column,)))
        return time if left.columns else EventTime("", left.lost.replace("key column", "event time column"))

    return run
