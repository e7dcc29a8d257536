"""Processes that fall silent: they lose their seats, their lanes are fenced, and only then others go on with them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from anabranch.coordinator import queries
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.store import Store
from anabranch.errors import ConflictError, FencedError, NotFoundError, NotLeadingError, StoreUnavailableError
from anabranch.model.lane import Lane, LaneState
from anabranch.protocol.container import Heartbeat, HeartbeatResponse, Registration, RegistrationResponse
from anabranch.protocol.deployment import StartRequest
from tests.unit.coordinator.helpers import FIRST, FLIGHTS, SECOND, Clock, Seat, lane, plan, report, wanted
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


# Losing a seat


def test_a_seat_is_lost_after_lease_and_grace_and_not_before(
    coordinator: Coordinator, clock: Clock, store: Store
) -> None:
    seat = begun(coordinator)
    clock.at += LEASE + GRACE - 0.01
    coordinator.tick()
    assert store.containers("delays")
    assert seat.beat().alive
    clock.at += LEASE + GRACE
    coordinator.tick()
    assert store.containers("delays") == []
    gone = store.container(seat.me.container)
    assert gone is not None
    assert gone.gone == "it was not heard for 12.0 s"
    assert f"{seat.me.container} has lost its seat" in events(coordinator)
    shown = {one.container: (one.alive, one.gone) for one in coordinator.status("delays").containers}
    assert shown == {seat.me.container: (False, gone.gone)}
    assert not coordinator.holds_seat("execution-1")
    answer = seat.report("running")
    assert (answer.alive, answer.reason, answer.wanted) == (False, gone.gone, ())


def test_only_lanes_that_may_be_written_are_fenced(store: Store, clock: Clock) -> None:
    """One that runs, one that has ended, one that was never begun, one of another seat."""
    coordinator = made(store, clock)
    runs, ended, never, other = "runs-00000001", "ended-00000002", "never-00000003", "other-00000004"
    coordinator.start(planned(lanes=(lane(runs), lane(ended), lane(never), lane(other, seat="1"))))
    seat, second = Seat(coordinator, pid=1), Seat(coordinator, seat="1", pid=2)
    epoch = seat.me.epoch
    seat.beat(*(report(one, "running", folder_epoch=epoch) for one in (runs, ended)), report(never, "starting"))
    second.report("running", other, folder_epoch=second.me.epoch)
    seat.beat(report(runs, "running"), report(ended, "ended", 9), report(never, "starting"))
    before = lanes_of(store)
    for _ in range(2):
        clock.at += LEASE
        second.report("running", other)
        coordinator.tick()
    after = lanes_of(store)
    assert (after[runs].unfenced, after[runs].abandoned, after[runs].state) == (True, True, LaneState.PLANNED)
    assert after[runs].epoch > max(one.epoch for one in before.values())
    assert after[runs].folder_epoch == epoch
    assert {one: after[one] for one in (ended, never, other)} == {one: before[one] for one in (ended, never, other)}
    assert [(fence.lane, fence.settings) for fence in coordinator.fences()] == [(after[runs], PROGRAM.settings)]
    assert [one.id for one in store.containers("delays")] == [second.me.container]


def test_no_one_gets_a_seat_before_its_lanes_are_fenced(coordinator: Coordinator, clock: Clock, store: Store) -> None:
    former = lost(coordinator, clock)
    first, second = (fence.lane for fence in coordinator.fences())
    assert first.epoch == second.epoch > former.me.epoch
    assert asks(coordinator, 2).seat is None
    coordinator.fenced(first)
    assert [fence.lane.id for fence in coordinator.fences()] == [SECOND]
    assert asks(coordinator, 2).seat is None
    assert asks(coordinator, 2, "0").seat is None
    coordinator.fenced(second)
    assert coordinator.fences() == []
    assert {one.abandoned for one in lanes_of(store).values()} == {True}

    newer = Seat(coordinator, pid=2)
    assert newer.me.epoch > first.epoch
    answer = newer.beat()
    assert wanted(answer) == [FIRST, SECOND]
    assert {(one.lane.epoch, one.lane.abandoned, one.lane.folder_epoch) for one in answer.wanted} == {
        (newer.me.epoch, True, former.me.epoch)
    }
    newer.report("starting", FIRST, folder_epoch=newer.me.epoch)
    found = lanes_of(store)
    assert (found[FIRST].abandoned, found[FIRST].folder_epoch) == (False, newer.me.epoch)
    assert (found[SECOND].abandoned, found[SECOND].folder_epoch) == (True, former.me.epoch)
    newer.report("running", folder_epoch=newer.me.epoch)
    assert coordinator.status("delays").state == "running"
    assert not former.beat().alive


def test_a_fence_of_before_counts_for_nothing(coordinator: Coordinator, clock: Clock, store: Store) -> None:
    lost(coordinator, clock)
    [old, _] = (fence.lane for fence in coordinator.fences())
    fence_all(coordinator)
    begun(coordinator, 2)
    clock.at += LEASE + GRACE
    coordinator.tick()
    before, log = lanes_of(store), events(coordinator)
    assert before[FIRST].epoch > old.epoch
    coordinator.fenced(old)
    coordinator.fenced(msgspec.structs.replace(old, job="others"))
    coordinator.fenced(msgspec.structs.replace(old, id="nobody-1"))
    assert (lanes_of(store), events(coordinator)) == (before, log)
    assert asks(coordinator, 3).seat is None
    assert [fence.lane.id for fence in coordinator.fences()] == [FIRST, SECOND]


def test_a_lane_that_was_fenced_twice_is_fenced_once(coordinator: Coordinator, clock: Clock) -> None:
    lost(coordinator, clock)
    [first, _] = (fence.lane for fence in coordinator.fences())
    coordinator.fenced(first)
    log = events(coordinator)
    coordinator.fenced(first)
    assert events(coordinator) == log


def test_what_can_t_be_fenced_is_told_and_stays(coordinator: Coordinator, clock: Clock) -> None:
    lost(coordinator, clock)
    [first, _] = (fence.lane for fence in coordinator.fences())
    coordinator.unfenced(first, "no broker answers")
    assert [(event.what, event.why) for event in coordinator.events("delays", 1)] == [
        (f"lane {FIRST} can't be fenced yet", "no broker answers")
    ]
    assert [fence.lane.id for fence in coordinator.fences()] == [FIRST, SECOND]


def test_lanes_that_were_never_begun_go_on_at_once(coordinator: Coordinator, clock: Clock, store: Store) -> None:
    Seat(coordinator, pid=1).report("starting")
    clock.at += LEASE + GRACE
    assert asks(coordinator, 2).seat == "0"
    assert {one.abandoned for one in lanes_of(store).values()} == {False}


def test_where_processes_keep_their_seats_none_is_lost(store: Store, clock: Clock) -> None:
    coordinator = Coordinator(store, clock, LEASE)
    coordinator.start(planned())
    seat = begun(coordinator)
    clock.at += 100 * LEASE
    coordinator.tick()
    assert coordinator.fences() == []
    assert seat.beat().alive


def test_a_lease_counts_from_when_a_beat_came_and_not_from_its_answer(
    coordinator: Coordinator, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that is killed while its poll waits is missed no later than one that isn't."""
    seat = begun(coordinator)

    patience = coordinator.membership.patience

    def waits(wait: float) -> float:
        clock.at += patience(wait)
        return 0.0

    monkeypatch.setattr(coordinator.membership, "patience", waits)
    seat.beat(wait=3.0)
    assert [one.lease for one in coordinator.status("delays").containers] == [LEASE - 3]
    seat.beat(wait=100.0)
    assert [one.lease for one in coordinator.status("delays").containers] == [LEASE / 2]


