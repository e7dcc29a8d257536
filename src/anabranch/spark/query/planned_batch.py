"""A planned batch in the offset log: what the batch reads, and the event time with which it was planned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from anabranch.event_time.progress import Progress

Positions = Mapping[str, Mapping[int, int]]


@dataclass(frozen=True)
class Batch:
    """``begins`` and ``ends`` are stream → partition → next offset; a partition that isn't in ``begins`` is new.

    ``at``: when it was first planned. ``watermark``: Spark's watermark. Both are in Unix ms. ``drains``: whether it
    sets the watermark to infinity, and is thus the last one; ``reached``: the event time before that, in Unix ms.
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
        """What the batch reads from a stream: partition → the first offset and the one after the last. ``starting``:
        the start offsets of new partitions.
        """
        begins, ends = self.begins.get(stream, {}), self.ends.get(stream, {})
        return {p: (begins.get(p, starting.get(p, 0)), end) for p, end in ends.items()}
