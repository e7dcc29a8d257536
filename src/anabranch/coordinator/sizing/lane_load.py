"""Determines how much work a lane has, how much work it does, and how much work it could do with another factor."""

from __future__ import annotations

import math
from dataclasses import dataclass

from anabranch.coordinator.sizing.report_history import ReportHistory
from anabranch.coordinator.sizing.scalability import UNKNOWN, Scalability
from anabranch.protocol.lane_report import BatchPhase
from anabranch.protocol.status import LaneStatus

__all__ = ["LaneLoad", "capacity", "catch_up", "load_of", "scale", "utilisation"]

_OVERHEAD = 0.5
"""The fixed part of a batch's duration, in seconds: planning, starting Spark tasks, and committing. This part doesn't
depend on the batch's records.
"""
_OVERHEAD_PART = 0.15
"""While records wait, and batches have their full length, ``_OVERHEAD`` takes this share of the time."""
_KNOWN_AFTER = 1.0
"""How many seconds functions must have worked in a batch before their speed is known."""
_TELLS_AFTER = 0.2
"""Once functions have worked for this many seconds in a batch, the batch is better evidence than an earlier batch that
was far smaller.
"""
_FAR_LARGER = 2
_GROWN = 20.0
"""A lane's batches are small at first, and reach their full length after this many seconds. The durations of batches
before that time prove little.
"""
_LONG = 2.0
_SURELY = 0.9
"""If functions took at least this share of the time since a batch's first record, they count as having taken all of it.
The reason is that the two times are measured at slightly different moments.
"""
_SLOWEST = 1e-6
"""The number of records per second below which a rate counts as zero."""
_USUAL_WAIT = 3.0
"""Waiting records count as a backlog only if processing them takes longer than ``_USUAL_WAIT`` seconds, and longer than
``_BATCHES`` usual batches.
"""
_BATCHES = 2
_HOT_SKEW = 2.0
"""If a bucket takes more than this multiple of the average time, it contains a hot key, which a larger factor can't
divide.
"""
_MATTERS = 0.3
"""Applies while a lane's batches are still small. If functions then hold up the lane for at least this share of the
time, everything else counts as fixed cost.
"""
_EVENLY = 0.93
"""Buckets are hardly ever equally large, and the more buckets there are, the more they differ. So if the factor is
multiplied by ``n``, functions become only about ``n ** _EVENLY`` times as fast.
"""
_HOT_FROM = 0.3
"""Functions must work on their busiest bucket for this share of the time before a hot key can be recognized. Below this
share, batches are too small.
"""


@dataclass(frozen=True, slots=True)
class LaneLoad:
    """The load of a lane with its current factor.

    Args:
        threads: how many buckets of one partition the lane's functions can work on at once.
        arriving: the records that arrive per second.
        growth: the arrival rate as a multiple of the average over the last half minute; at least 1.
        backlog: the number of waiting records, without those that the running batch has finished.
        settled: whether all waiting records, if any, have arrived recently.
        behind: whether more records wait than usual.
        rate: the records per second that the lane processes while it is busy; 0 if unknown.
        seconds: the duration, in seconds, of the batch in which ``rate`` was observed.
        sure: whether there are enough observations to tell what share of the time functions take.
        working: the share of the lane's time that functions need for the arriving records of the bucket with the most
            work.
        hot: the seconds per record for which functions held up the lane in the last batch. If the running batch is
            better evidence, ``hot`` is the value of the running batch.
        usually_hot: how many seconds per record functions took on their busiest bucket in the last half minute.
        rest: how many seconds per record everything else takes, without the fixed part of a batch.
        skew: the time that functions took for the SSP ``hottest``, as a multiple of their mean time for an SSP; 0 if
            unknown.
        hottest: the SSP on which functions spent the most time in the latest batches; empty if unknown.
        sequential: whether functions process one key after another, so that a larger factor doesn't speed them up.
    """

    lane: str
    factor: int
    partitions: int
    threads: int
    arriving: float
    growth: float
    backlog: int
    settled: bool
    behind: bool
    rate: float
    seconds: float
    sure: bool
    working: float
    hot: float
    usually_hot: float
    rest: float
    skew: float
    hottest: str
    sequential: bool = False

    @property
    def share(self) -> float:
        """The share of a batch's duration for which functions hold up the lane."""
        return self.hot * self.rate

    @property
    def crowd(self) -> float:
        """How long functions hold up the lane, as a multiple of the time for their busiest bucket; 0 if unknown."""
        known = self.behind and self.usually_hot and self.seconds >= _LONG
        return self.hot / self.usually_hot if known else 0.0

    @property
    def steady_hot(self) -> float:
        """``hot`` if more records wait than usual; otherwise ``usually_hot``. While more records wait than usual, a
        single batch is long enough to judge by.
        """
        return self.hot if self.behind else self.usually_hot

    @property
    def has_hot_key(self) -> bool:
        return (
            self.factor > 1
            and not self.sequential
            and self.skew > _HOT_SKEW
            and max(self.share, self.working) >= _HOT_FROM
        )


