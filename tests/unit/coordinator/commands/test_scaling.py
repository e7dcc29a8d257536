"""A coordinator that changes a job: what is closed, what follows, and what happens when that goes wrong."""

from __future__ import annotations

import msgspec
import pytest

from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.store import Store
from anabranch.errors import AnabranchError, ConflictError
from anabranch.metrics import exposition
from anabranch.model.lane import LaneState
from anabranch.protocol.commands import ScaleRequest
from anabranch.protocol.lane_report import LanePhase
from tests.support.reports import lane_report
from tests.unit.coordinator.helpers import Clock
from tests.unit.coordinator.programs import PROGRAM
from tests.unit.coordinator.workers import JOB, Worker, lose, open_lanes, running, start


@pytest.fixture
def coordinator(store: Store, clock: Clock) -> Coordinator:
    return Coordinator(store, clock=clock, lease=10, grace=2)


def test_a_container_hears_of_coming_lanes_until_they_are_wanted(coordinator: Coordinator) -> None:
    worker = running(coordinator)
    worker.closes = False
    assert worker.seat.beat(*worker.reports.values()).coming == ()
    told = coordinator.scale(JOB, ScaleRequest(factor=4))
    answer = worker.seat.beat(*worker.reports.values())
    assert {each.id for each in answer.coming} == {each.id for each in told.lanes}
    assert {(each.epoch, each.start_is_known) for each in answer.coming} == {(1, False)}
    assert {one.closing for one in answer.wanted} == {True}
    worker.closes = True
    worker.turns(1)
    answer = worker.seat.beat(*worker.reports.values())
    assert (answer.coming, {one.lane.id for one in answer.wanted}) == ((), {each.id for each in told.lanes})


def test_lanes_are_closed_and_others_go_on_from_them(coordinator: Coordinator, store: Store) -> None:
    worker = running(coordinator)
    worker.read = 5
    before = {lane.id for lane in open_lanes(coordinator)}
    told = coordinator.scale(JOB, ScaleRequest(factor=4))
    assert (told.generation, told.factor, {lane.id for lane in told.closing}) == (2, 4, before)
    status = coordinator.status(JOB)
    assert (status.state, status.factor, status.generation) == ("changing", 4, 2)
    assert {one.closing for one in worker.turn()} == {True}
    opened = worker.turn()
    assert {one.lane.id for one in opened} == {lane.id for lane in told.lanes}
    for one in opened:
        assert {position.offset for position in one.lane.starting} == {5}
        assert one.lane.epoch == 1
    worker.turns()
    assert coordinator.status(JOB).state == "running"
    assert {lane.id for lane in open_lanes(coordinator)} == {lane.id for lane in told.lanes}
    status = coordinator.status(JOB)
    assert (status.tasks, status.consumption, status.rescale_seconds) == ({"0": 8}, {"0": 1.0}, 0.0)
    text = exposition([status], 0, True).decode()
    assert 'anabranch_tasks{job="j",stage="0"} 8.0' in text
    assert 'anabranch_rescale_seconds{job="j"} 0.0' in text
    stateful = next(lane for lane in open_lanes(coordinator) if lane.stateful)
    assert (stateful.first_batch, list(stateful.inherits.values())) == (8, [1])
    assert all(store.lanes(JOB)[name].state is LaneState.CLOSED for name in before)
    assert store.model(JOB, 1, 2).factor == 4


def test_said_twice_it_is_done_once(coordinator: Coordinator) -> None:
    worker = running(coordinator)
    coordinator.scale(JOB, ScaleRequest(factor=4, request="r"))
    assert coordinator.scale(JOB, ScaleRequest(factor=4)).lanes == ()
    assert coordinator.scale(JOB, ScaleRequest(factor=8, request="r")).lanes == ()
    with pytest.raises(ConflictError, match="is changing: only one that is running"):
        coordinator.scale(JOB, ScaleRequest(factor=8))
    worker.turns()
    assert coordinator.scale(JOB, ScaleRequest(factor=4)).generation == 2
    assert coordinator.scale(JOB, ScaleRequest(containers=1)).generation == 2


