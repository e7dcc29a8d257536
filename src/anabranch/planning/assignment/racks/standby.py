"""Assigns standbys to containers. A task and its standbys are all in different containers. Standbys are balanced, and
spread over racks and the values of tags. There is little traffic across racks, and few standbys move.

The problem's ``standby_order`` determines whether spread (``reliability``) or ``cost`` comes first. With
``reliable_standbys``, spread comes first for this number of each task's standbys, and cost for the others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from anabranch.planning.assignment.racks.balance import Slopes, groups_nearest, nearest
from anabranch.planning.assignment.racks.copies import Question, answered
from anabranch.planning.assignment.racks.instance import Instance
from anabranch.planning.assignment.racks.network import Whole
from anabranch.planning.assignment.racks.shares import between

__all__ = ["Standbys", "at_least", "copies_of", "crosses", "most_spread", "movable", "place", "rebuilt", "spread"]


@dataclass(frozen=True)
class Standbys:
    """The containers of standbys: ``containers`` has a row for each of ``tasks``. ``bound`` is a lower bound on the
    cost of any assignment of standbys; 0 if another bound includes it.
    """

    tasks: Whole
    containers: Whole
    bound: int


def place(it: Instance, active: Whole) -> Standbys:
    """Place the requested number of standbys of each stateful task, but no more than there are other containers.

    ``active`` is the container of each task. If racks and tags divide the containers in several ways, the standbys for
    which spread comes first are placed in rounds, one per task in each round. In that case, the result might not
    be optimal, and the bound shows how far it can be from the optimum.
    """
    tasks = np.flatnonzero(it.stateful)
    first, rest = copies_of(it)
    taken = active[tasks][:, None]
    if not len(tasks) or not first + rest:
        return Standbys(tasks, taken[:, 1:], 0)
    crossing = crosses(it)
    cost = it.move_cost * movable(it, tasks, first + rest)
    for count, reliable in [*([(1, True)] * first if crossing else [(first, True)]), (rest, False)]:
        if count:
            more, added = _solve(it, tasks, taken, count, reliable)
            taken, cost = np.hstack([taken, more]), cost + added
    if crossing and max(first, rest) > 1:
        cost = at_least(it, tasks, first + rest, taken[:, 0])
    return Standbys(tasks, taken[:, 1:], cost)


def copies_of(it: Instance) -> tuple[int, int]:
    """How many of a task's standbys are placed by spread first, and how many by cost first."""
    copies = min(it.problem.standbys, len(it.slots) - 1)
    first = it.problem.reliable_standbys
    if first is None:
        first = copies if it.problem.standby_order == "reliability" else 0
    return min(first, copies), copies - min(first, copies)


def crosses(it: Instance) -> bool:
    """Whether racks and tags divide the containers in more than one way."""
    return len({_shape(values) for values in it.spread_by} - {(0,) * len(it.slots)}) > 1


def spread(it: Instance, tasks: Whole, active: Whole, copies: Whole) -> int:
    """The number of racks and tag values that a task and its standbys cover, summed over the tasks; 0 if there are no
    standbys. ``active`` has the container of each task of the problem, and ``copies`` the containers of the
    standbys."""
    held = np.hstack([active[tasks][:, None], copies])
    found = 0
    for values in it.spread_by if copies.size else ():
        present = np.zeros((len(held), int(values.max()) + 1), bool)
        np.put_along_axis(present, values[held], True, axis=1)
        found += int(present.sum())
    return found


def rebuilt(it: Instance, tasks: Whole, copies: Whole) -> int:
    """How many existing standbys could stay (see :func:`movable`) but don't. ``copies`` has a row for each of
    ``tasks``, with the containers of the task's standbys.
    """
    stay = sum(
        len(set(it.standby_on(it.tasks[task])).intersection(where))
        for task, where in zip(tasks.tolist(), copies.tolist(), strict=True)
        if it.tasks[task].standby_on
    )
    return movable(it, tasks, copies.shape[1]) - stay


def most_spread(it: Instance, tasks: int, copies: int) -> int:
    """An upper bound on :func:`spread` for ``tasks`` tasks with ``copies`` standbys each."""
    if not copies:
        return 0
    return tasks * sum(min(1 + copies, len(np.unique(values))) for values in it.spread_by)


def _shape(values: Whole) -> tuple[int, ...]:
    """The containers' ``values``, renumbered in the order of their first occurrence. If the results for two tags are
    equal, the tags divide the containers in the same way."""
    seen: dict[int, int] = {}
    return tuple(seen.setdefault(value, len(seen)) for value in values.tolist())


