"""Places active tasks and standbys together, because the best place for an active task can leave only expensive places
for its standbys.

The active tasks must be balanced. The standbys must be spread and balanced at least as well as if the active tasks were
placed first. Finding the cheapest such plan isn't a flow problem, because a task and its standbys exclude each other
from containers, and often from racks. So a branch-and-bound search looks for the plan. Even if the search ends early,
it gives a bound on the cost. An *option* is a container (or a group of equivalent containers) for an active task or for
any of a task's standbys. With more than :data:`MOST_OPTIONS` options, there is no search, and the active tasks are
placed first.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import numpy as np

from anabranch.planning.assignment.racks import active, standby
from anabranch.planning.assignment.racks.active import Placement
from anabranch.planning.assignment.racks.balance import Slopes
from anabranch.planning.assignment.racks.instance import Instance
from anabranch.planning.assignment.racks.problem import Problem
from anabranch.planning.assignment.racks.search import Search, is_collapsed
from anabranch.planning.assignment.racks.shares import between
from anabranch.planning.assignment.racks.standby import Standbys

__all__ = ["MOST_OPTIONS", "place"]

MOST_OPTIONS = 20_000
"""The maximum number of options for a search. With more options, a search would take more than a few seconds, so the
sequential plan is used, with a lower bound on the cost.
"""
_ROUNDS = 5


@dataclass(frozen=True)
class _Plan:
    placed: Placement
    copies: Standbys

    def cost(self, it: Instance) -> tuple[int, int]:
        """The total cost of the stateful tasks and their standbys, and how many of these tasks and standbys move."""
        tasks, containers, where = self.copies.tasks, self.placed.containers, self.copies.containers
        reads = int(it.active_traffic.of(tasks, it.rack_of[containers[tasks]]).sum())
        reads += int(it.standby_traffic.of(tasks[:, None], it.rack_of[where]).sum())
        on = it.on[tasks]
        moves = int(((on != -1) & (on != containers[tasks])).sum()) + standby.rebuilt(it, tasks, where)
        return reads * it.traffic_cost + moves * it.move_cost, moves


@dataclass(frozen=True)
class _Rules:
    """The balance and the spread that a plan must have: at least those of the sequential plan that would be made if no
    task were running yet. So the rules don't depend on where tasks run now.

    Attributes:
        slopes: the containers' shares of standbys.
        far: the largest allowed distance of the containers' loads of standbys from these shares.
        spread: the least allowed spread, summed over the tasks; 0 if cost comes before spread for all standbys.
    """

    slopes: Slopes
    far: int
    spread: int

    def allow(self, it: Instance, plan: _Plan) -> bool:
        return _far(self.slopes, plan) <= self.far and _spread(it, plan) >= self.spread


def place(it: Instance) -> tuple[Placement, Standbys]:
    """Place stateful tasks with their standbys, then stateless tasks. The sum of :attr:`Placement.cost` and
    :attr:`Standbys.bound` is a lower bound on the cost.
    """
    plan = _sequential(it)
    tasks, copies = plan.copies.tasks, plan.copies.containers.shape[1]
    if not plan.copies.containers.size:
        return active.complete(it, plan.placed), plan.copies
    bound = plan.placed.cost + standby.at_least(it, tasks, copies)
    if 2 * len(tasks) * (len(it.rack_of_place) if is_collapsed(it) else len(it.slots)) <= MOST_OPTIONS:
        rules = _rules(it)
        plan, found = _best(it, rules)
        bound = max(bound, found)
        for _ in range(_ROUNDS):
            if plan.cost(it)[0] <= bound:
                break
            again, _ = _best(Instance(_moved(it, plan)), rules)
            if again.cost(it) >= plan.cost(it):
                break
            plan = again
    placed = active.complete(it, Placement(plan.placed.containers, bound))
    return placed, Standbys(tasks, np.sort(plan.copies.containers, axis=1), 0)


def _sequential(it: Instance) -> _Plan:
    placed = active.stateful(it)
    return _Plan(placed, standby.place(it, placed.containers))


def _rules(it: Instance) -> _Rules:
    fresh = tuple(msgspec.structs.replace(task, on=None, standby_on=()) for task in it.problem.tasks)
    plan = _sequential(Instance(msgspec.structs.replace(it.problem, tasks=fresh)))
    tasks, copies = plan.copies.containers.shape
    slopes = Slopes.of(between(tasks * copies, it.slots), 0 * it.slots, 0 * it.slots + tasks, it.slots)
    return _Rules(slopes, _far(slopes, plan), _spread(it, plan) if standby.copies_of(it)[0] else 0)


def _far(slopes: Slopes, plan: _Plan) -> int:
    return slopes.far(np.bincount(plan.copies.containers.ravel(), minlength=len(slopes.weight)))


def _spread(it: Instance, plan: _Plan) -> int:
    return standby.spread(it, plan.copies.tasks, plan.placed.containers, plan.copies.containers)


def _moved(it: Instance, plan: _Plan) -> Problem:
    """The problem after the plan has been carried out."""
    names = [container.id for container in it.containers]
    tasks = list(it.tasks)
    for number, where in zip(plan.copies.tasks.tolist(), plan.copies.containers.tolist(), strict=True):
        tasks[number] = msgspec.structs.replace(
            tasks[number], on=names[plan.placed.containers[number]], standby_on=tuple(names[one] for one in where)
        )
    return msgspec.structs.replace(it.problem, tasks=tuple(tasks))


def _best(it: Instance, rules: _Rules) -> tuple[_Plan, int]:
    """The best plan that was found, and a lower bound on the cost of any plan."""
    sequential = _sequential(it)
    found, bound = Search(it, rules.slopes, rules.far, rules.spread).result()
    plans = [sequential] if rules.allow(it, sequential) or found is None else []
    if found is not None:
        tasks = sequential.copies.tasks
        containers = np.full(len(it.tasks), -1, np.int64)
        containers[tasks] = found[:, 0]
        plans.append(_Plan(Placement(containers, 0), Standbys(tasks, found[:, 1:], 0)))
    return min(plans, key=lambda plan: plan.cost(it)), bound
