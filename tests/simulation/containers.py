"""A container process: the real agent, and a model of the loop, the lanes and the watchdog around it."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING, Any
from zlib import crc32

import msgspec

from anabranch.container.lane import actions, events, lifecycle
from anabranch.container.lane.actions import Action
from anabranch.container.lane.events import Closing, Event, Run
from anabranch.container.lane.lifecycle import Phase
from anabranch.container.restarts import Step
from anabranch.container.seat_lease import SeatLease, SentHeartbeat
from anabranch.coordinator.api.client import AWAY
from anabranch.errors import AnabranchError, FencedError
from anabranch.model.lane import Lane
from anabranch.model.ssp import SSP
from anabranch.protocol.container import HeartbeatResponse, Registration, RegistrationResponse, WantedLane
from anabranch.protocol.lane_report import LanePhase, LaneReport
from anabranch.protocol.standby import StandbyOrder, StandbyReport
from tests.simulation.inputs import number_of
from tests.simulation.network import Client
from tests.simulation.outputs import Folder, Storage
from tests.simulation.world import Actor

if TYPE_CHECKING:
    from tests.simulation.scenario import Scenario

_PERIOD = 1.0
_ASK_AGAIN = 0.5


class ContainerProcess(Actor):
    """Takes a seat of a job, or stands by for one, and runs the lanes that it is told to."""

    TURN = 0.3

    def __init__(self, scenario: Scenario, name: str, job: str, pid: int, *, survives: bool) -> None:
        super().__init__(scenario.world, name)
        self.scenario = scenario
        self.job = job
        self.seat_lease: SeatLease | None = None
        self.refused_at = float("inf")
        self.seated = False
        self.was_frozen = False
        self._late_until = 0.0  # what was put off while it was frozen happens then, even if it thaws before
        self._registration = Registration(job=job, execution=name, host="here", pid=pid)
        self._survives = survives
        self._client = Client(scenario.network, self)
        self._runs: dict[str, LaneRun] = {}
        self.standbys = Standbys(scenario.storage, Random(f"{name} {pid}"))
        self._shape: object = None
        self._leaving = False
        self._ending = ""
        self.after(self.world.between(0.0, 0.5), self._ask)

    @property
    def out_of_time(self) -> bool:
        """Whether the watchdog ends it before it does anything more: what it writes can't be fenced."""
        seat_lease = self.seat_lease
        return (
            seat_lease is not None and not self._survives and bool(seat_lease.must_stop) and seat_lease.lease_left <= 0
        )

    def freeze(self, seconds: float) -> None:
        super().freeze(seconds)
        self.was_frozen = True
        self._late_until = self.frozen_until

    def terminate(self) -> None:
        """SIGTERM: lanes end at a batch boundary, then the seat is given back."""
        if not self._leaving:
            self.note("is asked to end")
            self._leaving = True

    # Taking a seat

    def _ask(self) -> None:
        if self._leaving:
            self.kill("it was asked to end")
            return
        asked = self.world.now
        if not self._registration.deployment:
            self._client.call(lambda by: by.coordinator.running(self.job).deployment, self._loaded)
            return
        self._copy()
        me = msgspec.structs.replace(self._registration, copies=self.standbys.reports)
        self._client.call(lambda by: by.register(me), lambda found: self._asked(asked, found))

    def _loaded(self, found: int | AnabranchError) -> None:
        """It has the code of a deployment, for all its life."""
        if not isinstance(found, AnabranchError):
            self._registration = msgspec.structs.replace(self._registration, deployment=found)
        self.after(_ASK_AGAIN, self._ask)

    def _asked(self, asked: float, found: RegistrationResponse | AnabranchError) -> None:
        if self.seat_lease is not None:
            return
        if isinstance(found, AWAY):
            self.after(_ASK_AGAIN, self._ask)
        elif isinstance(found, AnabranchError):
            self.kill(f"no seat: {found.what}")
        elif found.done:
            self.kill("the job doesn't run")
        elif found.seat is None:
            self.standbys.wanted = found.copies
            self.after(_ASK_AGAIN, self._ask)
        else:
            self.note(f"has seat {found.seat} of {self.job} as {found.container}")
            self.seat_lease = SeatLease(found, asked, lambda: self.world.now, survives=self._survives)
            self.seated = True
            self.scenario.invariants.alive(self, found, asked + found.lease)
            self._listen()
            self._turn()

    # Beats, as in anabranch.container.heartbeats

    def _listen(self) -> None:
        self._beat()
        self.after(self.world.between(0.8, 1.0) * _PERIOD, self._listen)

    def _beat(self, *, leaving: bool = False) -> None:
        assert self.seat_lease is not None
        sent = self.seat_lease.beat(self._reports, leaving=leaving, copies=self.standbys.reports)
        self._client.call(lambda by: by.heartbeat(self, sent), lambda answer: self._hear(sent, answer, leaving=leaving))

    def _hear(self, sent: SentHeartbeat, answer: HeartbeatResponse | AnabranchError, *, leaving: bool) -> None:
        assert self.seat_lease is not None
        if isinstance(answer, AnabranchError):
            self.seat_lease.miss(answer.what)
        else:
            self.seat_lease.hear(sent, answer)
            if answer.alive and self.seated:
                self.scenario.invariants.alive(self, self.seat_lease.me, self.world.now + self.seat_lease.lease_left)
            elif self.refused_at > self.world.now:
                self.note(f"hears that it must stop: {answer.reason}")
                self.refused_at = max(self.world.now, self._late_until)
                self.was_frozen = False
        if leaving:
            self.kill("it has left")

    # The loop, as in anabranch.container.reconciler

    @property
    def _reports(self) -> tuple[LaneReport, ...]:
        return tuple(run.report for run in self._runs.values())

    def _turn(self) -> None:
        assert self.seat_lease is not None
        self.after(self.TURN, self._turn)
        self._copy()
        if self._ending:
            self._end()
            return
        fenced = next((run.lane.id for run in self._runs.values() if run.report.fenced), None)
        answer = self.seat_lease.answer
        if fenced is not None:
            self._ending = f"lane {fenced} was fenced"
        elif self.seat_lease.must_stop:
            self._ending = f"it must stop: {self.seat_lease.must_stop}"
        elif self._leaving:
            self._ending = "it was asked to end"
        elif answer is not None:
            self._reconcile(answer)
            if answer.done and all(run.ended for run in self._runs.values()):
                self._ending = "the job is done"
        shape = [(one.lane, one.phase, one.folder_epoch, one.halted) for one in self._reports]
        if shape != self._shape and not self._ending:
            self._shape = shape
            self._beat()
        if self._ending:
            for run in self._runs.values():
                run.leave()
            self._end()

    def _end(self) -> None:
        assert self.seat_lease is not None
        if self.out_of_time:
            self.kill("the watchdog")
        elif all(run.ended for run in self._runs.values()) and self.seated:
            self.seated = False
            if self.seat_lease.must_stop or any(run.report.fenced for run in self._runs.values()):
                self.kill(self._ending)
            else:
                self.note(f"leaves: {self._ending}")
                self._beat(leaving=True)

    def _copy(self) -> None:
        for what in self.standbys.turn(faults=self.world.faults):
            self.note(what)

    def _reconcile(self, answer: HeartbeatResponse) -> None:
        self.standbys.wanted = answer.copies
        wanted = {one.lane.id: one for one in answer.wanted}
        for lane, run in tuple(self._runs.items()):
            if lane in wanted:
                run.go_on(wanted[lane])
            elif (run.closing or run.report.drained) and run.ended:
                del self._runs[lane]
            else:
                run.stop()
        for lane, one in wanted.items():
            if lane not in self._runs:
                self._runs[lane] = LaneRun(self, one)


