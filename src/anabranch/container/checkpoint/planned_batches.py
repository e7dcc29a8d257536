"""The plans of the batches of a running query. Each entry of the checkpoint is read once, or not at all.

An object store takes two calls to read a file, and one to see whether it exists.
"""

from __future__ import annotations

from collections.abc import Callable

from anabranch.container.checkpoint.folder import Folder
from anabranch.container.checkpoint.offset_log import Entry
from anabranch.spark.query.planned_batch import Batch

__all__ = ["planned_batches"]

_KEPT = 8
"""How many batches to keep. The newest may be running while the offsets of the previous ones are still needed."""


def planned_batches(folder: Folder) -> Callable[[int], Batch]:
    """A function that returns the plan of a batch. It relies on entries that it has read not being rewritten while the
    query runs, so use another function for another query."""
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
