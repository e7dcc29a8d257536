"""Long polls: they are answered when something changes for whoever asks, and not before."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from anabranch.coordinator.api.client import Client
from anabranch.coordinator.coordinator import Coordinator
from anabranch.errors import (
    OutOfTimeError,
)
from anabranch.protocol.container import Heartbeat, HeartbeatResponse
from tests.unit.coordinator.asked import asked, coordinator, states
from tests.unit.coordinator.helpers import FIRST, SECOND, Seat, lane, plan, report, wait_for, wanted

__all__ = ["asked", "coordinator"]  # fixtures


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


def test_who_leaves_while_its_poll_waits_is_told_that_it_is_done(
    coordinator: Coordinator, asked: Coordinator | Client
) -> None:
    coordinator.start(plan())
    seat = Seat(asked)
    seat.beat()
    answers: list[HeartbeatResponse] = []
    waiting = threading.Thread(target=lambda: answers.append(seat.beat(wait=5.0)))
    waiting.start()
    wait_for(lambda: len(coordinator.registry.polls) == 1)
    leaves = Heartbeat(container=seat.me.container, epoch=seat.me.epoch, number=99, seen=seat.seen, leaving=True)
    assert asked.heartbeat(leaves, 0.0).done
    waiting.join()
    assert (answers[0].alive, answers[0].done) == (True, True)
    assert coordinator.membership.invalid_heartbeats == 0


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