class Standbys:
    """The standbys that a process keeps, as in :mod:`anabranch.container.checkpoint.standbys`. Chance is its own
    here, so that with none everything is as it was."""

    def __init__(self, storage: Storage, random: Random) -> None:
        self.wanted: Sequence[StandbyOrder] = ()
        self._kept: dict[tuple[str, int, int], StandbyReport] = {}
        self._storage = storage
        self._random = random

    @property
    def reports(self) -> tuple[StandbyReport, ...]:
        return tuple(self._kept.values())

    def turn(self, *, faults: bool) -> list[str]:
        """Do what is wanted, or not yet; gives what happened."""
        wanted = {(one.lane, one.epoch, one.number): one for one in self.wanted}
        self._kept = {key: its for key, its in self._kept.items() if key in wanted}
        happened = []
        for (lane, epoch, number), one in wanted.items():
            its = self._kept.get((lane, epoch, number), StandbyReport(lane=lane, epoch=epoch, number=number))
            if self._random.random() < 0.7:
                continue
            if one.to == "remove":
                self._kept.pop((lane, epoch, number), None)
                happened.append(f"removes standby {number} of {lane}")
            elif one.to == "refresh":
                last, fails = self._storage.folders[lane, epoch].committed - 1, faults and self._random.random() < 0.1
                changes = {"error": "the disk is full"} if fails else {"error": "", "batch": last}
                self._kept[lane, epoch, number] = msgspec.structs.replace(its, **changes)
                if its.batch < 0 <= last and not fails:
                    happened.append(f"has standby {number} of {lane}")
        return happened


class LaneRun:
    """One lane in a container: its real life cycle, and a model of what performs it.

    That is what :mod:`anabranch.container.lane.supervisor` and :mod:`anabranch.container.lane.runner` do.
    """

    def __init__(self, process: ContainerProcess, wanted: WantedLane) -> None:
        self.process = process
        self.closing = wanted.closing
        self.report = LaneReport(lane=wanted.lane.id, phase=LanePhase.STARTING)
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
                self._tell(events.QueryStopped())
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
        self.process.note(f"has ended {self.lane.id}{' with a pending batch' if self.report.pending else ''}")
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
        self.report = msgspec.structs.replace(self.report, **changes)

    def _next(self, step: Any, low: float, high: float) -> None:
        """Go on later, unless the watchdog is quicker."""
        process, world = self.process, self.process.world
        late = world.between(1.0, 5.0) if world.chance(0.02) else world.between(low, high)
        process.after(late, lambda: process.kill("the watchdog") if process.out_of_time else step())
