"""``--now``: who is told of it, and that it is noted; and what lanes wait for until then."""

from __future__ import annotations

import pytest

from anabranch.cli import haste
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.jobs.job_events import HASTE
from anabranch.coordinator.store import Store
from anabranch.model.deployment_state import DeploymentState
from anabranch.protocol.commands import ScaleRequest
from anabranch.protocol.lane_report import LaneReport
from anabranch.protocol.status import JobStatus, LaneStatus
from tests.unit.coordinator.helpers import FIRST, Clock, lane, report
from tests.unit.coordinator.workers import JOB, Worker, start


def running(clock: Clock, store: Store) -> tuple[Coordinator, Worker]:
    coordinator = Coordinator(store, clock=clock, now=clock)
    coordinator.start(start())
    worker = Worker(coordinator)
    worker.closes = False
    worker.turns()
    return coordinator, worker


@pytest.mark.parametrize("now", [False, True])
def test_lanes_that_close_are_told_of_it_and_it_is_noted(now: bool) -> None:
    coordinator, worker = running(Clock(), Store("sqlite://"))
    coordinator.scale(JOB, ScaleRequest(factor=2, now=now))
    closing = [one for one in worker.turn() if one.closing]
    assert closing
    assert {one.now for one in closing} == {now}
    assert [HASTE in event.why for event in coordinator.events(JOB) if "generation" in event.what][-1] is now


def test_a_change_that_waits_is_hastened_by_the_same_wish_and_the_next_change_is_not() -> None:
    coordinator, worker = running(Clock(), Store("sqlite://"))
    coordinator.scale(JOB, ScaleRequest(factor=2))
    assert not any(one.now for one in worker.turn())
    coordinator.scale(JOB, ScaleRequest(factor=2, now=True))
    coordinator.scale(JOB, ScaleRequest(factor=2, now=True))
    assert {one.now for one in worker.turn() if one.closing} == {True}
    assert [event.why for event in coordinator.events(JOB) if "no longer waits" in event.what] == [HASTE]
    worker.closes = True
    worker.turns(8)
    assert coordinator.status(JOB).state == "running"
    worker.closes = False
    coordinator.scale(JOB, ScaleRequest(factor=1))
    assert {one.now for one in worker.turn() if one.closing} == {False}


def test_what_a_lane_waits_for_is_noted_once_each_time() -> None:
    coordinator, worker = running(Clock(), Store("sqlite://"))
    coordinator.scale(JOB, ScaleRequest(factor=2))
    worker.turn()
    (name, told) = next(iter(worker.reports.items()))
    for waits in ("batch 7 is seen: 9 s left", "batch 7 is seen: 8 s left", "", "batch 7 is seen: 1 s left"):
        worker.reports[name] = told.changed(waits=waits)
        worker.seat.beat(*worker.reports.values())
        (shown,) = [each.report for each in coordinator.status(JOB).lanes if each.lane.id == name]
        assert shown is not None
        assert shown.attempt.waits == waits
    noted = [event.why for event in coordinator.events(JOB) if event.what == f"lane {name} waits to end"]
    assert noted == ["batch 7 is seen: 9 s left", "batch 7 is seen: 1 s left"]


def test_a_verb_says_it_every_few_seconds() -> None:
    now, said = [0.0], list[str]()
    waits = haste.Waits(clock=lambda: now[0], say=said.append)

    def status(waits: str) -> JobStatus:
        told: LaneReport = report(FIRST, "running", waits=waits)
        return JobStatus(
            job="j",
            deployment=1,
            generation=1,
            state=DeploymentState.CHANGING,
            lanes=(LaneStatus(lane=lane(FIRST), report=told),),
        )

    waits.tell(status(""))
    for second in range(10):
        now[0] = float(second)
        waits.tell(status(f"{10 - second} s left"))
    assert said == [f"lane {FIRST} waits to end: {n} s left" for n in (10, 7, 4, 1)]
