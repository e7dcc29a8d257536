"""A lane in this container, for as long as it is wanted: one runner after the other when it fails."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic, time

import msgspec

from anabranch import logs
from anabranch.container import restarts, waiting
from anabranch.container.attempts import Attempts
from anabranch.container.failures import Remedy
from anabranch.container.lane import LaneRunner
from anabranch.container.restarts import Step
from anabranch.container.waiting import Wait
from anabranch.model.lane import Lane
from anabranch.protocol.container import WantedLane
from anabranch.protocol.lane_report import LaneReport

__all__ = ["Keeper", "Patience"]

log = logs.get_logger()


_RUNS_WELL = 20.0
"""Seconds. A lane whose query runs for so long without a new batch has nothing to do, and waits no more."""


@dataclass(frozen=True)
class Patience:
    """How long a lane waits for its surroundings, in seconds, with what there is by chance (from 0 to 1) and the time
    in seconds since 1970."""

    longest: float = math.inf
    chance: Callable[[], float] = random.random
    now: Callable[[], float] = time


class Keeper:
    """Not thread-safe.

    Args:
        make: a runner for a lane, not started.
        clock: seconds.
        replaceable: whether this process could be replaced, now, for the lane.
    """

    def __init__(
        self,
        wanted: WantedLane,
        make: Callable[[Lane], LaneRunner],
        attempts: Attempts,
        clock: Callable[[], float] = monotonic,
        replaceable: Callable[[], bool] = lambda: False,
        patience: Patience | None = None,
    ) -> None:
        self._make = make
        self._replaceable = replaceable
        self._attempts = attempts
        self._patience = patience or Patience()
        self._wait: Wait | None = None
        self._waited_from = -1
        self._runs_since: float | None = None
        self._clock = clock
        self._begun, self._stalls = 1, 0
        self._trouble = ""
        self._query_begun = False
        self._due: float | None = None
        self._given_up = False
        self._waited_out = False
        self._closing = wanted.closing
        self._leaving = False
        self._runner = self._begun_runner(wanted)

    @property
    def lane(self) -> Lane:
        return self._runner.lane

    @property
    def report(self) -> LaneReport:
        """How the lane is: one that waits for its next attempt is starting."""
        told = msgspec.structs.replace(self._runner.report, begun=self._query_begun or self._runner.report.begun)
        if self._wait is not None:
            told = msgspec.structs.replace(told, awaits=self._wait.awaited, awaits_since=self._wait.since)
        if self._given_up and told.phase == "failed" and self._awaits_surroundings:  # it goes on at the next start
            return msgspec.structs.replace(
                told, phase="ended", error=None, stopped=True, pending=True, awaits="", awaits_since=0.0
            )
        if self._is_waiting:
            trouble = told.error or ""
            if self._awaits_surroundings and not self._leaving:
                return msgspec.structs.replace(
                    told,
                    phase="starting",
                    error=None,
                    attempt=self._begun,
                    trouble=trouble,
                    awaits=self._runner.awaits,
                    awaits_since=self._wait.since if self._wait is not None else self._patience.now(),
                    stalls=self._stood_still,
                )
            again = msgspec.structs.replace(told, error=None, attempt=self._begun + 1, trouble=trouble)
            if self._leaving:
                return msgspec.structs.replace(again, phase="ended", stopped=True, pending=True)
            if self.needs_process:  # which is told when the container leaves
                again = msgspec.structs.replace(again, attempt=self._begun)
            return msgspec.structs.replace(again, phase="starting", stalls=self._stood_still)
        return msgspec.structs.replace(told, attempt=self._begun, trouble=self._trouble, stalls=self._stood_still)

    @property
    def ended(self) -> bool:
        return self.report.phase in ("ended", "failed")

    @property
    def closed(self) -> bool:
        """Whether it was to close, and has ended; or has drained."""
        return (self._closing or self.report.drained) and self.ended

    def go_on(self, wanted: WantedLane) -> None:
        """The lane is wanted: try it again if it is time for that."""
        told = self._runner.report
        self._closing = wanted.closing
        self._end_wait(told)
        if self._is_waiting:
            if not self.needs_process:
                self._try_again(wanted, told)
            return
        if wanted.draining is not None and told.phase == "ended" and not told.drained and self._runner.join(0):
            self._runner = self._begun_runner(wanted)  # it had caught up, and has still to drain
            return
        if wanted.closing:
            self._runner.close(wanted.now)
        self._runner.drain(wanted.draining)
        if 0 < wanted.lane.folder_epoch == told.folder_epoch:
            self._runner.acknowledge(wanted.upstream_ended)

    def stop(self, at_once: bool = False) -> None:
        """The lane isn't wanted: end at the next batch boundary, or at once; if it has failed, that is so."""
        self._given_up = True
        self._runner.stop(at_once)

    def leave(self) -> None:
        """The container ends: end at the next batch boundary; if it has failed, another one may try again."""
        self._leaving = True
        self._runner.stop()

    def join(self, timeout: float) -> bool:
        """Whether it has ended, after at most so many seconds."""
        return self._runner.join(timeout)

    @property
    def batch(self) -> int:
        """The last committed one, -1 for none."""
        return self._runner.report.batch

    @property
    def begun(self) -> int:
        """How often it was begun."""
        return self._begun

    @property
    def trouble(self) -> str:
        """Why it failed, if it has."""
        return self._runner.report.error or ""

    @property
    def needs_process(self) -> bool:
        """Whether the runner has failed, and only a new process may help."""
        return self._step is Step.PROCESS

    @property
    def _is_waiting(self) -> bool:
        """Whether the runner has failed, and another attempt follows."""
        return self._step in (Step.ATTEMPT, Step.PROCESS)

    @property
    def _awaits_surroundings(self) -> bool:
        """Whether the runner's failure will pass by itself, and the lane may wait for that."""
        return self._runner.remedy is Remedy.WAIT and not self._waited_out

    @property
    def _step(self) -> Step | None:
        """What follows the failure of the runner; None: it hasn't failed."""
        told = self._runner.report
        if told.phase != "failed":
            return None
        if self._given_up or self._waited_out:
            return Step.FAILED
        return restarts.step(
            self._runner.remedy,
            attempts_left=self._attempts.again(told.batch) is not None,
            processes_left=self._replaceable(),
        )

    @property
    def _stood_still(self) -> int:
        return self._stalls + self._runner.stalled

    def _begun_runner(self, wanted: WantedLane) -> LaneRunner:
        runner = self._make(wanted.lane)
        if wanted.closing:
            runner.close(wanted.now)
        runner.drain(wanted.draining)
        runner.start()
        return runner

    def _try_again(self, wanted: WantedLane, told: LaneReport) -> None:
        lane, waits = wanted.lane, self._runner.remedy is Remedy.WAIT
        if self._due is None:
            pause = self._wait_on(told) if waits else self._attempts.again(told.batch)
            if pause is None:
                self._waited_out = True
                return
            self._due = self._clock() + pause
            if not waits:
                log.warning("a lane failed, and is tried again", lane=lane.id, seconds=pause, error=told.error)
        # What the lane's folder is must be known to the coordinator: the next attempt goes on in it.
        if self._clock() < self._due or told.folder_epoch not in (0, lane.folder_epoch) or not self._runner.join(0):
            return
        if not waits:
            self._attempts.begin(told.batch)
            self._begun += 1
        self._stalls = self._stood_still
        self._due, self._trouble = None, told.error or ""
        self._query_begun = self._query_begun or told.begun
        self._runner = self._begun_runner(wanted)

    def _wait_on(self, told: LaneReport) -> float | None:
        """How long to wait before the next look at the surroundings; None: it has waited long enough."""
        first = self._wait is None
        wait = waiting.begun_or_continued(self._wait, self._runner.awaits, self._patience.now())
        self._wait, self._waited_from, self._runs_since = wait, told.batch, None
        if first:
            log.warning(f"a lane waits for {wait.awaited}", lane=self.lane.id, error=told.error)
        return waiting.pause(wait, self._patience.now(), self._patience.longest, self._patience.chance())

    def _end_wait(self, told: LaneReport) -> None:
        """The lane goes on once it has committed a batch, or runs without a failure for a while."""
        if self._wait is None or told.phase not in ("running", "ended"):
            return
        if self._runs_since is None:
            self._runs_since = self._clock()
        if told.batch > self._waited_from or told.phase == "ended" or self._clock() > self._runs_since + _RUNS_WELL:
            seconds = round(self._patience.now() - self._wait.since)
            log.warning("a lane goes on", lane=self.lane.id, waited_for=self._wait.awaited, seconds=seconds)
            self._wait, self._trouble = None, ""