@pytest.fixture
def steady(coordinator: Coordinator) -> Iterator[Heartbeat]:
    """The next beat of a container that runs, and somebody who takes a step that lasts."""
    seat = begun(coordinator)
    seat.report("running")
    seat.report("running", offset=3)
    taken, over = threading.Event(), threading.Event()

    def step() -> None:
        with coordinator.registry.locked_all():
            taken.set()
            over.wait(30)

    thread = threading.Thread(target=step)
    thread.start()
    taken.wait(30)
    yield Heartbeat(
        container=seat.me.container,
        epoch=seat.me.epoch,
        number=seat.number + 1,
        seen=seat.seen,
        lanes=tuple(report(one, "running", 4) for one in (FIRST, SECOND)),
    )
    over.set()
    thread.join()


def test_a_beat_that_changes_nothing_waits_for_no_step_of_others(
    coordinator: Coordinator, clock: Clock, steady: Heartbeat
) -> None:
    clock.at += LEASE / 2
    answer = coordinator.membership.hear_at_once(steady)
    assert answer == HeartbeatResponse(alive=True, revision=steady.seen, same=True)
    serving, process = coordinator.registry.holder(steady.container)
    assert serving is not None
    assert process is not None
    assert (process.lease_ends, process.heard) == (clock.at + LEASE, steady.number)
    assert serving.reports[FIRST].positions == {str(FLIGHTS): 4}


