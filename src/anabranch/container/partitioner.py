"""Whether a topic's producers put keys where ours do: state is kept by partition, so they must."""

from __future__ import annotations

from collections.abc import Iterable

from anabranch.model.hashing import partition_for
from anabranch.systems.contract import System

__all__ = ["disagreeing"]

_SAMPLE = 20


def disagreeing(system: System, stream: str, partitions: Iterable[int]) -> str:
    """What is wrong with the newest keys of some partitions, by a sample; '' if nothing is."""
    count = system.partitions(stream)
    starts, ends = system.starts(stream), system.ends(stream)
    for partition in partitions:
        first = max(starts[partition], ends[partition] - _SAMPLE)
        if ends[partition] <= first:
            continue
        for _, batch in system.read(stream, partition, [(first, ends[partition])]):
            for key in batch.column("key").to_pylist():
                if key is not None and (right := partition_for(key, count)) != partition:
                    return (
                        f"{system.name}/{stream} isn't partitioned by murmur2: key 0x{key[:40].hex()} is in partition "
                        f"{partition}, and ours would be in {right} of {count}. State is kept by partition: an "
                        "expansion, or another stream with the same keys, will give such a key two states"
                    )
    return ""