def test_what_was_cancelled_is_not_done_again(coordinator: Coordinator) -> None:
    worker = running(coordinator)
    coordinator.scale(JOB, ScaleRequest(factor=4, request="r"))
    coordinator.cancel(JOB)
    worker.turns(6)
    again = coordinator.scale(JOB, ScaleRequest(factor=4, request="r"))
    assert (again.generation, again.factor, again.lanes) == (3, 1, ())
    assert coordinator.status(JOB).state == "running"


def test_a_dry_run_changes_nothing(coordinator: Coordinator) -> None:
    running(coordinator)
    before = open_lanes(coordinator)
    told = coordinator.scale(JOB, ScaleRequest(factor=4, dry=True))
    assert (told.generation, len(told.lanes), len(told.closing)) == (2, 2, 2)
    assert (coordinator.status(JOB).state, open_lanes(coordinator)) == ("running", before)


@pytest.mark.parametrize(
    ("wish", "match"),
    [
        (ScaleRequest(factor=3), "factor 3"),
        (ScaleRequest(factor=2048), "factor 2048"),
        (ScaleRequest(containers=0), "can't have 0 containers"),
        (ScaleRequest(containers=-1), "can't have -1 containers"),
    ],
)
def test_what_cannot_be_is_refused(coordinator: Coordinator, wish: ScaleRequest, match: str) -> None:
    running(coordinator)
    with pytest.raises(AnabranchError, match=match):
        coordinator.scale(JOB, wish)
    assert coordinator.status(JOB).state == "running"


def test_a_job_in_real_time_keeps_its_containers(coordinator: Coordinator) -> None:
    program = msgspec.structs.replace(PROGRAM, settings={"job": {"trigger": "real-time"}})
    coordinator.start(msgspec.structs.replace(start(), program=program))
    Worker(coordinator).turns()
    with pytest.raises(ConflictError, match="runs in real time"):
        coordinator.scale(JOB, ScaleRequest(containers=2))
    assert coordinator.scale(JOB, ScaleRequest(factor=2)).generation == 2


def test_one_process_has_one_container(store: Store) -> None:
    alone = Coordinator(store)
    running(alone)
    with pytest.raises(ConflictError, match="one process with its coordinator"):
        alone.scale(JOB, ScaleRequest(containers=2))
    assert alone.scale(JOB, ScaleRequest(factor=2)).generation == 2


def test_a_job_with_a_failed_lane_is_not_changed(coordinator: Coordinator) -> None:
    worker = running(coordinator)
    broken = open_lanes(coordinator)[0].id
    worker.fails = lambda lane: lane.id == broken
    worker.turns()
    with pytest.raises(ConflictError, match=f"lane {broken} of job 'j' has failed"):
        coordinator.scale(JOB, ScaleRequest(factor=2))


def test_lanes_that_have_ended_are_closed_at_once(coordinator: Coordinator, store: Store) -> None:
    coordinator.start(msgspec.structs.replace(start(), until_caught_up=True))
    worker = Worker(coordinator)
    worker.turns()
    over = next(lane for lane in open_lanes(coordinator) if lane.stateful).id
    worker.seat.beat(worker.reports[over].changed(phase=LanePhase.ENDED))
    coordinator.scale(JOB, ScaleRequest(factor=2))
    assert store.lanes(JOB)[over].state is LaneState.CLOSED
    del worker.reports[over]
    worker.turns()
    assert {lane.factor for lane in open_lanes(coordinator)} == {2}
    assert coordinator.status(JOB).state == "running"


