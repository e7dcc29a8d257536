"""Assigns active tasks to containers. Among the assignments that balance the containers, an assignment of least cost is
chosen. Stateful tasks are placed first, and stateless tasks second.

The assignment is found by solving a network-flow problem. In the network, a task has arcs to each rack with a replica
of a partition that the task reads, to the task's current container, and to a node for "any container". This node has
arcs to all racks, and a rack has arcs to its containers. With ``balance_subtopology``, each stage has separate nodes. A
task costs the same in all containers of a rack, except in its current container. So the least cost is the same as with
an arc from each task to each container.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from anabranch.planning.assignment.racks.instance import Instance
from anabranch.planning.assignment.racks.network import Network, Whole
from anabranch.planning.assignment.racks.shares import Bounds, between, first_counts

__all__ = ["Placement", "complete", "counted", "counts", "place", "stateful"]

T = TypeVar("T")


@dataclass(frozen=True)
class Placement:
    """The container of each task (-1: not placed yet), and the cost. If active tasks and standbys are placed together,
    ``cost`` is instead a lower bound on the cost of both."""

    containers: Whole
    cost: int


def place(it: Instance, *, moves_first: bool = False) -> Placement:
    """Place the stateful tasks so that the stateless tasks can still be balanced. Then place the stateless tasks.

    Each step minimizes the cost and, among the placements of least cost, the number of moves. With ``moves_first``, the
    number of moves is minimized first, and the cost second.
    """
    return complete(it, stateful(it, moves_first=moves_first), moves_first=moves_first)


def stateful(it: Instance, *, moves_first: bool = False) -> Placement:
    """Place only the stateful tasks. The others have the container -1."""
    own, total = counts(it)
    tasks = np.flatnonzero(it.stateful)
    found = np.full(len(it.tasks), -1, np.int64)
    cost = 0
    if len(tasks):
        found[tasks], cost = _solve(it, tasks, own, total, np.flatnonzero(~it.stateful), moves_first)
    return Placement(found, cost)


def complete(it: Instance, placed: Placement, *, moves_first: bool = False) -> Placement:
    """Place the stateless tasks, given the placement of the stateful tasks."""
    stateless = np.flatnonzero(~it.stateful)
    if not len(stateless):
        return placed
    _, total = counts(it)
    found = placed.containers.copy()
    left = total.less(np.bincount(found[it.stateful], minlength=len(it.slots)))
    found[stateless], cost = _solve(it, stateless, left, left, stateless[:0], moves_first)
    return Placement(found, placed.cost + cost)


def counts(it: Instance) -> tuple[Bounds, Bounds]:
    """The bounds of each container's number of stateful tasks, and of its total number of tasks."""
    if it.problem.loads == "flexible":
        return between(int(it.stateful.sum()), it.slots), between(len(it.tasks), it.slots)
    sizes = [Counter(it.stage_of[kind].tolist()) for kind in (it.stateful, ~it.stateful)]
    own, total = first_counts(sizes[0], sizes[1], it.slots, it.by_stage)
    return Bounds.exactly(own), Bounds.exactly(total)


def counted(it: Instance, containers: Whole) -> tuple[int, int]:
    """The active tasks' total traffic across racks (in scaled weight), and the number of moves. ``containers`` has the
    container of each task.
    """
    traffic = it.active_traffic.of(np.arange(len(it.tasks)), it.rack_of[containers])
    return int(traffic.sum()), int(((it.on != -1) & (it.on != containers)).sum())


