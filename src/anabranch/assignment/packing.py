"""Tasks to seats with the fewest pieces: groups in a line, cut at the seats' ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

__all__ = ["Line"]


class Line:
    """The groups in a line, cut where one seat ends and the next begins.

    G groups in C seats are G + C pieces less the cuts that fall between two groups, and no placement has
    fewer than the line with the most such cuts. When groups are equally large, that depends on the order of
    the seats' sizes alone; which seat of a size and which group come next goes by what needn't move.
    """

    def __init__(self, sizes: Mapping[str, int], groups: Sequence[Sequence[str]], homes: Mapping[str, str]) -> None:
        self.room = {seat: size for seat, size in sizes.items() if size}
        self.groups = dict(enumerate(groups))
        self.homes = homes
        self.held = [Counter(homes.get(task) for task in group) for group in groups if homes]
        self.waiting: Counter[str | None] = Counter(homes.values())
        self.begun: Sequence[str] = ()
        self.placed: dict[str, str] = {}
        self.smallest = min(map(len, groups), default=0)
        self.floor = min(self.room.values(), default=0)
        self.clean = _clean_cuts(Counter(self.room.values()), self.floor, {len(group) for group in groups})

    def fill(self) -> dict[str, str]:
        """Seat after seat: first the rest of the group that is begun, then whole groups, then a part."""
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
                self._begin(self._by_gain(seat, left)[0])
                self._take(seat, left)
        return self.placed

    def _by_gain(self, seat: str, left: int) -> Sequence[int]:
        if not self.homes:  # nothing is gained anywhere
            return list(self.groups)
        return sorted(self.groups, key=lambda n: self._gain(n, seat, left), reverse=True)

    def _begin(self, number: int) -> None:
        if self.homes:
            self.waiting.subtract(self.held[number])
        self.begun = self.groups.pop(number)

    def _take(self, seat: str, room: int) -> int:
        """Fill ``room`` from the group that is begun, what is at home or free first; return what is left."""
        rank = {seat: 0, None: 1}
        here = sorted(self.begun, key=lambda task: rank.get(self.homes.get(task), 2)) if self.homes else self.begun
        taken, self.begun = here[:room], here[room:]
        self.placed.update(dict.fromkeys(taken, seat))
        return room - len(taken)

    def _next_seat(self) -> str:
        """Of the seats whose size leads to the most clean cuts, the one that loses least by what is begun."""
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
        """What stays, less what others lose, when ``seat`` takes as much of a group as it can."""
        held = self.held[number]
        taken = min(left, len(self.groups[number]))
        stays = min(taken, held[seat])
        return (stays - max(0, taken - held[seat] - held[None]), stays, -number)


def _clean_cuts(seats: Counter[int], floor: int, group_sizes: set[int]) -> dict[tuple[int, int], int]:
    """How many cuts can fall between two groups when so many floor and ceiling seats are to be filled."""
    unit = group_sizes.pop() if len(group_sizes) == 1 else 1
    clean: dict[tuple[int, int], int] = {}
    for small in range(seats[floor] + 1):
        for large in range(seats[floor + 1] + 1):
            before = max(clean.get((small - 1, large), 0), clean.get((small, large - 1), 0))
            clean[small, large] = before + ((small * floor + large * (floor + 1)) % unit == 0)
    return clean
