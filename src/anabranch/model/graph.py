"""The graph of operators that a job file builds, as plain data. Functions stay in the job file."""

from __future__ import annotations

from typing import Any

from anabranch.model.document import Document


class Node(Document, frozen=True, kw_only=True):
    """One operator: ``inputs`` are node ids; ``args`` are the operator's own (see ``anabranch.operators``).

    ``where``: ``file:line`` in the job file, for messages. ``named``: whether the user gave the name; otherwise it is
    derived.
    """

    id: int
    kind: str
    name: str
    inputs: tuple[int, ...] = ()
    args: dict[str, Any] = {}
    named: bool = False
    where: str = ""


class Graph(Document, frozen=True, kw_only=True):
    """All operators of a job in the order in which they were written; inputs come before their readers."""

    job: str
    nodes: tuple[Node, ...]

    def __getitem__(self, node_id: int) -> Node:
        return self.nodes[node_id]

    def readers(self, node_id: int) -> tuple[Node, ...]:
        """The operators that take ``node_id`` as an input."""
        return tuple(node for node in self.nodes if node_id in node.inputs)
