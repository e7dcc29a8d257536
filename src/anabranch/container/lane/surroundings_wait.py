"""Determines how long a lane waits, between attempts and in all, for its surroundings, such as a disk or a broker, to
recover from a failure."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from time import time

from anabranch import logs
from anabranch.container import waiting
from anabranch.container.waiting import Wait
from anabranch.protocol.lane_report import LanePhase, LaneReport

__all__ = ["Patience", "SurroundingsWait"]

log = logs.get_logger()

_RUNS_WELL = 20.0
"""In seconds. If a query runs longer than this without failing, the lane's wait is over, even without a new batch."""


@dataclass(frozen=True)
class Patience:
    """How long a lane waits for its surroundings.

    Attributes:
        longest: the longest wait in seconds.
        chance: returns a random number from 0 to 1, by which pauses vary.
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
        self._waited_from = -1
        self._runs_since: float | None = None

    @property
    def awaits(self) -> str:
        """What the lane waits for; empty if it doesn't wait."""
        return "" if self._wait is None else self._wait.awaited

    @property
    def since(self) -> float:
        """When the wait began, in seconds since 1970; the current time if there is no wait."""
        return self._patience.now() if self._wait is None else self._since

    def pause(self, awaits: str, report: LaneReport) -> float | None:
        """Begin or continue the wait after a failure. Returns the seconds before the next attempt; None if the lane has
        waited too long.
        """
        first = self._wait is None
        wait = waiting.begun_or_continued(self._wait, awaits, self._clock())
        self._since = self._patience.now() if first else self._since
        self._wait, self._waited_from, self._runs_since = wait, report.progress.batch, None
        if first:
            log.warning(f"a lane waits for {wait.awaited}", lane=self._lane, error=report.error)
        pause = waiting.pause(wait, self._clock(), self._patience.longest, self._patience.chance())
        self.is_over = pause is None
        return pause

    def look(self, report: LaneReport) -> bool:
        """End the wait, if there is one, once the lane has committed a batch, has ended, or has run for a while without
        a failure. Returns whether this call has ended the wait."""
        if self._wait is None or report.phase not in (LanePhase.RUNNING, LanePhase.ENDED):
            return False
        if self._runs_since is None:
            self._runs_since = self._clock()
        goes_on = report.progress.batch > self._waited_from or report.phase == LanePhase.ENDED
        if not goes_on and self._clock() <= self._runs_since + _RUNS_WELL:
            return False
        seconds = round(self._clock() - self._wait.since)
        log.warning("a lane continues", lane=self._lane, waited_for=self._wait.awaited, seconds=seconds)
        self._wait = None
        return True
