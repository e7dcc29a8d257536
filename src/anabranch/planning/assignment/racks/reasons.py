"""Explains why each task is in its container, and what the moves achieve."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np

from anabranch.planning.assignment.racks import active
from anabranch.planning.assignment.racks.instance import Instance
from anabranch.planning.assignment.racks.network import Whole
from anabranch.planning.assignment.racks.problem import Answer, Problem, Task
from anabranch.planning.assignment.racks.shares import between

__all__ = ["compared", "explained"]


def explained(problem: Problem, answer: Answer) -> dict[str, str]:
    """An explanation for each task, in words. It gives the task's container and former container, how much the task
    reads from other racks, and why the task isn't in a cheaper rack or in its former container. It also gives the
    containers of the task's standbys and, if racks are known, the number of racks over which the task and its standbys
    are spread.
    """
    it = Instance(problem)
    found = {}
    for task, why in zip(it.tasks, _actives(it, _placed(it, answer)), strict=True):
        copies = answer.standby[task.name]
        found[task.name] = f"{why}; {_standbys(it, task, answer)}" if copies else why
    return found


def compared(problem: Problem, answer: Answer) -> Answer:
    """Return the answer with ``needed_moves`` and ``saved_by_moves`` filled in. In joint mode, active tasks also move
    for the sake of their standbys. Therefore, the answer stays unchanged in this mode.
    """
    if problem.mode == "joint":
        return answer
    it = Instance(problem)
    reads, moved = active.counted(it, _placed(it, answer))
    least = reads, moved
    if moved and it.by_traffic:
        fewest = active.counted(it, active.place(it, moves_first=True).containers)
        least = fewest if fewest[1] < moved else least
    saved = (least[0] - reads) * it.traffic_cost + (least[1] - moved) * it.move_cost
    return msgspec.structs.replace(answer, needed_moves=least[1], saved_by_moves=it.unscaled(saved))


def _placed(it: Instance, answer: Answer) -> Whole:
    return np.array([it.container_numbers[answer.active[task.name]] for task in it.tasks], np.int64)


def _standbys(it: Instance, task: Task, answer: Answer) -> str:
    copies = answer.standby[task.name]
    told = ", ".join(f"{one} ({'stays' if one in task.standby_on else 'new'})" for one in copies)
    if it.why_not:
        return f"standbys in {told}"
    held = [it.container_numbers[one] for one in (answer.active[task.name], *copies)]
    racks = len({int(it.rack_of[one]) for one in held})
    most = min(len(held), len(it.racks))
    return f"standbys in {told}: in {racks} racks" + ("" if racks == most else f", where {most} were possible")


def _actives(it: Instance, placed: Whole) -> Iterator[str]:
    tasks = np.arange(len(placed))
    traffic = it.active_traffic
    here = traffic.of(tasks, it.rack_of[placed])
    at_home = traffic.of(tasks, it.rack_of[np.maximum(it.on, 0)])
    nearest: dict[int, tuple[int, int]] = {}
    for task, rack, covered in zip(
        *(each.tolist() for each in (traffic.tasks, traffic.racks, traffic.covered)), strict=True
    ):
        nearest[task] = max(nearest.get(task, (0, 0)), (covered, -rack))
    loads = np.bincount(placed, minlength=len(it.slots))
    room = loads < between(len(placed), it.slots).upper
    rooms = np.bincount(it.rack_of, weights=room)
    together = it.problem.mode == "joint" and it.problem.standbys > 0

    for task, container in enumerate(placed.tolist()):
        home, total, reads = int(it.on[task]), int(traffic.total[task]), int(here[task])
        moves = it.move_cost * (home not in {-1, container})
        words = [_came(it, task, container)]
        if it.by_traffic and total:
            rack = it.racks[it.rack_of[container]]
            words.append(
                f"{it.unscaled(reads):g} of {it.unscaled(total):g} comes from other racks than {rack}"
                if reads
                else f"all it reads has a replica in rack {rack}"
            )
        covered, near = nearest.get(task, (0, 0))
        elsewhere = (total - covered) * it.traffic_cost + it.move_cost * (home != -1)
        less = reads * it.traffic_cost + moves - elsewhere
        if covered and less > 0:
            why = "balance doesn't allow it" if rooms[-near] else "its containers are full"
            why = "the whole would cost more" if together else why
            words.append(f"rack {it.racks[-near]} would cost {it.unscaled(less):g} less, but {why}")
        elif home >= 0 and moves + (reads - int(at_home[task])) * it.traffic_cost > 0:
            there = it.containers[home].id
            words.append(f"with it in {there} the whole costs more" if together else f"balance keeps it out of {there}")
        yield "; ".join(words)


def _came(it: Instance, task: int, container: int) -> str:
    home, there = int(it.on[task]), it.containers[container].id
    if home == container:
        return f"stays in {there}"
    if home == -1:
        return f"new in {there}"
    return f"moves from {it.tasks[task].on} to {there}" + (", as that is gone" if home == -2 else "")