@pytest.mark.parametrize(
    "change",
    [
        {"seen": -1},
        {"epoch": 99},
        {"leaving": True},
        {"container": "delays:0:99"},
        {"lanes": (report(FIRST, "ended"), report(SECOND, "running"))},
        {"lanes": (report(FIRST, "running", folder_epoch=9), report(SECOND, "running"))},
        {"lanes": (report(FIRST, "running", attempt=2), report(SECOND, "running"))},
        {"lanes": (report("nobody", "running"),)},
    ],
)
def test_any_other_waits_and_changes_nothing_yet(
    coordinator: Coordinator, steady: Heartbeat, change: dict[str, Any]
) -> None:
    before = repr(coordinator.registry.jobs)
    beat = msgspec.structs.replace(steady, **change)
    assert coordinator.membership.hear_at_once(beat) is None
    assert repr(coordinator.registry.jobs) == before


def test_a_lease_counts_from_when_a_beat_came_and_not_from_when_it_was_heard(
    coordinator: Coordinator, clock: Clock, steady: Heartbeat
) -> None:
    clock.at += LEASE / 2
    assert coordinator.membership.hear_at_once(msgspec.structs.replace(steady, seen=-1)) is None
    _, process = coordinator.registry.holder(steady.container)
    assert process is not None
    assert process.lease_ends == clock.at + LEASE


def test_no_beat_saves_a_process_that_is_being_expelled(
    coordinator: Coordinator, clock: Clock, steady: Heartbeat
) -> None:
    _, process = coordinator.registry.holder(steady.container)
    assert process is not None
    clock.at += LEASE + GRACE
    assert coordinator.membership.is_doomed(process, clock.at - GRACE)
    assert coordinator.membership.hear_at_once(steady) is None
    assert process.lease_ends < clock.at


# Registering


def test_registering_twice_is_registering_once(coordinator: Coordinator, store: Store, clock: Clock) -> None:
    first = asks(coordinator, 1)
    clock.at += LEASE
    again = asks(coordinator, 1)
    assert again == first
    clock.at += LEASE
    coordinator.tick()
    assert [one.id for one in store.containers("delays")] == [first.container]
    assert asks(coordinator, 2).seat is None
    assert events(coordinator).count("took seat 0") == 1


def test_who_lost_its_seat_must_not_take_another(coordinator: Coordinator, clock: Clock) -> None:
    lost(coordinator, clock)
    for _ in range(2):
        with pytest.raises(FencedError, match=r"must stop: it was not heard for 12\.0 s"):
            asks(coordinator, 1)
        fence_all(coordinator)
    assert asks(coordinator, 2).seat == "0"


def test_a_process_gets_the_seat_that_it_names_or_any(store: Store, clock: Clock) -> None:
    coordinator = made(store, clock)
    coordinator.start(two_seats())
    assert asks(coordinator, 1, "1").seat == "1"
    assert asks(coordinator, 2, "1").seat is None
    with pytest.raises(NotFoundError, match="has no seat '7'"):
        asks(coordinator, 2, "7")
    assert asks(coordinator, 2).seat == "0"
    assert asks(coordinator, 3) == RegistrationResponse(lease=LEASE)


def test_a_job_that_is_over_needs_no_process(coordinator: Coordinator, store: Store, clock: Clock) -> None:
    seat = Seat(coordinator, pid=1)
    coordinator.stop("delays")
    seat.beat()
    assert coordinator.status("delays").state == "stopped"
    assert asks(coordinator, 2).done
    other = made(store, clock)
    assert not other.adopt("delays")
    assert asks(other, 2).done
    seat.coordinator = other
    answer = seat.beat()
    assert (answer.alive, answer.done) == (True, True)


# Fencing by hand


def test_an_operator_fences_a_container(coordinator: Coordinator, store: Store) -> None:
    seat = begun(coordinator)
    coordinator.fence(seat.me.container, "it writes nonsense")
    answer = seat.beat()
    assert (answer.alive, answer.reason) == (False, "the user fenced it: it writes nonsense")
    assert asks(coordinator, 2).seat is None  # not before the lanes are fenced
    assert {one.epoch for one in lanes_of(store).values()} == {seat.me.epoch + 1}
    assert fence_all(coordinator) == [FIRST, SECOND]
    newer = Seat(coordinator, pid=2)
    assert newer.me.epoch == seat.me.epoch + 2
    (event,) = [event for event in coordinator.events("delays") if "lost its seat" in event.what]
    assert (event.who, event.why) == ("user", "the user fenced it: it writes nonsense")


