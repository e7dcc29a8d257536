"""Heartbeats at the coordinator: which ones renew a lease, which change nothing, and which are refused."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.store import Store
from anabranch.errors import ConflictError
from anabranch.protocol.container import Heartbeat, HeartbeatResponse
from tests.unit.coordinator.helpers import FIRST, FLIGHTS, SECOND, Clock, Seat, report
from tests.unit.coordinator.silent import GRACE, LEASE, begun, coordinator, events, lanes_of, made, two_seats

__all__ = ["coordinator"]  # fixtures


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
    assert serving.reports[FIRST].progress.positions == {str(FLIGHTS): 4}


@pytest.mark.parametrize(
    "change",
    [
        {"seen": -1},
        {"epoch": 99},
        {"leaving": True},
        {"container": "delays:0:99"},
        {"lanes": (report(FIRST, "ended"), report(SECOND, "running"))},
        {"lanes": (report(FIRST, "running", folder_epoch=9), report(SECOND, "running"))},
        {"lanes": (report(FIRST, "running", number=2), report(SECOND, "running"))},
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
