"""How often a lane is tried, when it stands still, and what is said of it meanwhile."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from anabranch.container.attempts import Attempts, Standstill
from anabranch.container.failures import Remedy
from anabranch.container.keeping import Keeper, Patience
from anabranch.model.lane import Lane
from anabranch.protocol.container import WantedLane
from anabranch.protocol.drain import DrainOrder
from anabranch.protocol.lane_report import LaneReport
from tests.unit.coordinator_helpers import FIRST, FLIGHTS, Clock, lane


def test_a_lane_is_given_up_after_failures_on_one_batch() -> None:
    attempts = Attempts(3)
    pauses = []
    for batch in (-1, -1, 0, 0, 4, 3, 3):
        pauses.append(attempts.again(batch))
        attempts.begin(batch)
    assert pauses == [1.0, 2.0, 1.0, 2.0, 1.0, 2.0, None]  # an older batch is no progress
    assert Attempts(1).again(7) is None


def test_pauses_have_an_upper_bound() -> None:
    attempts = Attempts(1000)
    for _ in range(900):
        attempts.begin(0)
    assert attempts.again(0) == 60.0


def at(offset: int, end: int) -> LaneReport:
    told = {"positions": {str(FLIGHTS): offset}, "ends": {str(FLIGHTS): end}}
    return LaneReport(lane=FIRST, phase="running", **told)


@pytest.mark.parametrize(
    ("seen", "found"),
    [
        ([(0, 5, 9), (11, 5, 9)], "at offset 5 for 11 s, with records up to 9"),
        ([(0, 5, 9), (9, 5, 9)], ""),
        ([(0, 5, 9), (9, 6, 9), (18, 6, 9)], ""),
        ([(0, 5, 5), (99, 5, 5)], ""),
        ([(0, 5, 5), (99, 5, 6), (108, 5, 7)], ""),
        ([(0, 5, 5), (99, 5, 6), (110, 5, 7)], "at offset 5 for 11 s"),
    ],
)
def test_a_lane_stands_still_when_records_wait_and_nothing_moves(seen: list[tuple[int, int, int]], found: str) -> None:
    standstill = Standstill(after=10)
    told = [standstill.seen(at(offset, end), now) for now, offset, end in seen]
    assert not any(told[:-1])
    assert found in told[-1]
    assert bool(told[-1]) == bool(found)


def test_it_waits_longer_each_time() -> None:
    standstill, now, waited = Standstill(after=10), 0, []
    for _ in range(9):
        begun = now
        standstill.begin()
        while not standstill.seen(at(5, 9), now):
            now += 1
        waited.append(now - begun - 1)
    assert waited == [10, 20, 40, 80, 160, 320, 640, 640, 640]


class Runner:
    """What a keeper calls, with reports by hand."""

    def __init__(self, lane: Lane) -> None:
        self.lane = lane
        self.remedy, self.stalled, self.awaits = Remedy.PROCESS, False, ""
        self.report = LaneReport(lane=lane.id, phase="starting", folder_epoch=lane.folder_epoch)
        self.stopped = self.started = self.alive = self.closed = False

    def start(self) -> None:
        self.started = self.alive = True

    def stop(self, at_once: bool = False) -> None:
        self.stopped = True

    def close(self, now: bool = False) -> None:
        self.closed = True

    def drain(self, how: DrainOrder | None) -> None:
        pass

    def acknowledge(self, upstream_ended: bool) -> None:
        self.say(phase="running")

    def join(self, timeout: float) -> bool:
        return not self.alive

    def say(self, **fields: Any) -> None:
        self.report = msgspec.structs.replace(self.report, **fields)
        self.alive = self.report.phase not in ("failed", "ended")


class Kept:
    """A keeper, the runners that it has made, and a clock."""

    def __init__(self, most: int = 3, replaceable: bool = False, longest: float = math.inf) -> None:
        self.runners: list[Runner] = []
        self.clock = Clock()
        self.lane = lane(FIRST)
        make: Any = self._make
        patience = Patience(longest, chance=lambda: 0.5, now=self.clock)
        self.keeper = Keeper(
            WantedLane(lane=self.lane), make, Attempts(most), self.clock, lambda: replaceable, patience
        )

    def _make(self, lane: Lane) -> Any:
        self.runners.append(Runner(lane))
        return self.runners[-1]

    def turn(self, seconds: float = 0.0, closing: bool = False) -> LaneReport:
        self.clock.at += seconds
        self.keeper.go_on(WantedLane(lane=self.lane, closing=closing))
        return self.keeper.report

    def fail(self, **fields: Any) -> LaneReport:
        self.runners[-1].say(phase="failed", error="boom", **fields)
        return self.keeper.report


def test_a_lane_that_failed_is_begun_again_after_a_pause() -> None:
    kept = Kept()
    kept.runners[0].say(folder_epoch=7)
    told = kept.fail()
    assert (told.phase, told.error, told.trouble, told.attempt) == ("starting", None, "boom", 2)
    kept.turn()
    kept.turn(5)
    assert len(kept.runners) == 1  # the coordinator doesn't know yet that the lane has a folder
    kept.lane = lane(FIRST, folder_epoch=7)
    kept.turn()
    assert [(runner.started, runner.lane.folder_epoch) for runner in kept.runners] == [(True, 0), (True, 7)]
    told = kept.turn()
    assert (told.phase, told.attempt, told.trouble, told.stalls) == ("running", 2, "boom", 0)
    kept.runners[1].stalled = True
    assert kept.fail().stalls == 1


def test_a_lane_that_fails_as_it_closes_is_begun_again_to_close() -> None:
    kept = Kept()
    kept.turn()
    kept.turn(closing=True)
    assert (kept.runners[0].closed, kept.keeper.closed) == (True, False)
    kept.fail()
    kept.turn(closing=True)
    kept.turn(5, closing=True)
    assert [runner.closed for runner in kept.runners] == [True, True]
    kept.runners[1].say(phase="ended")
    assert kept.keeper.closed


def test_that_its_query_has_begun_once_is_not_forgotten() -> None:
    kept = Kept()
    kept.runners[0].say(begun=True)
    assert kept.fail().begun
    kept.turn()
    told = kept.turn(5)
    assert (len(kept.runners), kept.runners[1].report.begun, told.begun) == (2, False, True)
    kept.runners[1].remedy = Remedy.NONE
    assert (kept.fail().phase, kept.keeper.report.begun) == ("failed", True)


def test_it_fails_alone_in_the_end() -> None:
    kept = Kept()
    phases = []
    for _ in range(3):
        phases.append(kept.fail(batch=5).phase)
        kept.turn()
        kept.turn(1.5)
        kept.turn(1.5)
    assert phases == ["starting", "starting", "failed"]
    told = kept.keeper.report
    assert (told.error, told.attempt, len(kept.runners), kept.keeper.ended) == ("boom", 3, 3, True)


def test_a_lane_waits_for_its_surroundings_without_end_and_counts_no_attempt() -> None:
    kept = Kept(most=1)
    for _ in range(50):
        kept.runners[-1].remedy, kept.runners[-1].awaits = Remedy.WAIT, "room on a disk"
        told = kept.fail()
        assert (told.phase, told.error, told.trouble, told.attempt) == ("starting", None, "boom", 1)
        assert (told.awaits, told.awaits_since) == ("room on a disk", 1000.0)
        kept.turn()
        kept.turn(20)
    assert len(kept.runners) == 51
    kept.runners[-1].say(phase="running")
    assert kept.turn().awaits == "room on a disk"  # whether it can write isn't known yet
    kept.runners[-1].say(batch=0)
    told = kept.turn()
    assert (told.phase, told.awaits, told.trouble) == ("running", "", "")


def test_a_lane_that_has_nothing_to_do_waits_no_more() -> None:
    kept = Kept()
    kept.runners[-1].remedy, kept.runners[-1].awaits = Remedy.WAIT, "the brokers of Kafka"
    kept.fail()
    kept.turn()
    kept.turn(20)
    kept.runners[-1].say(phase="running")
    assert kept.turn().awaits
    assert kept.turn(21).awaits == ""


def test_a_lane_that_waits_can_be_stopped() -> None:
    kept = Kept()
    kept.runners[-1].remedy, kept.runners[-1].awaits = Remedy.WAIT, "room on a disk"
    kept.fail()
    kept.turn()
    kept.keeper.stop()
    told = kept.keeper.report
    assert (told.phase, told.error, told.stopped, told.pending, told.awaits) == ("ended", None, True, True, "")


def test_a_lane_may_wait_for_so_long_only() -> None:
    kept = Kept(longest=30)
    for _ in range(4):
        kept.runners[-1].remedy, kept.runners[-1].awaits = Remedy.WAIT, "room on a disk"
        kept.fail()
        kept.turn()
        kept.turn(10)
    told = kept.keeper.report
    assert (told.phase, told.error) == ("failed", "boom")


def test_what_would_fail_again_is_not_tried() -> None:
    kept = Kept()
    kept.runners[0].remedy = Remedy.NONE
    assert kept.fail().phase == "failed"
    kept.turn(100)
    assert len(kept.runners) == 1


def test_a_lane_that_is_not_wanted_any_more_has_failed() -> None:
    kept = Kept()
    kept.fail()
    kept.keeper.stop()
    assert (kept.keeper.report.phase, kept.runners[0].stopped) == ("failed", True)


def test_another_container_may_try_when_this_one_leaves() -> None:
    kept = Kept()
    kept.fail(positions={str(FLIGHTS): 3})
    kept.keeper.leave()
    told = kept.keeper.report
    assert (told.phase, told.error, told.stopped, told.positions[str(FLIGHTS)]) == ("ended", None, True, 3)


def test_two_attempts_never_run_at_once() -> None:
    kept = Kept()
    kept.fail()
    kept.runners[0].alive = True  # its thread has not ended
    kept.turn()
    kept.turn(100)
    assert len(kept.runners) == 1
    kept.runners[0].alive = False
    kept.turn()
    assert len(kept.runners) == 2