def test_who_has_no_seat_is_not_fenced(coordinator: Coordinator) -> None:
    seat = begun(coordinator)
    coordinator.fence(seat.me.container)
    with pytest.raises(ConflictError, match=f"{seat.me.container} has no seat: the user fenced it"):
        coordinator.fence(seat.me.container)
    with pytest.raises(NotFoundError, match="no container delays:0:99"):
        coordinator.fence("delays:0:99")


def test_who_is_never_expelled_is_not_fenced(store: Store, clock: Clock) -> None:
    coordinator = Coordinator(store, clock)
    coordinator.start(planned())
    seat = Seat(coordinator)
    with pytest.raises(ConflictError, match="in one process with the coordinator"):
        coordinator.fence(seat.me.container)
    assert seat.beat().alive


# Leaving


def leave(seat: Seat, *phases: tuple[str, str]) -> HeartbeatResponse:
    seat.number += 1
    reports = tuple(report(lane_id, phase, folder_epoch=seat.me.epoch) for lane_id, phase in phases)
    who = {"container": seat.me.container, "epoch": seat.me.epoch}
    beat = Heartbeat(**who, number=seat.number, seen=seat.seen, lanes=reports, leaving=True)
    assert isinstance(seat.coordinator, Coordinator)
    return seat.coordinator.heartbeat(beat)


def test_who_leaves_with_all_lanes_ended_frees_its_seat_at_once(coordinator: Coordinator, store: Store) -> None:
    seat = begun(coordinator)
    answer = leave(seat, (FIRST, "ended"), (SECOND, "ended"))
    assert (answer.alive, answer.done) == (True, True)
    assert coordinator.fences() == []
    assert store.containers("delays") == []
    assert events(coordinator)[-1] == "left seat 0"
    newer = Seat(coordinator, pid=2)
    assert wanted(newer.beat()) == [FIRST, SECOND]
    assert {one.abandoned for one in lanes_of(store).values()} == {False}
    answer = seat.beat()
    assert (answer.alive, answer.reason) == (False, "it gave its seat back")


@pytest.mark.parametrize("phase", ["starting", "running"])
def test_who_leaves_with_a_lane_that_may_write_keeps_its_seat(
    coordinator: Coordinator, clock: Clock, store: Store, phase: str
) -> None:
    seat = begun(coordinator)
    leave(seat, (FIRST, "ended"), (SECOND, phase))
    assert [one.id for one in store.containers("delays")] == [seat.me.container]
    assert asks(coordinator, 2).seat is None
    clock.at += LEASE + GRACE
    coordinator.tick()
    assert [fence.lane.id for fence in coordinator.fences()] == [SECOND]


def test_who_leaves_with_a_failed_lane_frees_its_seat(coordinator: Coordinator, store: Store) -> None:
    seat = begun(coordinator)
    assert leave(seat, (FIRST, "ended"), (SECOND, "failed")).done
    assert store.containers("delays") == []
    assert wanted(Seat(coordinator, pid=2).beat()) == [FIRST]


# Stopping


def test_stopping_waits_for_the_silent_to_be_fenced(coordinator: Coordinator, clock: Clock) -> None:
    begun(coordinator)
    coordinator.stop("delays")
    clock.at += LEASE + GRACE - 0.01
    coordinator.tick()
    assert coordinator.status("delays").state == "stopping"
    clock.at += 0.02
    coordinator.tick()
    assert coordinator.status("delays").state == "stopping"
    [first, second] = (fence.lane for fence in coordinator.fences())
    coordinator.fenced(first)
    assert coordinator.status("delays").state == "stopping"
    coordinator.fenced(second)
    assert coordinator.status("delays").state == "stopped"


def test_a_job_goes_on_after_it_was_stopped(coordinator: Coordinator, store: Store, clock: Clock) -> None:
    seat = begun(coordinator)
    with pytest.raises(ConflictError, match="is running already"):
        coordinator.resume("delays")
    coordinator.stop("delays")
    seat.report("ended", offset=4)
    assert coordinator.status("delays").state == "stopped"
    for again in (coordinator, made(store, clock)):
        assert again.resume("delays") == 1
        assert [event.why for event in again.events("delays", 1)] == ["the user started it again"]
        newer = Seat(again, pid=int(again is coordinator) + 5)
        assert [[p.offset for p in one.lane.final] for one in newer.beat().wanted] == [[4], [4]]
        again.stop("delays")
        newer.report("ended", offset=4)
        assert again.status("delays").state == "stopped"
    assert not seat.beat().alive
    with pytest.raises(NotFoundError, match="no job 'nobody'"):
        coordinator.resume("nobody")


