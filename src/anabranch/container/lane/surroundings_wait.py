"""Determines how long a lane waits for its surroundings (such as a disk or a broker) to recover from a failure:
how long the lane pauses between its attempts, and when the wait has taken too long."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from time import time

from anabranch import logs
from anabranch.container import waiting
from anabranch.container.waiting import Wait
from anabranch.protocol.lane_report import LanePhase, LaneReport, ProgressReport

__all__ = ["Patience", "SurroundingsWait"]

log = logs.get_logger()

_RUNS_WELL = 20.0
"""If a query runs for more than this many seconds without failing, the lane no longer counts as waiting. If the lane
has nothing to do at that time, the wait is over, even without a new batch. If the lane has something to do, the wait is
over only once a batch is committed. If the query fails before that, the wait continues."""


@dataclass(frozen=True)
class Patience:
    """How long a lane waits for its surroundings.

    Attributes:
        longest: the longest wait in seconds.
        chance: returns a random number from 0 to 1, which varies the pauses.
        now: returns the time in seconds since 1970.
    """

    longest: float = math.inf
    chance: Callable[[], float] = random.random
    now: Callable[[], float] = time


class SurroundingsWait:
    """The wait of a lane for its surroundings. Not thread-safe.

    Attributes:
        is_over: whether the lane has waited too long, and has failed.
    """

    def __init__(self, lane: str, patience: Patience, clock: Callable[[], float]) -> None:
        self.is_over = False
        self._lane = lane
        self._patience = patience
        self._clock = clock
        self._wait: Wait | None = None
        self._since = 0.0
        self._last_batch = -1
        """The last batch that was known to be committed when the lane last failed."""
        self._runs_since: float | None = None
        self._well_since: float | None = None
        """The time since which the lane has been running well although the wait isn't over; None if the lane isn't
        running well."""

    @property
    def awaits(self) -> str:
        """What the lane waits for; empty if it doesn't wait."""
        return "" if self._wait is None or self._well_since is not None else self._wait.awaited

    @property
    def since(self) -> float:
        """When the wait began, in seconds since 1970; the current time if there is no wait."""
        return self._patience.now() if self._wait is None else self._since

    def pause(self, awaits: str, report: LaneReport) -> float | None:
        """Begin or continue the wait after a failure. Returns the seconds before the next attempt; None if the lane has
        waited too long.
        """
        first, now = self._wait is None, self._clock()
        tells = first or self._well_since is not None
        if self._wait is not None and self._well_since is not None:  # the time in which it ran well doesn't count
            self._wait = replace(self._wait, since=self._wait.since + now - self._well_since)
        wait = waiting.begun_or_continued(self._wait, awaits, now)
        self._since = self._patience.now() if first else self._since
        self._wait, self._runs_since, self._well_since = wait, None, None
        self._last_batch = max(self._last_batch, report.progress.batch)  # -1 if the query hasn't run since
        if tells:
            log.warning(f"a lane waits for {wait.awaited}", lane=self._lane, error=report.error)
        pause = waiting.pause(wait, now, self._patience.longest, self._patience.chance())
        self.is_over = pause is None
        return pause

    def look(self, report: LaneReport, before: int = -1) -> bool:
        """Check whether a wait is over, according to the lane's newest report. Returns True if the lane counted as
        waiting before this call, and no longer counts as waiting after the call.

        The wait is over once the lane has committed a batch, has ended, or has run for ``_RUNS_WELL`` seconds and has
        nothing to do. If the lane has run for this time but still has something to do, the wait is only interrupted:
        the lane no longer counts as waiting, but if the lane fails before it commits a batch, the wait continues.

        Args:
            before: the last batch that was committed before the current attempt, -1 for none. Only later batches count.
        """
        if self._wait is None or report.phase not in (LanePhase.RUNNING, LanePhase.ENDED):
            return False
        if self._runs_since is None:
            self._runs_since = self._clock()
        over = report.progress.batch > max(self._last_batch, before) or report.phase == LanePhase.ENDED
        if not over and self._clock() <= self._runs_since + _RUNS_WELL:
            return False
        wait, told = self._wait, self._well_since is not None
        if over or not _has_work(report.progress):
            self._wait = self._well_since = None
        elif not told:
            self._well_since = self._clock()
        if told:
            return False
        seconds = round(self._clock() - wait.since)
        log.warning("a lane continues", lane=self._lane, waited_for=wait.awaited, seconds=seconds)
        return True


def _has_work(progress: ProgressReport) -> bool:
    """Whether a batch is running, or may have to be planned."""
    return progress.batch_progress is not None or progress.lag > 0 or not progress.ends_known
