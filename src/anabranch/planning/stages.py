"""Divides a graph into stages: the parts before, between and after ``partition_by``s through intermediate streams. Also
determines the streams, key columns and event times of the graph's nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from anabranch.errors import GraphError
from anabranch.model.graph import Graph, Node
from anabranch.operators import rule
from anabranch.operators.keys import KeyColumns
from anabranch.operators.rules import is_boundary, is_shuffle, is_timed, is_windowed
from anabranch.operators.times import EventTime

LAYOUT_VERSION = 1


@dataclass(frozen=True)
class Stage:
    """A stage of a graph. A boundary (a ``partition_by`` through a stream) is a sink of one stage and a source of the
    next. ``nodes`` has the stage's nodes in the graph's order, but not the boundaries that the stage reads."""

    id: str
    nodes: tuple[Node, ...]
    sources: tuple[Node, ...]
    sinks: tuple[Node, ...]

    @property
    def stateful(self) -> tuple[Node, ...]:
        return tuple(node for node in self.nodes if rule(node).stateful)

    @property
    def shuffled(self) -> Node | None:
        """The shuffle inside the query, or None. With a shuffle, the factor must be 1, and the job can have only one
        container."""
        return next((node for node in self.nodes if is_shuffle(node)), None)

    @property
    def keyed(self) -> bool:
        """Whether the stage needs the keys of records."""
        return bool(self.stateful) or any(is_boundary(node) for node in self.sources)

    @property
    def key(self) -> tuple[str, ...]:
        """The columns of the stage key; () for the raw message key."""
        first = rule(self.sources[0]).key(self.sources[0], KeyColumns())
        return first.columns


def stream_of(graph: Graph, node: Node) -> str:
    """The stream of a source, or the stream or table of a ``write``; for a boundary, its intermediate stream."""
    if is_boundary(node):
        return f"{graph.job}-{node.name}-{LAYOUT_VERSION}"
    return str(node.args["stream"])


def intermediate_streams(graph: Graph) -> set[str]:
    """The streams through which the stages of a job pass records to each other."""
    return {stream_of(graph, node) for node in graph.nodes if is_boundary(node)}


def dead_letters_of(stream: str) -> str:
    """The dead-letter stream of a stream."""
    return f"{stream}-dead-letters"


def systems(graph: Graph, bound: Mapping[str, str], default: str) -> dict[str, str]:
    """The system of every stream of the job, except the streams that the job joins as tables. If settings don't
    bind an intermediate stream or a dead-letter stream to a system, the stream is in the system that its records come
    from. But an intermediate stream with records from several systems is in the default system.

    Args:
        bound: the system of each stream that settings bind to a system.
        default: the system of the user's other streams.
    """
    found: dict[str, str] = {}
    origins: dict[int, set[str]] = {}
    for node in graph.nodes:
        came = {system for i in node.inputs for system in origins[i]}
        if "stream" in node.args:
            came = {found.setdefault(node.args["stream"], bound.get(node.args["stream"], default))}
        elif is_boundary(node):
            stream = stream_of(graph, node)
            came = {found.setdefault(stream, bound.get(stream, next(iter(came)) if len(came) == 1 else default))}
        origins[node.id] = came
    for stream, system in tuple(found.items()):
        found.setdefault(dead_letters_of(stream), bound.get(dead_letters_of(stream), system))
    return found


def cut(graph: Graph) -> tuple[Stage, ...]:
    """The stages of a graph. Each stage comes after the stages from which it reads.

    Raises:
        GraphError: there are no operators or no outputs, an operator leads to no output, or a stage reads its own
            output, directly or through other stages.
    """
    _check(graph)
    groups = _components(graph)
    ordered = _ordered(graph, groups)
    return tuple(_stage(graph, str(number), members) for number, members in enumerate(ordered))


def _check(graph: Graph) -> None:
    if not graph.nodes:
        raise GraphError(f"job {graph.job!r} has no operators", 'begin with job.read("a-stream")')
    for node in graph.nodes:
        ends = rule(node).sink and not is_boundary(node)
        if not ends and not graph.readers(node.id):
            raise GraphError(
                f"{node.kind} {node.name!r} ({node.where}) leads to no output",
                'end it with .write("a-stream") or .foreach_batch(f), or take it out',
            )


# A boundary has two roles: (id, False) ends the stage before it, (id, True) begins the stage after it.
_Role = tuple[int, bool]


def _components(graph: Graph) -> list[set[_Role]]:
    parent: dict[_Role, _Role] = {}

    def root(role: _Role) -> _Role:
        parent.setdefault(role, role)
        while parent[role] != role:
            role = parent[role]
        return role

    for node in graph.nodes:
        root((node.id, False))
        if is_boundary(node):
            root((node.id, True))
        for source in node.inputs:
            parent[root((node.id, False))] = root((source, is_boundary(graph[source])))
    groups: dict[_Role, set[_Role]] = {}
    for role in parent:
        groups.setdefault(root(role), set()).add(role)
    return sorted(groups.values(), key=min)


def _ordered(graph: Graph, groups: list[set[_Role]]) -> list[set[_Role]]:
    home = {role: number for number, group in enumerate(groups) for role in group}
    before = {n: {home[(i, False)] for i, begins in group if begins} for n, group in enumerate(groups)}
    order: list[int] = []
    while len(order) < len(groups):
        ready = [n for n in range(len(groups)) if n not in order and before[n] <= set(order)]
        if not ready:
            stuck = next(n for n in range(len(groups)) if n not in order)
            node = next(graph[i] for i, begins in sorted(groups[stuck]) if begins)
            raise GraphError(
                f"partition_by {node.name!r} ({node.where}) feeds the stage that it comes from",
                "merge only rows of one stage: put a partition_by before the other side of the merge too",
            )
        order.append(ready[0])
    return [groups[n] for n in order]


def _stage(graph: Graph, stage_id: str, members: set[_Role]) -> Stage:
    nodes = tuple(graph[i] for i, begins in sorted(members) if not begins)
    begun = [graph[i] for i, begins in sorted(members) if begins]
    sources = sorted([*begun, *(node for node in nodes if node.kind == "read")], key=lambda node: node.id)
    sinks = tuple(node for node in nodes if rule(node).sink)
    return Stage(stage_id, nodes, tuple(sources), sinks)


def key_columns(graph: Graph, stage: Stage) -> dict[int, KeyColumns]:
    """For each source of the stage, and for each other node that isn't a sink: which columns of the node's rows contain
    the stage key, or why no columns do."""
    found: dict[int, KeyColumns] = {}
    for source in stage.sources:
        found[source.id] = rule(source).key(source, KeyColumns())
    for node in stage.nodes:
        if node in stage.sources or rule(node).sink:
            continue
        before = [found[i] for i in node.inputs]
        first = before[0]
        odd = next((key for key in before if key.columns != first.columns), None)
        if odd is not None:
            lost = odd.lost or first.lost or f"{node.kind} ({node.where}) joins {first.columns} with {odd.columns}"
            first = KeyColumns((), lost)
        found[node.id] = rule(node).key(node, first)
    return found


def event_times(graph: Graph) -> dict[int, EventTime]:
    """For every node, the event-time column of its rows, or why there is none. Event time passes through boundaries."""
    found: dict[int, EventTime] = {}
    for node in graph.nodes:
        before = [found[i] for i in node.inputs] or [EventTime()]
        first = before[0]
        odd = next((time for time in before if time.column != first.column), None)
        if odd is not None:
            columns = f"{first.column or 'none'} with {odd.column or 'none'}"
            first = EventTime("", odd.lost or first.lost or f"merge ({node.where}) joins the event times {columns}")
        found[node.id] = rule(node).time(node, first)
    return found


def changed(graph: Graph, stage: Stage) -> set[int]:
    """The nodes of the stage in whose rows a function may have changed the values of key or event-time columns."""
    found: set[int] = set()
    for node in stage.nodes:
        if node in stage.sources:
            continue
        if rule(node).function or node.kind == "transform" or any(i in found for i in node.inputs):
            found.add(node.id)
    return found


def timed(graph: Graph) -> set[int]:
    """The boundaries whose readers need a watermark, because an operator downstream uses event time."""
    needing = {node.id for node in graph.nodes if is_timed(node)}
    for node in reversed(graph.nodes):
        if any(reader.id in needing for reader in graph.readers(node.id)):
            needing.add(node.id)
    return {i for i in needing if is_boundary(graph[i])}


def untimed_refused(graph: Graph, stage: Stage) -> set[int]:
    """The ids of those boundaries that end the stage and refuse rows without event time.

    Spark silently leaves rows without event time out of event-time windows and out of joins. So a boundary refuses
    these rows if both conditions hold:

    - The stage can make rows without event time: the boundary comes after a ``transform`` of the stage, or after an
      operator with a function that processes rows.
    - All rows behind the boundary go to an event-time window or to a ``join``. On the way, they don't pass through a
      ``where``, a ``transform`` or a function, any of which could remove the rows or give them an event time.
    """
    needing = {node.id for node in graph.nodes if is_windowed(node) or node.kind == "join"}
    for node in reversed(graph.nodes):
        readers = graph.readers(node.id)
        if readers and all(each.id in needing and not _may_mend(each) for each in readers):
            needing.add(node.id)
    return {node.id for node in stage.sinks if is_boundary(node)} & needing & changed(graph, stage)


def _may_mend(node: Node) -> bool:
    """Whether an operator could remove rows without event time, or give them an event time."""
    return rule(node).function or node.kind in ("transform", "where")


def upstream(graph: Graph, stage: Stage, node: Node) -> Iterator[Node]:
    """The nodes of the stage that lead to ``node``, and ``node`` itself, in the graph's order."""
    wanted, queue = {node.id}, [node]
    while queue:
        current = queue.pop()
        if current in stage.sources:
            continue
        for i in current.inputs:
            if i not in wanted:
                wanted.add(i)
                queue.append(graph[i])
    return (graph[i] for i in sorted(wanted))


def read_streams(graph: Graph) -> list[str]:
    """The streams that a job reads, without its intermediate streams. Streams that it joins as tables come last."""
    return [*_streams(graph, "read"), *table_streams(graph)]


def written_streams(graph: Graph) -> list[str]:
    """The streams and tables that a job writes, without its intermediate streams and its dead-letter streams."""
    return _streams(graph, "write")


def table_streams(graph: Graph) -> list[str]:
    """The streams that a job joins as tables."""
    return [node.args["of"]["stream"] for node in graph.nodes if "of" in node.args]


def _streams(graph: Graph, kind: str) -> list[str]:
    return [node.args["stream"] for node in graph.nodes if node.kind == kind]
