"""Computes the limit on the number of records in the next batch from the durations of previous batches.

A batch takes a fixed time, and some time for each record. A batch that is far shorter than the target reveals little
about the time for a record. So after such a batch, the next batch can have up to ten times as many records. Any other
batch shows how many records a batch must have to take exactly the target.

The limit is the median of the numbers that the most recent batches show. But if the last batch was far slower than
usual, the limit is the number that this batch shows. So an event that slows down a single batch, such as a short outage
of a broker, makes only the next batch small.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, replace

__all__ = ["BatchRun", "BatchTarget", "Pace"]

_MEMORY = 6
"""The number of recent batches from which the limit is computed."""
_FIXED = 3
"""How many of the most recent estimates of the fixed time are kept, and how many of the most recent durations of
batches. The fixed time can't exceed any of these durations.
"""
_UNKNOWN, _OLD, _VERY_OLD = 2, 8, 50
"""After this many batches of about the same size, a batch of another size is tried, to estimate the fixed time again.
``_UNKNOWN`` applies if there is no estimate, or if the only estimate is large. If there are several estimates, and the
fixed time is a large part of a batch, ``_OLD`` applies. Otherwise, ``_VERY_OLD`` applies.
"""
_TRIED = 120.0
"""To estimate the fixed time, a larger batch is tried only if this batch is expected to take at most this many
seconds."""
_FASTEST = 10.0
"""The largest factor by which the limit grows from one batch to the next."""
_CAREFUL = 0.8
"""After a batch that was too short for an exact measurement, the factor by which the limit grows is multiplied by this
number."""
_OUTLASTS = 3.0
"""The next batch may take at most this multiple of the target, assuming that a batch's duration is proportional to its
number of records. Test batches are an exception; see :meth:`Pace._tried`.
"""
_NEAR = 0.5
"""A batch counts as a measurement of the time for its records if its duration minus the fixed time is at least this
share of the target minus the fixed time."""
_FAR_SLOWER = 0.75
"""The last batch alone determines the limit if it shows that the next batch should have less than this share of the
usual number of rows.
"""
_OF_TRANSACTION = 0.25
"""The maximum share of the allowed time that a batch should take."""
_TIMES_FIXED = 4
_SOME = 1.25
_APART = 2
"""Two batches reveal the fixed time if one has at least this many times as many records as the other."""
_UNHELPED = 0.7
_FEWER = 4
_NO_TIME = 0.01


@dataclass(frozen=True)
class BatchTarget:
    """The target duration and the limits of a lane's batches.

    Attributes:
        target: the seconds that a batch should take; infinity if a batch may take any amount of time.
        least: the lowest limit on the number of records in a batch.
        most: the highest limit.
        allowed: the seconds after which a batch fails.
    """

    target: float
    least: int
    most: int
    allowed: float = math.inf


@dataclass(frozen=True)
class BatchRun:
    """A batch of ``rows`` rows that took ``seconds`` seconds. ``bound`` says whether the batch would have had more rows
    without the limit.
    """

    rows: int
    seconds: float
    bound: bool = True


@dataclass(frozen=True)
class Pace:
    """The limit on the number of records in the next batch, and the measurements from which it is computed.

    Attributes:
        limit: the maximum number of records in the next batch.
        ran: the recent batches on which the limit depends, the oldest first.
        before: the last batch that had records; None if there is none.
        estimates: the most recent estimates of the fixed time, in seconds, the oldest first.
        age: the number of batches since the last estimate of the fixed time.
        shortest: the durations of the most recent batches, in seconds. The fixed time can't exceed any of them.
    """

    aim: BatchTarget
    limit: int
    ran: tuple[BatchRun, ...] = ()
    before: BatchRun | None = None
    estimates: tuple[float, ...] = ()
    age: int = 0
    shortest: tuple[float, ...] = ()

    @property
    def fixed(self) -> float:
        """The seconds that a batch takes regardless of its records; 0.0 as long as this time is unknown."""
        if not self.estimates:
            return 0.0
        fixed = min(statistics.median_low(self.estimates), *self.shortest)
        # A single estimate may be wrong, because one of its two batches was slow for another reason. So it can't raise
        # the target above the configured one.
        return fixed if len(self.estimates) > 1 else min(fixed, self.aim.target / _TIMES_FIXED)

    @property
    def target(self) -> float:
        """The seconds that a batch should take: the configured target or four times the fixed time, whichever is more.
        But a batch should take at most a quarter of the allowed time. If a quarter of the allowed time is less than
        1.25 times the fixed time, a batch should take 1.25 times the fixed time.
        """
        wanted = min(max(self.aim.target, _TIMES_FIXED * self.fixed), self.aim.allowed * _OF_TRANSACTION)
        return max(wanted, _SOME * self.fixed)

    def after(self, ran: BatchRun) -> Pace:
        """The pace after a batch. A batch without records changes nothing."""
        if ran.rows <= 0:
            return self
        learned = self._learned(ran)
        if not (ran.bound or ran.seconds >= learned.target):
            return learned  # a quick batch that read all waiting records is no reason to change the limit
        if self.before is None and not self._is_short(ran) and ran.seconds < _OUTLASTS * self.target:
            return learned  # a first batch takes longer, because some things are done only once
        counted = replace(learned, ran=(*self.ran, ran)[-_MEMORY:])
        return replace(counted, limit=counted._tried(ran) or counted._next())

    def failed(self, rows: int, told: BatchRun | None = None) -> Pace:
        """The pace after a batch that took longer than allowed. The limit for the next batch is at most a quarter of
        the failed batch's rows, but at least one row. If the target's lowest limit is higher than the new limit, the
        lowest limit is reduced to the new limit.

        Args:
            rows: the number of rows of the batch that failed.
            told: the rows that were finished when the batch was broken off, and the seconds until then. None if these
                numbers aren't known.
        """
        told = BatchRun(rows, self.aim.allowed) if told is None else told
        slow = replace(self, aim=replace(self.aim, least=1)).after(told)
        limit = max(1, min(slow.limit, rows // _FEWER))
        return replace(slow, limit=limit, aim=replace(self.aim, least=min(self.aim.least, limit)))

    def _learned(self, ran: BatchRun) -> Pace:
        found = None if self.before is None else _fixed(self.before, ran)
        age = 0 if found is not None else self.age + 1
        estimates = self.estimates if found is None else (*self.estimates, found)[-_FIXED:]
        shortest = (*self.shortest, ran.seconds)[-_FIXED:]
        return replace(self, before=ran, estimates=estimates, age=age, shortest=shortest)

    def _tried(self, ran: BatchRun) -> int:
        """The number of rows for a test batch that shows the fixed time; 0 if no test batch is due or possible.

        A test batch is due after ``_patience`` batches of about the same size. No test batch is due if the last batch
        read all waiting records. If the last batch was short, no test batch is due as long as the limit can still grow.

        Without test batches, a wrong fixed time would remain wrong. If the fixed time was near the target, but
        unknown, records would look slow, and batches would get fewer and fewer records without becoming much shorter.
        If the fixed time was estimated too high, batches would look short even when they couldn't grow any more.

        A small test batch costs little, so the test batch gets at most half as many rows as the last batch. If half is
        less than the lowest limit, the test batch gets twice as many rows as the last batch, but at least the lowest
        limit. No test batch is possible if this number of rows exceeds the highest limit, or if twice the last batch's
        time is too long.
        """
        grows = self._is_short(ran) and (self.limit < self.aim.most or math.isinf(self.aim.target))
        if not ran.bound or grows or self.age < self._patience:
            return 0
        fewer, more = ran.rows // _APART, max(self.aim.least, ran.rows * _APART)
        if fewer >= self.aim.least:
            return min(fewer, self._next())
        return more if more <= self.aim.most and _APART * ran.seconds <= min(_TRIED, self.aim.allowed / 2) else 0

    @property
    def _patience(self) -> int:
        """The number of batches of about the same size after which a batch of another size is tried."""
        large = self.aim.target / _TIMES_FIXED
        if not self.estimates or (len(self.estimates) == 1 and self.estimates[0] > large):
            return _UNKNOWN
        return _OLD if self.fixed > large else _VERY_OLD

    def _next(self) -> int:
        rows = [self._wanted(each) for each in self.ran]
        usual = statistics.median_high(rows)
        wanted = min(usual if rows[-1] > _FAR_SLOWER * usual else rows[-1], self._grown())
        return max(self.aim.least, min(self.aim.most, round(min(wanted, self.aim.most))))

    def _wanted(self, ran: BatchRun) -> float:
        """The estimated number of rows with which a batch would take exactly the target. The estimate is based on
        ``ran``. If ``ran`` was too short for an estimate, the result is inf.
        """
        target, fixed = self.target, self.fixed
        if self._is_short(ran):
            return math.inf
        more = (target - fixed) / max(ran.seconds - fixed, _NO_TIME)
        return max(1.0, ran.rows * min(more, _OUTLASTS * target / ran.seconds))

    def _grown(self) -> float:
        """The maximum number of rows in the next batch. The maximum is a multiple of the last batch's rows: the less
        time the last batch took, the larger the multiple. But the next batch can always have as many rows as the
        largest recent batch that took at most ``_CAREFUL * _OUTLASTS`` times the target.
        """
        target, last = self.target, self.ran[-1]
        if math.isinf(target):
            return math.inf
        well = max((each.rows for each in self.ran if each.seconds <= _CAREFUL * _OUTLASTS * target), default=last.rows)
        more = (target - self.fixed) / max(last.seconds - self.fixed, _NO_TIME)
        careful = _CAREFUL * more if self._is_short(last) else more
        by = min(_FASTEST, _OUTLASTS * target / max(last.seconds, _NO_TIME), max(1.0, careful))
        return max(well, last.rows * by)

    def _is_short(self, ran: BatchRun) -> bool:
        """Whether a batch was too short to show how long its records take."""
        target, fixed = self.target, self.fixed
        return math.isinf(target) or ran.seconds - fixed < _NEAR * (target - fixed)


def _fixed(before: BatchRun, ran: BatchRun) -> float | None:
    """The fixed time, computed from two consecutive batches; None if their numbers of rows are too similar."""
    small, large = sorted((before, ran), key=lambda each: each.rows)
    if large.rows < _APART * small.rows:
        return None
    least = min(small.seconds, large.seconds)
    if small.seconds >= _UNHELPED * large.seconds:
        return least
    each = (large.seconds - small.seconds) / (large.rows - small.rows)
    return min(max(0.0, small.seconds - each * small.rows), least)
