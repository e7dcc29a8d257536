"""A job of which another version is deployed, as tests play it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any

import msgspec

from anabranch import Job
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.store import Store
from anabranch.model.lane import Lane
from anabranch.model.ssp import wholes
from anabranch.planning import plan as planning
from anabranch.protocol.container import Heartbeat, HeartbeatResponse, Registration
from anabranch.protocol.deployment import DeployRequest, DeployResult, Program, StartRequest
from anabranch.protocol.lane_report import LanePhase, LaneReport
from tests.support.reports import lane_report
from tests.unit.coordinator.helpers import Clock
from tests.unit.planning.factory import around, version

IDS = count()


def job(state: str = "counted", more: bool = False, size: str = "count(*)") -> Job:
    made = Job("j")
    rows = made.read("in", key="k string", schema="n int")
    rows.where("n > 0").write("out")
    rows.agg(n=size, name=state).write("counts")
    if more:
        rows.where("n < 0").write("below")
    return made


def start(made: Job, containers: int = 1, code: str = "a" * 64, warm: int = 0, **partitions: int) -> StartRequest:
    found = planning.make(made.graph, around(containers=containers, **{"in": 2, **partitions}))
    told = version(made, containers=str(containers))
    settings = {"job": {"warm_containers": warm, "artifact": "image"}}  # so the store needn't have the code
    program = Program(artifact=code, file="j.py", settings=settings, schemas=dict(told.schemas))
    lanes = planning.lanes_of(found, 4, lambda: f"{next(IDS):08x}")
    return StartRequest(
        graph=made.graph, model=found.model, lanes=lanes, fingerprint=dict(told.fingerprint), program=program
    )


def with_settings(
    start: StartRequest, settings: dict[str, Any], systems: Mapping[str, str] | None = None
) -> StartRequest:
    """The same version with other settings, and with the ``systems`` of outputs that aren't in the embedded log."""
    assert start.program is not None
    found = systems or {}
    lanes = (
        msgspec.structs.replace(lane, systems={name: its for name, its in found.items() if name in lane.outputs})
        for lane in start.lanes
    )
    program = msgspec.structs.replace(start.program, settings=settings)
    return msgspec.structs.replace(start, program=program, lanes=tuple(lanes))


class Process:
    """A container made of calls: it runs what it is told, and closes what it is told to."""

    def __init__(
        self, coordinator: Coordinator, deployment: int = 0, pid: int | None = None, **registration: Any
    ) -> None:
        self.pid = next(IDS) if pid is None else pid
        me = f"e{self.pid}"
        self.registration = Registration(
            job="j",
            execution=me,
            host="h",
            pid=self.pid,
            instance=str(self.pid),
            deployment=deployment,
            **registration,
        )
        self.coordinator = coordinator
        self.me = coordinator.register(self.registration)
        self.number = 0
        self.answer = HeartbeatResponse(alive=True, revision=-1)
        self.reports: dict[str, LaneReport] = {}

    @property
    def seat(self) -> str | None:
        return self.me.seat

    def ask(self) -> str | None:
        """Ask for a seat again."""
        self.me = self.coordinator.register(self.registration)
        return self.seat

    def beat(self, leaving: bool = False) -> HeartbeatResponse:
        self.number += 1
        beat = Heartbeat(
            container=self.me.container,
            epoch=self.me.epoch,
            number=self.number,
            seen=self.answer.revision,
            lanes=tuple(self.reports.values()),
            leaving=leaving,
        )
        answer = self.coordinator.membership.hear(beat)
        assert answer.alive, answer.reason
        self.answer = self.answer if answer.same else answer
        return self.answer

    def work(self, begin: bool = True) -> HeartbeatResponse:
        """Beat until nothing changes: folders are told first, then lanes run, or end."""
        for _ in range(6):
            for each in self.beat().wanted:
                lane, epoch = each.lane, self.me.epoch
                at = {str(ssp): 7 for ssp in dict.fromkeys(wholes(lane.ssps))}
                phase = "starting" if not lane.folder_epoch else "ended" if each.closing else "running"
                if not begin and phase == "running":
                    phase = "starting"
                self.reports[lane.id] = lane_report(
                    lane=lane.id,
                    phase=phase,
                    positions=at if phase != "starting" else {},
                    folder_epoch=lane.folder_epoch or epoch,
                    begun=phase == "running" or (lane.id in self.reports and self.reports[lane.id].attempt.begun),
                    batch=3,
                )
        return self.beat()

    def leave(self) -> None:
        assert self.beat(leaving=True).done

    def fail(self, lane: str) -> None:
        self.reports[lane] = lane_report(lane=lane, phase=LanePhase.FAILED, error="it can't start")
        self.beat()


def coordinator_on(store: Store, clock: Clock | None = None) -> Coordinator:
    revisions = count(1_000_000, 1_000_000)
    return Coordinator(
        store, clock or Clock(), grace=1.0, first=lambda: next(revisions), counting=lambda *_: {"embedded/in": 2}
    )


def lanes_of(store: Store, deployment: int) -> dict[str, Lane]:
    return {lane.group: lane for lane in store.lanes("j").values() if lane.deployment == deployment}


def running(store: Store, containers: int = 1, warm: int = 0) -> tuple[Coordinator, list[Process]]:
    coordinator = coordinator_on(store)
    coordinator.start(start(job(), containers, warm=warm))
    processes = [Process(coordinator, 1) for _ in range(containers)]
    for process in processes:
        process.work()
    assert coordinator.status("j").state == "running"
    return coordinator, processes


def deploy(coordinator: Coordinator, made: Job, containers: int = 1, **wish: Any) -> DeployResult:
    return coordinator.deploy("j", DeployRequest(start=start(made, containers, "b" * 64), **wish))


def relieved(process: Process, deployment: int) -> Process:
    """The process that takes the seat of one whose lanes close."""
    new = Process(process.coordinator, deployment)
    assert new.seat is None
    assert not new.me.done
    process.work()
    assert new.ask() is None  # that one isn't gone
    process.leave()
    assert new.ask() == process.seat
    return new
