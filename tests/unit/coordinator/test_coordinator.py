"""The life of a deployment: its states by table; what users and containers are told, both ways."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import msgspec
import pytest

from anabranch.coordinator import queries
from anabranch.coordinator.api import listening
from anabranch.coordinator.api.client import Client
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.states import LaneView, Snapshot, Transition, step
from anabranch.coordinator.store import Store
from anabranch.errors import (
    ConflictError,
    NotFoundError,
    OutOfTimeError,
    StateError,
    UnsupportedFormatError,
    UsageError,
)
from anabranch.model.deployment_state import DeploymentState
from anabranch.model.document import decode
from anabranch.model.lane import LaneState, Position
from anabranch.protocol.container import Heartbeat, HeartbeatResponse
from anabranch.protocol.lane_report import BatchPhase
from tests.unit.coordinator.helpers import FIRST, FLIGHTS, SECOND, Clock, Seat, lane, plan, report, wait_for, wanted

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


@pytest.fixture
def coordinator(store: Store, clock: Clock) -> Coordinator:
    return Coordinator(store, clock, now=lambda: 7.0)


@pytest.fixture(params=["in process", "over HTTP"])
def asked(request: pytest.FixtureRequest, coordinator: Coordinator) -> Iterator[Coordinator | Client]:
    """What verbs and containers talk to."""
    if request.param == "in process":
        yield coordinator
        return
    server = listening.serve(coordinator)
    with Client(server.url) as client:
        yield client
    server.close()


def states(asked: Coordinator | Client) -> tuple[str, list[str]]:
    status = asked.status("delays")
    return status.state, [one.lane.state.value for one in status.lanes]


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
        seat.beat(report(FIRST, "starting", attempt=attempt, trouble=f"boom {attempt}"), report(SECOND, "running"))
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


# Going on


def test_a_job_goes_on_whenever_its_process_dies(clock: Clock) -> None:
    """The process is lost after any number of calls; the next one goes on with the same lanes to the end."""
    begun: list[Callable[[Coordinator, list[Seat]], object]] = [
        lambda it, seats: it.start(plan(until_caught_up=True)),
        lambda it, seats: seats.append(Seat(it)),
        lambda it, seats: seats[-1].beat(),
        lambda it, seats: seats[-1].report("starting", folder_epoch=seats[-1].me.epoch),
        lambda it, seats: seats[-1].report("running", FIRST),
        lambda it, seats: seats[-1].report("running"),
        lambda it, seats: seats[-1].beat(report(FIRST, "ended", 5), report(SECOND, "running")),
        lambda it, seats: seats[-1].report("failed", SECOND, error="boom"),
    ]
    expected = ["starting", "starting", "starting", "starting", "starting", "running", "running", "failed"]
    left = []
    for calls in range(1, len(begun) + 1):
        store, seats = Store("sqlite://"), list[Seat]()
        lost = Coordinator(store, clock)
        for call in begun[:calls]:
            call(lost, seats)
        left.append(queries.status(store, "delays").state)

        other_lanes = (lane("flights-99999999"), lane("by-dest-99999999"))
        coordinator = Coordinator(store, clock)
        assert coordinator.start(plan(lanes=other_lanes, until_caught_up=True)) == 1
        status = coordinator.status("delays")
        assert [one.lane.id for one in status.lanes] == [FIRST, SECOND]
        assert states(coordinator) == ("starting", ["planned", "planned"])
        assert (status.error, [one.lane.error for one in status.lanes]) == (None, [None, None])
        for former in seats:
            former.coordinator = coordinator
            answer = former.beat(report(FIRST, "failed", error="a zombie's"))
            assert (answer.alive, answer.reason) == (False, "the job was started again")
        seat = Seat(coordinator)
        assert all(seat.me.epoch > former.me.epoch for former in seats)
        assert wanted(seat.beat()) == [FIRST, SECOND]
        seat.report("running")
        assert seat.report("ended").done
        assert queries.status(store, "delays").state == "stopped"
    assert left == expected


def test_a_death_within_start_and_within_stop(store: Store, coordinator: Coordinator) -> None:
    durable = store.resume_deployment
    store.resume_deployment = died  # type: ignore[method-assign]
    with pytest.raises(RuntimeError):
        coordinator.start(plan())
    assert queries.status(store, "delays").state == "planned"
    store.resume_deployment = durable  # type: ignore[method-assign]
    coordinator = Coordinator(store)
    coordinator.start(plan())
    seat = Seat(coordinator)
    seat.report("running")
    coordinator.stop("delays")
    assert queries.status(store, "delays").state == "stopping"
    coordinator = Coordinator(store)
    coordinator.start(plan())
    assert wanted(Seat(coordinator).beat()) == [FIRST, SECOND]


def died(*_: object) -> None:
    raise RuntimeError("killed")


def test_what_could_not_be_stored_did_not_happen(store: Store, coordinator: Coordinator) -> None:
    coordinator.start(plan())
    seat = Seat(coordinator)
    durable, store.put_lanes = store.put_lanes, died  # type: ignore[method-assign]
    with pytest.raises(RuntimeError):
        seat.report("running")
    assert states(coordinator) == ("starting", ["planned", "planned"])
    store.put_lanes = durable  # type: ignore[method-assign]
    seat.report("running")
    assert states(coordinator) == ("running", ["running", "running"])


def test_another_job_under_the_name_is_refused(store: Store, coordinator: Coordinator) -> None:
    coordinator.start(plan())
    again = Coordinator(store)
    with pytest.raises(ConflictError) as caught:
        again.start(plan(fingerprint={"graph": "b" * 64, "factor": "8", "new": "x"}))
    assert "\n    [job] factor is 8, and was 4\n" in caught.value.what
    assert "\n    new is x, and was not set" in caught.value.what
    ways = [line.strip().partition(":")[0] for line in caught.value.cure.splitlines()[1:]]
    assert ways == [
        "undo the change",
        "start it with the file as it was, anabranch drain delays, and start the new version",
        "anabranch reset delays",
    ]
    assert queries.status(store, "delays").state == "starting"
    assert again.start(plan()) == 1


def test_a_job_that_runs_is_not_started_again(coordinator: Coordinator) -> None:
    coordinator.start(plan())
    with pytest.raises(ConflictError, match="running already"):
        coordinator.start(plan())
    other = plan("other", (lane(FIRST, job="other"),))
    assert coordinator.start(other) == 1
    assert list(coordinator.known_lanes("other").values()) == [coordinator.status("other").lanes[0].lane]
    assert list(coordinator.known_lanes("delays")) == [FIRST, SECOND]


@pytest.mark.parametrize(
    ("lanes", "says"),
    [
        ((lane("a", job="x"),), "lane a is of job 'x'"),
        ((lane("a"), lane("a")), "two lanes are a"),
        ((lane("a", predecessors=("b",)),), "lane a comes after b, which nobody knows"),
    ],
)
def test_a_plan_that_doesn_t_fit_together_is_not_stored(
    lanes: tuple, says: str, coordinator: Coordinator, store: Store
) -> None:
    with pytest.raises(StateError, match=says):
        coordinator.start(plan(lanes=lanes))
    assert store.jobs() == []


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


def test_a_report_of_an_unknown_phase_is_refused() -> None:
    lane = b'{"lane": "0-a", "phase": "dancing"}'
    with pytest.raises(UnsupportedFormatError, match=r"not a Heartbeat: .*'dancing'.*lanes.*phase"):
        decode(b'{"container": "c", "epoch": 1, "number": 1, "lanes": [' + lane + b"]}", Heartbeat)


def test_a_batch_in_an_unknown_phase_is_only_shown_as_such() -> None:
    batch = b'{"number": 1, "planned": 2, "phase": "dancing", "spent": {"dancing": 1.5}}'
    lane = b'{"lane": "0-a", "phase": "running", "batchProgress": ' + batch + b"}"
    heard = decode(b'{"container": "c", "epoch": 1, "number": 1, "lanes": [' + lane + b"]}", Heartbeat)
    progress = heard.lanes[0].batch_progress
    assert progress is not None
    assert (progress.phase, progress.spent) == (BatchPhase.OTHER, {"dancing": 1.5})


def test_strangers_are_refused(coordinator: Coordinator, asked: Coordinator | Client, store: Store) -> None:
    with pytest.raises(NotFoundError, match="no job 'delays'"):
        Seat(asked)
    other = Coordinator(store)
    other.start(plan())
    elsewhere = Seat(other)
    with pytest.raises(ConflictError, match="not running here"):
        Seat(asked)
    answer = asked.heartbeat(Heartbeat(container=elsewhere.me.container, epoch=elsewhere.me.epoch, number=1))
    assert (answer.alive, answer.reason) == (False, "job 'delays' is not running here")
    answer = asked.heartbeat(Heartbeat(container="delays:0:99", epoch=99, number=1))
    assert (answer.alive, answer.reason) == (False, "nobody knows container delays:0:99")
    coordinator.start(plan())
    seat = Seat(asked)
    answer = asked.heartbeat(Heartbeat(container=seat.me.container, epoch=seat.me.epoch + 1, number=1))
    assert (answer.alive, "has epoch" in (answer.reason or "")) == (False, True)
    for bad in ("../etc", "delays", "delays:0:x", "a:b:c:1"):
        with pytest.raises(UsageError, match="not a container id"):
            asked.heartbeat(Heartbeat(container=bad, epoch=1, number=1))
    with pytest.raises(UsageError, match="can't be the name of a job"):
        asked.status("../etc")


# Waiting


@pytest.mark.parametrize(
    ("change", "alive", "lanes"),
    [
        (lambda it: it.stop("delays"), True, []),
        (lambda it: Seat(it, pid=2), False, []),
    ],
)
def test_a_poll_is_answered_when_something_changes(
    coordinator: Coordinator, asked: Coordinator | Client, change: Callable, alive: bool, lanes: list[str]
) -> None:
    """The change comes while the poll waits, or before: either way the answer is there before its end."""
    coordinator.start(plan(lanes=(lane(FIRST), lane(SECOND, seat="1"))))
    seat = Seat(asked)
    seat.beat()
    answers: list[HeartbeatResponse] = []
    waiting = threading.Thread(target=lambda: answers.append(seat.beat(report(FIRST, "running"), wait=5.0)))
    begun = time.monotonic()
    waiting.start()
    wait_for(lambda: states(coordinator)[1][0] == "running")  # the poll has come in
    change(coordinator)
    waiting.join()
    assert time.monotonic() - begun < 4
    assert (answers[0].alive, wanted(answers[0])) == (alive, lanes)


def test_a_process_without_lanes_is_told_at_once_that_it_is_replaced(coordinator: Coordinator) -> None:
    coordinator.start(plan(lanes=(lane(SECOND, seat="1"),)))
    seat = Seat(coordinator)
    seat.beat()
    answers: list[HeartbeatResponse] = []
    waiting = threading.Thread(target=lambda: answers.append(seat.beat(wait=5.0)))
    begun = time.monotonic()
    waiting.start()
    wait_for(lambda: len(coordinator.registry.polls) == 1)
    Seat(coordinator, pid=2)
    waiting.join()
    assert time.monotonic() - begun < 4
    assert not answers[0].alive


def test_a_poll_with_no_news_lasts_its_time(coordinator: Coordinator, asked: Coordinator | Client) -> None:
    coordinator.start(plan())
    seat = Seat(asked)
    first = seat.beat(wait=30.0)  # news: at once
    begun = time.monotonic()
    again = seat.beat(wait=0.1)
    assert 0.1 <= time.monotonic() - begun < 3
    assert again == first


def test_a_change_in_another_seat_is_no_news(coordinator: Coordinator) -> None:
    coordinator.start(plan(lanes=(lane(FIRST), lane(SECOND, seat="1"))))
    seat = Seat(coordinator)
    before = seat.report("running", FIRST).revision
    woken = threading.Event()
    beat = Heartbeat(container=seat.me.container, epoch=seat.me.epoch, number=9, seen=before)
    with coordinator.membership.listening(beat, woken.set):
        Seat(coordinator, seat="1", pid=2).report("running", SECOND)
        assert not woken.is_set()
        assert coordinator.membership.answer(beat).same
        coordinator.stop("delays")
        assert woken.is_set()
    assert wanted(coordinator.membership.answer(beat)) == []


def test_waiting_for_a_state(coordinator: Coordinator) -> None:
    coordinator.start(plan())
    assert coordinator.wait_until("delays", {"starting"}).state == "starting"
    with pytest.raises(OutOfTimeError, match=r"is starting after 0\.01 s, not stopped"):
        coordinator.wait_until("delays", {"stopped"}, 0.01)
    threading.Thread(target=lambda: coordinator.stop("delays")).start()
    assert coordinator.wait_until("delays", {"stopped"}, 10).state == "stopped"


# Looking


def test_looking_without_a_coordinator(store: Store, coordinator: Coordinator) -> None:
    coordinator.start(plan())
    Seat(coordinator).report("running", offset=3)
    status = queries.status(store, "delays")
    assert (status.served, status.state, status.deployment, status.generation) == (False, "running", 1, 1)
    assert [(one.lane.state, one.report) for one in status.lanes] == [(LaneState.RUNNING, None)] * 2
    # Who doesn't serve a job doesn't know who lives.
    assert [(one.seat, one.alive) for one in status.containers] == [("0", None)]
    assert queries.jobs(store) == [status]
    assert Coordinator(store).jobs() == [status]
    assert queries.model(store, "delays") == coordinator.model("delays")
    assert list(queries.known_lanes(store, "delays")) == [FIRST, SECOND]
    assert queries.known_lanes(store, "nobody") == {}
    with pytest.raises(NotFoundError, match="no job 'nobody'") as caught:
        queries.status(store, "nobody")
    assert caught.value.cure == "jobs here: delays"
    with pytest.raises(UsageError):
        queries.events(store, "delays", 0)


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
