"""What was planned for the batches of a query that runs: each entry of the checkpoint is read once.

An object store takes two calls to read a file, and one to see whether there is one.
"""

from __future__ import annotations

from collections.abc import Callable

from anabranch.container.checkpoint.folder import Folder
from anabranch.container.checkpoint.offset_log import Entry
from anabranch.spark.query.planned_batch import Batch

__all__ = ["planned_batches"]


def planned_batches(folder: Folder) -> Callable[[int], Batch]:
    """A function that tells what was planned for a batch. While the query runs, no entry is written anew that it has
    read: use another function for another query."""
    last: tuple[Batch, Entry] | None = None

    def planned(number: int) -> Batch:
        nonlocal last
        known = last  # others may ask at the same time
        if known is not None and known[0].number == number:
            return known[0]
        entry = folder.entry(number)
        follows = known is not None and known[0].number == number - 1
        before = known[1] if known is not None and follows else folder.before(number)
        batch = folder.batch_of(number, entry, before)
        last = batch, entry
        return batch

    return planned
