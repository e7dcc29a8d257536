"""A lane's load: what share of the time the lane is busy, and how fast records arrive. Pure: no clock, no threads, no
Spark.
"""

from __future__ import annotations

import statistics
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from anabranch.protocol.lane_report import LaneReport

__all__ = ["Load"]

_WINDOW = 30.0
_EVERY = 1.0

Worked = Mapping[tuple[int, int], float]
"""How many seconds functions have worked on each bucket. A bucket is given by two numbers: the number that its task has
at factor 1, and the bucket's own number."""
_NOTHING: Worked = {}


@dataclass(frozen=True)
class _Sample:
    """The metrics at a given time.

    Attributes:
        at: the time, in seconds on any clock.
        seconds: how long batches ran since the previous sample.
        ends: the sum of the inputs' end offsets; None while they aren't known.
        done: how many records the lane's attempt had read.
        worked: how long functions worked on each bucket since the previous sample.
    """

    at: float
    seconds: float
    ends: int | None
    done: int
    worked: Worked = field(default_factory=dict)


class Load:
    """The load of a lane in the last half minute, including the running batch.

    Attributes:
        busy: the share of the time that batches took, from 0 to 1.
        working: the share of the time that Python functions spent on the bucket that took the most time.
        arriving: the records that arrived per second.
        throughput: the records that were read per second.
        span: the seconds that these metrics cover.
        usual: the median duration of the recent batches in seconds; 0.0 before the first batch has ended.
    """

    def __init__(self) -> None:
        self.busy = 0.0
        self.working = 0.0
        self.arriving = 0.0
        self.throughput = 0.0
        self.span = 0.0
        self.usual = 0.0
        self._looks: deque[_Sample] = deque()
        self._batches: deque[tuple[float, float]] = deque()
        self._seconds = 0.0
        self._worked: Worked = {}

    def ran(self, report: LaneReport, now: float, worked: Worked = _NOTHING) -> None:
        """Record that a batch ended at ``now`` (seconds on any clock). ``worked`` contains, for each bucket, the
        seconds that functions spent on it.
        """
        self._batches.append((now, report.load.seconds))
        while now - self._batches[0][0] > _WINDOW and len(self._batches) > 2:
            self._batches.popleft()
        self.usual = statistics.median([each for _, each in self._batches if each] or [self.usual])
        self._add(report, now, max(0.0, report.load.seconds - self._seconds), self._more(worked))
        self._seconds, self._worked = 0.0, {}

    def runs(self, report: LaneReport, now: float, seconds: float, worked: Worked, done: int = 0) -> bool:
        """Record that at ``now``, a batch has been running for ``seconds``. Returns whether the metrics have changed.

        Args:
            report: the lane's report, without the running batch.
            worked: how long functions have worked on each bucket, according to their reports so far.
            done: how many of the batch's records are finished.
        """
        if not self._looks:
            self._looks.append(_Sample(now - seconds, 0.0, _ends(report), report.progress.rows))
        if seconds < self._seconds:  # another batch: the previous one has failed
            self._seconds, self._worked = 0.0, {}
        if now < self._looks[-1].at + _EVERY:
            return False
        self._add(report, now, max(0.0, seconds - self._seconds), self._more(worked), done)
        self._seconds, self._worked = seconds, {**self._worked, **worked}
        return True

    def idled(self, report: LaneReport, now: float) -> bool:
        """Record that no batch has ended since the last call. If the lane has nothing to read and runs no batch, the
        time until ``now`` counts as idle. Returns whether the metrics have changed.
        """
        if not report.progress.ends or self._seconds:
            return False
        if report.progress.lag or (self._looks and now < self._looks[-1].at + _EVERY):
            return False
        self._add(report, now, 0.0, {})
        return True

    def _more(self, worked: Worked) -> Worked:
        return {bucket: max(0.0, seconds - self._worked.get(bucket, 0.0)) for bucket, seconds in worked.items()}

    def _add(self, report: LaneReport, now: float, seconds: float, worked: Worked, done: int = 0) -> None:
        self._looks.append(_Sample(now, seconds, _ends(report), report.progress.rows + done, worked))
        while now - self._looks[0].at > _WINDOW and len(self._looks) > 2:
            self._looks.popleft()
        first, *later = self._looks
        self.span = now - first.at
        if self.span > 0:
            buckets: Counter[tuple[int, int]] = Counter()
            for each in later:
                buckets.update(each.worked)
            self.busy = min(1.0, sum(each.seconds for each in later) / self.span)
            self.working = min(1.0, max(buckets.values(), default=0.0) / self.span)
            self.arriving = self._arriving()
            self.throughput = max(0.0, (self._looks[-1].done - first.done) / self.span)

    def _arriving(self) -> float:
        """The records that arrived per second. The rate is measured from the first sample with known end offsets."""
        known = [(each.at, each.ends) for each in self._looks if each.ends is not None]
        if not known:
            return 0.0
        (since, before), (until, after) = known[0], known[-1]
        return max(0.0, (after - before) / (until - since)) if until > since else 0.0


def _ends(report: LaneReport) -> int | None:
    return sum(report.progress.ends.values()) if report.progress.ends else None
