"""A coordinator that lets a job drain: in which order, when it can be taken back, and what begins after it."""

from __future__ import annotations

import re
import uuid
from typing import Any

import msgspec
import pytest
from starlette.testclient import TestClient

from anabranch.coordinator.api import server
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.jobs import draining as progress
from anabranch.coordinator.store import Store
from anabranch.errors import AnabranchError, ConflictError, UsageError
from anabranch.model.deployment_state import DeploymentState
from anabranch.model.lane import LaneState, Position
from anabranch.planning.transition import after_drain
from anabranch.protocol.commands import ScaleRequest
from anabranch.protocol.deployment import StartBasis
from anabranch.protocol.drain import DrainProgress
from anabranch.protocol.lane_report import LanePhase
from tests.support.reports import lane_report
from tests.unit.coordinator import helpers
from tests.unit.coordinator.drainer import (
    Drainer,
    lanes_of,
    running,
    said,
    sources,
    start,
)
from tests.unit.coordinator.helpers import Clock
from tests.unit.coordinator.workers import JOB


@pytest.fixture
def coordinator(store: Store) -> Coordinator:
    return Coordinator(store, Clock(), grace=5.0, first=lambda: 0)


def test_all_lanes_stop_at_one_place_and_stages_end_one_after_the_other(coordinator: Coordinator, store: Store) -> None:
    worker = running(coordinator)
    first, *_ = sources(store)
    worker.places = {first.id: 25}
    told = coordinator.drain(JOB, said())
    assert not told.ignored
    assert list(told.stages) == sorted({lane.stage for lane in lanes_of(store, 1)})
    assert coordinator.status(JOB).state == "draining"
    for _ in range(12):
        wanted = worker.turn()
        closed = {lane.id for lane in lanes_of(store, 1) if lane.state is LaneState.CLOSED}
        for one in wanted:
            assert one.upstream_ended is (set(one.lane.upstream) <= closed)
    status = coordinator.status(JOB)
    assert (status.state, status.drain, status.lanes) == ("drained", None, ())
    assert worker.seat.told.done
    left = {(str(p.ssp), p.offset) for lane in sources(store) for p in lane.final}
    assert {at for _, at in left} == {25}
    assert store.deployment(JOB).drain is None  # type: ignore[union-attr]
    events = [event.what for event in coordinator.events(JOB)]
    steps = ["running → draining", "the drain's end positions are set", "everything is taken in: event time ends"]
    assert [what for what in events if what in steps] == steps
    ended = [what.split()[1] for what in events if what.endswith(" ended")]
    stages = [store.lanes(JOB)[name].stage for name in ended]
    assert stages == sorted(stages)


def held_up(coordinator: Coordinator, store: Store) -> Drainer:
    """Of a job that drains, and of which one lane hears nothing yet."""
    worker = running(coordinator)
    worker.slow = {sources(store)[0].id}
    coordinator.drain(JOB, said())
    worker.turns(3)
    return worker


def test_time_ends_when_all_that_read_sources_are_there(coordinator: Coordinator, store: Store) -> None:
    worker = running(coordinator)
    slow = sources(store)[0].id
    worker.slow = {slow}
    coordinator.drain(JOB, said())
    worker.turns(5)
    drain = coordinator.status(JOB).drain
    assert drain is not None
    assert (drain.until, drain.last) == (None, False)
    worker.slow = set()
    worker.turn()
    worker.slow = {slow}  # it knows where to stop, and isn't there yet
    worker.turns(3)
    drain = coordinator.status(JOB).drain
    assert drain is not None
    assert drain.until
    worker.slow = set()
    worker.turns(12)
    assert coordinator.status(JOB).state == "drained"


def test_a_job_that_was_starting_starts_on_when_its_drain_is_cancelled(coordinator: Coordinator) -> None:
    coordinator.start(start())
    coordinator.drain(JOB, said())
    assert coordinator.status(JOB).state == "draining"
    coordinator.cancel(JOB)
    assert coordinator.status(JOB).state == "starting", "no container was ever there"
    Drainer(coordinator).turns()
    assert coordinator.status(JOB).state == "running"


