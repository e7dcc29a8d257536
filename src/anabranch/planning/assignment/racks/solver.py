"""Solves an assignment problem, with a lower bound on the cost of any assignment."""

from __future__ import annotations

import numpy as np

from anabranch.planning.assignment.racks import active, joint, standby
from anabranch.planning.assignment.racks.active import Placement
from anabranch.planning.assignment.racks.instance import Instance
from anabranch.planning.assignment.racks.network import Whole
from anabranch.planning.assignment.racks.problem import Answer, ByRole, Problem
from anabranch.planning.assignment.racks.standby import Standbys

__all__ = ["solve"]


def solve(problem: Problem) -> Answer:
    """The cheapest assignment that was found; its ``gap`` shows how far it can be from the optimum. The order of
    containers, tasks and partitions doesn't matter.

    Raises:
        ConfigError: weights and costs are too large for an exact comparison, a tag is missing from some containers, or
            there are too many standbys to place exactly.
    """
    it = Instance(problem)
    if problem.mode == "joint":
        return _answer(it, *joint.place(it))
    placed = active.place(it)
    return _answer(it, placed, standby.place(it, placed.containers))


def _answer(it: Instance, placed: Placement, copies: Standbys) -> Answer:
    containers = placed.containers
    reads, moved = active.counted(it, containers)
    feeds = (
        0
        if not copies.containers.size
        else int(it.standby_traffic.of(copies.tasks[:, None], it.rack_of[copies.containers]).sum())
    )
    rebuilt = standby.rebuilt(it, copies.tasks, copies.containers)
    cost = (reads + feeds) * it.traffic_cost + (moved + rebuilt) * it.move_cost
    bound = placed.cost + copies.bound
    names = [container.id for container in it.containers]
    standbys: dict[str, tuple[str, ...]] = {task.name: () for task in it.tasks}
    for task, where in zip(copies.tasks.tolist(), copies.containers.tolist(), strict=True):
        standbys[it.tasks[task].name] = tuple(names[number] for number in where)
    return Answer(
        active={task.name: names[number] for task, number in zip(it.tasks, containers.tolist(), strict=True)},
        standby=standbys,
        cost=it.unscaled(cost),
        traffic=None if it.why_not else it.unscaled(reads + feeds),
        traffic_by_role=None if it.why_not else ByRole(active=it.unscaled(reads), standby=it.unscaled(feeds)),
        lower_bound=it.unscaled(bound),
        gap=it.unscaled(cost - bound),
        moved=moved + rebuilt,
        moved_by_role=ByRole(active=moved, standby=rebuilt),
        loads=_loads(names, containers),
        standby_loads=_loads(names, copies.containers.ravel()),
        spread=standby.spread(it, copies.tasks, containers, copies.containers),
        most_spread=standby.most_spread(it, *copies.containers.shape),
        racks_used=not it.why_not,
        why_not=it.why_not,
    )


def _loads(names: list[str], containers: Whole) -> dict[str, int]:
    return dict(zip(names, np.bincount(containers, minlength=len(names)).tolist(), strict=True))
