"""Versions of a job that runs in one process with its coordinator: another process closes the former one's lanes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.store import Store, stored_jobs
from anabranch.errors import ConflictError, UsageError
from anabranch.model.lane import LaneState
from anabranch.protocol.container import Registration
from anabranch.protocol.deployment import DeployRequest, RollbackRequest, StartRequest
from tests.unit.coordinator.helpers import Clock
from tests.unit.coordinator.versions import Process, coordinator_on, job, lanes_of, start


class Seated(Process):
    """One that takes a seat whoever has it, as processes do that are never expelled."""

    def __init__(self, coordinator: Coordinator, deployment: int = 0) -> None:
        super().__init__(coordinator, deployment)
        self.registration = msgspec.structs.replace(self.registration, seat="0")
        self.ask()


def alone(store: Store) -> Coordinator:
    """The coordinator in the process that runs the job."""
    return Coordinator(store, Clock(), counting=lambda *_: {"embedded/in": 2})


def own(request: StartRequest, **changes: Any) -> StartRequest:
    assert request.program is not None
    program = msgspec.structs.replace(request.program, in_process=True, **changes)
    return msgspec.structs.replace(request, program=None, own_program=program, settings={"job": {"factor": 1}})


def left_by_a_run(store: Store, **changes: Any) -> None:
    """A job that has run in one process, which was killed."""
    coordinator = alone(store)
    coordinator.start(own(start(job()), **changes))
    Seated(coordinator).work()
    assert coordinator.status("j").state == "running"


def follow(coordinator: Coordinator, request: StartRequest, **wish: Any) -> int:
    return coordinator.deploy("j", DeployRequest(start=request, **wish)).deployment


def test_another_process_closes_the_lanes_whoever_had_the_seat_before(store: Store) -> None:
    left_by_a_run(store)
    coordinator = alone(store)
    assert follow(coordinator, own(start(job(more=True), code="b" * 64))) == 2
    running = coordinator.running("j")
    assert (running.deployment, running.program.artifact, running.program.in_process) == (1, "a" * 64, True)
    first = Process(coordinator, 1)
    assert first.seat == "0"  # and it dies
    assert coordinator.running("j").deployment == 1
    second = Seated(coordinator, 1)
    assert second.seat == "0"
    second.work()
    second.leave()
    assert {lane.state for lane in lanes_of(store, 1).values()} == {LaneState.CLOSED}
    with pytest.raises(ConflictError, match="needs no containers"):
        coordinator.running("j")
    coordinator.stop("j")
    assert coordinator.status("j").state == "stopped"
    assert coordinator.start(own(start(job(more=True), code="b" * 64))) == 2
    Seated(coordinator).work()
    assert coordinator.status("j").state == "running"


def test_no_coordinator_adopts_it_and_each_names_its_code_once_it_is_stopped(store: Store) -> None:
    left_by_a_run(store)
    coordinator = coordinator_on(store)
    assert not coordinator.adopt("j")
    assert coordinator.running("j").program.in_process
    with pytest.raises(ConflictError, match="the code of job 'j' is not here"):
        coordinator.resume("j")


def test_while_it_runs_no_version_follows(store: Store) -> None:
    coordinator = alone(store)
    coordinator.start(own(start(job())))
    Seated(coordinator).work()
    for request in (own(start(job(more=True))), start(job(more=True))):
        with pytest.raises(ConflictError, match="runs in one process with its coordinator"):
            follow(coordinator, request)


def test_on_a_coordinator_a_version_follows_and_the_former_one_can_come_back(store: Store) -> None:
    left_by_a_run(store)
    coordinator = coordinator_on(store)
    with pytest.raises(UsageError, match="has no program"):
        follow(coordinator, own(start(job(more=True))))
    assert follow(coordinator, start(job(more=True), code="b" * 64)) == 2
    closing = Process(coordinator, 1)
    closing.work()
    closing.leave()
    Process(coordinator, 2).work()
    assert coordinator.status("j").state == "running"
    assert coordinator.rollback("j", RollbackRequest()).deployment == 3
    record = stored_jobs.deployment(store, "j")
    assert record.program is not None
    assert (record.program.artifact, record.program.in_process) == ("a" * 64, False)


def test_a_version_that_cannot_follow_is_refused_with_reasons_and_ways(store: Store) -> None:
    left_by_a_run(store)
    with pytest.raises(ConflictError) as caught:
        follow(alone(store), own(start(job(size="sum(n)"))))
    assert "differs from the one that was started here:" in caught.value.what
    assert "because:\n    the state of agg 'counted'" in caught.value.cure
    ways = ["undo the change", "anabranch drain j", "anabranch reset j"]
    assert [way in caught.value.cure for way in ways] == [True] * 3
    assert "coordinator" not in caught.value.cure
    with pytest.raises(ConflictError, match="--drop-state counted: positions and all other state stay"):
        follow(alone(store), own(start(job("tallied", size="sum(n)"))))
    assert follow(alone(store), own(start(job("tallied", size="sum(n)"))), drop_state=("counted",)) == 2


def test_without_the_code_no_lane_can_be_closed(store: Store) -> None:
    left_by_a_run(store, lacks="it is too large", artifact="")
    with pytest.raises(ConflictError, match="isn't stored: it is too large"):
        follow(alone(store), own(start(job(more=True))))
    with pytest.raises(ConflictError, match="isn't stored: it is too large"):
        follow(coordinator_on(store), start(job(more=True)))
    with pytest.raises(ConflictError, match="isn't stored: it is too large"):
        coordinator_on(store).running("j")


def test_the_former_version_with_another_function_closes_its_own_lanes(store: Store) -> None:
    """Its function was wrong, so its lanes can't be closed with the stored code: then the user undoes the other
    changes, and mends only the function."""
    left_by_a_run(store)
    assert follow(alone(store), own(start(job(more=True), code="b" * 64))) == 2
    coordinator = alone(store)
    assert follow(coordinator, own(start(job(), code="c" * 64))) == 3
    found = coordinator.running("j")
    assert (found.deployment, found.program.artifact) == (1, "c" * 64)
    (second,) = (each for each in coordinator.deployments("j") if each.id == 2)
    assert second.artifact == ""  # as of each job in one process
    assert stored_jobs.running(store, "j", 2).program.artifact == "b" * 64


def test_who_undoes_a_change_before_it_has_begun_gets_back_what_it_dropped(store: Store) -> None:
    left_by_a_run(store)
    assert follow(alone(store), own(start(job("tallied"), code="b" * 64)), drop_state=("counted",)) == 2
    assert follow(alone(store), own(start(job(), code="c" * 64))) == 3
    before, after = (lanes_of(store, number) for number in (1, 3))
    assert after["counted"].predecessors == (before["counted"].id,)
    assert not after["counted"].afresh
    assert {lane.state for lane in before.values()} == {LaneState.CLOSING}


def test_once_a_lane_has_begun_what_was_dropped_is_gone(store: Store) -> None:
    left_by_a_run(store)
    coordinator = alone(store)
    follow(coordinator, own(start(job("tallied"), code="b" * 64)), drop_state=("counted",))
    Seated(coordinator, 1).work()
    Seated(coordinator).work()
    assert follow(alone(store), own(start(job(), code="c" * 64)), drop_state=("tallied",)) == 3
    assert lanes_of(store, 3)["counted"].afresh


@pytest.mark.parametrize("again", [False, True])
def test_code_that_is_replaced_is_deleted_unless_another_job_is_about_to_use_it(store: Store, again: bool) -> None:
    for code in "ab":
        store.put_artifact(code * 64, b"code")
    left_by_a_run(store)
    if again:  # for a job in the same folder, whose deployment isn't stored yet
        store.put_artifact("a" * 64, b"code")
    assert alone(store).start(own(start(job(), code="b" * 64))) == 1
    assert [store.artifact(code * 64) is not None for code in "ab"] == [again, True]


def test_an_older_run_without_a_stored_program_is_refused_as_before(store: Store) -> None:
    coordinator = alone(store)
    coordinator.start(msgspec.structs.replace(start(job()), program=None))
    with pytest.raises(ConflictError, match="with the file as it was, which then stores its code"):
        alone(store).start(own(start(job(more=True))))


def test_a_container_finds_no_work_at_a_running_job(store: Store) -> None:
    coordinator = alone(store)
    coordinator.start(own(start(job())))
    with pytest.raises(ConflictError, match="needs no containers"):
        coordinator.running("j")
    assert coordinator.register(Registration(job="j", execution="e", host="h", pid=1, seat="0")).seat == "0"
