"""Which records of a partition are a lane's own: by bucket, and from where on."""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.model.lane import Lane, Position
from anabranch.model.ssp import SSP, WHOLE, wholes

__all__ = ["NEVER", "floors", "owned"]

NEVER = 2**63 - 1


def floors(lane: Lane, whole: SSP) -> tuple[int, ...]:
    """For each bucket of some factor, the offset from which on its records are the lane's; NEVER: they aren't.

    Args:
        whole: a partition that the lane reads.
    """
    begun = {position.ssp: position for position in lane.starting}
    own = [ssp for ssp, its in zip(lane.ssps, wholes(lane.ssps), strict=True) if its == whole]
    parts = [part for ssp in own for part in _parts(ssp, begun.get(ssp), lane.factor)]
    finest = max(factor for factor, _, _ in parts)
    found = [NEVER] * finest
    for factor, bucket, at in parts:
        for each in range(bucket, finest, factor):
            found[each] = at
    return tuple(found)


def _parts(ssp: SSP, begins: Position | None, factor: int) -> Sequence[tuple[int, int, int]]:
    """Factor, bucket and first offset of each part of an SSP."""
    if begins is not None and begins.parts:
        named = ((*map(int, name.split("/")), at) for name, at in begins.parts.items())
        return [(of, bucket, at) for bucket, of, at in named]
    at = 0 if begins is None else begins.offset
    return [(1, 0, at) if ssp.key_bucket == WHOLE else (factor, ssp.key_bucket, at)]


def owned(lane: Lane) -> dict[int, frozenset[int]]:
    """By the number of a task (at factor 1), the buckets of the lane's factor whose state is the lane's own."""
    found: dict[int, set[int]] = {}
    for ssp, whole in zip(lane.ssps, wholes(lane.ssps), strict=True):
        buckets = range(lane.factor) if ssp.key_bucket == WHOLE else (ssp.key_bucket,)
        found.setdefault(lane.numbers[str(whole)], set()).update(buckets)
    return {number: frozenset(buckets) for number, buckets in found.items()}
