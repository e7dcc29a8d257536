"""Divides the limit on the number of records in a batch among the lane's sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["SourceShare", "is_bound", "shares"]

_LEAST = 8
"""Each source's minimum is an equal share of the limit, divided by this number. The minimum isn't zero, because records
can arrive in any source at any time."""


@dataclass(frozen=True)
class SourceShare:
    """What a source contributed to a batch: ``rows`` rows from ``partitions`` partitions. It was allowed to contribute
    ``most`` rows."""

    rows: int
    most: int
    partitions: int = 1

    @property
    def is_hungry(self) -> bool:
        """Whether the source may have had more records than it was allowed to contribute. A source that contributed
        ``most`` rows may have had more. Each partition's share is rounded down, so the same is true of a source
        that fell short of ``most`` by at most one row for each partition.
        """
        return self.rows >= max(1, self.most - self.partitions)


def is_bound(taken: Mapping[str, SourceShare]) -> bool:
    """Whether the limit may have prevented a batch from having more records."""
    return any(each.is_hungry for each in taken.values())


def shares(limit: int, most: int, taken: Mapping[str, SourceShare]) -> dict[str, int]:
    """For each source, by name, the maximum number of records that it can contribute to the next batch.

    The limit is divided evenly at first. If a source is expected to need less than its share, the rest of its share
    goes to sources that need more. What remains after that is divided evenly among all sources. If a source contributed
    all of its waiting records to the last batch, it is expected to need at most twice as many records for the next
    batch. Any other source is expected to need ``most`` records.

    Each source gets at least one record, at least an eighth of an even share, and at most ``most``. The total is at
    most ``limit``, unless there are more than ``limit`` sources.

    Args:
        limit: the maximum number of records in the next batch.
        most: the maximum number of records from one source.
        taken: what each source contributed to the last batch, by the source's name.
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
    for number, name in enumerate(sorted(found)):  # the rest, which no source is known to need
        more = left // (count - number)
        found[name] += more
        left -= more
    return {name: max(1, min(most, rows)) for name, rows in found.items()}
