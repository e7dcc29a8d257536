"""Divides a stage into groups. The stateless outputs to one system, or to one kind of table, with the same promise
share a group. Each stateful operator and each stateless ``foreach_batch`` has its own group.

In a new job, a group has lanes in each container that reads SSPs for the group: one lane if the group is stateful, and
up to ``[job] lanes`` lanes if it is stateless. After changes, a stateful group can have several lanes in one container.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from anabranch.errors import GraphError
from anabranch.model.graph import Graph, Node
from anabranch.operators import rule
from anabranch.operators.keys import KeyColumns
from anabranch.operators.rules import is_boundary, is_timed, is_windowed
from anabranch.planning import joins, stages
from anabranch.planning.stages import Stage

OUTPUTS = "outputs"


@dataclass(frozen=True)
class Group:
    """Operators of a stage that run in the same lanes. ``nodes`` are all operators of the group, in the graph's order,
    including ``sources`` and ``sinks``. ``stateful`` is the operator to which the lanes' state belongs; None for a
    stateless group.
    """

    name: str
    stage: str
    nodes: tuple[Node, ...]
    sources: tuple[Node, ...]
    sinks: tuple[Node, ...]
    stateful: Node | None

    def timed(self, graph: Graph) -> tuple[Node, ...]:
        """The sources whose event time determines this group's watermark; empty if the group has no watermark."""
        wanted = stages.timed(graph)
        ends = [n for n in self.nodes if is_timed(n) or (n in self.sinks and n.id in wanted)]
        before = {n.id for end in ends for n in self._before(graph, end)}
        return tuple(source for source in self.sources if source.id in before)

    def _before(self, graph: Graph, end: Node) -> list[Node]:
        found, queue = {end.id: end}, [end]
        while queue:
            current = queue.pop()
            if current is end or current not in self.sources:
                for i in current.inputs:
                    found[i] = graph[i]
                    queue.append(graph[i])
        return list(found.values())

    def readers(self, node: Node) -> tuple[Node, ...]:
        """The operators of this group that get the node's rows."""
        return tuple(n for n in self.nodes if node.id in n.inputs and n not in self.sources)

    @property
    def branches(self) -> bool:
        """Whether several operators read the rows of the same operator."""
        return any(len(self.readers(node)) > 1 for node in self.nodes)

    def rejoins(self, node: Node) -> bool:
        """Whether rows of the same source reach this operator on several paths."""
        ways = [self._sources_of(i) for i in node.inputs] if node not in self.sources else []
        return len(set().union(*ways)) < sum(map(len, ways))

    def _sources_of(self, node_id: int) -> set[int]:
        inputs = {node.id: () if node in self.sources else node.inputs for node in self.nodes}
        found, queue = set[int](), [node_id]
        while queue:
            current = queue.pop()
            queue += inputs[current]
            found |= {current} if not inputs[current] else set()
        return found


def cut(graph: Graph, stage: Stage, kinds: Mapping[str, str]) -> tuple[Group, ...]:
    """The stage's groups.

    Args:
        kinds: the kind of each output to a stream or a table; see :func:`anabranch.planning.plan.promises.kind`.
            Outputs of different kinds can't be in one group, unless they come from the same stateful operator.

    Raises:
        GraphError: a stateful operator lacks a stage key, or lacks the event time that it needs. Or the sides of a join
            don't fit together. Or the rows of a stateful operator are merged with other rows. Or a stateful operator
            comes after another stateful operator, after a ``join_table``, or after a merge of branches of one operator.
            Or a ``write`` after a ``map_arrow`` has no key.
    """
    keys = stages.key_columns(graph, stage)
    for node in stage.stateful:
        _check_stateful(graph, stage, node, keys)
    by_name: dict[str, list[Node]] = {}
    for sink in stage.sinks:
        owners = [n for n in stages.upstream(graph, stage, sink) if rule(n).stateful]
        _check_key(graph, sink, keys)
        if owners:
            name = owners[-1].name
        elif sink.kind == "foreach_batch":
            name = sink.name
        else:
            name = f"{OUTPUTS}-{kinds[stages.stream_of(graph, sink)]}"
        by_name.setdefault(name, []).append(sink)
    return tuple(_group(graph, stage, name, sinks) for name, sinks in by_name.items())


