"""A container process: the real seat lease, and a model of the loop, the standbys and the watchdog around it."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING

import msgspec

from anabranch.container.seat_lease import SeatLease, SentHeartbeat
from anabranch.coordinator.api.client import AWAY
from anabranch.errors import AnabranchError
from anabranch.protocol.container import HeartbeatResponse, Registration, RegistrationResponse, WantedLane
from anabranch.protocol.lane_report import LaneReport
from anabranch.protocol.standby import StandbyOrder, StandbyReport
from tests.simulation.lane_runs import LaneRun
from tests.simulation.network import Client
from tests.simulation.outputs import Storage
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
        self._coming: dict[str, float] = {}
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
            why = "" if self._survives else "its outputs can't be fenced"
            self.seat_lease = SeatLease(found, asked, lambda: self.world.now, stops_because=why)
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
        sent = self.seat_lease.beat(
            self._reports, leaving=leaving, copies=self.standbys.reports, prepared=self._prepared
        )
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
    def _prepared(self) -> tuple[str, ...]:
        """The coming lanes whose preparation has ended. Chance is their own here, as with standbys."""
        return tuple(lane for lane, at in self._coming.items() if at <= self.world.now)

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
        lanes = [(one.lane, one.phase, one.attempt.folder_epoch, one.drain.halted) for one in self._reports]
        shape = (lanes, self._prepared)
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
        for lane in answer.coming:
            takes = Random(f"{lane.id} {lane.epoch} {self.name}").uniform(0.0, 8.0)
            self._coming.setdefault(lane.id, self.world.now + takes)
        wanted = {one.lane.id: self._not_too_early(one) for one in answer.wanted}
        for lane, run in tuple(self._runs.items()):
            if lane in wanted:
                run.go_on(wanted[lane])
            elif (run.closing or run.report.drain.drained) and run.ended:
                del self._runs[lane]
            else:
                run.stop()
        for lane, one in wanted.items():
            if lane not in self._runs:
                self._runs[lane] = LaneRun(self, one)

    def _not_too_early(self, one: WantedLane) -> WantedLane:
        held = one.deferred and one.lane.id in self._runs
        return msgspec.structs.replace(one, closing=False) if held else one


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
