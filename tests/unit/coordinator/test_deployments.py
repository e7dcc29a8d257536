"""One deployment follows another: who closes what, who gets which seat, and how a coordinator goes on with it."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from itertools import count
from typing import Any

import msgspec
import pytest

from anabranch import Job
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.store import Store
from anabranch.errors import ConflictError, NotFoundError, UsageError
from anabranch.model.lane import Lane, LaneState
from anabranch.model.ssp import wholes
from anabranch.planning import plan as planning
from anabranch.protocol.container import Heartbeat, HeartbeatResponse, Registration
from anabranch.protocol.deployment import DeployRequest, DeployResult, Program, RollbackRequest, StartRequest
from anabranch.protocol.drain import DrainNotification
from anabranch.protocol.lane_report import LanePhase, LaneReport
from anabranch.protocol.status import LaunchStatus
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


def start(made: Job, containers: int = 1, code: str = "a" * 64) -> StartRequest:
    found = planning.make(made.graph, around(containers=containers, **{"in": 2}))
    told = version(made, containers=str(containers))
    program = Program(artifact=code, file="j.py", settings={}, schemas=dict(told.schemas))
    lanes = planning.lanes_of(found, 4, lambda: f"{next(IDS):08x}")
    return StartRequest(
        graph=made.graph, model=found.model, lanes=lanes, fingerprint=dict(told.fingerprint), program=program
    )


class Process:
    """A container made of calls: it runs what it is told, and closes what it is told to."""

    def __init__(
        self, coordinator: Coordinator, deployment: int = 0, pid: int | None = None, warm: bool = True
    ) -> None:
        self.pid = next(IDS) if pid is None else pid
        me = f"e{self.pid}"
        self.registration = Registration(
            job="j", execution=me, host="h", pid=self.pid, instance=str(self.pid), deployment=deployment, warm=warm
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
                self.reports[lane.id] = LaneReport(
                    lane=lane.id,
                    phase=phase,
                    positions=at if phase != "starting" else {},
                    folder_epoch=lane.folder_epoch or epoch,
                    begun=phase == "running" or (lane.id in self.reports and self.reports[lane.id].begun),
                    batch=3,
                )
        return self.beat()

    def leave(self) -> None:
        assert self.beat(leaving=True).done

    def fail(self, lane: str) -> None:
        self.reports[lane] = LaneReport(lane=lane, phase=LanePhase.FAILED, error="it can't start")
        self.beat()


def coordinator_on(store: Store, clock: Clock | None = None) -> Coordinator:
    revisions = count(1_000_000, 1_000_000)
    return Coordinator(
        store, clock or Clock(), grace=1.0, first=lambda: next(revisions), counting=lambda *_: {"embedded/in": 2}
    )


def lanes_of(store: Store, deployment: int) -> dict[str, Lane]:
    return {lane.group: lane for lane in store.lanes("j").values() if lane.deployment == deployment}


def running(store: Store, containers: int = 1) -> tuple[Coordinator, list[Process]]:
    coordinator = coordinator_on(store)
    coordinator.start(start(job(), containers))
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


def test_a_version_follows_in_other_processes(store: Store) -> None:
    coordinator, (old,) = running(store)
    told = deploy(coordinator, job(more=True))
    assert (told.deployment, told.version_of, len(told.closing), len(told.lanes)) == (2, 2, 2, 2)
    assert coordinator.status("j").state == "changing"
    assert coordinator.running("j").deployment == 2
    assert all(each.closing for each in old.beat().wanted)
    assert not old.answer.coming  # its code knows nothing of them
    new = relieved(old, 2)
    assert {each.lane.deployment for each in new.work().wanted} == {2}
    status = coordinator.status("j")
    assert (status.state, status.deployment, status.generation) == ("running", 2, 1)
    assert [each.deployment for each in status.containers if each.gone is None] == [2]
    after = lanes_of(store, 2)
    assert (after["counted"].first_batch, after["counted"].watermark) == (4, None)
    assert {position.offset for lane in after.values() for position in lane.starting} == {7}
    assert {lane.state for lane in lanes_of(store, 1).values()} == {LaneState.CLOSED}
    deployments = [store.deployment("j", number) for number in (1, 2)]
    assert [each and each.state for each in deployments] == ["stopped", "running"]


def test_the_program_is_that_of_the_lanes_which_are_to_be_closed(store: Store) -> None:
    """If the process dies that should close them, the next one gets its code."""
    clock = Clock()
    coordinator = coordinator_on(store, clock)
    coordinator.start(start(job()))
    old = Process(coordinator, 1)
    old.work()
    deploy(coordinator, job(more=True))
    clock.at += 100
    coordinator.tick()
    early = Process(coordinator, 1)
    assert (early.seat, early.me.done) == (None, False)
    for fence in coordinator.fences():
        coordinator.fenced(fence.lane)
    assert coordinator.running("j").deployment == 1
    assert Process(coordinator, 2).me.done  # else it might be the one process that somebody lets run
    again = Process(coordinator, 1)
    assert again.seat == "0"
    assert coordinator.running("j").deployment == 2
    again.work()
    new = Process(coordinator, 2)
    again.leave()
    assert new.ask() == "0"
    new.work()
    assert coordinator.status("j").state == "running"


def test_a_process_with_code_that_nobody_needs_is_sent_away(store: Store) -> None:
    coordinator, (old,) = running(store)
    warm = Process(coordinator, 1)
    assert (warm.seat, warm.me.done) == (None, False)
    deploy(coordinator, job(more=True))
    assert warm.ask() is None
    assert warm.me.done
    relieved(old, 2).work()
    late = Process(coordinator, 1)
    assert late.me.done


def test_nothing_ends_before_a_container_with_the_new_code_is_warm(store: Store) -> None:
    coordinator, (old,) = running(store)
    coordinator.launched("j", LaunchStatus(wanted=1, running=1, logs="logs"), [])
    deploy(coordinator, job(more=True))
    new = Process(coordinator, 2, warm=False)
    assert not any(each.closing for each in old.beat().wanted)
    new.registration = msgspec.structs.replace(new.registration, warm=True)
    assert new.ask() is None
    assert all(each.closing for each in old.beat().wanted)


def test_seats_are_given_one_by_one(store: Store) -> None:
    coordinator, (first, second) = running(store, containers=2)
    deploy(coordinator, job(more=True), containers=2)
    new = relieved(first, 2)
    assert {each.lane.seat for each in new.work().wanted} == {first.seat}
    assert coordinator.status("j").state == "changing"
    other = relieved(second, 2)
    for process in (new, other, new):
        process.work()
    assert coordinator.status("j").state == "running"


def test_with_a_launcher_nothing_ends_before_the_next_ones_are_there(store: Store) -> None:
    from anabranch.protocol.status import LaunchStatus

    coordinator, (old,) = running(store)
    coordinator.launched("j", LaunchStatus(wanted=1, running=1), [])
    deploy(coordinator, job(more=True))
    (demand,) = coordinator.demands([])
    assert demand.wanted == 2
    assert not any(each.closing for each in old.beat().wanted)
    new = Process(coordinator, 2)
    assert all(each.closing for each in old.beat().wanted)
    old.work()
    old.leave()
    assert new.ask() == "0"
    new.work()
    (demand,) = coordinator.demands([])
    assert (demand.wanted, coordinator.status("j").state) == (1, "running")


def test_a_rollback_deploys_the_version_before(store: Store) -> None:
    coordinator, (old,) = running(store)
    deploy(coordinator, job(more=True))
    new = relieved(old, 2)
    new.work()
    told = coordinator.rollback("j", RollbackRequest())
    assert (told.deployment, told.version_of) == (3, 1)
    assert "below is written no more" in told.notes
    back = relieved(new, 3)
    back.work()
    assert coordinator.status("j").state == "running"
    assert coordinator.running("j").program.artifact == "a" * 64
    assert store.graph("j", 3) == store.graph("j", 1)
    with pytest.raises(ConflictError, match="no version before this one"):
        coordinator.rollback("j", RollbackRequest())
    deploy(coordinator, job(more=True))
    relieved(back, 4).work()
    assert coordinator.rollback("j", RollbackRequest(dry=True)).version_of == 1


def test_a_rollback_goes_by_the_same_check(store: Store) -> None:
    coordinator, (old,) = running(store)
    deploy(coordinator, job(state="other"), drop_state=("counted",))
    relieved(old, 2).work()
    with pytest.raises(ConflictError, match="was 'other', and the state hangs on that name"):
        coordinator.rollback("j", RollbackRequest())
    told = coordinator.rollback("j", RollbackRequest(drop_state=("other",)))
    assert "counted begins without state, at the present positions" in told.notes


def test_what_cannot_follow_is_refused_and_nothing_happens(store: Store) -> None:
    coordinator, _ = running(store)
    before = store.events("j", 100)
    with pytest.raises(ConflictError, match="the state of agg 'counted'"):
        deploy(coordinator, job(size="max(n)"))
    with pytest.raises(UsageError, match="is of job 'j', not 'k'"):
        coordinator.deploy("k", DeployRequest(start=start(job())))
    with pytest.raises(NotFoundError):
        coordinator.rollback("nobody", RollbackRequest())
    assert deploy(coordinator, job(more=True), dry=True).deployment == 2
    assert store.events("j", 100) == before
    assert coordinator.status("j").deployment == 1


def test_the_same_request_twice_is_one_deployment(store: Store) -> None:
    coordinator, _ = running(store)
    assert deploy(coordinator, job(more=True), request="r").deployment == 2
    assert deploy(coordinator, job(more=True), request="r") == DeployResult(deployment=2, version_of=2)
    with pytest.raises(ConflictError, match="is changing"):
        deploy(coordinator, job(more=True), request="s")


def test_it_can_be_cancelled_until_a_new_lane_has_begun(store: Store) -> None:
    coordinator, (old,) = running(store)
    deploy(coordinator, job(more=True))
    coordinator.cancel("j")
    status = coordinator.status("j")
    assert (status.state, status.deployment) == ("changing", 3)
    with pytest.raises(ConflictError, match="goes back already"):
        coordinator.cancel("j")
    old.work()
    assert {lane.state for lane in lanes_of(store, 2).values()} == {LaneState.CLOSED}  # nobody was ever told of them
    back = Process(coordinator, 3)
    old.leave()
    assert back.ask() == "0"
    back.work()
    assert coordinator.status("j").state == "running"
    assert coordinator.running("j").program.artifact == "a" * 64
    after = lanes_of(store, 3)
    assert (after["counted"].first_batch, {p.offset for p in after["counted"].starting}) == (4, {7})


def test_it_can_be_cancelled_while_new_lanes_start_but_no_longer(store: Store) -> None:
    coordinator, (old,) = running(store)
    deploy(coordinator, job(more=True))
    new = relieved(old, 2)
    new.work(begin=False)
    coordinator.cancel("j")
    back = relieved(new, 3)
    back.work()
    assert coordinator.status("j").state == "running"
    deploy(coordinator, job(more=True))
    other = relieved(back, 4)
    for each in other.beat().wanted:
        other.reports[each.lane.id] = LaneReport(
            lane=each.lane.id, phase=LanePhase.STARTING, folder_epoch=other.me.epoch
        )
    other.beat()
    first = other.answer.wanted[0].lane
    other.reports[first.id] = LaneReport(
        lane=first.id, phase=LanePhase.STARTING, folder_epoch=other.me.epoch, begun=True
    )
    other.beat()
    with pytest.raises(ConflictError, match="has begun with the code of deployment 4"):
        coordinator.cancel("j")


def test_a_lane_that_cannot_start_takes_it_back(store: Store) -> None:
    coordinator, (old,) = running(store)
    deploy(coordinator, job(more=True))
    new = relieved(old, 2)
    new.beat()
    new.fail(lanes_of(store, 2)["counted"].id)
    status = coordinator.status("j")
    assert (status.state, status.deployment) == ("changing", 3)
    assert any("it can't start" in event.why for event in store.events("j", 100))
    relieved(new, 3).work()
    assert coordinator.status("j").state == "running"
    assert {position.offset for position in lanes_of(store, 3)["counted"].starting} == {7}


def test_dropped_state_is_there_again_after_a_cancel(store: Store) -> None:
    coordinator, (old,) = running(store)
    deploy(coordinator, job(state="other"), drop_state=("counted",))
    coordinator.cancel("j")
    old.work()
    old.leave()
    Process(coordinator, 3).work()
    assert coordinator.status("j").state == "running"
    counted = lanes_of(store, 3)["counted"]
    assert (counted.predecessors, counted.afresh) == ((lanes_of(store, 1)["counted"].id,), False)


def test_a_job_at_rest_is_started_with_the_version(store: Store) -> None:
    coordinator, (old,) = running(store)
    coordinator.stop("j")
    old.reports = {name: msgspec.structs.replace(each, phase=LanePhase.ENDED) for name, each in old.reports.items()}
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
    halted = {name: msgspec.structs.replace(each, halted=said.uuid) for name, each in old.reports.items()}
    old.reports = halted
    old.beat()
    drain = coordinator.status("j").drain
    assert drain is not None
    assert drain.last
    first = next(iter(old.reports))
    old.reports[first] = msgspec.structs.replace(old.reports[first], phase=LanePhase.ENDED, drained=True)
    old.beat()
    coordinator.stop("j")
    old.reports = {name: msgspec.structs.replace(each, phase=LanePhase.ENDED) for name, each in old.reports.items()}
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
    old.reports = {name: msgspec.structs.replace(each, phase=LanePhase.ENDED) for name, each in old.reports.items()}
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
        name: msgspec.structs.replace(each, phase=LanePhase.ENDED, pending=True)
        for name, each in process.reports.items()
    }
    process.beat()
    assert coordinator.status("j").state == "stopped"
    assert {lane.state for lane in store.lanes("j").values()} == {LaneState.PLANNED}
