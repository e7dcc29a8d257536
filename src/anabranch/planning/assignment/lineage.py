"""Finds the former seat of a task by the task's name. If the factor has changed, the former seat is found by the names
of the former tasks that had the task's keys.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from anabranch.model import names

__all__ = ["Lineage"]


class Lineage:
    """Looks up the former seats of a stage's tasks, even if the factor has changed. Buckets of different factors are
    nested, so the bucket numbers in the tasks' names show which former tasks had the keys of a present task.

    Args:
        previous: the former seat of each task, by the name that the task had then.
    """

    def __init__(self, previous: Mapping[str, str]) -> None:
        self._seats = previous
        self._parts: defaultdict[str, dict[int, dict[int, str]]] = defaultdict(dict)
        for text, seat in previous.items():
            base, bucket, factor = names.divided(text)
            self._parts[base].setdefault(factor, {})[bucket] = seat

    def seat(self, task: str) -> str | None:
        """The former seat of ``task``; None if no seat had the task or any of its keys. If the factor has changed,
        several former tasks may have had this task's keys. The result is then the seat that had the most of these
        tasks. If several seats had equally many, the result is the seat with the lowest number.
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
