"""Where a task was before, by its name or, when the factor has changed, by the names of its parts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

from anabranch.errors import UsageError
from anabranch.model import names
from anabranch.model.names import TaskName

__all__ = ["Lineage"]


class Lineage:
    """The former seats of a stage's tasks. Buckets nest, so a split or merged one is found by number."""

    def __init__(self, previous: Mapping[str, str]) -> None:
        self._seats = previous
        self._parts: defaultdict[TaskName, dict[tuple[int, int], str]] = defaultdict(dict)
        for text, seat in previous.items():
            name = _parsed(text)
            if name is not None:
                self._parts[name.base][name.factor, name.bucket % name.factor] = seat

    def seat(self, task: str) -> str | None:
        """The seat that held the task or most of its parts, the first of several; None if it is new."""
        if task in self._seats:
            return self._seats[task]
        name = _parsed(task)
        parts = self._parts.get(name.base) if name is not None else None
        if name is None or not parts:
            return None
        seats: Counter[str] = Counter()
        for factor in {factor for factor, _ in parts}:
            shared = min(factor, name.factor)
            for bucket in range(name.bucket % shared, factor, shared):
                if (factor, bucket) in parts:
                    seats[parts[factor, bucket]] += 1
        return min(seats, key=lambda seat: (-seats[seat], len(seat), seat), default=None)


def _parsed(text: str) -> TaskName | None:
    """A task of a user's own grouper may be called anything."""
    try:
        return names.parse(text)
    except UsageError:
        return None
