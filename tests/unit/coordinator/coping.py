"""A container that says how its functions cope, in time that passes when a test says so."""

from __future__ import annotations

from typing import Any

import msgspec

from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.store import Event
from anabranch.protocol.container import WantedLane
from tests.unit.coordinator import workers
from tests.unit.coordinator.helpers import Clock
from tests.unit.coordinator.programs import PROGRAM
from tests.unit.coordinator.workers import JOB, Worker


class Coping(Worker):
    """A container that says how its functions cope."""

    working = 0.0
    second = 0

    def turn(self) -> tuple[WantedLane, ...]:
        self.second += 1
        return super().turn()

    def do(self, one: Any) -> None:
        super().do(one)
        told = self.reports[one.lane.id]
        if told.phase == "running":
            figures = {"working": self.working, "span": 30.0, "rows": self.second}
            self.reports[one.lane.id] = told.changed(**figures)


def started(coordinator: Coordinator, **settings: Any) -> Coping:
    program = msgspec.structs.replace(PROGRAM, settings={"job": {"autoscale": {"max": 8}, **settings}})
    coordinator.start(msgspec.structs.replace(workers.start(), program=program))
    worker = Coping(coordinator)
    worker.turns()
    assert coordinator.status(JOB).state == "running"
    return worker


def passed(worker: Coping, clock: Clock, seconds: int) -> None:
    """So much time, in which the container beats and its coordinator does what is due."""
    for _ in range(0, seconds, 4):
        clock.at += 4
        worker.turn()
        worker.seat.coordinator.tick()  # type: ignore[union-attr]


def decisions(coordinator: Coordinator) -> list[Event]:
    return [event for event in coordinator.events(JOB) if event.who == "autoscale"]
