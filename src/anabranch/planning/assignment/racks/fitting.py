"""Fits the standbys of tasks into the containers of a place, so that no container has two standbys of the same task."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Mapping, Set

__all__ = ["fit"]


def fit(
    copies: Mapping[int, int], barred: Mapping[int, Set[int]], loads: Mapping[int, int]
) -> dict[int, list[int]] | None:
    """For each task, the containers of its standbys, all of them different. None if there is no solution.

    Args:
        copies: how many standbys each task has in these containers.
        barred: for each task, the containers in which the task can't have a standby.
        loads: how many standbys each container gets. The sum must equal the sum of ``copies``.
    """
    room = dict(loads)
    fullest = [(-left, container) for container, left in room.items() if left]
    heapq.heapify(fullest)
    found: dict[int, list[int]] = {task: [] for task in copies}
    for task, count in copies.items():
        no = barred.get(task, frozenset())
        passed = []
        while fullest and len(found[task]) < count:
            left, container = heapq.heappop(fullest)
            if container in no:
                passed.append((left, container))
            else:
                found[task].append(container)
        for container in found[task]:
            room[container] -= 1
            if room[container]:
                passed.append((-room[container], container))
        for each in passed:
            heapq.heappush(fullest, each)
        while len(found[task]) < count:
            if not _make_room(task, found, barred, room):
                return None
            fullest = [(-left, container) for container, left in room.items() if left]
            heapq.heapify(fullest)
    return found


def _make_room(task: int, found: dict[int, list[int]], barred: Mapping[int, Set[int]], room: dict[int, int]) -> bool:
    """Give a task one more container, moving other tasks if necessary. Returns False if that is impossible."""
    runs: dict[int, list[int]] = {container: [] for container in room}
    for other, containers in found.items():
        for container in containers:
            runs[container].append(other)

    def is_open(one: int, container: int) -> bool:
        return container not in found[one] and container not in barred.get(one, frozenset())

    spare = [container for container, left in room.items() if left]
    came: dict[int, tuple[int, int | None]] = {c: (task, None) for c in room if is_open(task, c)}
    waiting = deque(came)
    while waiting:
        container = waiting.popleft()
        others = [other for other in runs[container] if other != task]
        for goals in (spare, room):  # usually a task can move to a container that has room
            for other in others:
                for further in goals:
                    if further not in came and is_open(other, further):
                        came[further] = (other, container)
                        if room[further]:
                            _shift(further, came, found)
                            room[further] -= 1
                            return True
                        waiting.append(further)
    return False


def _shift(at: int | None, came: Mapping[int, tuple[int, int | None]], found: dict[int, list[int]]) -> None:
    while at is not None:
        mover, left = came[at]
        if left is not None:
            found[mover].remove(left)
        found[mover].append(at)
        at = left