def test_it_is_cancelled_until_time_ends(coordinator: Coordinator, store: Store) -> None:
    worker = held_up(coordinator, store)
    coordinator.cancel(JOB)
    assert coordinator.status(JOB).state == "running"
    assert all(one.draining is None for one in worker.turn())
    worker.turns(3)
    coordinator.drain(JOB, said())
    worker.slow = set()
    for _ in range(20):
        worker.turn()
        drain = coordinator.status(JOB).drain
        if drain is not None and drain.last:
            break
    with pytest.raises(ConflictError, match="incomplete windows have been emitted"):
        coordinator.cancel(JOB)
    worker.turns(12)
    assert coordinator.status(JOB).state == "drained"


def test_what_was_halted_for_a_drain_that_was_cancelled_doesn_t_count_for_another(
    coordinator: Coordinator, store: Store
) -> None:
    worker = held_up(coordinator, store)
    coordinator.cancel(JOB)
    coordinator.drain(JOB, said())
    worker.slow = {lane.id for lane in sources(store)}  # none has heard of the second one
    worker.turns(3)
    drain = coordinator.status(JOB).drain
    assert drain is not None
    assert drain.until is None


def test_twice_is_once_and_others_are_refused_meanwhile(coordinator: Coordinator) -> None:
    worker = running(coordinator)
    first = said()
    assert coordinator.drain(JOB, first).uuid == first.uuid
    assert coordinator.drain(JOB, said(mode="latest")).uuid == first.uuid
    with pytest.raises(ConflictError, match="draining"):
        coordinator.scale(JOB, ScaleRequest(factor=4))
    with pytest.raises(ConflictError, match="running already"):
        coordinator.start(start())
    worker.turns(12)
    assert coordinator.status(JOB).state == "drained"
    assert [event.what for event in coordinator.events(JOB)].count("running → draining") == 1


def test_a_notification_for_another_deployment_is_ignored(coordinator: Coordinator) -> None:
    worker = running(coordinator)
    told = coordinator.drain(JOB, said(7))
    assert told.ignored == "it is for deployment 7, and the job's is 1"
    worker.turns()
    assert coordinator.status(JOB).state == "running"


def test_a_malformed_one_is_refused(coordinator: Coordinator) -> None:
    running(coordinator)
    with pytest.raises(UsageError, match="uuid 'no'"):
        coordinator.drain(JOB, said(uuid="no"))
    assert coordinator.status(JOB).state == "running"


def test_before_containers_start_nothing_new_is_read(coordinator: Coordinator, store: Store) -> None:
    coordinator.start(start())
    coordinator.drain(JOB, said())
    assert coordinator.status(JOB).state == "draining"
    worker = Drainer(coordinator)
    worker.read = 0
    worker.turns(12)
    assert coordinator.status(JOB).state == "drained"
    assert {p.offset for lane in sources(store) for p in lane.final} == {0}


def test_it_goes_on_under_another_coordinator_and_container_and_after_a_stop(
    coordinator: Coordinator, store: Store
) -> None:
    worker = held_up(coordinator, store)
    other = Coordinator(store, Clock(), grace=5.0, first=lambda: 1000)
    assert other.adopt(JOB)
    assert other.status(JOB).state == "draining"
    other.stop(JOB)
    worker.seat.coordinator = other
    worker.slow = set()
    for _ in range(4):
        worker.seat.beat(*(r.changed(phase=LanePhase.ENDED, stopped=True) for r in worker.reports.values()))
    assert other.status(JOB).state == "stopped"
    other.resume(JOB)
    assert other.status(JOB).state == "draining"
    second = Drainer(other, pid=2)
    second.turns(12)
    assert other.status(JOB).state == "drained"


def test_a_lane_that_fails_ends_it_and_it_goes_on_when_the_job_is_started_again(
    coordinator: Coordinator, store: Store
) -> None:
    worker = running(coordinator)
    worker.slow = {sources(store)[0].id}
    worker.fails = lambda lane: lane.id in worker.slow
    coordinator.drain(JOB, said())
    worker.turns(3)
    assert coordinator.status(JOB).state in ("stopping", "failed")


