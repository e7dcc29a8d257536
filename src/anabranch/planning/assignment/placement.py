"""Assigns tasks to seats without regard to racks. The seats are balanced, few containers read each partition, and few
tasks move.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter

from anabranch.errors import ConfigError
from anabranch.model.task import Task
from anabranch.planning.assignment.lineage import Lineage
from anabranch.planning.assignment.packing import Line

__all__ = ["consumption", "place", "place_exactly"]

_Partition = tuple[str, str, int]
_Groups = defaultdict[frozenset[_Partition], list[str]]


def place(
    tasks: Iterable[Task],
    seats: Iterable[str],
    previous: Mapping[str, str] | None = None,
    load: Mapping[str, int] | None = None,
) -> dict[str, str]:
    """The seat of each task, by the task's name, in the order of the tasks' indexes.

    These are the criteria, in order of importance:

    1. Every seat gets the floor or the ceiling of the average number of tasks. The ceiling goes to the seats with
       the lowest ``load`` and, of seats with equal loads, to those that had the most tasks.
    2. Partitions are read in few containers: the fewest possible if the groups of tasks (see :func:`_groups`) are
       uniform (see :func:`_is_uniform`).
    3. Few tasks move: the fewest possible if no two tasks read the same partition.

    The order of the arguments' elements doesn't matter.

    Args:
        tasks: the tasks of one stage.
        previous: the tasks' former seats, by the names that the tasks had then.
        load: how many tasks of other stages each seat has; 0 for a seat that is missing here.

    Raises:
        ConfigError: there are no seats.
    """
    ordered = sorted(tasks, key=attrgetter("index", "name"))
    named = sorted(set(seats), key=lambda seat: (len(seat), seat))
    if not named:
        raise ConfigError("there is no container to place tasks in", "set containers to 1 or more")
    homes = _homes(ordered, previous or {})
    sizes = _sizes(len(ordered), named, homes, load or {})
    groups = _groups(ordered)
    pieces = list(groups.values())
    staying = _staying(sizes, pieces, homes)
    if len(staying) == len(ordered) and _consumption(groups, staying) == 1.0:
        return {task.name: staying[task.name] for task in ordered}  # this is the only optimum
    if homes and len(pieces) == len(ordered) and _is_uniform(groups):
        # Each partition is read in a single container wherever its task is, so only moves count.
        best = _filled(sizes, [group[0] for group in pieces], staying)
        return {task.name: best[task.name] for task in ordered}

    def cost(placement: Mapping[str, str]) -> tuple[float, int]:
        moved = sum(placement[task] != seat for task, seat in homes.items())
        return (_consumption(groups, placement), moved)

    best = Line(sizes, pieces, staying).fill()
    if homes or not _is_uniform(groups):
        best = min(best, _patched(sizes, pieces, staying), key=cost)
    return {task.name: best[task.name] for task in ordered}


def place_exactly(tasks: Iterable[Task], sizes: Mapping[str, int], homes: Mapping[str, str]) -> dict[str, str]:
    """The seat of each task of one stage, by name, with few moves from the former seats ``homes``. Of the tasks that
    can't stay, those that read the same partitions share a seat if there is room. ``sizes`` maps each seat to the
    number of tasks that it gets.
    """
    groups = list(_groups(sorted(tasks, key=attrgetter("index", "name"))).values())
    ordered = dict(sorted(sizes.items(), key=lambda item: (len(item[0]), item[0])))
    return _patched(ordered, groups, _staying(ordered, groups, homes))


def _homes(tasks: Iterable[Task], previous: Mapping[str, str]) -> dict[str, str]:
    lineage = Lineage(previous)
    return {task.name: home for task in tasks if (home := lineage.seat(task.name)) is not None} if previous else {}


def consumption(tasks: Iterable[Task], placement: Mapping[str, str]) -> float:
    """The average number of containers in which a partition is read, given the seats in ``placement``; 1.0 if no
    partition is read. Broadcast inputs don't count.
    """
    return _consumption(_groups(tasks), placement)


def _consumption(groups: _Groups, placement: Mapping[str, str]) -> float:
    readers: defaultdict[_Partition, set[str]] = defaultdict(set)
    for partitions, names in groups.items():
        seats = {placement[name] for name in names}
        for partition in partitions:
            readers[partition] |= seats
    return sum(map(len, readers.values())) / len(readers) if readers else 1.0


def _is_uniform(groups: _Groups) -> bool:
    """Whether all groups have the same number of tasks and the same number of partitions, and no two groups share a
    partition. If so, no placement has fewer pieces than a line has (see
    :class:`~anabranch.planning.assignment.packing.Line`), and every piece costs the same."""
    shapes = {(len(partitions), len(names)) for partitions, names in groups.items()}
    return len(shapes) <= 1 and len(set().union(*groups)) == sum(map(len, groups))


def _sizes(count: int, seats: Sequence[str], homes: Mapping[str, str], load: Mapping[str, int]) -> dict[str, int]:
    """The number of tasks for each seat, in the order of the seats' loads; the sum is ``count``. Each number is the
    average, rounded up for the seats with the lowest load and down for the others. Among seats with equal loads, the
    average is rounded up first for those that had the most tasks.
    """
    floor, ceilings = divmod(count, len(seats))
    held = Counter(homes.values())
    first = set(sorted(seats, key=lambda seat: (load.get(seat, 0), -held[seat]))[:ceilings])
    return {seat: floor + (seat in first) for seat in sorted(seats, key=lambda seat: load.get(seat, 0))}


def _groups(tasks: Iterable[Task]) -> _Groups:
    """The names of the tasks, grouped by the partitions that the tasks read. A group's tasks should share a seat."""
    groups: _Groups = defaultdict(list)
    for task in tasks:
        groups[frozenset([(ssp.system, ssp.stream, ssp.partition) for ssp in task.ssps])].append(task.name)
    return groups


