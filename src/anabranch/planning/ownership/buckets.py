"""Determines which buckets belong to a lane, and from which offsets their records do."""

from __future__ import annotations

from anabranch.model.lane import Lane, Position
from anabranch.model.ssp import SSP, WHOLE, wholes
from anabranch.planning.ownership import positions

__all__ = ["NEVER", "floors", "owned"]

NEVER = 2**63 - 1


def floors(lane: Lane, whole: SSP) -> tuple[int, ...]:
    """For each bucket, the offset from which its records belong to the lane, or NEVER if none of its records do. The
    length of the result is the factor to which the buckets belong.

    Args:
        whole: a partition that the lane reads.
    """
    begun = {position.ssp: position for position in lane.starting}
    own = [ssp for ssp, its in zip(lane.ssps, wholes(lane.ssps), strict=True) if its == whole]
    parts = [
        each for ssp in own for each in positions.parts_of(begun.get(ssp, Position(ssp=ssp, offset=0)), lane.factor)
    ]
    finest = max(part.factor for part, _ in parts)
    found = [NEVER] * finest
    for part, at in parts:
        for bucket in range(part.bucket, finest, part.factor):
            found[bucket] = at
    return tuple(found)


def owned(lane: Lane) -> dict[int, frozenset[int]]:
    """For each task, by its number at factor 1: the buckets (at the lane's factor) whose records and state belong to
    the lane. Without a broadcast input, only tasks for which the lane reads an SSP are included.
    """
    found: dict[int, set[int]] = {}
    for ssp, whole in zip(lane.ssps, wholes(lane.ssps), strict=True):
        buckets = range(lane.factor) if ssp.key_bucket == WHOLE else (ssp.key_bucket,)
        found.setdefault(lane.numbers[str(whole)], set()).update(buckets)
    for number in lane.bases if lane.broadcast else ():
        found[number] = set(lane.buckets.get(str(number), range(lane.factor)))
    return {number: frozenset(buckets) for number, buckets in found.items()}
