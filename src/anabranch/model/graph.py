"""The graph of operators that a job file builds, as plain data. The job's functions aren't part of the graph."""

from __future__ import annotations

from typing import Any

from anabranch.model.document import Document


class Node(Document, frozen=True, kw_only=True):
    """One operator.

    Attributes:
        inputs: the ids of the nodes whose rows the operator gets.
        args: the operator's arguments as plain data, by name.
        named: whether the user chose the name. If not, anabranch derived it.
        where: ``file:line`` of the call that added the operator, for messages.
    """

    id: int
    kind: str
    name: str
    inputs: tuple[int, ...] = ()
    args: dict[str, Any] = {}
    named: bool = False
    where: str = ""


class Graph(Document, frozen=True, kw_only=True):
    """All operators of a job, in the order in which the job file adds them. An operator's inputs precede the
    operator."""

    job: str
    nodes: tuple[Node, ...]

    def __getitem__(self, node_id: int) -> Node:
        return self.nodes[node_id]

    def readers(self, node_id: int) -> tuple[Node, ...]:
        """The operators that have the node ``node_id`` as an input."""
        return tuple(node for node in self.nodes if node_id in node.inputs)
