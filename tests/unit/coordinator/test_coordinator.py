"""The life of a deployment: its states by table; what users and containers are told, both ways."""

from __future__ import annotations

import msgspec
import pytest

from anabranch.coordinator.api.client import Client
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.jobs.states import LaneView, Snapshot, Transition, step
from anabranch.coordinator.store import Store, stored_jobs
from anabranch.errors import (
    ConflictError,
    NotFoundError,
    UsageError,
)
from anabranch.model.deployment_state import DeploymentState
from anabranch.model.lane import LaneState, Position
from anabranch.protocol.container import Heartbeat
from tests.unit.coordinator.asked import asked, coordinator, states
from tests.unit.coordinator.helpers import FIRST, FLIGHTS, SECOND, Clock, Seat, lane, plan, report, wanted

__all__ = ["asked", "coordinator"]  # fixtures

S = DeploymentState
IDLE, RUNS, ENDED = LaneView(id="a"), LaneView(id="a", running=True, held=True), LaneView(id="a", ended=True)
OFFERED, BROKEN = LaneView(id="a", held=True), LaneView(id="a", error="lane a: boom")
STARVED = LaneView(id="a", running=True, held=True, starved=True)


@pytest.mark.parametrize(
    ("state", "lanes", "given", "to", "error"),
    [
        (S.PLANNED, (IDLE,), {}, None, None),
        (S.PLANNED, (IDLE,), {"start_wanted": True}, S.STARTING, None),
        (S.STARTING, (IDLE, RUNS), {}, None, None),
        (S.STARTING, (RUNS, RUNS), {}, S.RUNNING, None),
        (S.STARTING, (ENDED, RUNS), {}, None, None),
        (S.STARTING, (ENDED, RUNS), {"until_caught_up": True}, S.RUNNING, None),
        (S.STARTING, (IDLE,), {"stop_wanted": True}, S.STOPPING, None),
        (S.STARTING, (RUNS, BROKEN), {}, S.RUNNING, None),
        (S.STARTING, (IDLE, BROKEN), {}, None, None),
        (S.STARTING, (BROKEN, BROKEN), {}, S.STOPPING, "lane a: boom"),
        (S.STARTING, (IDLE,), {"start_wanted": True}, S.STARTING, None),
        (S.RUNNING, (RUNS, RUNS), {}, None, None),
        (S.RUNNING, (ENDED, ENDED), {}, None, None),
        (S.RUNNING, (RUNS, ENDED), {"until_caught_up": True}, None, None),
        (S.RUNNING, (ENDED, ENDED), {"until_caught_up": True}, S.STOPPING, None),
        (S.RUNNING, (RUNS,), {"stop_wanted": True}, S.STOPPING, None),
        (S.RUNNING, (RUNS, BROKEN), {}, None, None),
        (S.RUNNING, (ENDED, BROKEN), {}, None, None),
        (S.RUNNING, (BROKEN, BROKEN), {}, S.STOPPING, "lane a: boom"),
        (S.RUNNING, (ENDED, STARVED, BROKEN), {"until_caught_up": True}, S.STOPPING, "lane a: boom"),
        (S.RUNNING, (RUNS, STARVED, BROKEN), {"until_caught_up": True}, None, None),
        (S.RUNNING, (RUNS, BROKEN), {"stop_wanted": True}, S.STOPPING, "lane a: boom"),
        (S.RUNNING, (RUNS,), {"start_wanted": True}, S.STARTING, None),
        (S.STOPPING, (RUNS, ENDED), {}, None, None),
        (S.STOPPING, (OFFERED,), {}, None, None),
        (S.STOPPING, (ENDED, IDLE), {}, S.STOPPED, None),
        (S.STOPPING, (), {}, S.DRAINED, None),
        (S.STOPPING, (RUNS, BROKEN), {"error": "first"}, None, None),
        (S.STOPPING, (ENDED, BROKEN), {"error": "first"}, S.FAILED, "first"),
        (S.STOPPING, (ENDED, BROKEN), {}, S.FAILED, "lane a: boom"),
        (S.STOPPING, (RUNS,), {"start_wanted": True}, S.STARTING, None),
        (S.STOPPED, (IDLE,), {"stop_wanted": True}, None, None),
        (S.STOPPED, (IDLE,), {"start_wanted": True}, S.STARTING, None),
        (S.FAILED, (BROKEN,), {"stop_wanted": True, "error": "first"}, None, None),
        (S.FAILED, (BROKEN,), {"start_wanted": True, "error": "first"}, S.STARTING, None),
    ],
)
def test_the_next_state(
    state: S, lanes: tuple[LaneView, ...], given: dict[str, bool], to: S | None, error: str | None
) -> None:
    found = step(Snapshot(state=state, lanes=lanes, **given))
    assert found == (None if to is None else Transition(to=to, why=found.why if found else "", error=error))
    assert found is None or found.why


