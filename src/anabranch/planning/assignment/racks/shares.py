"""Each container's share of tasks: the floor or the ceiling of a number that is proportional to its slots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from anabranch.planning.assignment.racks.network import Network, Whole

__all__ = ["Bounds", "between", "first_counts"]


@dataclass(frozen=True)
class Bounds:
    """The least and the greatest load of each container."""

    lower: Whole
    upper: Whole

    @classmethod
    def exactly(cls, counts: Whole) -> Bounds:
        return cls(counts, counts)

    def less(self, loads: Whole) -> Bounds:
        """The bounds on what can be added to each container if the containers already have these ``loads``."""
        return Bounds(np.maximum(self.lower - loads, 0), self.upper - loads)


def between(count: int, slots: Whole) -> Bounds:
    """The floor and the ceiling of each container's share: ``count * slots / sum of all slots``."""
    parts, whole = count * slots, int(slots.sum())
    return Bounds(parts // whole, -(-parts // whole))


def first_counts(
    stateful: Mapping[int, int], stateless: Mapping[int, int], slots: Whole, by_stage: bool
) -> list[Whole]:
    """Two arrays: each container's number of stateful tasks, and its total number of tasks. Both are balanced. As
    in KIP-925, the first containers get the tasks that remain after an even division, unless this would violate one of
    the required balances.

    Args:
        stateful: the number of stateful tasks of each stage.
        stateless: the number of stateless tasks of each stage.
        by_stage: whether the tasks of each stage must be balanced, too.
    """
    count = len(slots)
    net = Network(count * count, count * count)
    rank = np.arange(count)
    sink = net.nodes(1, -sum(stateful.values()) - sum(stateless.values()))
    totals = net.nodes(count)
    counted = []
    for kind, (tasks, heads) in enumerate(((stateful, totals), (stateless, totals))):
        own = net.nodes(count)
        for size in tasks.values():
            bounds = between(size, slots)
            lower, upper = (bounds.lower, bounds.upper) if by_stage else (0, size)
            net.arcs(net.nodes(1, size), own, upper, lower)
        if kind == 0:
            counted.append(_ranked(net, own, heads, between(sum(tasks.values()), slots), (rank,)))
        else:
            net.arcs(own, heads, sum(tasks.values()))
    everything = between(sum(stateful.values()) + sum(stateless.values()), slots)
    counted.append(_ranked(net, totals, sink, everything, (0, rank)))
    flow = net.solve()
    assert flow is not None, "shares always have a common solution"
    return [flow[base] + flow[extra] for base, extra in counted]


def _ranked(net: Network, tails: Whole, heads: Whole, bounds: Bounds, costs: tuple[object, ...]) -> tuple[slice, slice]:
    base = net.arcs(tails, heads, bounds.lower, bounds.lower)
    return base, net.arcs(tails, heads, bounds.upper - bounds.lower, costs=costs)  # type: ignore[arg-type]
