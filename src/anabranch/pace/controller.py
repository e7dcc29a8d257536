"""Computes the number of records that the next batch may have from the duration of previous batches. No clock, no
Spark.

A batch takes a fixed time (starting tasks, committing, the duration of one message), and some time for each record. A
batch that is far shorter than it should be says little about the latter, so the next ones grow, by a factor of at most
ten each. A batch that comes near the target shows how many records would just reach it. Of the last few batches that
did, the slowest doesn't count, unless it was the very last one: anything that slows a single batch (an unreachable
broker, a frozen process) makes only the next one small.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, replace

__all__ = ["BatchRun", "BatchTarget", "Pace"]

_MEMORY = 6
"""How many batches are taken into account."""
_FIXED = 3
"""How many estimates of the fixed time are kept, and how many batches limit it."""
_UNKNOWN, _OLD, _VERY_OLD = 2, 8, 50
"""After this many batches of about the same size, one of another size is tried to estimate the fixed time again: while
it is unknown or not confirmed, where it is a large part of a batch, and where it is small.
"""
_TRIED = 120.0
"""A batch is made larger for that only if it should take less than these seconds."""
_FASTEST = 10.0
"""The largest factor by which a batch grows,"""
_CAREFUL = 0.8
"""by this share of what seems right,"""
_OUTLASTS = 3.0
"""and so that it takes at most this multiple of the target, if it is as fast as the last one, without a fixed time."""
_NEAR = 0.5
"""From this share of the target on, a batch shows how fast its records are."""
_OF_TRANSACTION = 0.25
"""The largest share of the allowed time that a batch should take."""
_TIMES_FIXED = 4
_SOME = 1.25
_APART = 2
"""Two batches reveal the fixed time if one has this many times the records of the other."""
_UNHELPED = 0.7
_FEWER = 4
_NO_TIME = 0.01


@dataclass(frozen=True)
class BatchTarget:
    """The target for batches: they should take about ``target`` seconds (inf: any time), with ``least`` to ``most``
    records. If they take longer than ``allowed`` seconds, they fail.
    """

    target: float
    least: int
    most: int
    allowed: float = math.inf


@dataclass(frozen=True)
class BatchRun:
    """A batch of ``rows`` rows that took ``seconds`` seconds. ``bound``: whether its limit prevented it from having
    more."""

    rows: int
    seconds: float
    bound: bool = True


@dataclass(frozen=True)
class Pace:
    """How many records the next batch may have (``limit``), and the measurements behind it.

    ``ran``: the last batches that count, oldest first. ``before``: the very last one. ``estimates``: estimates of the
    fixed time, the last of which was made ``age`` batches ago. ``shortest``: the durations of the last batches, which
    the fixed time can't exceed.
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
        """The seconds of a batch that don't depend on its records; 0.0 while unknown."""
        if not self.estimates:
            return 0.0
        fixed = min(statistics.median_low(self.estimates), *self.shortest)
        # Of two batches, one may have been slow for whatever reason: to aim at more than is wanted, two must say so.
        return fixed if len(self.estimates) > 1 else min(fixed, self.aim.target / _TIMES_FIXED)

    @property
    def target(self) -> float:
        """The seconds that a batch should take: three quarters of the usual seconds for records, and in any case
        some."""
        wanted = min(max(self.aim.target, _TIMES_FIXED * self.fixed), self.aim.allowed * _OF_TRANSACTION)
        return max(wanted, _SOME * self.fixed)

    def after(self, ran: BatchRun) -> Pace:
        """The pace after a batch. One without records provides no information."""
        if ran.rows <= 0:
            return self
        learned = self._learned(ran)
        if not (ran.bound or ran.seconds >= learned.target):
            return learned  # it read all that there was, in no time: it neither lowers the limit nor raises it
        if self.before is None and not self._is_short(ran) and ran.seconds < _OUTLASTS * self.target:
            return learned  # what takes its time in a first batch is done once
        counted = replace(learned, ran=(*self.ran, ran)[-_MEMORY:])
        return replace(counted, limit=counted._tried(ran) or counted._next())

    def failed(self, rows: int, told: BatchRun | None = None) -> Pace:
        """The pace after a batch of this many rows that takes longer than it may: the next batch gets far fewer.

        ``told``: the progress of the batch when it was broken off; None: unknown.
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
        """The size of a batch that is to show the fixed time, if that is due; otherwise 0.

        A batch whose fixed time is near the target looks as if its records were slow: without this, it would get ever
        fewer of them, to no avail. Half as many records cost next to nothing. Only where a batch has no records to
        spare, it gets twice as many.
        """
        if not ran.bound or self._is_short(ran) or self.age < self._patience:
            return 0
        fewer, more = ran.rows // _APART, ran.rows * _APART
        if fewer >= self.aim.least:
            return min(fewer, self._next())
        return more if more <= self.aim.most and _APART * ran.seconds <= min(_TRIED, self.aim.allowed / 2) else 0

    @property
    def _patience(self) -> int:
        """How many batches of about the same size may follow each other before another size is tried."""
        large = self.aim.target / _TIMES_FIXED
        if not self.estimates or (len(self.estimates) == 1 and self.estimates[0] > large):
            return _UNKNOWN
        return _OLD if self.fixed > large else _VERY_OLD

    def _next(self) -> int:
        rows = [self._wanted(each) for each in self.ran]
        usual = sorted(rows)[min(1, len(rows) - 1)]
        wanted = min(usual, rows[-1], self._grown())
        return max(self.aim.least, min(self.aim.most, round(min(wanted, self.aim.most))))

    def _wanted(self, ran: BatchRun) -> float:
        """The number of rows that seems right, judging by a batch; inf if the batch was too short to tell."""
        target, fixed = self.target, self.fixed
        if self._is_short(ran):
            return math.inf
        more = (target - fixed) / max(ran.seconds - fixed, _NO_TIME)
        return max(1.0, ran.rows * min(more, _OUTLASTS * target / ran.seconds))

    def _grown(self) -> float:
        """How many rows to try: more than in the last batch, in proportion to how short it was; or as many as went well
        recently.
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
        """Whether a batch was too short to show how fast its records are."""
        target, fixed = self.target, self.fixed
        return math.isinf(target) or ran.seconds - fixed < _NEAR * (target - fixed)


def _fixed(before: BatchRun, ran: BatchRun) -> float | None:
    """The fixed time, from two consecutive batches, if they reveal it."""
    small, large = sorted((before, ran), key=lambda each: each.rows)
    if large.rows < _APART * small.rows:
        return None
    least = min(small.seconds, large.seconds)
    if small.seconds >= _UNHELPED * large.seconds:
        return least
    each = (large.seconds - small.seconds) / (large.rows - small.rows)
    return min(max(0.0, small.seconds - each * small.rows), least)