# A run


def test_a_run_from_start_to_stop(coordinator: Coordinator, asked: Coordinator | Client) -> None:
    assert coordinator.start(plan()) == 1
    assert states(asked) == ("starting", ["planned", "planned"])
    seat = Seat(asked)
    answer = seat.beat()
    assert (wanted(answer), answer.done, answer.until_caught_up) == ([FIRST, SECOND], False, False)
    assert {one.lane.epoch for one in answer.wanted} == {seat.me.epoch}
    assert {one.lane.deployment for one in answer.wanted} == {1}
    seat.report("starting", folder_epoch=seat.me.epoch)
    assert states(asked) == ("starting", ["planned", "planned"])
    seat.report("running", FIRST)
    assert states(asked) == ("starting", ["running", "planned"])
    seat.report("running", offset=3)
    assert states(asked) == ("running", ["running", "running"])

    asked.stop("delays")
    asked.stop("delays")
    answer = seat.report("running")
    assert (wanted(answer), answer.alive, answer.done) == ([], True, False)
    seat.beat(report(FIRST, "ended", 40), report(SECOND, "running"))
    assert states(asked) == ("stopping", ["planned", "running"])
    answer = seat.beat(report(FIRST, "ended", 40), report(SECOND, "ended", 41))
    assert (wanted(answer), answer.done) == ([], True)
    assert states(asked) == ("stopped", ["planned", "planned"])
    asked.stop("delays")

    first = asked.status("delays").lanes[0]
    assert [position.offset for position in first.lane.final] == [40]
    assert first.lane.folder_epoch == seat.me.epoch
    assert first.report == report(FIRST, "ended", 40)
    assert asked.status("delays").served
    assert [event.what for event in asked.events("delays", 100)] == [
        "planned deployment 1",
        "planned → starting",
        "took seat 0",
        f"lane {FIRST} runs",
        f"lane {SECOND} runs",
        "starting → running",
        "running → stopping",
        f"lane {FIRST} ended",
        f"lane {SECOND} ended",
        "stopping → stopped",
    ]
    assert [event.what for event in asked.events("delays", 1)] == ["stopping → stopped"]
    assert (asked.model("delays").run_id, asked.model("delays").generation) == (1, 1)
    assert [job.job for job in asked.jobs()] == ["delays"]


def test_catching_up_ends_the_run(coordinator: Coordinator, asked: Coordinator | Client) -> None:
    coordinator.start(plan(until_caught_up=True))
    seat = Seat(asked)
    assert seat.beat().until_caught_up
    answer = seat.report("running")
    assert {one.lane.id: one.upstream_ended for one in answer.wanted} == {FIRST: True, SECOND: False}
    answer = seat.beat(report(FIRST, "ended", 9), report(SECOND, "running"))
    assert {one.lane.id: one.upstream_ended for one in answer.wanted} == {SECOND: True}
    assert not answer.done
    answer = seat.report("ended", SECOND)
    assert (answer.done, answer.wanted) == (True, ())
    assert states(asked) == ("stopped", ["planned", "planned"])