def _group(graph: Graph, stage: Stage, name: str, sinks: list[Node]) -> Group:
    wanted = {n.id: n for sink in sinks for n in stages.upstream(graph, stage, sink)}
    nodes = tuple(wanted[i] for i in sorted(wanted))
    sources = tuple(n for n in nodes if n in stage.sources and n not in sinks)
    stateful = next((n for n in nodes if rule(n).stateful), None)
    return Group(name, stage.id, nodes, sources, tuple(sinks), stateful)


def _check_stateful(graph: Graph, stage: Stage, node: Node, keys: dict[int, KeyColumns]) -> None:
    for key in (keys[i] for i in node.inputs):
        if not key.columns:
            raise GraphError(
                f"{node.kind} {node.name!r} ({node.where}) keeps state but has no stage key: {key.lost}",
                'put .partition_by("column") before it, or declare the message key: read(..., key="column string")',
            )
    if node.kind == "join":
        joins.check(graph, stage, node, keys)
    earlier = [n for n in stages.upstream(graph, stage, node) if rule(n).stateful and n is not node]
    if earlier:
        raise GraphError(
            f"{node.kind} {node.name!r} ({node.where}) comes after {earlier[0].kind} {earlier[0].name!r} in one stage",
            'put a partition_by(…, via="stream") between them: each stateful operator needs a lane of its own',
        )
    lost = [time.lost for i in node.inputs if not (time := stages.event_times(graph)[i]).column]
    if is_timed(node) and lost:
        has = "windows" if is_windowed(node) else "to join by time" if node.kind == "join" else "event-time timers"
        raise GraphError(
            f"{node.kind} {node.name!r} ({node.where}) has {has}, but its rows have no event time: {lost[0]}",
            'declare it where the stream is read: read(..., event_time="at", watermark="10 minutes"), and keep the '
            "column as it is",
        )
    before_it = [n for n in stages.upstream(graph, stage, node) if n is not node]
    table = next((n for n in before_it if n.kind == "join_table"), None)
    if table is not None:
        raise GraphError(
            f"{node.kind} {node.name!r} ({node.where}) comes after join_table {table.name!r} ({table.where}) in one "
            "stage",
            'put a partition_by(…, via="stream") between them, or the join_table after it: a table is refreshed '
            "between batches, and what leads to state is fixed while a lane runs",
        )
    for merge in (n for n in before_it if n.kind == "merge"):
        origins = [i for source in merge.inputs for i in {n.id for n in stages.upstream(graph, stage, graph[source])}]
        twice = next((i for i in origins if origins.count(i) > 1), None)
        if twice is not None:
            raise GraphError(
                f"merge ({merge.where}) brings branches of {graph[twice].name!r} together again before the stateful "
                f"{node.kind} {node.name!r}",
                "write it as one branch, for example with a case expression, or put a partition_by(…, "
                'via="stream") between them',
            )
    for merge in (n for n in stage.nodes if n.kind == "merge"):
        before = list(stages.upstream(graph, stage, merge))
        if node in before:
            raise GraphError(
                f"merge ({merge.where}) takes rows of the stateful {node.kind} {node.name!r}",
                "write both sides to the same stream, or merge before the stateful operator",
            )


def _check_key(graph: Graph, sink: Node, keys: dict[int, KeyColumns]) -> None:
    """Raise GraphError if a ``write`` after a ``map_arrow`` has no ``key``, and no columns of the rows contain the
    stage key. ``map_arrow`` can change the number of rows, so the message keys of its results aren't known.
    """
    if sink.kind != "write" or "key" in sink.args:
        return
    node = graph[sink.inputs[0]]
    while node.inputs and not is_boundary(node) and not rule(node).stateful:
        if node.kind == "map_arrow" and not keys[node.id].columns:
            raise GraphError(
                f"write {sink.name!r} ({sink.where}) has no key: after map_arrow ({node.where}) the message key of a "
                f"row is unknown ({keys[node.id].lost})",
                'use write(..., key="an expression"), or declare the key in read(..., key=...)',
            )
        node = graph[node.inputs[0]]
