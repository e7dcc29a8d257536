"""A planned batch as the offset log has it: what it reads, and the event time that it was planned with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from anabranch.event_time.progress import Progress

Positions = Mapping[str, Mapping[int, int]]


@dataclass(frozen=True)
class Batch:
    """``begins`` and ``ends`` are stream → partition → next offset; a partition that isn't in ``begins`` is new.

    ``at``: when it was planned first, and ``watermark``: Spark's for it, both in Unix ms.
    ``drains``: it takes the watermark to infinity, and is the last one; ``reached``: where that was before, in Unix ms.
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
        """What it reads of a stream: partition → first offset and the one after the last. ``starting``: of new ones."""
        begins, ends = self.begins.get(stream, {}), self.ends.get(stream, {})
        return {p: (begins.get(p, starting.get(p, 0)), end) for p, end in ends.items()}
