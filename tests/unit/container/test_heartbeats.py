"""How a container beats, what it is told, and what becomes of it when nobody answers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from anabranch.container.heartbeats import BackgroundHeartbeats, DirectHeartbeats
from anabranch.coordinator.jobs.long_polls import LongPolls
from anabranch.errors import FencedError, StoreUnavailableError, UnreachableError
from anabranch.model.document import compact
from anabranch.model.job_model import JobModel
from anabranch.protocol.container import Heartbeat, HeartbeatResponse, Registration, RegistrationResponse
from anabranch.protocol.lane_report import BatchProgress, LanePhase
from tests.support.reports import lane_report
from tests.unit.container.seats import LEASE, ME, clock, ok, seat_lease_of
from tests.unit.coordinator.helpers import FIRST, Clock, report

__all__ = ["clock"]  # fixtures

FOREVER = 30.0


class Scripted:
    """A coordinator whose answers are given one by one; ``heartbeats`` are those that came in."""

    def __init__(self) -> None:
        self.heartbeats: list[Heartbeat] = []
        self.waits: list[float] = []
        self.come = threading.Condition()
        self.answered: Callable[[Heartbeat, float], HeartbeatResponse] = self.hold
        self.release = threading.Event()

    def register(self, registration: Registration) -> RegistrationResponse:
        raise NotImplementedError

    def model(self, job: str) -> JobModel:
        raise NotImplementedError

    def hold(self, _beat: Heartbeat, wait: float) -> HeartbeatResponse:
        """Polls are held until ``release``, news are answered."""
        if wait:
            self.release.wait(FOREVER)
        return ok(1)

    def heartbeat(self, beat: Heartbeat, wait: float = 0) -> HeartbeatResponse:
        with self.come:
            self.heartbeats.append(beat)
            self.waits.append(wait)
            self.come.notify_all()
        return self.answered(beat, wait)

    def until(self, enough: Callable[[Sequence[Heartbeat]], bool]) -> None:
        with self.come:
            assert self.come.wait_for(lambda: enough(self.heartbeats), FOREVER)


@pytest.fixture
def script() -> Iterator[Scripted]:
    scripted = Scripted()
    yield scripted
    scripted.release.set()


def until(condition: Callable[[], bool]) -> None:
    tick = threading.Event()
    for _ in range(int(FOREVER / 0.002)):
        if condition():
            return
        tick.wait(0.002)
    raise AssertionError("it never happened")


@pytest.mark.parametrize("reads_parts", [True, False])
def test_an_older_coordinator_gets_reports_as_it_reads_them(script: Scripted, clock: Clock, reads_parts: bool) -> None:
    me = msgspec.structs.replace(ME, reads_parts=reads_parts)
    with BackgroundHeartbeats(script, seat_lease_of(clock, me=me), FOREVER) as heartbeats:
        heartbeats.take([report(FIRST, "running", 7)])
        script.until(lambda come: any(beat.lanes for beat in come))
    sent = msgspec.json.decode(compact(next(beat for beat in script.heartbeats if beat.lanes)))
    positions = (sent["lanes"][0]["progress"] if reads_parts else sent["lanes"][0])["positions"]
    assert list(positions.values()) == [7]


def test_news_are_told_while_a_poll_waits(script: Scripted, clock: Clock) -> None:
    with BackgroundHeartbeats(script, seat_lease_of(clock), FOREVER) as heartbeats:
        script.until(lambda come: len(come) == 1)  # a poll, that is held
        assert 0.75 * FOREVER <= script.waits[0] < FOREVER
        for number, told in enumerate(
            (
                [report(FIRST, "starting")],
                [report(FIRST, "starting", folder_epoch=1)],
                [report(FIRST, "running", folder_epoch=1)],
                [report(FIRST, "running", folder_epoch=1, batch=0)],
                [report(FIRST, "running", folder_epoch=1, batch=0, halted="a-drain")],
                [report(FIRST, "ended", folder_epoch=1, batch=3)],
            ),
            start=2,
        ):
            heartbeats.take(told)
            script.until(lambda come, number=number: len(come) == number)  # type: ignore[misc]
            assert script.heartbeats[-1].lanes == tuple(told)
        assert script.waits[1:] == [0.0] * 6
        assert [beat.number for beat in script.heartbeats] == [1, 2, 3, 4, 5, 6, 7]


def test_progress_alone_is_no_news(script: Scripted, clock: Clock) -> None:
    with BackgroundHeartbeats(script, seat_lease_of(clock), FOREVER) as heartbeats:
        heartbeats.take([report(FIRST, "running", batch=1)])
        script.until(lambda come: sum(bool(beat.lanes) for beat in come) >= 1)
        before = len(script.heartbeats)
        for batch in range(3, 13):
            heartbeats.take([report(FIRST, "running", 7, batch=batch, rows=100)])
            time.sleep(0.005)
        assert len(script.heartbeats) == before
        heartbeats.take([report(FIRST, "ended", 7, batch=12, rows=100)])
        script.until(lambda come: len(come) == before + 1)
        assert [one.phase for one in script.heartbeats[-1].lanes] == ["ended"]


@pytest.mark.parametrize("error", [UnreachableError("nothing runs", ""), ValueError("boom"), KeyError("x")])
def test_whatever_goes_wrong_is_a_missed_beat(script: Scripted, clock: Clock, error: Exception) -> None:
    said: list[str] = []

    def breaks(_beat: Heartbeat, _wait: float) -> HeartbeatResponse:
        raise error

    script.answered = breaks
    with BackgroundHeartbeats(script, seat_lease_of(clock), 0.001, said.append) as heartbeats:
        script.until(lambda come: len(come) >= 3)
        assert said == []
        clock.at += LEASE
        until(lambda: len(said) == 1)
        assert str(error) in said[0]
        assert heartbeats.take([]) is None
        assert heartbeats.must_stop == ""
        more = len(script.heartbeats) + 3
        script.until(lambda come: len(come) >= more)
        script.answered = lambda _beat, _wait: ok(4)
        until(lambda: len(said) == 2)
        assert said[1] == "the coordinator answers again"
        until(lambda: heartbeats.take([]) == ok(4))
    assert len(said) == 2


def test_a_missed_beat_is_repeated_within_the_lease_however_long_the_period_is(script: Scripted, clock: Clock) -> None:
    def breaks(_beat: Heartbeat, _wait: float) -> HeartbeatResponse:
        raise UnreachableError("nothing runs", "")

    script.answered = breaks
    me = msgspec.structs.replace(ME, lease=0.04)
    with BackgroundHeartbeats(script, seat_lease_of(clock, me=me), FOREVER, lambda _: None):
        script.until(lambda come: len(come) >= 3)


def test_beats_go_on_when_nobody_can_be_told(script: Scripted, clock: Clock) -> None:
    def breaks(_beat: Heartbeat, _wait: float) -> HeartbeatResponse:
        raise UnreachableError("nothing runs", "")

    def say(_: str) -> None:
        raise BrokenPipeError

    script.answered = breaks
    with BackgroundHeartbeats(script, seat_lease_of(clock), 0.001, say) as heartbeats:
        clock.at += LEASE
        script.until(lambda come: len(come) >= 5)
        script.answered = lambda _beat, _wait: ok(4)
        until(lambda: heartbeats.take([]) == ok(4))


def test_a_heartbeat_that_fails_again_and_again_is_logged_once(script: Scripted, clock: Clock) -> None:
    answers: list[Any] = [None] * 4

    script.answered = lambda _beat, _wait: answers.pop() if answers else ok(4)
    with capture_logs() as lines, BackgroundHeartbeats(script, seat_lease_of(clock), 0.001) as heartbeats:
        until(lambda: heartbeats.take([]) == ok(4))
    assert [line["event"] for line in lines] == ["a heartbeat failed, and counts as missed"]


def test_who_may_not_survive_is_stopped_in_its_loop(script: Scripted, clock: Clock) -> None:
    with BackgroundHeartbeats(script, seat_lease_of(clock, survives=False), FOREVER) as heartbeats:
        heartbeats.take([])
        clock.at += LEASE * 2 / 3
        assert heartbeats.lease_left == LEASE / 3
        assert heartbeats.must_stop
        with pytest.raises(FencedError, match="container delays:0:1 must stop: the coordinator was not heard for 6 s"):
            heartbeats.take([])


def test_a_refusal_stops_the_loop_and_the_beats_come_slowly(script: Scripted, clock: Clock) -> None:
    script.answered = lambda _beat, _wait: HeartbeatResponse(alive=False, revision=-1, reason="another has its seat")
    with BackgroundHeartbeats(script, seat_lease_of(clock), FOREVER) as heartbeats:
        until(lambda: bool(heartbeats.must_stop))
        with pytest.raises(FencedError, match="must stop: another has its seat"):
            heartbeats.take([])
        time.sleep(0.05)
        assert len(script.heartbeats) == 1


def test_a_lane_that_was_fenced_stops_the_container(script: Scripted, clock: Clock) -> None:
    with BackgroundHeartbeats(script, seat_lease_of(clock), FOREVER) as heartbeats:
        fenced = lane_report(lane=FIRST, phase=LanePhase.FAILED, fenced=True, error="epoch 7 has taken over")
        with pytest.raises(FencedError, match="must stop: it was fenced") as caught:
            heartbeats.take([report("other-1", "running"), fenced])
        assert caught.value.cure == "epoch 7 has taken over"
        script.release.set()
    assert all(one.phase != "failed" for beat in script.heartbeats for one in beat.lanes)


def test_leaving_is_said_with_the_last_reports(script: Scripted, clock: Clock) -> None:
    with BackgroundHeartbeats(script, seat_lease_of(clock), FOREVER) as heartbeats:
        script.until(lambda come: len(come) == 1)
        heartbeats.leave([report(FIRST, "ended", 9)])
        left = script.heartbeats[-1]
        assert (left.leaving, left.lanes, left.number) == (True, (report(FIRST, "ended", 9),), 2)
        script.answered = lambda beat, wait: (_ for _ in ()).throw(UnreachableError("gone", ""))
        heartbeats.leave([report(FIRST, "ended", 9)])


def test_in_one_process_every_turn_is_a_beat(script: Scripted, clock: Clock) -> None:
    heartbeats = DirectHeartbeats(script, seat_lease_of(clock))
    assert heartbeats.take([report(FIRST, "running")]) == ok(1)
    assert script.waits == [0]
    script.answered = lambda _beat, _wait: HeartbeatResponse(alive=False, revision=-1, reason="another has its seat")
    with pytest.raises(FencedError, match="another has its seat"):
        heartbeats.take([])

    def breaks(_beat: Heartbeat, _wait: float) -> HeartbeatResponse:
        raise ValueError("the coordinator is broken")

    script.answered = breaks
    with pytest.raises(ValueError, match="is broken"):
        DirectHeartbeats(script, seat_lease_of(clock)).take([])


def test_in_one_process_a_store_that_is_full_is_waited_for(script: Scripted, clock: Clock) -> None:
    said: list[str] = []
    heartbeats = DirectHeartbeats(script, seat_lease_of(clock), clock, said.append)
    assert heartbeats.take([report(FIRST, "running")]) == ok(1)
    good = script.answered

    def full(_beat: Heartbeat, _wait: float) -> HeartbeatResponse:
        raise StoreUnavailableError("the disk of the store /s is full", "make room")

    script.answered = full
    for _ in range(21):
        assert heartbeats.take([report(FIRST, "running")]) == ok(1)  # what it was told last
        clock.at += 0.25
    assert len(script.heartbeats) == 7  # it isn't asked at every turn
    assert said == ["the disk of the store /s is full; the lanes keep running, and the store is tried again: make room"]
    script.answered = good
    clock.at += 1
    assert heartbeats.take([]) is not None
    assert said[1:] == ["the store can be used again, after 6 s"]


def test_in_one_process_the_coordinator_wakes_the_container_until_the_next_turn(script: Scripted, clock: Clock) -> None:
    polls, woken = LongPolls(), threading.Event()

    class Listened:
        register, heartbeat = script.register, script.heartbeat

        def listening(self, beat: Heartbeat, wake: Callable[[], object]) -> AbstractContextManager[None]:
            return polls.waiting(beat.container, beat.seen, wake)

    heartbeats = DirectHeartbeats(Listened(), seat_lease_of(clock))
    heartbeats.listen(woken.set)
    assert heartbeats.take([]) == ok(1)
    polls.wake(lambda container, seen: seen != 1)
    assert not woken.is_set()
    polls.wake(lambda container, seen: seen != 2)
    assert woken.is_set()
    heartbeats.take([])
    assert len(polls) == 1


def test_how_far_a_batch_is_is_told_each_second_and_at_once_when_it_begins(clock: Clock) -> None:
    """However long polls are."""
    waits: list[float] = []
    polled = threading.Event()

    class Coordinator:
        def register(self, registration: Registration) -> RegistrationResponse:
            return ME

        def heartbeat(self, beat: Heartbeat, wait: float = 0) -> HeartbeatResponse:
            if wait > 1.0:  # which a poll was that began before
                polled.wait(5)
            elif beat.lanes and beat.lanes[0].progress.batch_progress is not None:
                waits.append(wait)
                if len(waits) == 1:
                    polled.set()
            return ok(1, same=True)

    with BackgroundHeartbeats(Coordinator(), seat_lease_of(clock), FOREVER) as heartbeats:
        heartbeats.take([report(FIRST, "running", batch=3)])
        heartbeats.take([report(FIRST, "running", batch=3, batch_progress=BatchProgress(number=4, planned=9))])
        assert polled.wait(5)
    assert 0.0 in waits