def _solve(
    it: Instance, tasks: Whole, own: Bounds, total: Bounds, later: Whole, moves_first: bool
) -> tuple[Whole, int]:
    """The containers of ``tasks``, and the cost. For ``own``, ``total`` and ``later``, see :func:`_limit`."""
    count, racks = len(it.slots), len(it.racks)
    numbers = np.zeros(len(it.tasks), np.int64)
    stages, numbers[tasks] = np.unique(it.stage_of[tasks] if it.by_stage else 0 * tasks, return_inverse=True)
    groups = len(stages)
    stage = numbers[tasks]

    def in_order(cost: T, moves: T) -> tuple[T, T]:
        return (moves, cost) if moves_first else (cost, moves)

    net = Network(*in_order(it.most, len(tasks)))
    task_node = np.zeros(len(it.tasks), np.int64)
    task_node[tasks] = net.nodes(len(tasks), 1)
    anywhere = net.nodes(groups)
    rack_nodes = net.nodes(groups * racks).reshape(groups, racks)
    containers = net.nodes(count)
    sink = net.nodes(1, -len(tasks) - len(later))
    seats = _seats(net, it, np.bincount(stage, minlength=groups), containers) if it.by_stage else containers[None, :]
    _limit(net, it, containers, sink, own, total, later)

    traffic = it.active_traffic
    moves = (it.on != -1).astype(np.int64)
    far = it.traffic_cost * traffic.total + it.move_cost * moves
    near = np.flatnonzero(np.isin(traffic.tasks, tasks)) if it.by_traffic else np.zeros(0, np.int64)
    near_task, near_rack = traffic.tasks[near], traffic.racks[near]
    near_cost = far[near_task] - it.traffic_cost * traffic.covered[near]
    at_home = tasks[it.on[tasks] >= 0]
    home_cost = it.traffic_cost * traffic.of(at_home, it.rack_of[it.on[at_home]])
    to_near = net.arcs(
        task_node[near_task],
        rack_nodes[numbers[near_task], near_rack],
        1,
        costs=in_order(near_cost, moves[near_task]),
    )
    to_anywhere = net.arcs(task_node[tasks], anywhere[stage], 1, costs=in_order(far[tasks], moves[tasks]))
    to_home = net.arcs(
        task_node[at_home], seats[numbers[at_home], it.on[at_home]], 1, costs=in_order(home_cost, 0 * home_cost)
    )
    to_racks = net.arcs(anywhere[:, None], rack_nodes, len(tasks))
    to_seats = net.arcs(rack_nodes[:, it.rack_of], seats, len(tasks))
    flow = net.solve()
    assert flow is not None, "shares always have a common solution"

    rack = np.full(len(it.tasks), -1, np.int64)
    rack[near_task[flow[to_near] > 0]] = near_rack[flow[to_near] > 0]
    roaming = tasks[flow[to_anywhere] > 0]
    roaming = roaming[np.argsort(numbers[roaming], kind="stable")]
    rack[roaming] = np.repeat(np.tile(np.arange(racks), groups), flow[to_racks])
    found = np.full(len(it.tasks), -1, np.int64)
    stays = at_home[flow[to_home] > 0]
    found[stays] = it.on[stays]
    others = tasks[found[tasks] < 0]
    others = others[np.lexsort((others, rack[others], numbers[others]))]
    by_rack = np.argsort(it.rack_of, kind="stable")
    found[others] = np.repeat(np.tile(by_rack, groups), flow[to_seats].reshape(groups, count)[:, by_rack].ravel())
    parts = ((to_near, near_cost), (to_anywhere, far[tasks]), (to_home, home_cost))
    return found[tasks], sum(int(flow[arcs] @ costs) for arcs, costs in parts)


def _seats(net: Network, it: Instance, sizes: Whole, containers: Whole) -> Whole:
    """Add a node for each stage and container, and return these nodes. The flow through such a node is the floor or the
    ceiling of the container's share of the stage's tasks."""
    seats = net.nodes(len(sizes) * len(containers)).reshape(len(sizes), len(containers))
    for number, size in enumerate(sizes.tolist()):
        share = between(size, it.slots)
        net.arcs(seats[number], containers, share.upper, share.lower)
    return seats


def _limit(
    net: Network, it: Instance, containers: Whole, sink: Whole, own: Bounds, total: Bounds, later: Whole
) -> None:
    """Bound the number of tasks in each container by ``own``. Also ensure that the tasks in ``later`` can still be
    placed within ``total``, the bounds of each container's total number of tasks.
    """
    if not len(later):
        net.arcs(containers, sink, own.upper, own.lower)
        return
    totals = net.nodes(len(containers))
    net.arcs(containers, totals, own.upper, own.lower)
    net.arcs(totals, sink, total.upper, total.lower)
    for size in Counter(it.stage_of[later].tolist()).values() if it.by_stage else [len(later)]:
        share = between(size, it.slots) if it.by_stage else Bounds(0 * it.slots, 0 * it.slots + size)
        net.arcs(net.nodes(1, size), totals, share.upper, share.lower)