def _staying(sizes: Mapping[str, int], groups: Sequence[Sequence[str]], homes: Mapping[str, str]) -> dict[str, str]:
    """The tasks that can stay, with their seats. If a seat had too many tasks, some of them must leave: first the tasks
    of the group that has the fewest tasks in this seat."""
    pieces: defaultdict[tuple[int, str], list[str]] = defaultdict(list)
    for number, group in enumerate(groups if homes else ()):
        for task in group:
            home = homes.get(task)
            if home is not None and home in sizes:
                pieces[number, home].append(task)
    room = dict(sizes)
    staying: dict[str, str] = {}
    for (_, seat), piece in sorted(pieces.items(), key=lambda item: -len(item[1])):
        staying.update((task, seat) for task in piece[: room[seat]])
        room[seat] -= min(len(piece), room[seat])
    return staying


def _filled(sizes: Mapping[str, int], tasks: Iterable[str], staying: Mapping[str, str]) -> dict[str, str]:
    """The seat of each task. Tasks that can stay don't move. All other tasks fill the free places of one seat after
    another, beginning with the seat that has the fewest free places."""
    room = Counter(sizes)
    room.subtract(staying.values())
    gaps = (seat for seat in sorted(sizes, key=room.__getitem__) for _ in range(room[seat]))
    return {task: staying[task] if task in staying else next(gaps) for task in tasks}


def _patched(sizes: Mapping[str, int], groups: Sequence[Sequence[str]], staying: Mapping[str, str]) -> dict[str, str]:
    """The seat of each task. Tasks that can stay don't move. All other tasks fill the free places. If any seat has
    enough free places for the moving tasks of a group, these tasks share a seat."""
    placed = dict(staying)
    room = Counter(sizes)
    room.subtract(staying.values())
    strays = [[task for task in group if task not in staying] for group in groups]
    for group, moving in sorted(zip(groups, strays, strict=True), key=lambda pair: -len(pair[1])):
        left = moving
        while left:
            near = {placed[task] for task in group if task in placed}

            def fit(seat: str, left: list[str] = left, near: set[str] = near) -> tuple[bool, bool, int]:
                narrow = room[seat] < len(left)
                return (narrow, seat not in near, -room[seat] if narrow else room[seat])

            seat = min((seat for seat in sizes if room[seat]), key=fit)
            taken, left = left[: room[seat]], left[room[seat] :]
            placed.update((task, seat) for task in taken)
            room[seat] -= len(taken)
    return placed
