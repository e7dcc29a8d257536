"""Plans, a clock that is moved by hand and a container made of calls, for the tests of the coordinator."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from anabranch.coordinator.api.client import Client
from anabranch.coordinator.coordinator import Coordinator
from anabranch.model.graph import Graph, Node
from anabranch.model.job_model import ContainerModel, JobModel
from anabranch.model.lane import Lane
from anabranch.model.ssp import SSP
from anabranch.protocol.container import Heartbeat, HeartbeatResponse, Registration, RegistrationResponse
from anabranch.protocol.deployment import StartRequest
from anabranch.protocol.lane_report import LanePhase, LaneReport
from tests.support.reports import lane_report

FIRST, SECOND = "flights-00000001", "by-dest-00000002"
FLIGHTS = SSP(system="embedded", stream="flights", partition=0)


class Clock:
    """Seconds that pass when they are told to."""

    def __init__(self) -> None:
        self.at = 1000.0

    def __call__(self) -> float:
        return self.at


def lane(lane_id: str, **fields: Any) -> Lane:
    given = {
        "job": "delays",
        "deployment": 0,
        "stage": "s",
        "group": "outputs",
        "seat": "0",
        "tasks": ("Partition_0",),
    }
    return Lane(id=lane_id, ssps=(FLIGHTS,), **{**given, **fields})


def plan(job: str = "delays", lanes: tuple[Lane, ...] | None = None, **fields: Any) -> StartRequest:
    """Two lanes in one seat, the second reads what the first writes."""
    if lanes is None:
        lanes = (lane(FIRST, job=job), lane(SECOND, job=job, upstream=(FIRST,)))
    seats = sorted({one.seat for one in lanes} | {"0"})
    model = JobModel(
        job=job,
        run_id=0,
        generation=0,
        factor=4,
        stages=(),
        containers=tuple(ContainerModel(seat=seat, tasks={}) for seat in seats),
    )
    graph = Graph(job=job, nodes=(Node(id=0, kind="read", name="flights", args={"extra": "kept"}),))
    given: dict[str, Any] = {
        "fingerprint": {"graph": "a" * 64, "factor": "4"},
        "promises": {"late": "exactly once"},
    }
    return StartRequest(graph=graph, model=model, lanes=lanes, **{**given, **fields})


def report(lane_id: str, phase: str, offset: int | None = None, **fields: Any) -> LaneReport:
    positions = {} if offset is None else {str(FLIGHTS): offset}
    return lane_report(lane=lane_id, phase=LanePhase(phase), positions=positions, **fields)


class Seat:
    """A process that took a seat; ``beat`` remembers the revision of the last answer."""

    def __init__(self, coordinator: Coordinator | Client, job: str = "delays", seat: str = "0", pid: int = 1) -> None:
        self.coordinator = coordinator
        self.me: RegistrationResponse = coordinator.register(
            Registration(job=job, seat=seat, execution=f"execution-{pid}", host="here", pid=pid)
        )
        self.seen = -1
        self.told = HeartbeatResponse(alive=True, revision=-1)
        self.number = 0

    def beat(self, *reports: LaneReport, wait: float = 0.0, prepared: Sequence[str] = ()) -> HeartbeatResponse:
        self.number += 1
        who = {"container": self.me.container, "epoch": self.me.epoch}
        beat = Heartbeat(**who, number=self.number, seen=self.seen, lanes=reports, prepared=tuple(prepared))
        answer = self.coordinator.heartbeat(beat, wait)
        self.told = self.told if answer.same else answer
        self.seen = self.told.revision
        return self.told

    def report(self, phase: str, *lanes: str, **fields: Any) -> HeartbeatResponse:
        return self.beat(*(report(one, phase, **fields) for one in lanes or (FIRST, SECOND)))


def wanted(answer: HeartbeatResponse) -> list[str]:
    return [one.lane.id for one in answer.wanted]


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)
