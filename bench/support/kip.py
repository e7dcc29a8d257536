"""The algorithms of KIP-925, written plainly: cycle cancelling for active tasks, and standbys that are placed
greedily and then swapped.

The search for cycles is the Bellman-Ford algorithm. Its rounds over the edges use numpy, because a loop in Python would
be 50 times slower.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Whole = NDArray[np.int64]


def actives(cost: Whole) -> Whole:
    """The client of each active task. ``cost`` is an array (task, client). Each client has as many tasks as in a
    round-robin assignment.
    """
    tasks, clients = cost.shape
    at = np.arange(tasks) % clients
    while _cancel(cost, at):
        pass
    return at


def _cancel(cost: Whole, at: Whole) -> bool:
    """Find a negative cycle in the residual graph, and update the flow. Returns False if there is no such cycle."""
    tasks, clients = cost.shape
    count = tasks + clients
    task, client = np.divmod(np.arange(tasks * clients), clients)
    assigned = at[task] == client
    start = np.where(assigned, tasks + client, task)
    end = np.where(assigned, task, tasks + client)
    length = np.where(assigned, -1, 1) * cost.ravel()
    distance = np.zeros(count, np.int64)
    parent = np.full(count, -1)
    for _ in range(count):
        reached = distance[start] + length
        nearer = np.flatnonzero(reached < distance[end])
        if not len(nearer):
            return False
        order = nearer[np.argsort(-reached[nearer], kind="stable")]
        distance[end[order]] = reached[order]  # if several edges reach a node, the last counts: the shortest way
        parent[end[order]] = start[order]
    node = int(end[nearer[0]])
    for _ in range(count):
        node = int(parent[node])
    cycle = [node]
    while int(parent[cycle[-1]]) != node:
        cycle.append(int(parent[cycle[-1]]))
    for head in cycle:
        tail = int(parent[head])
        if tail < tasks:
            at[tail] = head - tasks
    return True


def standbys(cost: Whole, at: Whole, rack: Whole, copies: int) -> list[list[int]]:
    """The clients of each task's standbys. At first, each standby goes to a rack that doesn't have the task yet, if
    there is one, and there to the client with the fewest standbys. Then two standbys are swapped wherever this lowers
    the cost, unless the swap would leave a task in fewer racks.
    """
    tasks, clients = cost.shape
    load = np.zeros(clients, np.int64)
    found: list[list[int]] = []
    for task in range(tasks):
        mine: list[int] = []
        for _ in range(copies):
            taken = [int(at[task]), *mine]
            racks = {int(rack[one]) for one in taken}
            free = [one for one in range(clients) if one not in taken]
            best = min(free, key=lambda one: (int(rack[one]) in racks, int(load[one]), one))
            mine.append(best)
            load[best] += 1
        found.append(mine)
    improved = True
    while improved:
        improved = False
        for task in range(tasks):
            for other in range(task + 1, tasks):
                improved |= _swapped(cost, at, rack, found, task, other)
    return found


def _swapped(cost: Whole, at: Whole, rack: Whole, found: list[list[int]], task: int, other: int) -> bool:
    changed = False
    for mine in range(len(found[task])):
        for theirs in range(len(found[other])):
            here, there = found[task][mine], found[other][theirs]
            if cost[task, there] + cost[other, here] >= cost[task, here] + cost[other, there]:
                continue
            if _fits(at, rack, found, task, mine, there) and _fits(at, rack, found, other, theirs, here):
                found[task][mine], found[other][theirs] = there, here
                changed = True
    return changed


def _fits(at: Whole, rack: Whole, found: list[list[int]], task: int, number: int, client: int) -> bool:
    """Whether a standby may go to ``client``: the client must not have the task already, and the task must not end
    up in fewer racks than before.
    """
    others = [int(at[task]), *(one for place, one in enumerate(found[task]) if place != number)]
    racks = {int(rack[one]) for one in others}
    lost = int(rack[found[task][number]]) not in racks
    return client not in others and (not lost or int(rack[client]) not in racks)
