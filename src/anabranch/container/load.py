"""How much of its time a lane works, and how much comes in. No clock, no threads, no Spark."""

from __future__ import annotations

import statistics
from collections import deque

from anabranch.messages import LaneReport

__all__ = ["Load"]

_WINDOW = 30.0


class Load:
    """Of the last half minute, by the reports of a lane's batches.

    ``busy``: the part of the time that batches took, from 0 to 1. ``arriving``: records that came in, a second.
    ``usual``: the median seconds of a batch.
    """

    def __init__(self) -> None:
        self.busy = 0.0
        self.arriving = 0.0
        self.usual = 0.0
        self._batches: deque[tuple[float, float, int]] = deque()

    def ran(self, report: LaneReport, now: float) -> None:
        """A batch has ended ``now`` (seconds of any clock)."""
        self._batches.append((now, report.seconds, sum(report.ends.values())))
        while now - self._batches[0][0] > _WINDOW and len(self._batches) > 2:
            self._batches.popleft()
        self.usual = statistics.median(seconds for _, seconds, _ in self._batches)
        first, _, before = self._batches[0]
        passed = now - first
        if passed > 0:
            self.busy = min(1.0, sum(seconds for _, seconds, _ in list(self._batches)[1:]) / passed)
            self.arriving = max(0.0, (self._batches[-1][2] - before) / passed)
