"""What a container knows of its seat, how it beats, and what ends it when it doesn't end."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from anabranch.container.heartbeats import BackgroundHeartbeats, DirectHeartbeats
from anabranch.container.seat_lease import SeatLease
from anabranch.coordinator.jobs.long_polls import LongPolls
from anabranch.errors import FencedError, StoreUnavailableError, UnreachableError
from anabranch.model.job_model import JobModel
from anabranch.protocol.container import Heartbeat, HeartbeatResponse, Registration, RegistrationResponse
from anabranch.protocol.lane_report import BatchProgress, LanePhase, LaneReport
from tests.unit.coordinator.helpers import FIRST, Clock, report

LEASE = 9.0
ME = RegistrationResponse(lease=LEASE, seat="0", container="delays:0:1", epoch=1)
FOREVER = 30.0


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=[True, False], ids=["survives", "must not survive"])
def survives(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def seat_lease_of(clock: Clock, *, survives: bool = True) -> SeatLease:
    return SeatLease(ME, clock.at, clock, survives=survives)


def ok(revision: int, **fields: Any) -> HeartbeatResponse:
    return HeartbeatResponse(alive=True, revision=revision, **fields)


# The agent


def test_beats_are_numbered_and_say_what_was_seen(clock: Clock) -> None:
    seat_lease = seat_lease_of(clock)
    first = seat_lease.beat([report(FIRST, "running")])
    assert first.beat == Heartbeat(container="delays:0:1", epoch=1, number=1, lanes=(report(FIRST, "running"),))
    seat_lease.hear(first, ok(7))
    second = seat_lease.beat([], leaving=True)
    assert second.beat == Heartbeat(container="delays:0:1", epoch=1, number=2, seen=7, leaving=True)


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
    why = "the coordinator was not heard for 6 s, and what it writes can't be fenced (nothing runs there)"
    assert seat_lease.must_stop == why
    assert seat_lease.lease_left > 0
    seat_lease.hear(seat_lease.beat([]), ok(1))
    assert seat_lease.must_stop == why


def test_who_may_survive_goes_on(clock: Clock) -> None:
    seat_lease = seat_lease_of(clock)
    seat_lease.miss("away")
    clock.at += 1000 * LEASE
    assert seat_lease.must_stop == ""


def test_a_refusal_counts_for_ever(clock: Clock, *, survives: bool) -> None:
    seat_lease = seat_lease_of(clock, survives=survives)
    old, refused, newer = seat_lease.beat([]), seat_lease.beat([]), seat_lease.beat([])
    seat_lease.hear(newer, ok(3))
    seat_lease.hear(refused, HeartbeatResponse(alive=False, revision=-1, reason="it was not heard for 12 s"))
    seat_lease.hear(old, ok(1))
    seat_lease.hear(seat_lease.beat([]), ok(9))
    assert seat_lease.must_stop == "it was not heard for 12 s"
    nameless = seat_lease_of(clock)
    nameless.hear(nameless.beat([]), HeartbeatResponse(alive=False, revision=-1))
    assert nameless.must_stop


# Beats


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
        assert said[1] == "the coordinator is heard again"
        until(lambda: heartbeats.take([]) == ok(4))
    assert len(said) == 2


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
        fenced = LaneReport(lane=FIRST, phase=LanePhase.FAILED, fenced=True, error="epoch 7 has taken over")
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
    assert said == ["the disk of the store /s is full; the lanes go on, and it is tried again: make room"]
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


# The watchdog

HANGS = """
import sys, threading
from anabranch.container import watchdog
ended, out = threading.Event(), sys.argv[1]
if out == "no stderr":
    sys.stderr.close()
watchdog.watch(lambda: "its seat is lost" if out != "lives" else "", ended, lambda: 0.2)
def hanging_for_ever():
    threading.Event().wait(0.6 if out == "lives" else 60)
if out == "stops":
    ended.set()
else:
    hanging_for_ever()
"""


@pytest.mark.parametrize(
    ("how", "code"),
    [("hangs", FencedError.exit_code), ("no stderr", FencedError.exit_code), ("stops", 0), ("lives", 0)],
)
def test_who_must_stop_and_doesn_t_is_ended(how: str, code: int) -> None:
    ran = subprocess.run([sys.executable, "-c", HANGS, how], capture_output=True, text=True, timeout=50, check=False)
    assert ran.returncode == code
    if how == "hangs":
        assert "error: its seat is lost\n  it didn't stop in time" in ran.stderr
        assert "hanging_for_ever" in ran.stderr
    else:
        assert ran.stderr == ""


TOLD = """
import time
from anabranch.cli import connect, container
def hanging_for_ever(*_):
    print("here", flush=True)
    time.sleep(60)
connect.at, container.STOPS_WITHIN = hanging_for_ever, 0.2
container.container("delays")
"""


def test_a_container_that_is_told_to_end_and_hangs_is_ended(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", TOLD], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=50)
    assert process.returncode == 1
    assert "error: the container was told to end\n  it didn't stop in time" in said
    assert "hanging_for_ever" in said


GONE = """
import subprocess, sys, threading
from types import SimpleNamespace
from anabranch.container import watchdog
from anabranch.spark.internals import java_process
java = subprocess.Popen(["sleep", "30"])
spark = SimpleNamespace(sparkContext=SimpleNamespace(_gateway=SimpleNamespace(proc=java)))
ended = threading.Event()
watchdog.watch_java(lambda: java_process.is_gone(spark), ended, lambda _: None)
threading.Event().wait(0.3)
if sys.argv[1] == "ended":
    ended.set()
if sys.argv[1] == "no stderr":
    sys.stderr.close()
java.kill()
threading.Event().wait(1.0 if sys.argv[1] == "ended" else 60)
"""


@pytest.mark.parametrize(("how", "code"), [("killed", 1), ("no stderr", 1), ("ended", 0)])
def test_a_container_whose_java_process_is_gone_ends(how: str, code: int) -> None:
    ran = subprocess.run([sys.executable, "-c", GONE, how], capture_output=True, text=True, timeout=50, check=False)
    assert ran.returncode == code, ran.stderr
    assert ("the Java process of Spark has ended" in ran.stderr) == (how == "killed")


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
            elif beat.lanes and beat.lanes[0].batch_progress is not None:
                waits.append(wait)
                if len(waits) == 1:
                    polled.set()
            return ok(1, same=True)

    with BackgroundHeartbeats(Coordinator(), seat_lease_of(clock), FOREVER) as heartbeats:
        heartbeats.take([report(FIRST, "running", batch=3)])
        heartbeats.take([report(FIRST, "running", batch=3, batch_progress=BatchProgress(number=4, planned=9))])
        assert polled.wait(5)
    assert 0.0 in waits
