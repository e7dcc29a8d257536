"""Determines which buckets belong to a lane, and the offset from which each bucket's records belong to the lane."""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.model.lane import Lane, Position
from anabranch.model.ssp import SSP, WHOLE, wholes
from anabranch.planning.ownership import positions
from anabranch.planning.ownership.positions import KeyPart

__all__ = ["NEVER", "floors", "owned"]

NEVER = 2**63 - 1


def floors(lane: Lane) -> dict[SSP, tuple[int, ...]]:
    """Maps the whole SSP of each partition that the lane reads to a tuple with an offset for each bucket. From this
    offset on, the bucket's records belong to the lane. If the offset is NEVER, none of the bucket's records do.
    Broadcast partitions are left out.

    The tuple is in the order of the buckets. Its length is the factor to which the buckets belong, which can be above
    the lane's factor.
    """
    begun = {position.ssp: position for position in lane.starting}
    parts: dict[SSP, list[tuple[KeyPart, int]]] = {}
    for ssp, whole in zip(lane.ssps, wholes(lane.ssps), strict=True):
        its = positions.parts_of(begun.get(ssp, Position(ssp=ssp, offset=0)), lane.factor)
        parts.setdefault(whole, []).extend(its)
    return {whole: _floors(its) for whole, its in parts.items()}


def _floors(parts: Sequence[tuple[KeyPart, int]]) -> tuple[int, ...]:
    finest = max(part.factor for part, _ in parts)
    found = [NEVER] * finest
    for part, at in parts:
        for bucket in range(part.bucket, finest, part.factor):
            found[bucket] = at
    return tuple(found)


def owned(lane: Lane) -> dict[int, frozenset[int]]:
    """Maps the number of each task, at factor 1, to the buckets whose records and state belong to the lane. The buckets
    are those of the lane's factor. Without a broadcast input, only tasks for which the lane reads an SSP are included.
    """
    found: dict[int, set[int]] = {}
    for ssp, whole in zip(lane.ssps, wholes(lane.ssps), strict=True):
        buckets = range(lane.factor) if ssp.key_bucket == WHOLE else (ssp.key_bucket,)
        found.setdefault(lane.numbers[str(whole)], set()).update(buckets)
    for number in lane.bases if lane.broadcast else ():
        found[number] = set(lane.buckets.get(str(number), range(lane.factor)))
    return {number: frozenset(buckets) for number, buckets in found.items()}
