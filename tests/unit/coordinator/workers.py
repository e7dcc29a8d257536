"""Containers as a coordinator's tests play them."""

from __future__ import annotations

from collections.abc import Callable

from anabranch.coordinator.coordinator import Coordinator
from anabranch.model.lane import Lane
from anabranch.model.ssp import wholes
from anabranch.planning import plan as planning
from anabranch.protocol.container import WantedLane
from anabranch.protocol.deployment import StartRequest
from anabranch.protocol.lane_report import LaneReport
from tests.support.reports import lane_report
from tests.unit.coordinator.helpers import Clock, Seat
from tests.unit.coordinator.programs import PROGRAM
from tests.unit.planning.factory import around, job, new_id

JOB = "j"


def start(factor: int = 1, containers: int = 1, partitions: int = 2) -> StartRequest:
    made = job()
    plan = planning.make(made.graph, around("partition", factor, containers, **{"in": partitions}))
    lanes = planning.lanes_of(plan, 4, new_id)
    return StartRequest(graph=made.graph, model=plan.model, lanes=lanes, fingerprint={}, program=PROGRAM)


class Worker:
    """A container in a seat that does what it is told, and reads so many messages of each partition."""

    def __init__(self, coordinator: Coordinator, seat: str = "0", pid: int = 1) -> None:
        self.seat = Seat(coordinator, JOB, seat, pid)
        self.reports: dict[str, LaneReport] = {}
        self.closing: set[str] = set()
        self.read = 0
        self.fails: Callable[[Lane], bool] = lambda lane: False
        self.closes = True

    def turn(self) -> tuple[WantedLane, ...]:
        """A beat, and what it is told is done at once."""
        answer = self.seat.beat(*self.reports.values())
        for one in answer.wanted:
            self.do(one)
        wanted = {one.lane.id for one in answer.wanted}
        self.reports = {name: told for name, told in self.reports.items() if name in wanted}
        return answer.wanted

    def turns(self, count: int = 4) -> None:
        for _ in range(count):
            self.turn()

    def do(self, one: WantedLane) -> None:
        lane, phase = one.lane, "running"
        begins = {str(whole): 0 for whole in wholes(lane.ssps)}
        for position in lane.starting:
            begins[str(position.ssp.whole)] = position.offset
        if one.closing and self.closes:
            phase = "ended"
        elif self.fails(lane):
            phase = "failed"
        self.reports[lane.id] = lane_report(
            lane=lane.id,
            phase=phase,
            folder_epoch=lane.folder_epoch or lane.epoch,
            positions={ssp: max(self.read, at) for ssp, at in begins.items()},
            batch=max(lane.first_batch, 7),
            error="it can't" if phase == "failed" else None,
        )


def running(coordinator: Coordinator, **given: int) -> Worker:
    coordinator.start(start(**given))
    worker = Worker(coordinator)
    worker.turns()
    assert coordinator.status(JOB).state == "running"
    return worker


def lose(coordinator: Coordinator, clock: Clock) -> Worker:
    """Another process, in the place of one that isn't heard any more."""
    for _ in range(13):
        clock.at += 1
        coordinator.tick()
    for fence in coordinator.fences():
        coordinator.fenced(fence.lane)
    return Worker(coordinator, pid=2)


def open_lanes(coordinator: Coordinator) -> list[Lane]:
    return [each.lane for each in coordinator.status(JOB).lanes]
