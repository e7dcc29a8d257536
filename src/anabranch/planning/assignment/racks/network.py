"""Finds the cheapest integer flows in a network with bounds on arcs and several costs in order of importance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anabranch.errors import ConfigError

__all__ = ["LARGEST_COST", "Network", "Whole"]

Whole = NDArray[np.int64]
"""An array of whole numbers."""

LARGEST_COST = 2**62


class Network:
    """Nodes with supply or demand, and arcs with bounds and costs.

    Args:
        spreads: for each kind of cost, in the order of importance, an upper bound on the difference between any two
            flows' total costs of this kind. (The first bound isn't used.) A kind of cost decides only among the flows
            for which all preceding costs are least.
    """

    def __init__(self, *spreads: int) -> None:
        self._spreads = spreads
        self._supply: list[Whole] = []
        self._arcs: list[list[Whole]] = []
        self._nodes = 0
        self._length = 0

    def nodes(self, count: int, supply: ArrayLike = 0) -> Whole:
        """Add nodes, each with its supply (a negative supply is a demand), and return their numbers. In the whole
        network, supplies must sum to 0.
        """
        self._supply.append(np.broadcast_to(np.asarray(supply, np.int64), (count,)))
        self._nodes += count
        return np.arange(self._nodes - count, self._nodes)

    def arcs(
        self,
        tails: ArrayLike,
        heads: ArrayLike,
        upper: ArrayLike,
        lower: ArrayLike = 0,
        costs: Sequence[ArrayLike] = (),
    ) -> slice:
        """Add arcs. ``costs`` are in the order of ``spreads``; missing costs are 0. Returns a slice: the place of the
        new arcs' flows in the result of :meth:`solve`.
        """
        full = [*costs, *[0] * (len(self._spreads) - len(costs))]
        columns = np.broadcast_arrays(*(np.asarray(each, np.int64) for each in (tails, heads, lower, upper, *full)))
        self._arcs.append([column.ravel() for column in columns])
        self._length += columns[0].size
        return slice(self._length - columns[0].size, self._length)

    def solve(self) -> Whole | None:
        """The flow of each arc, or None when no flow satisfies the bounds.

        Raises:
            ConfigError: the costs are too large for 64 bits.
        """
        tails, heads, lower, upper, *costs = self._columns()
        weights = [1] * len(costs)
        for number in range(len(costs) - 1, 0, -1):
            weights[number - 1] = weights[number] * (self._spreads[number] + 1)
        largest = sum(w * int(abs(c).max(initial=0)) for w, c in zip(weights, costs, strict=True))
        if len(costs) > 1 and largest * (self._nodes + 2) > LARGEST_COST:
            return self._in_turn()[2]
        cost = sum((w * c for w, c in zip(weights, costs, strict=True)), np.zeros_like(tails))
        return _flow(tails, heads, lower, upper, cost, np.concatenate(self._supply))

    def tight(self) -> tuple[Whole, Whole] | None:
        """Lower and upper bounds for all arcs. A flow has the least cost if and only if it satisfies these bounds. None
        if no flow satisfies the bounds with which the arcs were added.
        """
        lower, upper, flow = self._in_turn()
        return None if flow is None else (lower, upper)

    def _columns(self) -> list[Whole]:
        return [np.concatenate(column) for column in zip(*self._arcs, strict=True)]

    def _in_turn(self) -> tuple[Whole, Whole, Whole | None]:
        """Minimize one cost after another. Returns the lower and upper bounds of :meth:`tight`, and a flow of least
        cost. If no flow satisfies the bounds with which the arcs were added, the flow is None.
        """
        tails, heads, lower, upper, *costs = self._columns()
        flow = None
        for cost in costs:
            flow = _flow(tails, heads, lower, upper, cost, np.concatenate(self._supply))
            if flow is None:
                break
            reduced = _reduced(tails, heads, lower, upper, cost, flow, self._nodes)
            lower, upper = np.where(reduced < 0, upper, lower), np.where(reduced > 0, lower, upper)
        return lower, upper, flow


def _flow(tails: Whole, heads: Whole, lower: Whole, upper: Whole, cost: Whole, supply: Whole) -> Whole | None:
    from ortools.graph.python import min_cost_flow  # the import takes a third of a second

    if (lower > upper).any():
        return None
    left = supply.copy()
    np.subtract.at(left, tails, lower)
    np.add.at(left, heads, lower)
    solver = min_cost_flow.SimpleMinCostFlow()
    arcs = solver.add_arcs_with_capacity_and_unit_cost(tails, heads, upper - lower, cost)
    solver.set_nodes_supplies(np.arange(len(left)), left)
    status = solver.solve()
    if status == solver.INFEASIBLE:
        return None
    if status == solver.BAD_COST_RANGE:
        raise ConfigError(
            "weights and costs are too large to be compared exactly in 64 bits",
            "give the weights in a larger unit, with fewer digits",
        )
    if status != solver.OPTIMAL:
        raise AssertionError(f"a flow problem ended {status}")
    found: Whole = lower + solver.flows(arcs)
    return found


def _reduced(tails: Whole, heads: Whole, lower: Whole, upper: Whole, cost: Whole, flow: Whole, nodes: int) -> Whole:
    """The reduced cost of each arc, from a ``flow`` of least cost. Another flow also has the least cost if and only if
    two conditions are met: arcs with a positive reduced cost have their lower bound as their flow, and arcs with a
    negative reduced cost have their upper bound as their flow.
    """
    onward, back = flow < upper, flow > lower
    start = np.concatenate([tails[onward], heads[back]])
    end = np.concatenate([heads[onward], tails[back]])
    length = np.concatenate([cost[onward], -cost[back]])
    distance = np.zeros(nodes, np.int64)
    while True:
        nearer = distance.copy()
        np.minimum.at(nearer, end, distance[start] + length)
        if (nearer == distance).all():
            reduced: Whole = cost + distance[tails] - distance[heads]
            return reduced
        distance = nearer
