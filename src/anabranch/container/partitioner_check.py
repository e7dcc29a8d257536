"""Whether a topic's producers assign keys to partitions as anabranch does. They must, because state is kept by
partition."""

from __future__ import annotations

from collections.abc import Iterable

from anabranch.model.hashing import partition_for
from anabranch.model.lane import Lane
from anabranch.systems.contract import System

__all__ = ["bases", "disagreeing"]

_SAMPLE = 20


def bases(lane: Lane, stream: str, count: int) -> int:
    """The partition count that a stream had when its state was first written, as far as a lane can tell; it has
    ``count`` partitions now. New partitions come to a lane one by one, each a fixed distance after one that the lane
    had. If none have come, the stream may have been expanded since the lane was planned, by as much as the lane's own
    partitions allow.
    """
    its = {(ssp.partition, lane.base.get(str(ssp), ssp).partition) for ssp in lane.ssps if ssp.stream == stream}
    known = [partition - base for partition, base in its if partition > base]
    last = max(partition for partition, _ in its)
    return min(known) if known else next((each for each in range(last + 1, count) if count % each == 0), count)


def disagreeing(system: System, stream: str, partitions: Iterable[int], base: int) -> str:
    """The problem with a sample of the newest keys in some partitions; empty if there is none.

    Args:
        base: keys belong together if their partitions are equal modulo this number, because records may be older than
            the present partitions.
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
