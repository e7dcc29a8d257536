"""Assigns standbys of tasks to places by solving a network-flow problem. Then fits the standbys into the containers of
the places.

A place consists of all containers with the same rack (if racks are known) and tags. In the network, tasks have arcs to
places, and places have arcs to containers. The flow determines which tasks have standbys in a place, but not which of
the place's containers these standbys are in. So the standbys are fitted into containers afterwards. If they don't fit,
the problem can be solved again in a network with an arc for each task and container.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

import numpy as np

from anabranch.errors import ConfigError
from anabranch.planning.assignment.racks.balance import Slopes
from anabranch.planning.assignment.racks.fitting import fit
from anabranch.planning.assignment.racks.instance import Instance
from anabranch.planning.assignment.racks.network import Network, Whole
from anabranch.planning.assignment.racks.shares import Bounds

__all__ = ["MOST_PAIRS", "Question", "answered"]

MOST_PAIRS = 8_000_000


@dataclass(frozen=True)
class Question:
    """The standbys that must be placed.

    Attributes:
        tasks: the numbers of the tasks. ``taken``, ``lower``, ``upper`` and ``new`` have a row for each of these tasks.
        copies: how many standbys of each task must be placed.
        taken: the containers of the active task and of the standbys that have been placed already.
        lower: the least number of standbys of a task in each place.
        upper: the maximum number of standbys of a task in each place.
        new: the number of racks and tag values that the first standby in a place adds to the spread of its task; 0 if
            ``lower`` and ``upper`` already ensure the spread.
        warm: the existing standbys, as three parallel arrays: the task's row, the container, and how much keeping the
            standby is worth. Keeping more standbys is always worth more than keeping fewer standbys
            with higher values.
    """

    it: Instance
    tasks: Whole
    copies: int
    taken: Whole
    lower: Whole
    upper: Whole
    new: Whole
    warm: tuple[Whole, Whole, Whole]


def answered(ask: Question, loads: Bounds | Slopes, dense: bool = False) -> tuple[Whole, int] | None:
    """Return the containers of the standbys, with a row for each task, and the cost. The cost is that of the standbys'
    traffic, minus the cost of one move for each standby that stays. Returns None if no flow satisfies ``loads``, or if
    the flow's standbys can't be fitted into containers.

    Args:
        loads: the bounds of each container's number of standbys. If slopes are given instead, the loads are as close to
            the containers' shares as possible.
        dense: whether each task has an arc to each container that its standbys can use. If so, nothing has to be
            fitted.

    Raises:
        ConfigError: a dense network would have too many arcs.
    """
    it, size = ask.it, len(ask.tasks)
    rows, places = np.nonzero(ask.upper)
    lower, upper, new = ask.lower[rows, places], ask.upper[rows, places], ask.new[rows, places]
    to, container, worth = _dense_pairs(ask) if dense else _warm_pairs(ask)

    free = [0] if isinstance(loads, Slopes) else []  # the first cost is the distance of loads from their shares
    most = int(it.standby_traffic.sum * it.traffic_cost)
    net = Network(*free, most, int(ask.new.max(initial=0)) * size * ask.copies, int(worth.sum()))
    task_nodes = net.nodes(size, ask.copies)
    hubs = net.nodes(len(it.rack_of_place))
    containers = net.nodes(len(it.slots))
    sink = net.nodes(1, -size * ask.copies)
    split = np.zeros(ask.upper.shape, bool)
    split[to, it.place_of[container]] = True
    through = np.flatnonzero(split[rows, places])
    heads = hubs[places]
    heads[through] = net.nodes(len(through))
    middle = np.zeros(ask.upper.shape, np.int64)
    middle[rows, places] = heads
    far = it.traffic_cost * it.standby_traffic.of(ask.tasks[rows], it.rack_of_place[places])
    firsts = net.arcs(task_nodes[rows], heads, new > 0, costs=(*free, far, -new))
    rests = net.arcs(task_nodes[rows], heads, upper - (new > 0), lower, costs=(*free, far))
    direct = net.arcs(middle[to, it.place_of[container]], containers[container], 1, costs=(*free, 0, 0, -worth))
    onward = net.arcs(heads[through], hubs[places[through]], 0 if dense else upper[through])
    spread = net.arcs(hubs[it.place_of], containers, size)
    if isinstance(loads, Bounds):
        net.arcs(containers, sink, loads.upper, loads.lower)
    else:
        number, slope, length = loads.steps(loads.least(int(loads.most.sum())))
        net.arcs(containers[number], sink, length, costs=(slope,))
    flow = net.solve()
    if flow is None:
        return None

    found: list[list[int]] = [[] for _ in range(size)]
    used = flow[direct] > 0
    for row, one in zip(to[used].tolist(), container[used].tolist(), strict=True):
        found[row].append(one)
    copies = flow[firsts] + flow[rests]
    cost = int(copies @ far - it.move_cost * (flow[direct] @ (worth > 0)))
    copies[through] = flow[onward]
    for place in range(len(it.rack_of_place)):
        here = (places == place) & (copies > 0)
        inside = it.place_of == place
        wanted = dict(zip(rows[here].tolist(), copies[here].tolist(), strict=True))
        room = dict(zip(np.flatnonzero(inside).tolist(), flow[spread][inside].tolist(), strict=True))
        barred: dict[int, Set[int]] = {row: {*ask.taken[row].tolist(), *found[row]} for row in wanted}
        fitted = fit(wanted, barred, room)
        if fitted is None:
            return None
        for row, more in fitted.items():
            found[row] += more
    return np.sort(np.array(found, np.int64), axis=1), cost


def _warm_pairs(ask: Question) -> tuple[Whole, Whole, Whole]:
    rows, containers, worth = ask.warm
    allowed = ask.upper[rows, ask.it.place_of[containers]] > 0
    return rows[allowed], containers[allowed], worth[allowed]


def _dense_pairs(ask: Question) -> tuple[Whole, Whole, Whole]:
    size, count = len(ask.tasks), len(ask.it.slots)
    if size * count > MOST_PAIRS:
        raise ConfigError(
            f"{ask.copies} standbys of {size:,} tasks in {count:,} containers, of which a rack may have several, "
            "are too many to be placed exactly",
            "ask for fewer standbys than there are racks",
        )
    held = np.zeros((size, count), bool)
    np.put_along_axis(held, ask.taken, True, axis=1)
    rows, containers = np.nonzero(~held & (ask.upper[:, ask.it.place_of] > 0))
    worth = np.zeros((size, count), np.int64)
    worth[ask.warm[:2]] = ask.warm[2]
    return rows, containers, worth[rows, containers]
