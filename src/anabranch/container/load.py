"""How much of its time a lane works, and how much comes in. No clock, no threads, no Spark."""

from __future__ import annotations

import statistics
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from anabranch.messages import LaneReport

__all__ = ["Load"]

_WINDOW = 30.0
_EVERY = 1.0


@dataclass(frozen=True)
class _Look:
    """A moment: how long the batch took that ended then, how much had come in, how long functions had each bucket."""

    at: float
    seconds: float
    ends: int
    worked: Mapping[tuple[int, int], float] = field(default_factory=dict)


class Load:
    """Of the last half minute, by the reports of a lane's batches.

    ``busy``: the part of the time that batches took, from 0 to 1. ``working``: the part that Python functions worked on
    the bucket that they worked on most. ``arriving``: records that came in, a second. ``span``: the seconds that all
    this is of. ``usual``: the median seconds of a batch.
    """

    def __init__(self) -> None:
        self.busy = 0.0
        self.working = 0.0
        self.arriving = 0.0
        self.span = 0.0
        self.usual = 0.0
        self._looks: deque[_Look] = deque()

    def ran(self, report: LaneReport, now: float, worked: Mapping[tuple[int, int], float] = {}) -> None:
        """A batch has ended ``now`` (seconds of any clock). ``worked``: the seconds of functions, by bucket."""
        self._add(_Look(now, report.seconds, sum(report.ends.values()), worked))

    def idled(self, report: LaneReport, now: float) -> bool:
        """``now`` no batch has ended; gives whether that tells something: a lane that has nothing to read is idle."""
        if not report.ends:
            return False
        behind = any(end > report.positions.get(ssp, 0) for ssp, end in report.ends.items())
        if behind or (self._looks and now < self._looks[-1].at + _EVERY):
            return False
        self._add(_Look(now, 0.0, sum(report.ends.values())))
        return True

    def _add(self, look: _Look) -> None:
        self._looks.append(look)
        while look.at - self._looks[0].at > _WINDOW and len(self._looks) > 2:
            self._looks.popleft()
        first, *later = self._looks
        self.usual = statistics.median([each.seconds for each in self._looks if each.seconds] or [self.usual])
        self.span = look.at - first.at
        if self.span > 0:
            buckets: Counter[tuple[int, int]] = Counter()
            for each in later:
                buckets.update(each.worked)
            self.busy = min(1.0, sum(each.seconds for each in later) / self.span)
            self.working = min(1.0, max(buckets.values(), default=0.0) / self.span)
            self.arriving = max(0.0, (look.ends - first.ends) / self.span)
