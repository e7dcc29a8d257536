"""Deployments of jobs that are stopped, stop meanwhile, or get another coordinator."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import msgspec
import pytest

from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.store import Store
from anabranch.errors import ConflictError
from anabranch.model.lane import LaneState
from anabranch.protocol.container import HeartbeatResponse, Registration
from anabranch.protocol.deployment import RollbackRequest, StartRequest
from anabranch.protocol.drain import DrainNotification
from anabranch.protocol.lane_report import LanePhase
from tests.unit.coordinator.helpers import Clock
from tests.unit.coordinator.versions import Process, coordinator_on, deploy, job, lanes_of, running, start


def test_a_job_at_rest_is_started_with_the_version(store: Store) -> None:
    coordinator, (old,) = running(store)
    coordinator.stop("j")
    old.reports = {name: each.changed(phase=LanePhase.ENDED) for name, each in old.reports.items()}
    old.beat()
    old.leave()
    assert coordinator.status("j").state == "stopped"
    assert deploy(coordinator, job(more=True)).deployment == 2
    assert coordinator.status("j").state == "starting"
    assert coordinator.running("j").deployment == 1
    closing = Process(coordinator, 1)
    closing.work()
    closing.leave()
    Process(coordinator, 2).work()
    assert coordinator.status("j").state == "running"


def test_a_job_that_was_stopped_when_some_lanes_had_drained_already_can_have_no_other_version(store: Store) -> None:
    """The state of those lanes has come out, and nobody would have it: found by the simulation, seed 253."""
    coordinator, (old,) = running(store)
    said = DrainNotification(uuid=str(uuid.uuid4()), run_id=1, mode="planned")
    coordinator.drain("j", said)
    halted = {name: each.changed(halted=said.uuid) for name, each in old.reports.items()}
    old.reports = halted
    old.beat()
    drain = coordinator.status("j").drain
    assert drain is not None
    assert drain.last
    first = next(iter(old.reports))
    old.reports[first] = old.reports[first].changed(phase=LanePhase.ENDED, drained=True)
    old.beat()
    coordinator.stop("j")
    old.reports = {name: each.changed(phase=LanePhase.ENDED) for name, each in old.reports.items()}
    old.beat()
    old.leave()
    assert coordinator.status("j").state == "stopped"
    with pytest.raises(ConflictError, match="was stopped while it drained") as caught:
        deploy(coordinator, job(more=True))
    assert "anabranch start j" in caught.value.cure
    with pytest.raises(ConflictError, match="was stopped while it drained"):
        coordinator.rollback("j", RollbackRequest())
    assert coordinator.status("j").deployment == 1


@pytest.mark.parametrize("done", range(4))
def test_another_coordinator_goes_on_with_it(store: Store, done: int) -> None:
    """Whatever has happened of it already."""
    coordinator, (old,) = running(store)
    deploy(coordinator, job(more=True))
    new = Process(coordinator, 2)
    steps: list[Callable[[], object]] = [old.work, old.leave, new.ask, new.work]
    for step in steps[:done]:
        step()
    other = coordinator_on(store)
    assert other.adopt("j")
    for process in (old, new):
        process.coordinator = other
        process.answer = HeartbeatResponse(alive=True, revision=-1)
    for step in steps[done:]:
        step()
    assert other.status("j").state == "running"
    assert {lane.state for lane in lanes_of(store, 1).values()} == {LaneState.CLOSED}


def test_stopped_in_the_middle_it_goes_on_when_it_is_started(store: Store) -> None:
    coordinator, (old,) = running(store)
    deploy(coordinator, job(more=True))
    coordinator.stop("j")
    old.reports = {name: each.changed(phase=LanePhase.ENDED) for name, each in old.reports.items()}
    old.beat()
    old.leave()
    assert coordinator.status("j").state == "stopped"
    assert coordinator.resume("j") == 2
    closing = Process(coordinator, coordinator.running("j").deployment)
    closing.work()
    if closing.registration.deployment == 1:
        closing.leave()
        Process(coordinator, 2).work()
    assert coordinator.status("j").state == "running"
    assert coordinator.status("j").deployment == 2


def test_what_runs_in_one_process_has_its_code_only_there(store: Store) -> None:
    coordinator = Coordinator(store, Clock())
    coordinator.start(replace_program(start(job())))
    coordinator.register(Registration(job="j", seat="0", execution="e", host="h", pid=1))
    coordinator.stop("j")
    with pytest.raises(ConflictError, match="in one process with its coordinator"):
        deploy(coordinator, job(more=True))


def replace_program(given: StartRequest) -> StartRequest:
    return msgspec.structs.replace(given, program=None)


def test_a_stop_can_be_hurried(store: Store) -> None:
    coordinator, (process,) = running(store)
    coordinator.stop("j")
    assert (process.beat().wanted, process.answer.at_once) == ((), False)
    coordinator.stop("j", at_once=True)
    assert process.beat().at_once
    process.reports = {
        name: each.changed(phase=LanePhase.ENDED, pending=True) for name, each in process.reports.items()
    }
    process.beat()
    assert coordinator.status("j").state == "stopped"
    assert {lane.state for lane in store.lanes("j").values()} == {LaneState.PLANNED}
