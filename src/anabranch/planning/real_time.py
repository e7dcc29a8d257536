"""Checks that a job uses only what Spark's real-time mode supports."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from anabranch.errors import ConfigError, GraphError
from anabranch.model.graph import Graph, Node
from anabranch.operators import rule
from anabranch.operators.rules import is_boundary, is_by_intake, is_windowed, on_late
from anabranch.planning import stages
from anabranch.planning.stages import Stage

__all__ = ["RealTime", "check"]

_CURE = 'set [job] trigger = "micro-batch"'
_SHORTEST = 5.0
"""The length of the shortest batch that Spark runs in real-time mode, in seconds."""


@dataclass(frozen=True)
class RealTime:
    """The settings that determine, together with the graph, whether a job can run in real-time mode."""

    on_error: str
    on_null_key: str
    watermark_scope: str

    systems: Collection[str]
    """The systems whose records arrive one by one."""

    interval: float = 0.0
    """The length of a batch in seconds; 0.0 for the default length."""


def check(graph: Graph, cut: Iterable[Stage], systems: Mapping[str, str], settings: RealTime) -> None:
    """Check that a job uses only what real-time mode supports. ``cut`` has the job's stages, and ``systems`` maps
    each stream to its system.

    Raises:
        GraphError: an operator, or the system of one of its streams, isn't supported.
        ConfigError: a setting isn't supported.
    """
    for name in ("on_error", "on_null_key"):
        if getattr(settings, name) == "dead-letter":
            raise ConfigError(
                f'[job] trigger = "real-time" has no dead letters, but {name} is "dead-letter"',
                f'set {name} = "fail" or "drop", or {_CURE.removeprefix("set ")}',
            )
    if 0 < settings.interval < _SHORTEST:
        raise ConfigError(
            f'[job] trigger = "real-time" has batches of at least {_SHORTEST:g} s, but interval is '
            f"{settings.interval:g} s",
            f'set interval = "{_SHORTEST:g} seconds" or longer, or {_CURE.removeprefix("set ")}',
        )
    for stage in cut:
        for node in stage.nodes:
            why = _why_not(graph, node, systems, settings)
            if why:
                what = f"{node.kind} {node.name!r} ({node.where})"
                raise GraphError(f'{what} can\'t run with trigger "real-time": {why}', _CURE)


def _why_not(graph: Graph, node: Node, systems: Mapping[str, str], settings: RealTime) -> str:
    if rule(node).function:
        return "it is a Python function, and its rows would wait for the end of the batch"
    if node.kind == "foreach_batch":
        return "a batch there lasts for minutes"
    if is_by_intake(node):
        return "a batch there lasts for minutes, and windows of processing time go by batches"
    if on_late(node) != "drop":
        return f'on_late="{on_late(node)}" takes a Python function, and its rows would wait for the end of the batch'
    if node.kind == "join_table":
        return "its table is refreshed between batches, and a batch there lasts for minutes"
    if node.kind == "join":
        return "it waits for the watermark of its slower side"
    if is_windowed(node) and settings.watermark_scope == "ssp":
        return 'its windows wait for the watermark of the slowest SSP ([job] watermark_scope = "lane" would do)'
    if node.kind in ("read", "write") or is_boundary(node):
        stream = stages.stream_of(graph, node)
        if systems[stream] not in settings.systems:
            those = " and ".join(f"{name.capitalize()}'s" for name in sorted(settings.systems))
            return f"stream {stream!r} lives in {systems[stream]}, and only {those} records come one by one"
    return ""