def at_least(it: Instance, tasks: Whole, copies: int, active: Whole | None = None) -> int:
    """A lower bound on the cost of the standbys' traffic: the cost if each task's ``copies`` standbys used the
    containers with the least traffic, without regard to other tasks. If ``active`` (the container of each of ``tasks``)
    is given, a task's standbys can't use the task's container.
    """
    sizes = np.tile(np.bincount(it.rack_of, minlength=len(it.racks)), (len(tasks), 1))
    if active is not None:
        np.subtract.at(sizes, (np.arange(len(tasks)), it.rack_of[active]), 1)
    traffic = it.standby_traffic.of(tasks[:, None], np.arange(len(it.racks)))
    order = np.argsort(traffic, axis=1, kind="stable")
    traffic, sizes = np.take_along_axis(traffic, order, 1), np.take_along_axis(sizes, order, 1)
    before = np.cumsum(sizes, axis=1) - sizes
    return it.traffic_cost * int((traffic * np.clip(copies - before, 0, sizes)).sum())


def movable(it: Instance, tasks: Whole, copies: int) -> int:
    """How many existing standbys of these tasks could stay in their containers if each task had ``copies`` standbys,
    without regard to spread, traffic or balance. For each task, at most ``copies`` are counted."""
    return sum(min(len(it.standby_on(it.tasks[task])), copies) for task in tasks.tolist() if it.tasks[task].standby_on)


def _warm(it: Instance, tasks: Whole, taken: Whole, copies: int) -> tuple[Whole, Whole, Whole]:
    """The existing standbys, in the form of :attr:`Question.warm`. A standby is left out if its container is among the
    containers that ``taken`` lists for the standby's task. The first ``copies`` standbys in a task's ``standby_on``
    have a higher value than the task's other standbys. If the result of :func:`place` becomes part of the next problem,
    ``standby_on`` begins with the standbys that were placed with spread as the first criterion, so no standby moves.
    """
    pairs = [
        (row, container, len(tasks) * copies + 1 + (place < copies))
        for row, task in enumerate(tasks.tolist())
        if it.tasks[task].standby_on
        for place, container in enumerate(it.standby_on(it.tasks[task]))
        if container not in taken[row]
    ]
    rows, containers, worth = np.array(pairs, np.int64).reshape(-1, 3).T
    return rows, containers, worth


def _solve(it: Instance, tasks: Whole, taken: Whole, copies: int, reliable: bool) -> tuple[Whole, int]:
    places, count = len(it.rack_of_place), len(it.slots)
    used = np.zeros((len(tasks), places), np.int64)
    np.add.at(used, (np.arange(len(tasks))[:, None], it.place_of[taken]), 1)
    room = np.bincount(it.place_of, minlength=places) - used
    gain = _gain(it, taken)
    best = ((gain == np.where(room > 0, gain, -1).max(axis=1, keepdims=True)) & (room > 0)).astype(np.int64)
    enough = (best * (gain > 0)).sum(axis=1) >= copies
    alone = reliable and bool(enough.all())
    if not reliable:
        lower, upper, new = 0 * room, room, gain * (room > 0)
    elif alone:
        lower, upper, new = 0 * room, best, 0 * room
    elif copies == 1:
        lower, upper, new = 0 * room, np.minimum(best, room), 0 * room
    else:
        lower, upper, new = best * (gain > 0), room, 0 * room
    ask = Question(it, tasks, copies, taken, lower, upper, new, _warm(it, tasks, taken, copies))

    prior = np.bincount(taken[:, 1:].ravel(), minlength=count)
    most = len(tasks) - np.bincount(taken.ravel(), minlength=count)
    share = between(len(tasks) * (copies + taken.shape[1] - 1), it.slots)
    slopes = Slopes.of(share, prior, most, it.slots)
    near = nearest(slopes, len(tasks) * copies)
    found = answered(ask, near)
    if found is None and alone:
        open_, group, sizes = np.unique(best, axis=0, return_inverse=True, return_counts=True)
        near, least, greatest = groups_nearest(slopes, it.place_of, sizes, open_, copies)
        lower, upper = least // sizes[:, None], np.minimum(greatest, 1)
        found = answered(replace(ask, lower=lower[group.ravel()], upper=upper[group.ravel()]), near)
    elif found is None:
        found = answered(ask, near, dense=True) or answered(ask, slopes, dense=True)
    assert found is not None, "there are containers for all copies"
    return found


def _gain(it: Instance, taken: Whole) -> Whole:
    """For each task (a row of ``taken``) and each place, the number of racks and tag values that a standby in this
    place adds to the task's spread.
    """
    gain = np.zeros((len(taken), len(it.rack_of_place)), np.int64)
    for values in it.spread_by:
        has = np.zeros((len(taken), int(values.max()) + 1), bool)
        np.put_along_axis(has, values[taken], True, axis=1)
        of_place = np.zeros(len(it.rack_of_place), np.int64)
        of_place[it.place_of] = values
        gain += ~has[:, of_place]
    return gain
