"""Whether a topic's producers put keys where ours do: state is kept by partition, so they must."""

from __future__ import annotations

from collections.abc import Iterable

from anabranch.model.hashing import partition_for
from anabranch.model.lane import Lane
from anabranch.systems.contract import System

__all__ = ["bases", "disagreeing"]

_SAMPLE = 20


def bases(lane: Lane, stream: str, count: int) -> int:
    """With how many partitions the state of a stream was first written, which now has ``count``, as far as a lane can
    tell: its partitions have come to it one by one, each so many behind one that it had. Where none have, the stream
    may have been expanded since the lane was planned: by as much as the lane's own partitions leave open."""
    its = {(ssp.partition, lane.base.get(str(ssp), ssp).partition) for ssp in lane.ssps if ssp.stream == stream}
    known = [partition - base for partition, base in its if partition > base]
    last = max(partition for partition, _ in its)
    return min(known) if known else next((each for each in range(last + 1, count) if count % each == 0), count)


def disagreeing(system: System, stream: str, partitions: Iterable[int], base: int) -> str:
    """What is wrong with the newest keys of some partitions, by a sample; '' if nothing is.

    Args:
        base: keys belong together that come to the same partition modulo so many: records may be older than the
            partitions that there are now.
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