def load_of(lane: LaneStatus, history: ReportHistory, factor: int, threads: int) -> LaneLoad:
    """The load of a lane, from its reports."""
    report, progress = history.report, history.report.progress.batch_progress
    done = 0 if progress is None else progress.done
    backlog, throughput = max(0, lane.lag - done), history.throughput(report.load.span)
    share = min(1.0, report.load.working / report.load.busy) if report.load.busy > 0 else 0.0
    rate, seconds = report.load.rows_per_second, report.load.seconds or report.load.usual_seconds
    if report.load.spent and report.load.seconds > 0:
        share = min(1.0, report.load.spent.get(BatchPhase.FUNCTIONS, 0.0) / report.load.seconds)
    rest = max(0.0, 1.0 - share - _OVERHEAD / seconds) if seconds > 0 else 0.0
    grown = report.load.span >= _GROWN
    if not grown and share >= _MATTERS:
        rest = 0.0
    functions = 0.0 if progress is None else progress.spent.get(BatchPhase.FUNCTIONS, 0.0)
    known = progress is not None and progress.done > 0 and functions >= _KNOWN_AFTER
    # If the last batch has no times by phase, `share` includes the running batch, but `rate` only the last batch.
    # If the last batch was far smaller than the running batch, most of its time was spent on starting.
    larger = progress is not None and progress.done > _FAR_LARGER * rate * seconds
    mixed = larger and not report.load.spent and functions >= _TELLS_AFTER
    if progress is not None and progress.seconds > 0 and (known or mixed):
        rate, seconds = progress.done / progress.seconds, progress.seconds
        share = min(1.0, functions / seconds)
        rest = max(0.0, 1.0 - share - _OVERHEAD / seconds)
        if progress.rows_per_second:  # measured from the first record on, so without planning and starting Spark tasks
            rest = max(0.0, _SURELY * rate / progress.rows_per_second - share)
    rate = rate if rate >= _SLOWEST else 0.0
    arriving, working = max(report.load.arriving, history.arriving), report.load.working
    if factor > threads:  # buckets wait for a thread, so the lane is held up for longer than its busiest bucket takes
        crowd = max(1.0, factor / threads / max(1.0, report.load.skew))
        working, share = min(max(report.load.busy, working), working * crowd), min(1.0, share * crowd)
    wait = backlog / rate if rate else math.inf
    usual = max(_USUAL_WAIT, _BATCHES * report.load.usual_seconds)
    return LaneLoad(
        lane=lane.lane.id,
        factor=factor,
        partitions=max(1, len({(ssp.system, ssp.stream, ssp.partition) for ssp in lane.lane.ssps})),
        threads=threads,
        arriving=arriving,
        growth=history.growth,
        backlog=backlog,
        settled=backlog <= arriving * usual,
        behind=backlog > 0 and wait > usual,
        rate=rate,
        seconds=seconds,
        sure=known or grown or share >= _MATTERS,
        # only the work on arriving records counts, not the work on a former backlog
        working=working * min(1.0, arriving / throughput) if throughput else working,
        hot=share / rate if rate else 0.0,
        usually_hot=working / throughput if throughput else 0.0,
        rest=rest / rate if rate else 0.0,
        skew=report.load.skew,
        hottest=report.load.slowest,
        sequential=report.load.sequential,
    )


def scale(load: LaneLoad, factor: int, seen: Scalability = UNKNOWN) -> float:
    """The time that functions need per record with another factor, as a multiple of their current time.

    A smaller factor is assumed to slow functions down in proportion. A larger factor is assumed to speed functions up
    as much as the last known increase of the factor did. If no increase is known, a larger factor is assumed to speed
    functions up almost in proportion. The work on a hot key isn't sped up, because no factor divides a key. A factor
    above ``threads`` counts as ``threads``, because functions work on at most ``threads`` buckets of a partition at
    once. If the functions are ``sequential``, the factor changes nothing.
    """
    if load.sequential:
        return 1.0
    ratio = min(load.factor, load.threads) / min(factor, load.threads)
    if factor <= load.factor:
        return ratio
    stays = 1.0 - _HOT_SKEW / load.skew if load.has_hot_key else 0.0
    foretold: float = ratio ** min(_EVENLY, seen.exponent(load.factor))
    return max(stays + (1.0 - stays) * ratio, foretold)


def capacity(load: LaneLoad, factor: int, seen: Scalability = UNKNOWN) -> float:
    """How many records per second a lane could process with this factor if enough records waited. Infinite if the
    number is unknown.
    """
    seconds = load.hot * scale(load, factor, seen) + load.rest
    return (1.0 - _OVERHEAD_PART) / seconds if seconds > 0 else math.inf


def utilisation(load: LaneLoad, factor: int, seen: Scalability = UNKNOWN) -> float:
    """The share of its time that a lane with this factor would spend on arriving records. If no more records wait than
    usual, only the time that functions need counts.
    """
    if load.behind:
        return load.arriving / capacity(load, factor, seen)
    return load.working * scale(load, factor, seen) * seen.crowding


def catch_up(load: LaneLoad, factor: int, pause: float, seen: Scalability = UNKNOWN) -> float:
    """How many seconds a lane would need with this factor to work off its backlog, including an initial ``pause``. If
    there is no backlog, the result is 0. If the backlog wouldn't shrink, the result is infinite.
    """
    if not load.backlog:
        return 0.0
    spare = capacity(load, factor, seen) - load.arriving
    return math.inf if spare <= 0 else pause + (load.backlog + load.arriving * pause) / spare
