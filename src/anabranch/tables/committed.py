"""Remembers the latest batches that tables have committed for the lanes of this process. If a table later lacks some of
these batches, the table has been set back to an earlier state.
"""

from __future__ import annotations

from anabranch.tables.marks import NOTHING

__all__ = ["before", "forget", "note"]

_KEPT = 2
"""How many batches are remembered. The batch before the last one is needed if the last one is repeated."""

_batches: dict[tuple[str, str, str], tuple[int, ...]] = {}
"""The highest committed batches by job, lane and output. All attempts of a lane use the same item."""


def note(job: str, lane: str, output: str, batch: int) -> None:
    """Remember that a table contains a batch. Does nothing if ``batch`` is -1."""
    found = {*_batches.get((job, lane, output), ()), batch} - {NOTHING}
    _batches[job, lane, output] = tuple(sorted(found)[-_KEPT:])


def before(job: str, lane: str, output: str, batch: int) -> int:
    """The last batch before ``batch`` that the table is known to contain; -1 if none is known."""
    return max((each for each in _batches.get((job, lane, output), ()) if each < batch), default=NOTHING)


def forget(job: str, lane: str, output: str, after: int = NOTHING) -> None:
    """Forget the batches after the batch ``after``; by default, forget all batches. This is necessary for a new lane,
    because another lane may have had the same id before a reset. It is also necessary if a lane's folder and the table
    were both restored from older copies, because the lane must then write batches again.
    """
    found = tuple(each for each in _batches.pop((job, lane, output), ()) if each <= after)
    if found:
        _batches[job, lane, output] = found