def test_more_containers_and_fewer(coordinator: Coordinator) -> None:
    first = running(coordinator)
    first.read = 3
    coordinator.scale(JOB, ScaleRequest(containers=2))
    first.turns()
    assert coordinator.status(JOB).state == "changing"
    second = Worker(coordinator, "1", pid=2)
    second.read = 9
    for _ in range(3):
        first.turn()
        second.turn()
    assert coordinator.status(JOB).state == "running"
    assert {lane.seat for lane in open_lanes(coordinator)} == {"0", "1"}
    assert coordinator.status(JOB).consumption == {"0": 1.0}
    coordinator.scale(JOB, ScaleRequest(containers=1))
    for _ in range(4):
        first.turn()
        answer = second.seat.beat(*second.reports.values())
        for one in answer.wanted:
            second.do(one)
    assert answer.done
    lanes = open_lanes(coordinator)
    assert {lane.seat for lane in lanes} == {"0"}
    assert sum(lane.stateful for lane in lanes) == 2
    whole = next(lane for lane in lanes if not lane.stateful)
    assert {str(position.ssp): position.offset for position in whole.starting} == {
        "embedded/in/0": 3,
        "embedded/in/1": 9,
    }
    assert coordinator.status(JOB).state == "running"


def test_what_a_seat_leaves_that_is_no_more_is_closed_by_another(coordinator: Coordinator, clock: Clock) -> None:
    coordinator.start(start(containers=2))
    first, second = Worker(coordinator), Worker(coordinator, "1", pid=2)
    for _ in range(3):
        first.turn()
        second.turn()
    assert coordinator.status(JOB).state == "running"
    coordinator.scale(JOB, ScaleRequest(containers=1))
    for _ in range(7):
        clock.at += 2
        first.turn()
        coordinator.tick()
    fences = coordinator.fences()
    assert {fence.lane.seat for fence in fences} == {"1"}
    for fence in fences:
        coordinator.fenced(fence.lane)
    taken = [one for one in first.turn() if one.closing]
    assert {one.lane.id for one in taken} == {fence.lane.id for fence in fences}
    assert all(one.lane.epoch > fence.lane.epoch for one, fence in zip(taken, fences, strict=True))
    assert all(one.lane.abandoned for one in taken)
    first.turns()
    assert coordinator.status(JOB).state == "running"


def test_a_change_is_cancelled(coordinator: Coordinator) -> None:
    worker = running(coordinator)
    worker.closes, worker.read = False, 4
    coordinator.scale(JOB, ScaleRequest(factor=4))
    worker.turn()
    coordinator.cancel(JOB)
    with pytest.raises(ConflictError, match="is already going back, from generation 2"):
        coordinator.cancel(JOB)
    worker.closes = True
    worker.turns(6)
    status = coordinator.status(JOB)
    assert (status.state, status.factor, status.generation) == ("running", 1, 3)
    assert {lane.factor for lane in open_lanes(coordinator)} == {1}
    assert {p.offset for lane in open_lanes(coordinator) for p in lane.starting} == {4}
    with pytest.raises(ConflictError, match="no change to cancel"):
        coordinator.cancel(JOB)


def test_a_change_whose_lane_cannot_start_is_undone(coordinator: Coordinator, store: Store) -> None:
    worker = running(coordinator)
    worker.read = 4
    worker.fails = lambda lane: lane.factor == 4 and lane.stateful
    coordinator.scale(JOB, ScaleRequest(factor=4))
    worker.turns(8)
    status = coordinator.status(JOB)
    assert (status.state, status.factor, status.generation) == ("running", 1, 3)
    stateful = next(lane for lane in open_lanes(coordinator) if lane.stateful)
    lanes = store.lanes(JOB)
    (void,) = stateful.predecessors
    assert (lanes[void].state, lanes[void].folder_epoch) == (LaneState.CLOSED, 0)
    assert stateful.inherits == {lanes[void].predecessors[0]: 1}
    assert (stateful.first_batch, {p.offset for p in stateful.starting}) == (8, {4})
    assert "can't start" in next(event.why for event in coordinator.events(JOB) if "cancelled" in event.why)


def test_a_lane_that_could_not_start_is_followed_even_if_all_of_it_stays_where_it_is(coordinator: Coordinator) -> None:
    worker = running(coordinator)
    told = coordinator.scale(JOB, ScaleRequest(containers=2))
    new = {lane.id for lane in told.lanes}
    worker.fails = lambda lane: lane.stateful and lane.id in new
    worker.turns(10)
    status = coordinator.status(JOB)
    assert (status.state, status.generation) == ("running", 3)
    read = sorted(str(ssp) for lane in open_lanes(coordinator) if lane.stateful for ssp in lane.ssps)
    assert read == ["embedded/in/0", "embedded/in/1"]