def test_upstream_ended_is_nothing_a_lasting_run_speaks_of(coordinator: Coordinator) -> None:
    coordinator.start(plan())
    seat = Seat(coordinator)
    seat.report("running")
    answer = seat.report("ended", FIRST)
    assert [(one.lane.id, one.upstream_ended) for one in answer.wanted] == [(SECOND, False)]


def test_lanes_wait_for_their_predecessors(coordinator: Coordinator, store: Store) -> None:
    after = lane(SECOND, predecessors=(FIRST,))
    coordinator.start(plan(lanes=(lane(FIRST), after)))
    seat = Seat(coordinator)
    assert wanted(seat.beat()) == [FIRST]
    closing = msgspec.structs.replace(store.lanes("delays")[FIRST], state=LaneState.CLOSING)
    coordinator.registry.jobs["delays"].known[FIRST] = closing
    answer = seat.beat()
    assert [(one.lane.id, one.closing) for one in answer.wanted] == [(FIRST, True)]
    assert wanted(seat.report("ended", FIRST, offset=5, batch=4, folder_epoch=1)) == [SECOND]
    first, second = (store.lanes("delays")[name] for name in (FIRST, SECOND))
    assert (first.state, first.last_batch) == (LaneState.CLOSED, 4)
    assert (second.starting, second.inherits) == ((Position(ssp=FLIGHTS, offset=5),), {FIRST: 1})


def test_a_lane_that_leaves_work_undone_is_not_closed(coordinator: Coordinator, store: Store) -> None:
    coordinator.start(plan(lanes=(lane(FIRST), lane(SECOND, predecessors=(FIRST,)))))
    seat = Seat(coordinator)
    closing = msgspec.structs.replace(store.lanes("delays")[FIRST], state=LaneState.CLOSING)
    coordinator.registry.jobs["delays"].known[FIRST] = closing
    seat.report("ended", FIRST, offset=5, pending=True)
    assert store.lanes("delays")[FIRST].state is LaneState.CLOSING
    again = Seat(coordinator, pid=2)
    assert [(one.lane.id, one.closing) for one in again.beat().wanted] == [(FIRST, True)]
    assert wanted(again.report("ended", FIRST, offset=7)) == [SECOND]


def test_a_lane_fails_alone_and_with_the_last_one_the_deployment(
    coordinator: Coordinator, asked: Coordinator | Client
) -> None:
    coordinator.start(plan())
    seat = Seat(asked)
    seat.report("running")
    answer = seat.beat(report(FIRST, "failed", error="boom at 7"), report(SECOND, "running"))
    assert (wanted(answer), answer.done) == ([SECOND], False)
    assert states(asked) == ("running", ["failed", "running"])
    answer = seat.report("failed", SECOND, error="and then this")
    assert answer.done
    status = asked.status("delays")
    assert (status.state, status.error) == ("failed", f"lane {FIRST}: boom at 7")
    assert [one.lane.error for one in status.lanes] == ["boom at 7", "and then this"]
    with pytest.raises(ConflictError, match="not running: it failed"):
        asked.stop("delays")
    coordinator.start(plan())
    status = asked.status("delays")
    assert (status.state, status.error, [one.lane.error for one in status.lanes]) == (
        "starting",
        None,
        [None, None],
    )


def test_a_job_that_is_stopped_with_a_failed_lane_has_failed(coordinator: Coordinator) -> None:
    coordinator.start(plan())
    seat = Seat(coordinator)
    seat.beat(report(FIRST, "running"), report(SECOND, "failed", error="boom"))
    coordinator.stop("delays")
    assert coordinator.status("delays").state == "stopping"
    seat.report("ended", FIRST)
    status = coordinator.status("delays")
    assert (status.state, status.error) == ("failed", f"lane {SECOND}: boom")


