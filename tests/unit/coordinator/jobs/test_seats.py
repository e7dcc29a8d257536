"""Who takes a seat, who has to leave it, and when it is free at once."""

from __future__ import annotations

import pytest

from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.store import Store
from anabranch.errors import ConflictError, FencedError, NotFoundError
from anabranch.protocol.commands import ScaleRequest
from anabranch.protocol.container import RegistrationResponse
from tests.unit.coordinator.helpers import FIRST, SECOND, Clock, Seat, wanted
from tests.unit.coordinator.silent import (
    GRACE,
    LEASE,
    asks,
    begun,
    coordinator,
    events,
    fence_all,
    lanes_of,
    leave,
    lost,
    made,
    planned,
    two_seats,
)
from tests.unit.coordinator.workers import JOB, Worker, start

__all__ = ["coordinator"]  # fixtures


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
        with pytest.raises(FencedError, match=r"must stop: it sent no heartbeat for 12\.0 s"):
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
    answer = seat.beat()  # it was on its way when the process left
    assert (answer.alive, answer.done, answer.wanted) == (True, True, ())
    assert coordinator.membership.invalid_heartbeats == 0


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


# Successors in other containers


class Moving:
    """Lanes of seat 1 whose successors are in seat 0, and a process in each seat."""

    def __init__(self, store: Store, clock: Clock, *, now: bool = False) -> None:
        self.clock, self.coordinator = clock, made(store, clock)
        self.coordinator.start(start(containers=2))
        self.stays, self.ends = Worker(self.coordinator), Worker(self.coordinator, "1", 2)
        for _ in range(4):
            self.stays.turn()
            self.ends.turn()
        self.coordinator.scale(JOB, ScaleRequest(containers=1, now=now))

    @property
    def told(self) -> set[tuple[bool, bool]]:
        """Whether the process of seat 1 is told to close its lanes, and to hold them."""
        return {(one.closing, one.deferred) for one in self.ends.seat.beat(*self.ends.reports.values()).wanted}

    def prepare(self) -> None:
        coming = [lane.id for lane in self.stays.seat.beat(*self.stays.reports.values()).coming]
        assert coming
        self.stays.seat.beat(*self.stays.reports.values(), prepared=coming)

    def wait(self, seconds: float) -> None:
        self.clock.at += seconds
        self.coordinator.tick()


def test_a_lane_is_held_until_the_other_container_has_prepared_its_successor(store: Store, clock: Clock) -> None:
    moving = Moving(store, clock)
    assert moving.told == {(True, True)}
    moving.wait(1)
    assert moving.told == {(True, True)}
    moving.prepare()
    assert moving.told == {(True, False)}


def test_a_lane_is_not_held_for_long(store: Store, clock: Clock) -> None:
    moving = Moving(store, clock)
    moving.wait(4)
    assert moving.told == {(True, True)}
    moving.wait(2)
    assert moving.told == {(True, False)}


def test_a_hasty_change_holds_no_lane(store: Store, clock: Clock) -> None:
    assert Moving(store, clock, now=True).told == {(True, False)}
