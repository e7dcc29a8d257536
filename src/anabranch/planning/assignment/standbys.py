"""Assigns the standbys of lanes' folders to processes, by the same rules as the standbys of tasks in
:mod:`anabranch.planning.assignment.racks`.

The solver is imported on demand, because the import takes half a second and few jobs have standbys.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from anabranch.planning.assignment.racks.problem import Container, Problem, Task

__all__ = ["numbered", "place"]


def place(
    lanes: Mapping[str, str], processes: Mapping[str, str | None], copies: int, former: Mapping[str, Collection[str]]
) -> dict[str, tuple[str, ...]]:
    """For each lane, the processes that maintain the lane's standbys. The process that runs the lane isn't one of them,
    so a lane can have fewer standbys than requested if there are few processes.

    There are three criteria. The most important one is that each lane and its standbys are in as many racks as
    possible. The second is that each process has its share of standbys, and the third is that as few standbys as
    possible move. If the rack of any process isn't known, racks don't count. The order of the arguments' elements
    doesn't matter. If the result is passed as ``former``, and the other arguments are the same, no standby moves.

    Args:
        lanes: the process that runs each lane.
        processes: the rack of each process; None if it isn't known.
        copies: the number of standbys of each lane.
        former: the processes that already maintain standbys of each lane.
    """
    if not lanes or not copies or len(processes) < 2:
        return dict.fromkeys(sorted(lanes), ())
    from anabranch.planning.assignment.racks import standby
    from anabranch.planning.assignment.racks.instance import Instance

    problem = Problem(
        containers=tuple(Container(id=name, rack=rack) for name, rack in processes.items()),
        tasks=tuple(
            Task(name=lane, stateful=True, on=runner, standby_on=tuple(sorted(former.get(lane, ()))))
            for lane, runner in lanes.items()
        ),
        standbys=copies,
    )
    it = Instance(problem)
    found = standby.place(it, it.on)
    names = [container.id for container in it.containers]
    return {
        it.tasks[task].name: tuple(names[keeper] for keeper in keepers)
        for task, keepers in zip(found.tasks.tolist(), found.containers.tolist(), strict=True)
    }


def numbered(keepers: Sequence[str], former: Mapping[str, int]) -> dict[int, str]:
    """Number a lane's standbys from 0. Returns the process that maintains each standby, by the standby's number.

    Args:
        keepers: the processes that maintain the lane's standbys, one each.
        former: the former numbers of processes. A process keeps its number if the number is less than the count of
            standbys. If several processes have the same number, only the first process by name keeps the number. The
            other processes get the remaining numbers, in the order of their names.
    """
    found: dict[int, str] = {}
    for keeper in sorted(keepers):
        if former.get(keeper, -1) in range(len(keepers)):
            found.setdefault(former[keeper], keeper)
    free = (number for number in range(len(keepers)) if number not in found)
    return found | {next(free): keeper for keeper in sorted(set(keepers) - set(found.values()))}
