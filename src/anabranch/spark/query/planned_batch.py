"""Describes a planned batch in the offset log: what the batch reads, and the event time when it was planned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from anabranch.event_time.progress import Progress

Positions = Mapping[str, Mapping[int, int]]


@dataclass(frozen=True)
class Batch:
    """A planned batch.

    Attributes:
        begins: the offset of the first record to read, by stream and partition. Partitions from which the lane hasn't
            read before are missing.
        ends: the end offsets of the batch, by stream and partition.
        progress: the lane's event time when the batch was planned.
        at: when the batch was first planned, in Unix ms.
        watermark: Spark's watermark, in Unix ms; 0 if there is none.
        drains: whether this is the last batch of a drain. Such a batch sets the watermark to infinity.
        reached: in the last batch of a drain, the lane's event time before this batch, in Unix ms; 0 in other batches.
    """

    number: int
    begins: Positions
    ends: Positions
    progress: Progress
    at: int = 0
    watermark: int = 0
    drains: bool = False
    reached: int = 0

    def ranges(self, stream: str, starting: Mapping[int, int]) -> dict[int, tuple[int, int]]:
        """The offsets that the batch reads from a stream, by partition: the first offset and one past the last offset.
        ``starting`` has the start offsets of partitions from which the lane hasn't read before.
        """
        begins, ends = self.begins.get(stream, {}), self.ends.get(stream, {})
        return {p: (begins.get(p, starting.get(p, 0)), end) for p, end in ends.items()}