def drained(coordinator: Coordinator) -> None:
    worker = running(coordinator)
    coordinator.drain(JOB, said())
    worker.turns(12)
    assert coordinator.status(JOB).state == "drained"


@pytest.mark.parametrize("again", ["start", "resume"])
def test_another_deployment_begins_where_all_was_taken_in(coordinator: Coordinator, store: Store, again: str) -> None:
    drained(coordinator)
    number = coordinator.start(start()) if again == "start" else coordinator.resume(JOB)
    assert number == 2
    new, old = lanes_of(store, 2), lanes_of(store, 1)
    assert len(new) == len(old)
    assert not {lane.id for lane in new} & {lane.id for lane in old}
    for lane in new:
        assert lane.start_is_known
        assert not lane.predecessors
        assert set(lane.upstream) <= {each.id for each in new}
        assert {p.offset for p in lane.starting} == {40 if lane.upstream else 10}
        assert lane.drained is not None
        if lane.upstream:
            assert {each.id for each in old if each.outputs.keys() & {s.stream for s in lane.ssps}} == set(
                lane.drained.writers
            )
    worker = Drainer(coordinator, pid=9)
    worker.turns()
    assert coordinator.status(JOB).state == "running"
    assert coordinator.drain(JOB, said(1)).ignored
    coordinator.drain(JOB, said(2))
    worker.turns(12)
    assert coordinator.status(JOB).state == "drained"


@pytest.mark.parametrize(
    ("expect", "refused"),
    [
        (None, ""),  # from an older client
        (StartBasis(deployment=1, over=DeploymentState.DRAINED), ""),
        (StartBasis(deployment=1), "deployment 1"),
        (StartBasis(deployment=1, over=DeploymentState.RESET), "deployment 1 (reset)"),
        (StartBasis(deployment=2), "deployment 2"),
        (StartBasis(), "a new job"),
    ],
)
def test_a_start_that_was_planned_before_the_job_drained_is_refused(
    coordinator: Coordinator, expect: StartBasis | None, refused: str
) -> None:
    """Its plan would give the next deployment the factor of the settings."""
    drained(coordinator)
    request = msgspec.structs.replace(start(), expect=expect)
    if refused:
        why = f"was planned for {refused}, and the job is deployment 1 (drained) now"
        with pytest.raises(ConflictError, match=re.escape(why)):
            coordinator.start(request)
    else:
        coordinator.start(request)
    assert coordinator.status(JOB).deployment == (1 if refused else 2)


def test_running_aggregates_keep_their_state_unless_it_is_reset(coordinator: Coordinator, store: Store) -> None:
    drained(coordinator)
    coordinator.start(start())
    old = {lane.group: lane for lane in lanes_of(store, 1)}
    stateful = [lane for lane in lanes_of(store, 2) if lane.stateful]
    assert stateful
    graph = store.graph(JOB, 1)
    for lane in stateful:
        former = old[lane.group]
        kept = after_drain.keeps_state(graph, lane.group)
        assert lane.drained is not None
        assert lane.drained.state == (former.id if kept else "")
        assert lane.first_batch == (former.last_batch + 1 if kept else 0)
    other = Store("sqlite://")
    again = Coordinator(other, Clock(), grace=5.0, first=lambda: 0)
    drained(again)
    again.start(msgspec.structs.replace(start(), reset_state=True))
    for lane in lanes_of(other, 2):
        assert lane.drained is not None
        assert (lane.drained.state, lane.first_batch) == ("", 0)


def test_state_of_another_kind_is_not_taken_over(coordinator: Coordinator) -> None:
    drained(coordinator)
    told = r"can't keep the state that its drain left: the state of agg 'counted' .* differs in its aggregates"
    with pytest.raises(ConflictError, match=told):
        coordinator.start(start("max(n)"))
    assert coordinator.status(JOB).state == "drained"
    assert coordinator.start(msgspec.structs.replace(start("max(n)"), reset_state=True)) == 2


