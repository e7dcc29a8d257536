"""Determines whether a batch takes, or will take, longer than a transaction may take. Also plans such a batch again
with fewer rows."""

from __future__ import annotations

from collections.abc import Mapping

from anabranch.container.checkpoint.folder import Folder
from anabranch.protocol.lane_report import BatchPhase, BatchProgress
from anabranch.systems.source import share

__all__ = ["is_too_long", "outlasts", "shrink"]

_TOO_LONG = "anabranch.errors.TooLongError"
_SURE = 0.1
"""The share of the allowed time after which a batch's measured speed is trusted."""
_WRITTEN = (BatchPhase.PUBLISHING, BatchPhase.COMMITTING)


def is_too_long(error: BaseException) -> bool:
    """Whether a batch failed because one of its transactions took longer than allowed."""
    return _TOO_LONG in str(error)


def outlasts(progress: BatchProgress | None, allowed: float) -> bool:
    """Whether a batch will probably take longer than ``allowed`` seconds. False as long as too little is known about
    the batch's speed. Also False once the batch is publishing or committing, because its slow part is over."""
    if progress is None or progress.left is None or progress.phase in _WRITTEN:
        return False
    return progress.seconds > _SURE * allowed and progress.seconds + progress.left > allowed


def shrink(folder: Folder, starting: Mapping[str, Mapping[int, int]], most: int) -> int:
    """Plan the pending batch again with at most ``most`` offsets. Returns how many offsets the batch had. If the
    batch had no more than ``most`` offsets, the batch isn't changed, and the result is 0. Call this only if no output
    contains any part of the batch.

    Args:
        starting: the offsets at which the lane's first batch begins, by stream and partition.
    """
    number = folder.planned()
    batch, entry = folder.batch(number), folder.entry(number)
    places = {
        (stream, partition): (begin, end)
        for stream in batch.ends
        for partition, (begin, end) in batch.ranges(stream, starting.get(stream, {})).items()
    }
    numbered = dict(enumerate(places))
    begins = {n: places[place][0] for n, place in numbered.items()}
    ends = {n: places[place][1] for n, place in numbered.items()}
    rows = sum(end - begin for begin, end in places.values())
    if rows <= most:
        return 0
    taken = {numbered[n]: end for n, end in share(begins, ends, most).items()}
    for stream, source in folder.sources(number).items():
        entry = entry.with_positions(source, {p: end for (s, p), end in taken.items() if s == stream})
    folder.plan_again(entry)
    return rows