@pytest.mark.parametrize("told", [False, True])
def test_a_lane_that_may_have_written_is_not_undone(coordinator: Coordinator, clock: Clock, told: bool) -> None:
    worker = running(coordinator)
    coordinator.scale(JOB, ScaleRequest(factor=4))
    while not any(lane.folder_epoch for lane in open_lanes(coordinator) if lane.predecessors):
        worker.seat.beat(
            *(
                lane_report(
                    lane=one.lane.id,
                    phase=LanePhase.ENDED if one.closing else "starting",
                    folder_epoch=1,
                    positions=worker.reports[one.lane.id].progress.positions if one.closing else {},
                    begun=told and not one.closing,
                )
                for one in worker.seat.beat().wanted
            )
        )
    if not told:
        worker = lose(coordinator, clock)
    worker.fails = lambda lane: bool(lane.predecessors)
    worker.turns()
    status = coordinator.status(JOB)
    assert {each.lane.state for each in status.lanes} == {LaneState.FAILED}
    assert status.generation == 2


def test_a_lane_that_cannot_start_fails_after_the_change_was_cancelled(coordinator: Coordinator) -> None:
    worker = running(coordinator)
    worker.read = 4
    coordinator.scale(JOB, ScaleRequest(factor=4))
    worker.turn()
    worker.turn()
    coordinator.cancel(JOB)
    worker.closes = False
    worker.fails = lambda lane: lane.factor == 4 and lane.stateful
    worker.reports = {}
    worker.turns(2)
    worker.closes = True
    worker.turns(6)
    status = coordinator.status(JOB)
    assert (status.state, status.factor, status.generation) == ("running", 1, 3)
    assert {p.offset for lane in open_lanes(coordinator) for p in lane.starting} == {4}


def test_it_is_not_undone_for_ever(coordinator: Coordinator) -> None:
    worker = running(coordinator)
    worker.fails = lambda lane: bool(lane.predecessors) and lane.stateful
    coordinator.scale(JOB, ScaleRequest(factor=4))
    worker.turns(10)
    assert coordinator.status(JOB).generation == 3
    assert LaneState.FAILED in {lane.state for lane in open_lanes(coordinator)}


@pytest.mark.parametrize("after", range(6))
def test_a_coordinator_that_takes_over_goes_on(store: Store, clock: Clock, after: int) -> None:
    first = Coordinator(store, clock=clock, lease=10, grace=2)
    worker = running(first)
    worker.read = 5
    first.scale(JOB, ScaleRequest(factor=2))
    worker.turns(after)
    second = Coordinator(store, clock=clock, lease=10, grace=2)
    assert second.adopt(JOB)
    worker.seat.coordinator = second
    worker.turns(6)
    status = second.status(JOB)
    assert (status.state, status.factor) == ("running", 2)
    assert {p.offset for each in status.lanes for p in each.lane.starting} == {5}


def test_a_job_that_is_stopped_in_a_change_goes_on_with_it(coordinator: Coordinator, clock: Clock) -> None:
    worker = running(coordinator)
    worker.closes, worker.read = False, 5
    coordinator.scale(JOB, ScaleRequest(factor=2))
    worker.turn()
    coordinator.stop(JOB)
    ended = [
        lane_report(name, LanePhase.ENDED, positions=told.progress.positions, batch=7, folder_epoch=1, pending=True)
        for name, told in worker.reports.items()
    ]
    worker.seat.beat(*ended)
    assert coordinator.status(JOB).state == "stopped"
    assert coordinator.resume(JOB) == 1
    clock.at += 20
    coordinator.tick()
    again = Worker(coordinator, pid=2)
    again.read = 6
    assert {one.closing for one in again.turn()} == {True}
    again.turns()
    status = coordinator.status(JOB)
    assert (status.state, status.factor) == ("running", 2)
    assert {p.offset for each in status.lanes for p in each.lane.starting} == {6}