def test_what_comes_after_a_failed_lane_need_not_catch_up(coordinator: Coordinator) -> None:
    third = lane("last-00000003", upstream=(SECOND,))
    coordinator.start(plan(lanes=(lane(FIRST), lane(SECOND, upstream=(FIRST,)), third), until_caught_up=True))
    seat = Seat(coordinator)
    seat.beat(report(FIRST, "failed", error="boom"), report(SECOND, "running"), report(third.id, "running"))
    assert coordinator.status("delays").state == "stopping"
    answer = seat.beat(report(SECOND, "ended"), report(third.id, "ended"))
    assert (answer.done, coordinator.status("delays").state) == (True, "failed")


def test_each_further_attempt_is_an_event(coordinator: Coordinator) -> None:
    coordinator.start(plan())
    seat = Seat(coordinator)
    seat.report("running")
    for attempt in (2, 2, 3):
        seat.beat(report(FIRST, "starting", number=attempt, trouble=f"boom {attempt}"), report(SECOND, "running"))
    told = [(event.what, event.why) for event in coordinator.events("delays") if "again" in event.what]
    assert told == [
        (f"lane {FIRST} failed and is tried again, attempt {attempt}", f"boom {attempt}") for attempt in (2, 3)
    ]


# Stopping


def test_stopping_what_no_container_took_is_done_at_once(coordinator: Coordinator) -> None:
    coordinator.start(plan())
    coordinator.stop("delays")
    assert states(coordinator)[0] == "stopped"


def test_stopping_waits_for_lanes_that_a_container_was_told_to_run(coordinator: Coordinator) -> None:
    coordinator.start(plan())
    seat = Seat(coordinator)
    seat.beat()
    coordinator.stop("delays")
    stale = seat.seen
    assert states(coordinator)[0] == "stopping"
    assert not seat.beat().done  # this beat was sent before it could know
    assert seat.seen != stale
    assert seat.beat().done  # it knows, and runs nothing


def test_stopping_does_not_wait_for_the_dead(coordinator: Coordinator, clock: Clock) -> None:
    coordinator.start(plan())
    Seat(coordinator).report("running")
    coordinator.stop("delays")
    clock.at += 9.9
    assert states(coordinator)[0] == "stopping"
    assert coordinator.status("delays").containers[0].alive
    clock.at += 0.2
    assert states(coordinator)[0] == "stopped"
    assert not coordinator.status("delays").containers[0].alive


def test_what_can_t_be_stopped(coordinator: Coordinator, asked: Coordinator | Client, store: Store) -> None:
    with pytest.raises(NotFoundError, match="no job 'delays'"):
        asked.stop("delays")
    Coordinator(store).start(plan())
    with pytest.raises(ConflictError, match="not running here; its last deployment was left starting"):
        asked.stop("delays")


# Containers


def test_a_process_that_is_replaced_is_told_so(coordinator: Coordinator, asked: Coordinator | Client) -> None:
    coordinator.start(plan())
    former = Seat(asked, pid=1)
    former.report("running")
    newer = Seat(asked, pid=2)
    assert newer.me.epoch > former.me.epoch
    assert states(asked) == ("running", ["planned", "planned"])
    answer = former.beat(report(FIRST, "failed", error="a zombie's"))
    assert (answer.alive, answer.reason) == (False, f"{newer.me.container} has taken its seat")
    assert states(asked) == ("running", ["planned", "planned"])
    answer = newer.beat()
    assert (wanted(answer), {one.lane.epoch for one in answer.wanted}) == ([FIRST, SECOND], {newer.me.epoch})
    assert [one.pid for one in asked.status("delays").containers] == [2]
    assert (asked.holds_seat("execution-1"), asked.holds_seat("execution-2")) == (False, True)


