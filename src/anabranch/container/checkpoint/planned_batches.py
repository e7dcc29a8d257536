"""Keeps the plans of a running query's most recent batches in memory. On an object store, reading a plan's file takes
two calls, and finding out whether the file exists takes another.
"""

from __future__ import annotations

from collections.abc import Callable

from anabranch.container.checkpoint.folder import Folder
from anabranch.container.checkpoint.offset_log import Entry
from anabranch.spark.query.planned_batch import Batch

__all__ = ["planned_batches"]

_KEPT = 8
"""The number of batches whose plans are kept. More than one plan is kept because the offsets of earlier batches are
still needed while the newest batch runs."""


def planned_batches(folder: Folder) -> Callable[[int], Batch]:
    """A function that returns the plan of the batch with a given number. The function keeps the plans that it has read.
    Between two queries, a batch may be planned again, which makes the kept plan out of date. For this reason, call
    ``planned_batches`` again for each new query.
    """
    known: dict[int, tuple[Batch, Entry]] = {}

    def planned(number: int) -> Batch:
        if (found := known.get(number)) is not None:
            return found[0]
        entry = folder.planned_entry(number)
        former = known.get(number - 1)  # read once: other threads may remove it
        before = former[1] if former is not None else folder.before(number)
        batch = folder.batch_of(number, entry, before)
        known[number] = batch, entry
        for old in sorted(known)[:-_KEPT]:
            known.pop(old, None)
        return batch

    return planned
