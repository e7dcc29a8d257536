"""Divides the tasks that a seat has in a stage among the seat's lanes of one group."""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.model.task import Task
from anabranch.planning.assignment import placement

__all__ = ["spread"]


def spread(tasks: Sequence[Task], lanes: int, factor: int) -> list[list[Task]]:
    """Divide a seat's tasks evenly among at most ``lanes`` lanes, so that each partition is read by only a few of these
    lanes. Returns the tasks of each lane, without empty lanes.

    If the tasks have a broadcast input, virtual tasks that would be one task at factor 1 go to the same lane. This lane
    then reads each broadcast record only once for all of them.

    Args:
        factor: the factor of the tasks.
    """
    if lanes == 1 or len(tasks) < 2:
        return [list(tasks)] if tasks else []
    if any(task.broadcast for task in tasks):
        bases = sorted({task.index // factor for task in tasks})
        place = {base: str(number % lanes) for number, base in enumerate(bases)}
        at = {task.name: place[task.index // factor] for task in tasks}
    else:
        at = placement.place(tasks, map(str, range(min(lanes, len(tasks)))))
    return [[task for task in tasks if at[task.name] == lane] for lane in sorted(set(at.values()), key=int)]
