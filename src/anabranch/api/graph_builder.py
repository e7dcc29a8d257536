"""Collects the operators and functions of a job while its job file runs."""

from __future__ import annotations

import hashlib
import re
from typing import Any

from anabranch.api import arguments
from anabranch.api.arguments import caller
from anabranch.errors import GraphError
from anabranch.model.graph import Graph, Node

_LONGEST = 95
"""The maximum length, in characters, of a name that :meth:`GraphBuilder.add` makes from ``derived``. A number that is
appended to make the name unique doesn't count. (Names that users give may have up to 100 characters.)
"""


class GraphBuilder:
    """Collects operators in the order in which the job file adds them. ``functions`` maps node numbers to the functions
    and processors that the operators call, and :data:`~anabranch.api.hooks.ON_DRAIN` to the ``on_drain`` function.
    """

    def __init__(self, job: str) -> None:
        self.job = job
        self.functions: dict[int, Any] = {}
        self._nodes: list[Node] = []

    @property
    def graph(self) -> Graph:
        """All operators so far, as plain data."""
        return Graph(job=self.job, nodes=tuple(self._nodes))

    def check_shared(self, kind: str, other: GraphBuilder) -> None:
        """Raises GraphError if ``other``, the builder of an operator's input stream, isn't this builder."""
        if other is not self:
            raise GraphError(
                f"{kind} at {caller()} takes streams of two jobs: {self.job!r} and {other.job!r}",
                f"{kind} streams of one job; a stream of another job is read by name",
            )

    def add(
        self,
        kind: str,
        inputs: tuple[int, ...],
        args: dict[str, Any],
        name: str | None,
        derived: str,
        function: Any = None,
    ) -> Node:
        """Add an operator to the graph, and return the operator's node. Nodes are numbered from 0, in the order of the
        calls.

        Args:
            kind: the kind of operator, such as ``where``.
            inputs: the numbers of the nodes whose rows the operator gets.
            args: the operator's arguments; those that are None are left out.
            name: the name that the user gave; None to make a name from ``derived``.
            derived: the text from which a name is made. Each run of characters that a name can't contain is replaced
                with a dash, and dashes at both ends are removed. If nothing is left, the name is ``operator``. The end
                of a long name is replaced with a hash. If another operator has the name, ``-2`` is appended (or ``-3``,
                and so on).
            function: the function or processor that the operator calls; None if there is none.

        Raises:
            GraphError: ``name`` isn't allowed, another operator has this name, or an argument that must be text isn't a
                string.
        """
        arguments.check_texts(kind, args)
        taken = {node.name for node in self._nodes}
        where = caller()
        if name is not None:
            arguments.check_name("operator", name)
            if name in taken:
                raise GraphError(f"two operators are named {name!r} ({where})", "give one of them another name=")
        node = Node(
            id=len(self._nodes),
            kind=kind,
            name=name if name is not None else _unique(derived, taken),
            inputs=inputs,
            args={key: value for key, value in args.items() if value is not None},
            named=name is not None,
            where=where,
        )
        if function is not None:
            self.functions[node.id] = function
        self._nodes.append(node)
        return node


def _unique(derived: str, taken: set[str]) -> str:
    base = re.sub(r"[^A-Za-z0-9._-]+", "-", derived).strip("-") or "operator"
    if len(base) > _LONGEST:
        base = f"{base[: _LONGEST - 9]}-{hashlib.sha256(base.encode()).hexdigest()[:8]}"
    name, count = base, 1
    while name in taken:
        count += 1
        name = f"{base}-{count}"
    return name
