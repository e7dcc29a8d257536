"""A lane's load: the work that it has, the work that it does, and the work that it could do with another factor.
Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

from anabranch.coordinator.sizing.report_history import ReportHistory
from anabranch.coordinator.sizing.scalability import UNKNOWN, Scalability
from anabranch.protocol.lane_report import BatchPhase
from anabranch.protocol.status import LaneStatus

__all__ = ["LaneLoad", "capacity", "catch_up", "load_of", "scale", "utilisation"]

_OVERHEAD = 0.5
"""The seconds of a batch that don't grow with its records: planning, starting tasks, committing."""
_OVERHEAD_PART = 0.15
"""The share of the time that this takes if records wait, because batches are then as long as they may be."""
_KNOWN_AFTER = 1.0
"""The speed of functions is known once they have worked for this many seconds in a batch."""
_TELLS_AFTER = 0.2
"""A batch in which functions have worked for this many seconds is better evidence than an earlier, far smaller one."""
_FAR_LARGER = 2
_GROWN = 20.0
"""A lane's batches begin small, and have reached their final length after this many seconds; only then are their
durations used.
"""
_LONG = 2.0
_SURELY = 0.9
"""The time of a batch that isn't accounted for by functions is attributed to them up to this share, because two figures
are never from exactly the same time.
"""
_SLOWEST = 1e-6
"""Rates below this many records per second count as zero."""
_USUAL_WAIT = 3.0
"""Waiting records that are less work than this many seconds, or than two batches, aren't a backlog."""
_BATCHES = 2
_HOT_SKEW = 2.0
"""A bucket with more than this many times the average contains a hot key, and a larger factor doesn't halve it."""
_MATTERS = 0.3
"""If functions hold up a lane for this share of its first batch, everything else counts as the fixed cost of a
batch."""
_EVENLY = 0.93
"""Buckets are never equally large, and differ more the more there are. With a larger factor, functions become faster by
the factor to this power.
"""
_HOT_FROM = 0.3
"""If functions work for a smaller share of the time than this on the busiest bucket, batches are too small to reveal a
hot key.
"""


@dataclass(frozen=True, slots=True)
class LaneLoad:
    """The load of a lane with its present factor.

    ``arriving``: records per second, ``growth`` times as many as in the half minute before. ``backlog``: the waiting
    records, without the finished ones of the present batch. ``settled``: these have arrived only lately; ``behind``:
    there are more of them than usual. ``rate``: records per second while the lane is busy (0: unknown), observed over
    this many ``seconds`` of a batch; ``sure``: that is enough to tell what takes the time. ``working``: the share of
    the time that functions need for arriving records, on the bucket with the most work. ``hot``: the seconds per record
    for which functions hold up the lane, in the last batch; ``usually_hot``: the same for the busiest bucket in the
    last half minute. ``rest``: the seconds per record of everything else. ``skew`` and ``hottest`` are ``skew`` and
    ``slowest`` of :class:`anabranch.protocol.lane_report.LaneReport`. ``threads``: how many buckets of a partition are
    worked on at once; ``sequential``: only one.
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
        """The share of the time in batches for which functions hold up the lane."""
        return self.hot * self.rate

    @property
    def crowd(self) -> float:
        """How many times longer functions hold up the lane than their busiest bucket takes; 0: unknown."""
        known = self.behind and self.usually_hot and self.seconds >= _LONG
        return self.hot / self.usually_hot if known else 0.0

    @property
    def steady_hot(self) -> float:
        """``hot``, averaged over a long enough time: if records wait, batches are long, too."""
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
    """The load of a lane, from its reports, in a job with a factor."""
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
    # Where the last batch hasn't told what it spent, `share` is of the present one too, but `rate` is of the last one,
    # which took most of its time to start if it was far smaller.
    larger = progress is not None and progress.done > _FAR_LARGER * rate * seconds
    mixed = larger and not report.load.spent and functions >= _TELLS_AFTER
    if progress is not None and progress.seconds > 0 and (known or mixed):
        rate, seconds = progress.done / progress.seconds, progress.seconds
        share = min(1.0, functions / seconds)
        rest = max(0.0, 1.0 - share - _OVERHEAD / seconds)
        if progress.rows_per_second:  # from its first record on: to plan it and start its tasks isn't in that
            rest = max(0.0, _SURELY * rate / progress.rows_per_second - share)
    rate = rate if rate >= _SLOWEST else 0.0
    arriving, working = max(report.load.arriving, history.arriving), report.load.working
    if factor > threads:  # buckets wait for a thread: it isn't the busiest one that holds the others up
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
        # what was caught up with in the meantime isn't what there is to do
        working=working * min(1.0, arriving / throughput) if throughput else working,
        hot=share / rate if rate else 0.0,
        usually_hot=working / throughput if throughput else 0.0,
        rest=rest / rate if rate else 0.0,
        skew=report.load.skew,
        hottest=report.load.slowest,
        sequential=report.load.sequential,
    )


def scale(load: LaneLoad, factor: int, seen: Scalability = UNKNOWN) -> float:
    """The factor by which the time that functions need per record changes with another ``factor``.

    A smaller factor is assumed to slow functions down in proportion. A larger one is assumed to speed them up as much
    as previous ones did, and doesn't divide a hot key.
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
    """The records per second that the lane could process with a factor if enough were waiting; infinite if unknown."""
    seconds = load.hot * scale(load, factor, seen) + load.rest
    return (1.0 - _OVERHEAD_PART) / seconds if seconds > 0 else math.inf


def utilisation(load: LaneLoad, factor: int, seen: Scalability = UNKNOWN) -> float:
    """The share of its time that a lane with this factor would spend on arriving records; above 1, it can't keep up."""
    if load.behind:
        return load.arriving / capacity(load, factor, seen)
    return load.working * scale(load, factor, seen) * seen.crowding


def catch_up(load: LaneLoad, factor: int, pause: float, seen: Scalability = UNKNOWN) -> float:
    """The seconds until the backlog is gone, if nothing is processed during the ``pause`` at first; infinite if the
    backlog only grows.
    """
    if not load.backlog:
        return 0.0
    spare = capacity(load, factor, seen) - load.arriving
    return math.inf if spare <= 0 else pause + (load.backlog + load.arriving * pause) / spare