def test_lanes_that_ended_at_several_places_are_a_fault(coordinator: Coordinator, store: Store) -> None:
    drained(coordinator)
    lanes = store.lanes(JOB)
    first = next(lane for lane in lanes.values() if not lane.upstream)
    moved = tuple(msgspec.structs.replace(p, offset=p.offset + 1) for p in first.final)
    twin = msgspec.structs.replace(first, id="twin", final=moved)
    with pytest.raises(AnabranchError, match="at different offsets"):
        after_drain.positions([*lanes.values(), twin], store.graph(JOB, 1))


def test_all_lanes_are_closed(coordinator: Coordinator, store: Store) -> None:
    drained(coordinator)
    assert {lane.state for lane in lanes_of(store, 1)} == {LaneState.CLOSED}


@pytest.mark.parametrize(
    "begins",
    [
        (Position(ssp=helpers.FLIGHTS, offset=10, parts={"1": 50}),),
        (
            Position(ssp=msgspec.structs.replace(helpers.FLIGHTS, key_bucket=0), offset=50),
            Position(ssp=msgspec.structs.replace(helpers.FLIGHTS, key_bucket=1), offset=10),
        ),
    ],
)
def test_nothing_that_lanes_before_have_taken_in_is_taken_in_again(begins: tuple[Position, ...]) -> None:
    """Lanes that became one were not equally far, and it drains before it is where the furthest was."""
    ssp = helpers.FLIGHTS
    merged = helpers.lane("0-a", starting=begins, predecessors=("0-b", "0-c"))
    drain = DrainProgress(notification=said())
    told = {"0-a": lane_report("0-a", LanePhase.RUNNING, positions={str(ssp): 12}, halted=drain.notification.uuid)}
    following = progress.following(drain, [merged], told)
    assert following is not None
    assert following.until == {str(ssp): 50}


def test_over_http(coordinator: Coordinator) -> None:
    running(coordinator)
    asked = TestClient(server.app(coordinator), raise_server_exceptions=False)
    wrong: list[Any] = [
        {},
        {"uuid": str(uuid.uuid4())},
        {"runId": 1},
        {"uuid": 7, "runId": 1},
        {"uuid": "seven", "runId": 1},
        {"uuid": str(uuid.uuid4()), "runId": "1"},
        {"uuid": str(uuid.uuid4()), "runId": 1, "mode": "earliest"},
        [],
    ]
    for each in wrong:
        answer = asked.post(f"/jobs/{JOB}/drain", json=each)
        assert answer.status_code == 400, (each, answer.text)
    assert asked.get(f"/jobs/{JOB}").json()["drain"] is None
    answer = asked.post(f"/jobs/{JOB}/drain", json={"uuid": str(uuid.uuid4()), "runId": 1})
    assert answer.status_code == 200
    assert answer.json()["ignored"] == ""
    assert asked.get(f"/jobs/{JOB}").json()["state"] == "draining"
    for verb in ("scale", "rewind"):
        wish = {"factor": 2} if verb == "scale" else {"to": "earliest"} if verb == "rewind" else {}
        answer = asked.post(f"/jobs/{JOB}/{verb}", json=wish)
        assert answer.status_code == 409, (verb, answer.text)
    assert asked.post(f"/jobs/{JOB}/cancel").status_code == 200
    assert asked.get(f"/jobs/{JOB}").json()["state"] == "running"


def test_lanes_that_have_caught_up_drain_too(coordinator: Coordinator, store: Store) -> None:
    coordinator.start(msgspec.structs.replace(start(), until_caught_up=True))
    worker = Drainer(coordinator)
    worker.turns()
    first = sources(store)[0]
    worker.seat.beat(
        *(
            msgspec.structs.replace(told, phase=LanePhase.ENDED if name == first.id else "running")
            for name, told in worker.reports.items()
        )
    )
    assert first.id not in {one.lane.id for one in worker.seat.beat().wanted}
    worker.reports.pop(first.id)
    coordinator.drain(JOB, said())
    assert first.id in {one.lane.id for one in worker.turn()}
    worker.turns(12)
    assert coordinator.status(JOB).state == "drained"
