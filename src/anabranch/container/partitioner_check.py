"""Checks that a stream's producers assign keys to partitions as anabranch does, because state is kept by partition."""

from __future__ import annotations

from collections.abc import Iterable

from anabranch.model.hashing import partition_for
from anabranch.model.lane import Lane
from anabranch.systems.contract import System

__all__ = ["bases", "disagreeing"]

_SAMPLE = 20


def bases(lane: Lane, stream: str, count: int) -> int:
    """Infer from a lane's partitions how many partitions a stream had when the lane's state was first written.

    The partitions that a lane gains in an expansion reveal the old partition count: their numbers exceed the numbers of
    the lane's old partitions by multiples of that count. If the lane has no such partitions, the stream may still
    have been expanded, and the result is a guess. The guess is the smallest divisor of ``count``, the current partition
    count, that is higher than the numbers of the lane's partitions.
    """
    its = {(ssp.partition, lane.base.get(str(ssp), ssp).partition) for ssp in lane.ssps if ssp.stream == stream}
    known = [partition - base for partition, base in its if partition > base]
    last = max(partition for partition, _ in its)
    return min(known) if known else next((each for each in range(last + 1, count) if count % each == 0), count)


def disagreeing(system: System, stream: str, partitions: Iterable[int], base: int) -> str:
    """Check the keys of the newest records in ``partitions``. Returns a sentence about the first key that is in an
    unexpected partition; empty if there is no such key.

    Args:
        base: the stream's original partition count. After an expansion, records with the same key can be in different
            partitions, but these partitions' numbers are equal modulo ``base``.
    """
    count = system.partitions(stream)
    starts, ends = system.starts(stream), system.ends(stream)
    for partition in partitions:
        first = max(starts[partition], ends[partition] - _SAMPLE)
        if ends[partition] <= first:
            continue
        for offsets, batch in system.read(stream, partition, [(first, ends[partition])]):
            for offset, key in zip(offsets.tolist(), batch.column("key").to_pylist(), strict=True):
                right = partition if key is None else partition_for(key, count)
                if right % base != partition % base:
                    return (
                        f"{system.name}/{stream} isn't partitioned by murmur2: the key of the record at offset "
                        f"{offset} of partition {partition} would be in {right} of {count}. State is kept by "
                        "partition: an expansion, or another stream with the same keys, will give such a key two states"
                    )
    return ""
