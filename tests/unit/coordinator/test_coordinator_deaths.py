"""A job goes on whenever its process dies, and what couldn't be stored didn't happen."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.store import Store, stored_jobs
from tests.unit.coordinator.asked import coordinator, states
from tests.unit.coordinator.helpers import FIRST, SECOND, Clock, Seat, lane, plan, report, wanted

__all__ = ["coordinator"]  # fixtures


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
        left.append(stored_jobs.status(store, "delays").state)

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
        assert stored_jobs.status(store, "delays").state == "stopped"
    assert left == expected


def test_a_death_within_start_and_within_stop(store: Store, coordinator: Coordinator) -> None:
    durable = store.resume_deployment
    store.resume_deployment = died  # type: ignore[method-assign]
    with pytest.raises(RuntimeError):
        coordinator.start(plan())
    assert stored_jobs.status(store, "delays").state == "planned"
    store.resume_deployment = durable  # type: ignore[method-assign]
    coordinator = Coordinator(store)
    coordinator.start(plan())
    seat = Seat(coordinator)
    seat.report("running")
    coordinator.stop("delays")
    assert stored_jobs.status(store, "delays").state == "stopping"
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
