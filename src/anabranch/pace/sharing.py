"""How several sources of one lane share the records that a batch may have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["SourceShare", "is_bound", "shares"]

_LEAST = 8
"""No source gets less than this fraction of an even share, because it can't be known what arrives next."""


@dataclass(frozen=True)
class SourceShare:
    """What a source contributed to a batch: ``rows`` of the ``most`` that it might have contributed, from this many
    ``partitions``.
    """

    rows: int
    most: int
    partitions: int = 1

    @property
    def is_hungry(self) -> bool:
        """Whether the source had more records. Each partition's share may have been rounded down."""
        return self.rows >= max(1, self.most - self.partitions)


def is_bound(taken: Mapping[str, SourceShare]) -> bool:
    """Whether the limit prevented a batch from having more records."""
    return any(each.is_hungry for each in taken.values())


def shares(limit: int, most: int, taken: Mapping[str, SourceShare]) -> dict[str, int]:
    """How many records each source may contribute, of ``limit`` records in all, and at most ``most`` each. Sources that
    had no more than they contributed get twice that number; the others share the rest evenly. Each gets at least one.
    """
    count = len(taken)
    if not count:
        return {}
    least = max(1, limit // (_LEAST * count))
    found = dict.fromkeys(taken, least)
    left = max(0, limit - least * count)
    wanted = {name: most if each.is_hungry else 2 * each.rows for name, each in taken.items()}
    for number, name in enumerate(sorted(wanted, key=lambda name: (wanted[name], name))):
        more = min(max(0, wanted[name] - least), left // (count - number))
        found[name] += more
        left -= more
    for number, name in enumerate(sorted(found)):  # nobody is known to need it
        more = left // (count - number)
        found[name] += more
        left -= more
    return {name: max(1, min(most, rows)) for name, rows in found.items()}
