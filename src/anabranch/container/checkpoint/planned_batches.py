"""What was planned for the batches of a query that runs: each entry of the checkpoint is read once, or not at all.

An object store takes two calls to read a file, and one to see whether there is one.
"""

from __future__ import annotations

from collections.abc import Callable

from anabranch.container.checkpoint.folder import Folder
from anabranch.container.checkpoint.offset_log import Entry
from anabranch.spark.query.planned_batch import Batch

__all__ = ["planned_batches"]

_KEPT = 8
"""Batches. The newest may be under way while what the last ones have read is still asked for."""


def planned_batches(folder: Folder) -> Callable[[int], Batch]:
    """A function that tells what was planned for a batch. While the query runs, no entry is written anew that it has
    read: use another function for another query."""
    known: dict[int, tuple[Batch, Entry]] = {}

    def planned(number: int) -> Batch:
        if (found := known.get(number)) is not None:
            return found[0]
        entry = folder.planned_entry(number)
        former = known.get(number - 1)  # others may ask at the same time
        before = former[1] if former is not None else folder.before(number)
        batch = folder.batch_of(number, entry, before)
        known[number] = batch, entry
        for old in sorted(known)[:-_KEPT]:
            known.pop(old, None)
        return batch

    return planned
