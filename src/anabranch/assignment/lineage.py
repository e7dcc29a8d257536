"""Finds the former seat of a task by the task's name or, if the factor has changed, by the names of the former tasks
that had its keys.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from anabranch.errors import UsageError
from anabranch.model import names
from anabranch.model.names import TaskName

__all__ = ["Lineage"]

_Base = tuple[str, str, str, int]
"""What the names of all virtual tasks that are parts of the same task have in common."""


class Lineage:
    """The former seats of a stage's tasks. Buckets of different factors are nested, so the former tasks that had the
    keys of a split or merged task are found by the numbers of their buckets."""

    def __init__(self, previous: Mapping[str, str]) -> None:
        self._seats = previous
        self._parts: defaultdict[_Base, dict[int, dict[int, str]]] = defaultdict(dict)
        for text, seat in previous.items():
            name = _parsed(text)
            if name is not None:
                its = self._parts[_base(name)].setdefault(name.factor, {})
                its[name.bucket % name.factor] = seat

    def seat(self, task: str) -> str | None:
        """The seat that had the task or, if the factor has changed, the most of the former tasks that had its keys;
        None if the task is new. Of several such seats, the one with the lowest number.
        """
        if task in self._seats:
            return self._seats[task]
        name = _parsed(task)
        parts = self._parts.get(_base(name)) if name is not None else None
        if name is None or not parts:
            return None
        seats: dict[str, int] = {}
        for factor, its in parts.items():
            shared = min(factor, name.factor)
            for bucket in range(name.bucket % shared, factor, shared):
                if bucket in its:
                    seats[its[bucket]] = seats.get(its[bucket], 0) + 1
        if len(seats) == 1:  # nearly always
            return next(iter(seats))
        return min(seats, key=lambda seat: (-seats[seat], len(seat), seat), default=None)


def _base(name: TaskName) -> _Base:
    return name.kind, name.system, name.stream, name.number


def _parsed(text: str) -> TaskName | None:
    """The parts of a task's name; None for a name of another form, from a user's own grouper."""
    try:
        return names.parse(text)
    except UsageError:
        return None
