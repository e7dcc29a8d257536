"""Keeps a lane running in this container: after a failure, starts another runner."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Any, Protocol

import msgspec

from anabranch import logs
from anabranch.container import restarts
from anabranch.container.error_text import Remedy
from anabranch.container.lane.events import Close, Closing, Drain, FailureJudged, Leave, Run
from anabranch.container.lane.life import Life
from anabranch.container.lane.lifecycle import LifeState, Phase
from anabranch.container.lane.surroundings_wait import Patience, SurroundingsWait
from anabranch.container.restarts import Step
from anabranch.container.retries import Retries
from anabranch.model.lane import Lane
from anabranch.protocol.container import WantedLane
from anabranch.protocol.lane_report import LanePhase, LaneReport

__all__ = ["LaneSupervisor", "Runner"]

log = logs.get_logger()


class Runner(Protocol):
    """Performs one attempt: see :class:`anabranch.container.lane.runner.LaneRunner`."""

    @property
    def lane(self) -> Lane: ...

    @property
    def report(self) -> LaneReport: ...

    @property
    def remedy(self) -> Remedy: ...

    @property
    def awaits(self) -> str: ...

    @property
    def stalled(self) -> bool: ...

    @property
    def committed_before(self) -> int: ...

    def start(self) -> None: ...

    def prepare_to_close(self) -> None: ...

    def join(self, timeout: float) -> bool: ...


class LaneSupervisor:
    """Keeps a lane running as long as it is wanted. Not thread-safe.

    Args:
        wanted: the lane, and the first orders for it.
        make: creates a runner, without starting it.
        retries: decides whether the lane gets another attempt after a failure, and how long it waits first.
        replaceable: returns whether this process can be replaced now if the lane needs a new one.
        patience: how long the lane waits for its surroundings; by default, without limit.
    """

    def __init__(
        self,
        wanted: WantedLane,
        make: Callable[[Lane, Life], Runner],
        retries: Retries,
        clock: Callable[[], float] = monotonic,
        replaceable: Callable[[], bool] = lambda: False,
        patience: Patience | None = None,
    ) -> None:
        self._make = make
        self._replaceable = replaceable
        self._retries = retries
        self._clock = clock
        self._life = Life(wanted.lane)
        self._wait = SurroundingsWait(wanted.lane.id, patience or Patience(), clock)
        self._stalls = 0
        self._trouble = ""
        self._query_has_begun = False
        self._due: float | None = None
        self._closing = wanted.closing
        if wanted.closing:
            self._life.tell(Close(wanted.now, wanted.decision))
        self._life.tell(Drain(wanted.draining))
        self._runner = self._started_runner(wanted.lane)

    @property
    def lane(self) -> Lane:
        return self._runner.lane

    @property
    def report(self) -> LaneReport:
        """The lane's report. If this process or its replacement will make the next attempt, the report says that the
        lane is starting. If another container or the next start of the job will make the next attempt, the report says
        that the lane has ended and left work unfinished.
        """
        state, report = self._state, self._runner.report
        report = report.changed(
            begun=self._query_has_begun or report.attempt.begun, stalls=self._stalls + self._runner.stalled
        )
        if self._wait.awaits:
            report = report.changed(awaits=self._wait.awaits, awaits_since=self._wait.since)
        waiting: dict[str, Any] = {"error": None, "trouble": report.error or "", "number": state.attempt + 1}
        match state.phase:
            case Phase.RELEASED if state.unwanted:  # it continues at the next start
                ended = {"phase": LanePhase.ENDED, "error": None, "stopped": True, "pending": True, "stalls": 0}
                return report.changed(**ended, awaits="", awaits_since=0.0)
            case Phase.WAITING:
                waiting |= {"phase": LanePhase.STARTING, "number": state.attempt}
                return report.changed(**waiting, awaits=self._runner.awaits, awaits_since=self._wait.since)
            case Phase.RELEASED:
                waiting |= {"phase": LanePhase.ENDED, "stopped": True, "pending": True, "stalls": 0}
                return report.changed(**waiting)
            case Phase.NEEDS_PROCESS:  # reported when the container leaves
                return report.changed(**waiting | {"phase": LanePhase.STARTING, "number": state.attempt})
            case Phase.RETRYING:
                return report.changed(**waiting | {"phase": LanePhase.STARTING})
            case _:
                return report.changed(number=state.attempt, trouble=self._trouble)

    @property
    def ended(self) -> bool:
        return self._state.phase in (Phase.ENDED, Phase.FAILED, Phase.RELEASED)

    @property
    def closed(self) -> bool:
        """Whether the lane has ended here, and either was told to close or has drained."""
        return (self._closing or self._life.state.drained) and self.ended

    def go_on(self, wanted: WantedLane) -> None:
        """Pass on the orders for a lane that is wanted here, and begin the lane's next attempt if one is due."""
        self._closing = wanted.closing
        if self._wait.look(self._runner.report, self._runner.committed_before):
            self._trouble = ""
        before = self._state.phase
        retries = before in (Phase.RETRYING, Phase.WAITING)
        report, ended = self._runner.report, self._runner.join(0)
        rested = retries and self._has_rested(report)
        if not self._life.tell(_want(wanted, rested=rested, thread_ended=ended)):
            return
        if before is Phase.RETRYING:
            self._retries.begin(report.progress.batch, self._runner.committed_before)
        if retries:
            self._stalls += self._runner.stalled
            self._due, self._trouble = None, report.error or ""
            self._query_has_begun = self._query_has_begun or report.attempt.begun
        aside = max(wanted.lane.put_aside, report.progress.dead_letters)
        self._runner = self._started_runner(msgspec.structs.replace(wanted.lane, put_aside=aside))

    def prepare_to_close(self) -> None:
        """Make further batches brief, because the lane will close once its successors are prepared."""
        self._runner.prepare_to_close()

    def stop(self, at_once: bool = False) -> None:
        """End the lane, because it is no longer wanted here. It ends at the next batch boundary, or by breaking off a
        long batch.

        If the lane has failed and awaits another attempt, no further attempt is made here. If the lane waits for
        its surroundings to recover, the lane continues at the next start of the job. Otherwise, the lane's failure is
        final.

        Args:
            at_once: whether to end the lane immediately instead of at a batch boundary.
        """
        self._life.tell(Leave(unwanted=True, at_once=at_once))

    def leave(self) -> None:
        """End the lane, like :meth:`stop` without ``at_once``, because the container is ending. If the lane has failed
        and can be tried again, another container makes the next attempt."""
        self._life.tell(Leave(unwanted=False))

    def join(self, timeout: float) -> bool:
        """Wait up to ``timeout`` seconds for the last attempt's thread to end. Returns whether the thread has ended."""
        return self._runner.join(timeout)

    @property
    def batch(self) -> int:
        """The last committed batch, -1 for none."""
        return self._runner.report.progress.batch

    @property
    def attempts(self) -> int:
        """The number of the current attempt. The first attempt after a wait for the lane's surroundings has the same
        number as the attempt before the wait."""
        return self._life.state.attempt

    @property
    def trouble(self) -> str:
        """Why the lane has failed; empty if it hasn't."""
        return self._runner.report.error or ""

    @property
    def needs_process(self) -> bool:
        """Whether the lane has failed, and only a new process can help."""
        return self._state.phase is Phase.NEEDS_PROCESS

    @property
    def _state(self) -> LifeState:
        """The state of the lane's life. If the lane has failed, this property first decides what follows."""
        if self._life.state.phase is Phase.FAILED:
            following = restarts.step(
                self._runner.remedy,
                attempts_left=self._pause() is not None,
                processes_left=self._replaceable(),
            )
            waits = self._runner.remedy is Remedy.WAIT
            self._life.tell(FailureJudged(Step.FAILED if self._wait.is_over else following, waits))
        return self._life.state

    def _has_rested(self, report: LaneReport) -> bool:
        """Whether the pause after a failure is over. The pause begins with the first call after the failure. If the
        lane has waited too long for its surroundings, the call makes the lane fail permanently, and returns False."""
        if self._due is None:
            waits = self._runner.remedy is Remedy.WAIT
            pause = self._wait.pause(self._runner.awaits, report) if waits else self._pause()
            if pause is None:
                self._life.tell(FailureJudged(Step.FAILED))
                return False
            self._due = self._clock() + pause
            if not waits:
                log.warning("a lane failed, and is tried again", lane=report.lane, seconds=pause, error=report.error)
        return self._clock() >= self._due

    def _pause(self) -> float | None:
        """See :meth:`Retries.again`."""
        return self._retries.again(self._runner.report.progress.batch, self._runner.committed_before)

    def _started_runner(self, lane: Lane) -> Runner:
        runner = self._make(lane, self._life)
        runner.start()
        return runner


def _want(wanted: WantedLane, *, rested: bool, thread_ended: bool) -> Run:
    closing = (Closing.NOW if wanted.now else Closing.YES) if wanted.closing else Closing.NO
    return Run(
        folder_epoch=wanted.lane.folder_epoch,
        owner_lost=wanted.lane.abandoned,
        upstream_ended=wanted.upstream_ended,
        closing=closing,
        decision=wanted.decision,
        drain=wanted.draining,
        rested=rested,
        thread_ended=thread_ended,
    )