def test_a_new_process_need_not_catch_up_twice(coordinator: Coordinator) -> None:
    coordinator.start(plan(until_caught_up=True))
    Seat(coordinator, pid=1).beat(report(FIRST, "ended", 5), report(SECOND, "running"))
    assert wanted(Seat(coordinator, pid=2).beat()) == [SECOND]


def test_a_report_that_was_overtaken_changes_nothing(coordinator: Coordinator, asked: Coordinator | Client) -> None:
    coordinator.start(plan())
    seat = Seat(asked)
    seat.report("running")
    seat.report("ended", FIRST, offset=5)
    seat.report("running", FIRST, offset=3)
    assert states(asked) == ("running", ["planned", "running"])
    assert asked.status("delays").lanes[0].report == report(FIRST, "ended", 5)


def test_each_seat_is_told_its_own_lanes(coordinator: Coordinator, asked: Coordinator | Client) -> None:
    coordinator.start(plan(lanes=(lane(FIRST), lane(SECOND, seat="1"))))
    zero, one = Seat(asked, seat="0"), Seat(asked, seat="1", pid=2)
    assert (wanted(zero.beat()), wanted(one.beat())) == ([FIRST], [SECOND])
    assert {x.lane.epoch for x in zero.beat().wanted} == {zero.me.epoch}
    for foreign, says in ((FIRST, f"reports lane {FIRST} of seat 0"), ("nobody-1", "reports lane 'nobody-1', which")):
        answer = one.report("running", foreign)
        assert (answer.alive, answer.wanted) == (False, ())
        assert says in (answer.reason or "")
    assert states(asked) == ("starting", ["planned", "planned"])
    with pytest.raises(NotFoundError, match="has no seat '2'"):
        Seat(asked, seat="2", pid=3)


# Looking


def test_looking_without_a_coordinator(store: Store, coordinator: Coordinator) -> None:
    coordinator.start(plan())
    Seat(coordinator).report("running", offset=3)
    status = stored_jobs.status(store, "delays")
    assert (status.served, status.state, status.deployment, status.generation) == (False, "running", 1, 1)
    assert [(one.lane.state, one.report) for one in status.lanes] == [(LaneState.RUNNING, None)] * 2
    # Who doesn't serve a job doesn't know who lives.
    assert [(one.seat, one.alive) for one in status.containers] == [("0", None)]
    assert stored_jobs.jobs(store) == [status]
    assert Coordinator(store).jobs() == [status]
    assert stored_jobs.model(store, "delays") == coordinator.model("delays")
    assert list(stored_jobs.known_lanes(store, "delays")) == [FIRST, SECOND]
    assert stored_jobs.known_lanes(store, "nobody") == {}
    with pytest.raises(NotFoundError, match="no job 'nobody'") as caught:
        stored_jobs.status(store, "nobody")
    assert caught.value.cure == "jobs here: delays"
    with pytest.raises(UsageError):
        stored_jobs.events(store, "delays", 0)


def test_what_was_stopped_before_it_caught_up_goes_on_with_the_next_process(store: Store) -> None:
    """A process that leaves ends its lanes: those that read them must not take that for the end of the input."""
    coordinator = Coordinator(store, grace=1.0)
    coordinator.start(plan(until_caught_up=True))
    first = Seat(coordinator, pid=1)
    first.report("running", folder_epoch=1)
    answer = first.report("ended", offset=5, folder_epoch=1, stopped=True)
    assert not any(each.upstream_ended for each in answer.wanted)
    assert coordinator.status("delays").state == "running"
    coordinator.heartbeat(Heartbeat(container=first.me.container, epoch=first.me.epoch, number=9, leaving=True))
    assert wanted(Seat(coordinator, pid=2).beat()) == [FIRST, SECOND]


def test_a_plan_without_stages_has_a_sizing(coordinator: Coordinator) -> None:
    """Whoever may start a job may send one: what looks at it answers."""
    coordinator.start(plan())
    assert not coordinator.sizing("delays").advice