def test_a_job_whose_code_is_elsewhere_can_t_go_on_here(store: Store, clock: Clock) -> None:
    """As one that ``anabranch run`` ran."""
    Coordinator(store, clock).start(plan())
    coordinator = made(store, clock)
    assert not coordinator.adopt("delays")
    assert coordinator.status("delays").served is False
    for ask in (coordinator.resume, coordinator.running):
        with pytest.raises(ConflictError, match="the code of job 'delays' is not here"):
            ask("delays")


def test_a_failure_is_forgotten_when_the_job_is_started_again(coordinator: Coordinator, store: Store) -> None:
    begun(coordinator).report("failed", error="boom")
    assert coordinator.status("delays").state == "failed"
    coordinator.resume("delays")
    assert (coordinator.status("delays").state, coordinator.status("delays").error) == ("starting", None)
    assert queries.status(store, "delays").error is None


# Another coordinator goes on


def test_another_coordinator_waits_a_lease_before_it_takes_anything(
    coordinator: Coordinator, store: Store, clock: Clock
) -> None:
    seat = begun(coordinator)
    before = lanes_of(store)
    clock.at += 100 * LEASE
    other = made(store, clock)
    assert other.adopt("delays")
    clock.at += LEASE + GRACE - 0.01
    other.tick()
    assert lanes_of(store) == before
    assert other.fences() == []
    assert other.status("delays").state == "running"
    seat.coordinator = other
    seat.number = 0  # numbers count from what this coordinator has heard
    answer = seat.report("running")
    assert (answer.alive, wanted(answer)) == (True, [FIRST, SECOND])
    assert {one.lane.epoch for one in answer.wanted} == {seat.me.epoch}
    clock.at += LEASE + GRACE
    other.tick()
    assert [fence.lane.id for fence in other.fences()] == [FIRST, SECOND]


def test_another_coordinator_stops_a_job_that_was_being_stopped(
    coordinator: Coordinator, store: Store, clock: Clock
) -> None:
    seat = begun(coordinator)
    coordinator.stop("delays")
    other = made(store, clock)
    assert other.adopt("delays")
    assert other.status("delays").state == "stopping"
    seat.coordinator = other
    assert seat.report("running").wanted == ()
    assert seat.report("ended").done
    assert other.status("delays").state == "stopped"


def test_a_coordinator_that_gave_up_its_jobs_stops_nobody(coordinator: Coordinator, store: Store, clock: Clock) -> None:
    """Between two leaders nobody is told to stop: whether its seat is lost isn't known."""
    seat = begun(coordinator)
    coordinator.abandon()
    with pytest.raises(NotLeadingError):
        seat.report("running")
    with pytest.raises(NotLeadingError):
        asks(coordinator, 1)
    coordinator.adopt("delays")
    assert seat.report("running").alive


def test_kills_at_every_durable_step(clock: Clock) -> None:
    """A coordinator dies just before, or just after, any of the steps from a silence to the new process; others go on
    from the store, and each epoch is given once."""
    steps = ("expel", "put_lanes", "register", "leave", "move_deployment")
    done = 0
    for after in (False, True):
        for nth in range(100):
            if not drill(clock, steps, nth, after=after):
                break
            done += 1
    assert done >= 2 * 8


class KilledError(Exception):
    pass


