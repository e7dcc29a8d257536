"""Tasks to seats, without racks: balanced, each SSP in few containers, and as little moved as that allows."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from anabranch.assignment.line import Line
from anabranch.assignment.lineage import Lineage
from anabranch.errors import ConfigError
from anabranch.model.ssp import SSP
from anabranch.model.task import Task

__all__ = ["consumption", "place"]


def place(
    tasks: Iterable[Task],
    seats: Iterable[str],
    previous: Mapping[str, str] | None = None,
    load: Mapping[str, int] | None = None,
) -> dict[str, str]:
    """The seat of each task of one stage, by name, in the order of the tasks' indexes.

    Every seat gets the floor or the ceiling of tasks per seat. Of such placements it takes one in which SSPs
    are read in the fewest containers, and of those one that moves few tasks from their ``previous`` seats:
    the fewest when no two tasks read the same SSP, as with factor 1. ``load`` counts tasks of other stages:
    what doesn't divide evenly goes where there is least. The order of the arguments changes nothing.

    Raises:
        ConfigError: no seats.
    """
    ordered = sorted(tasks, key=lambda task: (task.index, task.name))
    loaded = sorted(set(seats), key=lambda seat: ((load or {}).get(seat, 0), len(seat), seat))
    if not loaded:
        raise ConfigError("there is no container to place tasks in", "set containers to 1 or more")
    lineage = Lineage(previous or {})
    homes = {task.name: lineage.seat(task.name) for task in ordered}
    sizes = _sizes(len(ordered), loaded, homes)
    groups = _groups(ordered)
    staying = _staying(sizes, groups, homes)

    def cost(placement: Mapping[str, str]) -> tuple[float, int]:
        moved = sum(placement[task] != seat for task, seat in homes.items())
        return (consumption(ordered, placement), moved)

    best = min(Line(sizes, groups, staying).fill(), _patched(sizes, groups, staying), key=cost)
    return {task.name: best[task.name] for task in ordered}


def consumption(tasks: Iterable[Task], placement: Mapping[str, str]) -> float:
    """In how many containers an SSP is read, on average: 1.0 is the least. Broadcast SSPs don't count."""
    readers: defaultdict[SSP, set[str]] = defaultdict(set)
    for task in tasks:
        for ssp in task.ssps:
            readers[ssp.whole].add(placement[task.name])
    return sum(map(len, readers.values())) / len(readers) if readers else 1.0


def _sizes(count: int, seats: Sequence[str], homes: Mapping[str, str | None]) -> dict[str, int]:
    """Tasks per seat; the seats that held most get the ceiling."""
    floor, ceilings = divmod(count, len(seats))
    held = Counter(homes.values())
    fullest = sorted(seats, key=lambda seat: -held[seat])[:ceilings]
    return {seat: floor + (seat in fullest) for seat in seats}


def _groups(tasks: Iterable[Task]) -> list[list[str]]:
    """The tasks that read the same SSPs: best kept together."""
    groups: defaultdict[frozenset[SSP], list[str]] = defaultdict(list)
    for task in tasks:
        groups[frozenset(ssp.whole for ssp in task.ssps)].append(task.name)
    return list(groups.values())


def _staying(
    sizes: Mapping[str, int], groups: Sequence[Sequence[str]], homes: Mapping[str, str | None]
) -> dict[str, str]:
    """The tasks that may stay: a seat that held too many lets go of its smallest pieces first."""
    pieces: defaultdict[tuple[int, str], list[str]] = defaultdict(list)
    for number, group in enumerate(groups):
        for task in group:
            home = homes[task]
            if home is not None and home in sizes:
                pieces[number, home].append(task)
    room = dict(sizes)
    staying: dict[str, str] = {}
    for (_, seat), piece in sorted(pieces.items(), key=lambda item: -len(item[1])):
        staying.update((task, seat) for task in piece[: room[seat]])
        room[seat] -= min(len(piece), room[seat])
    return staying


def _patched(sizes: Mapping[str, int], groups: Sequence[Sequence[str]], staying: Mapping[str, str]) -> dict[str, str]:
    """Nothing moves that may stay; others fill the gaps, a group's together where one is wide enough."""
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
