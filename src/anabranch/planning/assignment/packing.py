"""Assigns groups of tasks to seats so that groups are split into few pieces. The groups are lined up, and the line is
cut wherever a seat is full.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

__all__ = ["Line"]


class Line:
    """Places groups of tasks in seats, in few pieces. A *piece* consists of the tasks of one group in one seat.

    The groups form a line of tasks, which is divided among the seats: there is a cut at the end of each seat's part. A
    cut is *clean* if it falls between two groups or at the end of the line. The number of pieces is the number of
    groups plus the number of seats, minus the number of clean cuts. No placement has fewer pieces than the line with
    the most clean cuts. If all groups are equally large, the number of clean cuts depends only on the order of the
    seats' sizes. The order of groups, and of seats of the same size, is chosen so that few tasks move.

    Args:
        sizes: how many tasks each seat gets. The sum is the number of tasks.
        groups: the names of each group's tasks.
        homes: the former seats of the tasks that can stay.
    """

    def __init__(self, sizes: Mapping[str, int], groups: Sequence[Sequence[str]], homes: Mapping[str, str]) -> None:
        self.room = {seat: size for seat, size in sizes.items() if size}
        self.groups = dict(enumerate(groups))
        self.homes = homes
        self.held = [Counter(homes.get(task) for task in group) for group in groups if homes]
        self.at_home: dict[str | None, list[int]] = {}
        self.alike: dict[tuple[int, int], dict[int, None]] = {}
        for number, held in enumerate(self.held):
            for seat in held:
                self.at_home.setdefault(seat, []).append(number)
            self.alike.setdefault((len(groups[number]), held[None]), {})[number] = None
        self.waiting: Counter[str | None] = Counter(homes.values())
        self.begun: Sequence[str] = ()
        self.placed: dict[str, str] = {}
        self.smallest = min(map(len, groups), default=0)
        self.floor = min(self.room.values(), default=0)
        self.clean = _clean_cuts(Counter(self.room.values()), self.floor, {len(group) for group in groups})

    def fill(self) -> dict[str, str]:
        """Fill one seat after another: with the rest of the partly placed group, then with whole groups, then with a
        part of a group. Returns the seat of each task.
        """
        while self.room:
            seat = self._next_seat()
            left = self._take(seat, self.room.pop(seat))
            for number in self._by_gain(seat, left):
                if left < self.smallest:
                    break
                if len(self.groups[number]) <= left:
                    self._begin(number)
                    left = self._take(seat, left)
            if left:
                self._begin(next(iter(self._by_gain(seat, left))))
                self._take(seat, left)
        return self.placed

    def _by_gain(self, seat: str, left: int) -> Iterable[int]:
        """The numbers of the groups that have no placed task yet, the largest :meth:`_gain` first. Groups with the same
        gain come in the order of their numbers.

        Groups that had no task in this seat have the same gain if they have the same size and the same number of tasks
        that aren't in ``homes``. So only groups that had tasks in this seat are sorted; the others are merged in.
        """
        if not self.homes:  # nothing is gained anywhere
            return list(self.groups)

        def loss(number: int) -> tuple[int, ...]:
            return tuple(-part for part in self._gain(number, seat, left))

        own = {number for number in self.at_home.get(seat, ()) if number in self.groups}
        others = ((n for n in list(alike) if n not in own) for alike in self.alike.values())
        return heapq.merge(sorted(own, key=loss), *others, key=loss)

    def _begin(self, number: int) -> None:
        if self.homes:
            held = self.held[number]
            self.waiting.subtract(held)
            del self.alike[len(self.groups[number]), held[None]][number]
        self.begun = self.groups.pop(number)

    def _take(self, seat: str, room: int) -> int:
        """Place up to ``room`` tasks of the partly placed group in a seat. Tasks that were in this seat come first, new
        tasks second, and tasks from other seats last. Returns the remaining room."""
        rank = {seat: 0, None: 1}
        here = sorted(self.begun, key=lambda task: rank.get(self.homes.get(task), 2)) if self.homes else self.begun
        taken, self.begun = here[:room], here[room:]
        self.placed.update(dict.fromkeys(taken, seat))
        return room - len(taken)

    def _next_seat(self) -> str:
        """The seat to fill next. Only seats whose size leads to the most clean cuts are considered. Of these seats, the
        result is the one that would lose the fewest of its former tasks if it first got the rest of the partly placed
        group.
        """
        counts = Counter(self.room.values())
        small, large = counts[self.floor], counts[self.floor + 1]
        after = {
            self.floor: self.clean[small - 1, large] if small else -1,
            self.floor + 1: self.clean[small, large - 1] if large else -1,
        }
        best = (seat for seat, size in self.room.items() if after[size] == max(after.values()))
        if not self.homes:
            return next(best)
        begun = Counter(self.homes.get(task) for task in self.begun)

        def lost(seat: str) -> tuple[int, int]:
            size, wanted = self.room[seat], begun[seat] + self.waiting[seat]
            forced = min(len(self.begun), size)
            stays = min(begun[seat], size) + min(self.waiting[seat], size - forced)
            return (wanted - stays, -wanted)

        return min(best, key=lost)

    def _gain(self, number: int, seat: str, left: int) -> tuple[int, int, int]:
        """A sort key for a group: how much is gained if ``seat``, which has room for ``left`` tasks, takes as many
        tasks of the group as it can. A larger key is better. The key has three parts. The first is the number of tasks
        that stay in this seat, minus the number of tasks that other seats lose. The second is the number of tasks that
        stay. The third is the group's number, negated.
        """
        held = self.held[number]
        taken = min(left, len(self.groups[number]))
        stays = min(taken, held[seat])
        return (stays - max(0, taken - held[seat] - held[None]), stays, -number)


def _clean_cuts(seats: Counter[int], floor: int, group_sizes: set[int]) -> dict[tuple[int, int], int]:
    """The largest possible number of clean cuts (see :class:`Line`) for each combination of seats that remain to be
    filled. The keys are pairs: how many remaining seats have the size ``floor``, and how many have the size
    ``floor + 1``. If the groups differ in size, any cut might be clean, so every cut is counted.

    Args:
        seats: the total number of seats of each size.
    """
    unit = group_sizes.pop() if len(group_sizes) == 1 else 1
    clean: dict[tuple[int, int], int] = {}
    for small in range(seats[floor] + 1):
        for large in range(seats[floor + 1] + 1):
            before = max(clean.get((small - 1, large), 0), clean.get((small, large - 1), 0))
            clean[small, large] = before + ((small * floor + large * (floor + 1)) % unit == 0)
    return clean
