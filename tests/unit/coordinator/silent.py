"""A job of two lanes whose processes fall silent, as tests play it."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.store import Store
from anabranch.model.lane import Lane
from anabranch.protocol.container import Heartbeat, HeartbeatResponse, Registration, RegistrationResponse
from anabranch.protocol.deployment import StartRequest
from tests.unit.coordinator.helpers import FIRST, SECOND, Clock, Seat, lane, plan, report
from tests.unit.coordinator.programs import PROGRAM

LEASE, GRACE = 10.0, 2.0


def planned(**fields: Any) -> StartRequest:
    return plan(program=PROGRAM, **fields)


def two_seats() -> StartRequest:
    return planned(lanes=(lane(FIRST), lane(SECOND, seat="1")))


def made(store: Store, clock: Clock) -> Coordinator:
    return Coordinator(store, clock, LEASE, now=lambda: 7.0, grace=GRACE)


def asks(coordinator: Coordinator, pid: int, seat: str | None = None) -> RegistrationResponse:
    return coordinator.register(
        Registration(job="delays", seat=seat, execution=f"execution-{pid}", host="here", pid=pid)
    )


def begun(coordinator: Coordinator, pid: int = 1, *lanes: str) -> Seat:
    """A process whose lanes (default: both) run in folders of their own."""
    seat = Seat(coordinator, pid=pid)
    seat.beat()
    seat.report("running", *lanes, folder_epoch=seat.me.epoch)
    return seat


def lanes_of(store: Store) -> dict[str, Lane]:
    return store.lanes("delays")


def fence_all(coordinator: Coordinator) -> list[str]:
    fences = coordinator.fences()
    for fence in fences:
        coordinator.fenced(fence.lane)
    return [fence.lane.id for fence in fences]


def events(coordinator: Coordinator) -> list[str]:
    return [event.what for event in coordinator.events("delays", 100)]


@pytest.fixture
def coordinator(store: Store, clock: Clock) -> Coordinator:
    coordinator = made(store, clock)
    coordinator.start(planned())
    return coordinator


def lost(coordinator: Coordinator, clock: Clock) -> Seat:
    """A process that had begun both lanes, and fell silent for too long."""
    seat = begun(coordinator)
    clock.at += LEASE + GRACE
    coordinator.tick()
    return seat


def leave(seat: Seat, *phases: tuple[str, str]) -> HeartbeatResponse:
    seat.number += 1
    reports = tuple(report(lane_id, phase, folder_epoch=seat.me.epoch) for lane_id, phase in phases)
    who = {"container": seat.me.container, "epoch": seat.me.epoch}
    beat = Heartbeat(**who, number=seat.number, seen=seat.seen, lanes=reports, leaving=True)
    assert isinstance(seat.coordinator, Coordinator)
    return seat.coordinator.heartbeat(beat)
