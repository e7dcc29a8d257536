"""What a container knows of its seat: its lease, beats that were overtaken, and who may survive without an answer."""

from __future__ import annotations

import pytest

from anabranch.protocol.container import Heartbeat, HeartbeatResponse
from tests.unit.container.seats import LEASE, clock, ok, seat_lease_of, survives
from tests.unit.coordinator.helpers import FIRST, Clock, report

__all__ = ["clock", "survives"]  # fixtures


def test_beats_are_numbered_and_say_what_was_seen(clock: Clock) -> None:
    seat_lease = seat_lease_of(clock)
    first = seat_lease.beat([report(FIRST, "running")])
    assert first.beat == Heartbeat(container="delays:0:1", epoch=1, number=1, lanes=(report(FIRST, "running"),))
    seat_lease.hear(first, ok(7))
    second = seat_lease.beat([], leaving=True)
    assert second.beat == Heartbeat(container="delays:0:1", epoch=1, number=2, seen=7, leaving=True)


def test_the_watermark_of_each_ssp_is_sent_only_while_somebody_looks(clock: Clock) -> None:
    seat_lease = seat_lease_of(clock)
    times = {f"s/flights/{number}": 1000 - number for number in range(10)}
    told = report(FIRST, "running").changed(times=times)
    kept = {f"s/flights/{number}": 1000 - number for number in (0, 7, 8, 9)}  # the latest, and the three earliest
    sent = seat_lease.beat([told])
    assert [each.event_time.times for each in sent.beat.lanes] == [kept]
    seat_lease.hear(sent, ok(1, watched=True))
    late = seat_lease.beat([told])
    assert late.beat.lanes == (told,)
    seat_lease.hear(seat_lease.beat([told]), HeartbeatResponse(alive=True, revision=1, same=True))
    seat_lease.hear(late, ok(1, watched=True))  # it was overtaken
    assert [each.event_time.times for each in seat_lease.beat([told]).beat.lanes] == [kept]


def test_the_lease_counts_from_when_an_answered_beat_was_sent(clock: Clock) -> None:
    seat_lease = seat_lease_of(clock)
    assert seat_lease.lease_left == LEASE
    clock.at += 2
    sent = seat_lease.beat([])
    clock.at += 5
    assert seat_lease.lease_left == LEASE - 7
    seat_lease.hear(sent, ok(1))
    assert seat_lease.lease_left == LEASE - 5
    seat_lease.beat([])
    seat_lease.miss("away")
    assert seat_lease.lease_left == LEASE - 5


def test_an_answer_that_was_overtaken_is_not_taken_and_the_lease_stays(clock: Clock) -> None:
    seat_lease = seat_lease_of(clock)
    poll = seat_lease.beat([])
    clock.at += 1
    news = seat_lease.beat([])
    seat_lease.hear(news, ok(5))
    seat_lease.hear(poll, ok(4))
    assert seat_lease.answer == ok(5)
    assert seat_lease.lease_left == LEASE


def test_orders_that_arrive_late_do_not_replace_newer_ones(clock: Clock) -> None:
    seat_lease = seat_lease_of(clock)
    seat_lease.hear(seat_lease.beat([]), ok(3))
    poll, news = seat_lease.beat([]), seat_lease.beat([])
    seat_lease.hear(poll, ok(5))  # the poll was held until there were new orders
    seat_lease.hear(news, ok(4, watched=True))  # this was answered before, but arrives only now
    assert seat_lease.answer == ok(5)
    following = seat_lease.beat([report(FIRST, "running")])
    assert following.beat.seen == 5
    seat_lease.hear(following, ok(2))  # a new leader counts from another number
    assert seat_lease.answer == ok(2)


def test_an_overtaken_answer_renews_the_lease(clock: Clock) -> None:
    seat_lease = seat_lease_of(clock)
    clock.at += 1
    first = seat_lease.beat([])
    second = seat_lease.beat([])
    clock.at += 1
    seat_lease.hear(second, ok(5))
    seat_lease.hear(first, ok(4))
    assert seat_lease.lease_left == LEASE - 1


def test_it_is_orphaned_once_its_lease_has_ended_without_an_answer(clock: Clock) -> None:
    seat_lease = seat_lease_of(clock)
    seat_lease.miss("nothing runs there")
    clock.at += LEASE - 0.1
    assert seat_lease.orphaned == ""
    clock.at += 0.1
    assert seat_lease.orphaned == "nothing runs there"
    assert seat_lease.must_stop == ""
    seat_lease.hear(seat_lease.beat([]), ok(1))
    assert (seat_lease.orphaned, seat_lease.lease_left) == ("", LEASE)
    clock.at += 2 * LEASE
    assert seat_lease.orphaned == ""  # its beat is under way


def test_who_may_not_survive_stops_before_its_lease_ends_and_for_ever(clock: Clock) -> None:
    seat_lease = seat_lease_of(clock, survives=False)
    seat_lease.miss("nothing runs there")
    clock.at += 5.9
    assert seat_lease.must_stop == ""
    clock.at += 0.2
    why = "the coordinator was not heard for 6 s, and this container's outputs can't be fenced (nothing runs there)"
    assert seat_lease.must_stop == why
    assert seat_lease.lease_left > 0
    seat_lease.hear(seat_lease.beat([]), ok(1))
    assert seat_lease.must_stop == why


@pytest.mark.parametrize("done", [True, False])
def test_who_has_given_its_seat_back_may_end_slowly(clock: Clock, done: bool) -> None:
    seat_lease = seat_lease_of(clock, survives=False)
    seat_lease.hear(seat_lease.beat([], leaving=True), ok(1, done=done))
    clock.at += 2 * LEASE  # Spark is being stopped
    assert bool(seat_lease.must_stop) is not done


def test_who_may_survive_goes_on(clock: Clock) -> None:
    seat_lease = seat_lease_of(clock)
    seat_lease.miss("away")
    clock.at += 1000 * LEASE
    assert seat_lease.must_stop == ""


def test_a_refusal_counts_for_ever(clock: Clock, *, survives: bool) -> None:
    seat_lease = seat_lease_of(clock, survives=survives)
    old, refused, newer = seat_lease.beat([]), seat_lease.beat([]), seat_lease.beat([])
    seat_lease.hear(newer, ok(3))
    seat_lease.hear(refused, HeartbeatResponse(alive=False, revision=-1, reason="it sent no heartbeat for 12 s"))
    seat_lease.hear(old, ok(1))
    seat_lease.hear(seat_lease.beat([]), ok(9))
    assert seat_lease.must_stop == "it sent no heartbeat for 12 s"
    nameless = seat_lease_of(clock)
    nameless.hear(nameless.beat([]), HeartbeatResponse(alive=False, revision=-1))
    assert nameless.must_stop
