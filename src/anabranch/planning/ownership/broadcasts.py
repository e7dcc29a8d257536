"""Determines where a lane's tasks begin to read a broadcast partition. Each task reads all records of the partition.

If a task takes over from several tasks at different positions, it begins at the smallest of these positions. So the
task gets each record that at least one of the former tasks hasn't processed. All of these positions are stored, in case
the task is divided again.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from anabranch.errors import StateError
from anabranch.model.lane import Lane, Position, by_deployment
from anabranch.model.ssp import SSP, WHOLE
from anabranch.planning.ownership import positions
from anabranch.planning.ownership.buckets import NEVER, owned
from anabranch.planning.ownership.positions import Former, FormerPosition, KeyPart

__all__ = ["Virtual", "begin", "begins", "floors"]

Virtual = tuple[int, int]
"""The number of a task at factor 1, and a bucket at the lane's factor. With factor 1, the bucket is 0."""

_NOWHERE = -1


def begins(lane: Lane, whole: SSP) -> dict[Virtual, int]:
    """For each of a lane's virtual tasks, the offset from which the task gets the records of a broadcast partition."""
    return {virtual: position.offset for virtual, position in _positions(lane, whole).items()}


def floors(lane: Lane, whole: SSP, number: int) -> tuple[int, ...]:
    """For each bucket of a task, the offset in the broadcast partition ``whole`` from which the lane must still process
    records for this bucket. If the lane doesn't have the bucket, the offset is NEVER. The length of the result is the
    factor to which the buckets belong. This factor can be above the lane's factor.

    Args:
        number: the task's number at factor 1.
    """
    mine = [each for (n, _), each in _positions(lane, whole).items() if n == number]
    parts = [part for each in mine for part in positions.parts_of(each, lane.factor)]
    finest = max((part.factor for part, _ in parts), default=1)
    found = [NEVER] * finest
    for part, at in parts:
        for bucket in range(part.bucket, finest, part.factor):
            found[bucket] = at
    return tuple(found)


def begin(lane: Lane, whole: SSP, former: Iterable[Lane]) -> Position:
    """The position at which a lane begins to read a broadcast partition. If parts of the lane's tasks have already
    processed records beyond the position's offset, the position contains the offsets of these parts, too. ``former``
    contains the closed lanes that had the tasks. For each task, only the lanes of the latest deployment that had the
    task are considered. A lane for which the partition was new, and that never began, is ignored.

    Raises:
        StateError: the former lanes didn't have all of the tasks.
    """
    left: dict[int, list[FormerPosition]] = {}
    for together in by_deployment(each for each in former if _has_read(each, whole)):
        found: dict[int, list[FormerPosition]] = {}
        for each in together:
            for number, its in _left(each, whole).items():
                found.setdefault(number, []).extend(its)
        left = {**found, **left}
    parts: dict[int, dict[KeyPart, int]] = {}
    for number, buckets in owned(lane).items():
        before = Former(left.get(number, ()))
        for bucket in buckets:
            begun = before.begin(_as_of(whole, lane, bucket), lane.factor, _NOWHERE)
            if begun.offset == _NOWHERE:
                raise StateError(
                    f"lane {lane.id} continues from lanes that didn't have all of its tasks",
                    "restore a copy of the store",
                )
            parts.setdefault(number, {}).update(positions.parts_of(begun, lane.factor))
    least = min(offset for each in parts.values() for offset in each.values())
    return Position(
        ssp=whole,
        offset=least,
        parts={
            f"{number}:{part}": offset
            for number, each in sorted(parts.items())
            for part, offset in sorted(_joined(each).items())
            if offset > least
        },
    )


def _positions(lane: Lane, whole: SSP) -> dict[Virtual, Position]:
    """The position at which each of a lane's virtual tasks begins."""
    starts = (position for position in lane.starting if position.ssp == whole)
    begun = next(starts, Position(ssp=whole, offset=0))
    ahead: dict[int, dict[str, int]] = {}
    for name, offset in begun.parts.items():
        number, part = name.split(":")
        ahead.setdefault(int(number), {})[part] = offset
    found = {}
    for task, buckets in owned(lane).items():
        left = Position(ssp=whole, offset=0, parts=ahead.get(task, {}))
        former = Former([FormerPosition(left, 1)] if left.parts else ())
        for bucket in sorted(buckets):
            found[task, bucket] = former.begin(_as_of(whole, lane, bucket), lane.factor, begun.offset)
    return found


def _has_read(lane: Lane, whole: SSP) -> bool:
    return whole in lane.broadcast and any(position.ssp == whole for position in lane.final)


def _left(lane: Lane, whole: SSP) -> dict[int, list[FormerPosition]]:
    """The positions at which a closed lane stopped reading a partition. The keys are the numbers of the lane's tasks at
    factor 1.
    """
    read = {position.ssp: position.offset for position in lane.final}[whole]
    found: dict[int, list[FormerPosition]] = {}
    for (number, _), begun in _positions(lane, whole).items():
        found.setdefault(number, []).append(FormerPosition(positions.after(begun, lane.factor, read), lane.factor))
    for number, each in found.items():
        places = {former.position.offset for former in each}
        if len(each) == lane.factor and len(places) == 1 and not any(former.position.parts for former in each):
            found[number] = [FormerPosition(Position(ssp=whole, offset=places.pop()), 1)]
    return found


def _as_of(whole: SSP, lane: Lane, bucket: int) -> SSP:
    """One bucket of a broadcast partition, as an SSP."""
    return msgspec.structs.replace(whole, key_bucket=WHOLE if lane.factor == 1 else bucket)


def _joined(parts: dict[KeyPart, int]) -> dict[KeyPart, int]:
    """The same offsets in as few parts as possible: parts that have the same offset are merged."""
    found = dict(parts)
    for factor in (2**n for n in range(max(part.factor for part in found).bit_length() - 1, 0, -1)):
        for part in [part for part in found if part.factor == factor and part.bucket < factor // 2]:
            other = KeyPart(factor, part.bucket + factor // 2)
            if found.get(other) == found[part]:
                found[KeyPart(factor // 2, part.bucket)] = found.pop(part)
                del found[other]
    return found
