"""Finds the former seat of a task by the task's name or, if the factor has changed, by the names of the former tasks
that had its keys.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from anabranch.model import names

__all__ = ["Lineage"]


class Lineage:
    """The former seats of a stage's tasks. Buckets of different factors are nested, so the former tasks that had the
    keys of a split or merged task are found by the numbers of their buckets."""

    def __init__(self, previous: Mapping[str, str]) -> None:
        self._seats = previous
        self._parts: defaultdict[str, dict[int, dict[int, str]]] = defaultdict(dict)
        for text, seat in previous.items():
            base, bucket, factor = names.divided(text)
            self._parts[base].setdefault(factor, {})[bucket] = seat

    def seat(self, task: str) -> str | None:
        """The seat that had the task or, if the factor has changed, the most of the former tasks that had its keys;
        None if the task is new. Of several such seats, the one with the lowest number.
        """
        if task in self._seats:
            return self._seats[task]
        base, its_bucket, its_factor = names.divided(task)
        seats: dict[str, int] = {}
        for factor, its in self._parts.get(base, {}).items():
            shared = min(factor, its_factor)
            for bucket in range(its_bucket % shared, factor, shared):
                if bucket in its:
                    seats[its[bucket]] = seats.get(its[bucket], 0) + 1
        if len(seats) == 1:  # nearly always
            return next(iter(seats))
        return min(seats, key=lambda seat: (-seats[seat], len(seat), seat), default=None)
