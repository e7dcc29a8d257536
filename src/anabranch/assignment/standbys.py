"""Which processes maintain copies of which lanes' folders, by the rules for standbys, with lanes in place of tasks.

The solver is imported on demand: importing it takes half a second, and few jobs have standbys.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from anabranch.assignment.racks.problem import Container, Problem, Task

__all__ = ["numbered", "place"]


def place(
    lanes: Mapping[str, str], processes: Mapping[str, str | None], copies: int, former: Mapping[str, Collection[str]]
) -> dict[str, tuple[str, ...]]:
    """The processes that maintain the copies of each lane: never the one that runs it, and at most as many as there
    are.

    First the lanes and their copies are in as many racks as possible, then each process has its share of copies, then
    few copies move. If the rack of any process isn't known, racks don't count. Applied to its own result, nothing
    moves, and the order of the arguments makes no difference.

    Args:
        lanes: the process that runs each lane.
        processes: the rack of each process.
        copies: the number of copies of each lane.
        former: the processes that already maintain copies of a lane.
    """
    if not lanes or not copies or len(processes) < 2:
        return dict.fromkeys(sorted(lanes), ())
    from anabranch.assignment.racks import standby
    from anabranch.assignment.racks.instance import Instance

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
    """A number for the copy of each process, from 0 on: its former number (``former``), if it can keep it."""
    found: dict[int, str] = {}
    for keeper in sorted(keepers):
        if former.get(keeper, -1) in range(len(keepers)):
            found.setdefault(former[keeper], keeper)
    free = (number for number in range(len(keepers)) if number not in found)
    return found | {next(free): keeper for keeper in sorted(set(keepers) - set(found.values()))}
