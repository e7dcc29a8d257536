"""One lane in a container process: its real life cycle, and a model of what performs it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from zlib import crc32

from anabranch.container.lane import actions, events, lifecycle
from anabranch.container.lane.actions import Action
from anabranch.container.lane.events import Closing, Event, Run
from anabranch.container.lane.lifecycle import Phase
from anabranch.container.restarts import Step
from anabranch.errors import FencedError
from anabranch.model.lane import Lane
from anabranch.model.ssp import SSP
from anabranch.protocol.container import WantedLane
from anabranch.protocol.lane_report import LanePhase
from tests.simulation.inputs import number_of
from tests.simulation.outputs import Folder
from tests.support.reports import lane_report

if TYPE_CHECKING:
    from tests.simulation.containers import ContainerProcess


class LaneRun:
    """One lane in a container: its real life cycle, and a model of what performs it.

    That is what :mod:`anabranch.container.lane.supervisor` and :mod:`anabranch.container.lane.runner` do.
    """

    def __init__(self, process: ContainerProcess, wanted: WantedLane) -> None:
        self.process = process
        self.closing = wanted.closing
        self.report = lane_report(lane=wanted.lane.id, phase=LanePhase.STARTING)
        self._storage = process.scenario.storage
        self._state = lifecycle.initial(wanted.lane)
        self._following = Step.FAILED
        if wanted.closing:
            self._tell(events.Close())
        self._tell(events.Drain(wanted.draining))
        self._begin(wanted.lane)

    def _begin(self, lane: Lane) -> None:
        self.lane = lane
        self._epoch = lane.epoch
        self._folder: Folder | None = None
        self._due = float("inf")
        self._may_begin = self._has_begun = False
        self._report(phase=LanePhase.STARTING, folder_epoch=self._state.folder_epoch)
        self._tell(events.AttemptStarted())

    @property
    def ended(self) -> bool:
        return self.report.phase in (LanePhase.ENDED, LanePhase.FAILED)

    @property
    def may_write(self) -> bool:
        """Whether something that it does now, or when it wakes, could be published."""
        waits = self._state.phase is Phase.RETRYING
        return self._may_begin and not (
            waits or self.ended or self.process.dead or self.is_fenced or self.process.out_of_time
        )

    @property
    def is_fenced(self) -> bool:
        output = self._storage.output(self.lane)
        return output.fenced and self._epoch < output.epoch

    # As the supervisor

    def stop(self) -> None:
        """It isn't wanted: it ends at a boundary; one that waits for its next attempt has failed."""
        self._leave(unwanted=True)

    def leave(self) -> None:
        """The container ends: so does the lane, at a boundary; others may try it again."""
        self._leave(unwanted=False)

    def go_on(self, wanted: WantedLane) -> None:
        self.closing = wanted.closing
        knew = self._state.acknowledged
        want = Run(
            folder_epoch=wanted.lane.folder_epoch,
            owner_lost=wanted.lane.abandoned,
            upstream_ended=wanted.upstream_ended,
            closing=Closing.YES if wanted.closing else Closing.NO,
            drain=wanted.draining,
            rested=self._due <= self.process.world.now,
            thread_ended=True,
        )
        if actions.BeginAttempt() in self._step(want):
            self._begin(wanted.lane)
        elif self._state.acknowledged and not knew and not self._state.ended:
            self.process.note(f"{'finishes' if wanted.closing else 'starts'} {self.lane.id}")
            self._may_start()

    def _leave(self, *, unwanted: bool) -> None:
        before = self._state.phase
        self._tell(events.Leave(unwanted=unwanted))
        if self._state.phase is not before:
            self._report_failure("it can't go on")

    def _may_start(self) -> None:
        """From now on it may write."""
        if not self._may_begin:
            self.process.scenario.invariants.starts(self)
            self._may_begin = True

    # As the runner

    def _tell(self, event: Event) -> None:
        if self._state.needs_sources:
            self._step(events.SourcesLookedUp(reads_sources=True))
        for action in self._step(event):
            self._perform(action)
            if action == actions.TendQuery():
                break  # it is watched again when its batch is committed

    def _step(self, event: Event) -> tuple[Action, ...]:
        self._state, actions = lifecycle.step(self._state, event)
        return actions

    def _perform(self, action: Action) -> None:
        match action:
            case actions.TakeFolder():
                self._next(self._take, 0.05, 0.5)
            case actions.AwaitAcknowledgement():
                self._report(folder_epoch=self._state.folder_epoch)
                if not self._breaks_down(0.08):
                    self._wait()
            case actions.StartQuery() | actions.FinishPending():
                self._begin_to_work()
            case actions.DrainByBatches() if not self._has_begun:
                self._begin_to_work()
            case actions.DrainByBatches() | actions.DrainHeld():
                self._drain()
            case actions.WatchQuery() if self._folder_of().pending:
                self._publish()
            case actions.WatchQuery():
                self._tell(events.QueryWatched(caught_up=False, holdable=crc32(self.lane.id.encode()) % 2 == 0))
            case actions.TendQuery():
                self._plan()
            case actions.StopQuery():
                self._next(self._turn, 0.1, 2.0)  # the query ends only at a batch boundary
            case actions.EndLane(has_begun):
                self._end(has_begun=has_begun)
            case actions.FailLane():
                self._tell(events.FailureReported())

    def _take(self) -> None:
        if self.is_fenced:
            self._fail("its folder may be behind its output", Step.FAILED)
            return
        if self._breaks_down(0.7 if self.lane.abandoned else 0.08):
            return
        self._folder = self._storage.take(self.lane, self._epoch)
        self._tell(events.FolderTaken(self._folder.epoch))

    def _wait(self) -> None:
        if self._state.waits:
            self._next(self._wait, 0.2, 0.2)
        else:
            self._tell(events.AcknowledgementAwaited())

    def _begin_to_work(self) -> None:
        self._may_start()
        self._has_begun = True
        self._report(begun=True)
        if not self.closing:
            self._report(phase=LanePhase.RUNNING, **self._figures)
        self._next(self._publish if self._folder_of().pending else self._turn, 0.1, 0.6)

    def _turn(self) -> None:
        """No batch is pending."""
        match self._state.phase:
            case Phase.STARTING:
                self._tell(events.QueryStarted())
            case Phase.RUNNING:
                self._perform(actions.WatchQuery())
            case Phase.STOPPING:
                if not (self._state.stops or self._state.drains):
                    self.process.note(f"runs {self.lane.id} on, whose drain was cancelled")
                self._tell(events.QueryStopped())
            case Phase.FINISHING:
                self._tell(events.PendingFinished())
            case Phase.HOLDING | Phase.DRAINING:
                self._drain()

    def _plan(self) -> None:
        folder, random = self._folder_of(), self.process.world.random
        self.process.scenario.invariants.plans(self)
        self._report(halted="")
        folder.plan(self._epoch, {number: random.randint(0, 4) for number in folder.positions})
        self._next(self._publish, 0.05, 0.5)

    def _drain(self) -> None:
        """Plan what is to be read yet, or the batch in which time ends."""
        folder, random, order = self._folder_of(), self.process.world.random, self._state.drain
        if order is None or self._state.stops or folder.over:
            self._tell(events.DrainEnded(drained=order is not None and not self._state.stops))
            return
        until = {number_of(SSP.parse(text)): offset for text, offset in (order.until or {}).items()}
        left = {number: max(0, until.get(number, at) - at) for number, at in folder.positions.items()}
        if any(left.values()):
            folder.plan(self._epoch, {number: min(more, random.randint(1, 20)) for number, more in left.items()})
        elif order.last:
            self.process.note(f"ends the time of {self.lane.id}")
            folder.plan(self._epoch, dict.fromkeys(folder.positions, 0))
            folder.last = len(folder.planned) - 1
        else:
            self._report(halted=order.uuid, **self._figures)
            self._next(self._turn, 0.1, 0.3)
            return
        self._report(halted="")
        self.process.scenario.invariants.plans(self)
        self._next(self._publish, 0.05, 0.5)

    def _publish(self) -> None:
        if self._is_in_trouble(0.03):
            return
        number, its = self._folder_of().next()
        try:
            new = self._storage.output(self.lane).publish(number, its, self._epoch, self.process.world.now)
        except FencedError as error:
            self.process.note(f"{self.lane.id} is refused batch {number}: {error.what}")
            self._report(fenced=True)
            self._fail(error.what, Step.FAILED)
            return
        self.process.scenario.invariants.writes(self)
        self.process.note(f"{'publishes' if new else 'skips'} batch {number} of {self.lane.id}: {its}")
        if new:
            self._storage.process(self.lane, its)
        self._next(self._commit, 0.05, 0.3)

    def _commit(self) -> None:
        if self._is_in_trouble(0.03):
            return
        self._storage.commit(self.lane, self._folder_of(), self._epoch)
        self._report(**self._figures)
        self._next(self._turn, 0.2, 0.8)

    def _end(self, *, has_begun: bool) -> None:
        folder, drained = self._folder_of(), self._state.drained
        folder.noted = folder.noted or has_begun
        pending = folder.pending or not has_begun
        self._report(
            phase=LanePhase.ENDED, pending=pending, halted="", drained=drained, stopped=not drained, **self._figures
        )
        self.process.note(f"has ended {self.lane.id}{' with a pending batch' if self.report.attempt.pending else ''}")
        self._tell(events.LaneEnded())

    def _fail(self, error: str, following: Step) -> None:
        self._tell(events.AttemptFailed(RuntimeError(error)))
        self._tell(events.FailureJudged(following))
        self._report_failure(error)

    def _report_failure(self, error: str) -> None:
        match self._state.phase:
            case Phase.RETRYING:
                self._report(phase=LanePhase.STARTING)
            case Phase.RELEASED:
                self._report(phase=LanePhase.ENDED, pending=True)
            case Phase.FAILED:
                self._report(phase=LanePhase.FAILED, error=error)

    def _breaks_down(self, probability: float) -> bool:
        """Whether it can't start, and won't."""
        if not self.lane.predecessors or self.lane.begun or self.closing or not self.process.world.chance(probability):
            return False
        self.process.note(f"{self.lane.id} can't start")
        self._fail("it can't start", Step.FAILED)
        return True

    def _is_in_trouble(self, probability: float) -> bool:
        """Whether it fails, and is to be tried again."""
        if not self.process.world.chance(probability):
            return False
        self.process.note(f"{self.lane.id} fails, and is tried again")
        self._due = self.process.world.now + self.process.world.random.choice([1.0, 2.0, 4.0])
        self._fail("it fails now and then", Step.ATTEMPT)
        return True

    @property
    def _figures(self) -> dict[str, Any]:
        folder = self._folder_of()
        wholes_of = {number_of(ssp): str(ssp.whole) for ssp in (*self.lane.ssps, *self.lane.broadcast)}
        positions = {wholes_of[number]: offset for number, offset in folder.positions.items()}
        return {"batch": folder.committed - 1, "positions": positions}

    def _folder_of(self) -> Folder:
        assert self._folder is not None
        return self._folder

    def _report(self, **changes: Any) -> None:
        self.report = self.report.changed(**changes)

    def _next(self, step: Any, low: float, high: float) -> None:
        """Go on later, unless the watchdog is quicker."""
        process, world = self.process, self.process.world
        late = world.between(1.0, 5.0) if world.chance(0.02) else world.between(low, high)
        process.after(late, lambda: process.kill("the watchdog") if process.out_of_time else step())
