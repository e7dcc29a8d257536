"""Processes that fall silent: they lose their seats, their lanes are fenced, and only then others go on with them."""

from __future__ import annotations

import msgspec

from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.store import Store
from anabranch.model.lane import LaneState
from tests.unit.coordinator.helpers import FIRST, SECOND, Clock, Seat, lane, report, wanted
from tests.unit.coordinator.programs import PROGRAM
from tests.unit.coordinator.silent import (
    GRACE,
    LEASE,
    asks,
    begun,
    coordinator,
    events,
    fence_all,
    lanes_of,
    lost,
    made,
    planned,
)

__all__ = ["coordinator"]  # fixtures


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
    assert gone.gone == "it sent no heartbeat for 12.0 s"
    assert f"{seat.me.container} has lost its seat" in events(coordinator)
    shown = {one.container: (one.alive, one.gone) for one in coordinator.status("delays").containers}
    assert shown == {seat.me.container: (False, gone.gone)}
    assert not coordinator.holds_seat("execution-1")
    answer = seat.report("running")
    assert (answer.alive, answer.reason, answer.wanted) == (False, gone.gone, ())


def test_who_stands_by_has_no_seat_but_is_not_invalid(coordinator: Coordinator, clock: Clock) -> None:
    begun(coordinator)
    assert asks(coordinator, 2).seat is None
    assert not coordinator.holds_seat("execution-2")
    assert coordinator.membership.invalid_heartbeats == 0
    clock.at += LEASE + 0.1  # it no longer asks
    assert not coordinator.holds_seat("execution-2")
    assert not coordinator.holds_seat("whoever")
    assert coordinator.membership.invalid_heartbeats == 2


def test_a_process_that_has_just_got_a_seat_no_longer_stands_by_even_in_a_machines_first_seconds(
    coordinator: Coordinator, clock: Clock
) -> None:
    clock.at = LEASE / 10
    begun(coordinator)
    assert asks(coordinator, 2).seat is None
    (resting,) = coordinator.live("delays").resting.records()
    assert resting["execution"] == "execution-2"
    with coordinator.registry.locked("delays") as job:
        job.seats.asked.pop("execution-2")  # as when it gets a seat
    assert not coordinator.live("delays").resting.records()


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
    coordinator.fence_failed(first, "no broker answers")
    assert [(event.what, event.why) for event in coordinator.events("delays", 1)] == [
        (f"lane {FIRST} can't be fenced yet", "no broker answers")
    ]
    assert [fence.lane.id for fence in coordinator.fences()] == [FIRST, SECOND]
    coordinator.fence_failed(first, "no broker answers yet")
    assert coordinator.status("delays").warnings == (f"lane {FIRST} can't be fenced yet: no broker answers yet",)
    coordinator.fenced(first)
    assert coordinator.status("delays").warnings == ()


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