def drill(clock: Clock, steps: tuple[str, ...], nth: int, *, after: bool) -> bool:
    """Whether there was an ``nth`` step to die at."""
    store = Store("sqlite://")
    first = made(store, clock)
    first.start(planned(until_caught_up=True))
    former = begun(first)
    writes = [-1]

    def killing(write: Callable[..., Any]) -> Callable[..., Any]:
        def killed(*given: Any) -> Any:
            writes[0] += 1
            if writes[0] == nth and not after:
                raise KilledError
            result = write(*given)
            if writes[0] == nth:
                raise KilledError
            return result

        return killed

    for step in steps:
        setattr(store, step, killing(getattr(store, step)))
    coordinator, newer, epochs = first, None, [former.me.epoch]
    for _ in range(60):
        clock.at += LEASE / 2
        try:
            coordinator.tick()
            for fence in coordinator.fences():
                assert fence.lane.epoch > former.me.epoch
                coordinator.fenced(fence.lane)
            if newer is None:
                if former.me.container in {one.id for one in store.containers("delays")} or any(
                    one.unfenced for one in lanes_of(store).values()
                ):
                    assert asks(coordinator, 2).seat is None
                    continue
                newer = Seat(coordinator, pid=2)
                assert newer.me.epoch > max(epochs)
                epochs.append(newer.me.epoch)
            newer.coordinator = coordinator
            if not store.containers("delays"):  # it has left, and could not be told
                break
            answer = newer.beat()
            assert answer.alive
            assert {one.lane.epoch for one in answer.wanted} <= {newer.me.epoch}
            newer.report("running", folder_epoch=newer.me.epoch)
            newer.report("ended", offset=3, folder_epoch=newer.me.epoch)
            leave(newer, (FIRST, "ended"), (SECOND, "ended"))
            if not store.containers("delays"):
                break
        except KilledError:
            coordinator = made(store, clock)
            coordinator.adopt("delays")
    found = lanes_of(store)
    assert store.deployment("delays").state == "stopped"  # type: ignore[union-attr]
    assert not former_may_write(found)
    former.coordinator = coordinator
    assert not former.report("running").alive
    assert lanes_of(store) == found
    return writes[0] >= nth


def former_may_write(found: dict[str, Lane]) -> bool:
    return any(one.unfenced or one.abandoned or one.folder_epoch < one.epoch for one in found.values())


def test_an_expulsion_of_which_nothing_is_known_is_done_again(
    coordinator: Coordinator, store: Store, clock: Clock
) -> None:
    """The database was lost while it was being stored: the process, heard again, must not go on as if it weren't."""
    seat = begun(coordinator)
    durable = store.expel

    def broken(*given: Any) -> list[Lane]:
        durable(*given)
        raise StoreUnavailableError("the connection broke", "")

    store.expel = broken  # type: ignore[method-assign]
    clock.at += LEASE + GRACE
    with pytest.raises(StoreUnavailableError):
        coordinator.tick()
    store.expel = durable  # type: ignore[method-assign]
    assert not seat.report("running").alive
    assert [fence.lane for fence in coordinator.fences()] == list(lanes_of(store).values())
    assert all(one.unfenced for one in lanes_of(store).values())


# Beats on their way


def test_a_beat_that_was_overtaken_or_repeated_changes_nothing(coordinator: Coordinator, store: Store) -> None:
    seat = begun(coordinator)
    who = {"container": seat.me.container, "epoch": seat.me.epoch}
    late = Heartbeat(**who, number=seat.number + 1, lanes=(report(FIRST, "failed", error="late"),))
    seat.number += 1
    seat.report("running", offset=9)
    before, log = lanes_of(store), events(coordinator)
    shown = coordinator.status("delays").lanes
    newest = Heartbeat(**who, number=seat.number, lanes=(report(FIRST, "ended", 1),), leaving=True)
    for beat in (late, newest):
        assert coordinator.heartbeat(beat).alive
    assert (lanes_of(store), events(coordinator)) == (before, log)
    assert coordinator.status("delays").lanes == shown
    assert [one.container for one in coordinator.status("delays").containers] == [seat.me.container]


def test_who_reports_lanes_of_others_must_stop(store: Store, clock: Clock) -> None:
    coordinator = made(store, clock)
    coordinator.start(two_seats())
    seat = Seat(coordinator, seat="0", pid=1)
    before = lanes_of(store)
    answer = seat.beat(report(FIRST, "running", folder_epoch=seat.me.epoch), report(SECOND, "running"))
    assert not answer.alive
    assert f"reports lane {SECOND} of seat 1" in (answer.reason or "")
    assert lanes_of(store) == before


def test_a_store_that_is_locked_stops_nobody(coordinator: Coordinator, store: Store) -> None:
    seat = Seat(coordinator, pid=1)
    durable = store.put_lanes

    def locked(*_: object) -> None:
        raise ConflictError("another process has locked the store", "")

    store.put_lanes = locked  # type: ignore[method-assign]
    with pytest.raises(ConflictError, match="has locked"):
        seat.report("running")
    store.put_lanes = durable  # type: ignore[method-assign]
    assert seat.report("running").alive
    assert coordinator.status("delays").state == "running"
