"""How often a lane is tried, when it stands still, and what is said of it meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from anabranch.container.error_text import Remedy
from anabranch.container.lane.events import Closing
from anabranch.container.lane.lifecycle import Leaving, Phase
from anabranch.container.retries import Retries, Standstill
from anabranch.protocol.lane_report import BatchProgress, LanePhase, LaneReport
from tests.support.reports import lane_report
from tests.unit.container.supervised import Supervised
from tests.unit.coordinator.helpers import FIRST, FLIGHTS, lane


def test_a_lane_is_given_up_after_failures_on_one_batch() -> None:
    retries = Retries(3)
    pauses = []
    for batch in (-1, -1, 0, 0, 4, 3, 3):
        pauses.append(retries.again(batch))
        retries.begin(batch)
    assert pauses == [1.0, 2.0, 1.0, 2.0, 1.0, 2.0, None]  # an older batch is no progress
    assert Retries(1).again(7) is None


def test_batches_of_earlier_processes_are_no_progress() -> None:
    retries = Retries(3)
    pauses = []
    for batch, before in ((-1, -1), (57, 57), (57, 57)):
        pauses.append(retries.again(batch, before))
        retries.begin(batch, before)
    assert pauses == [1.0, 2.0, None]


def test_pauses_have_an_upper_bound() -> None:
    retries = Retries(1000)
    for _ in range(900):
        retries.begin(0)
    assert retries.again(0) == 60.0


def at(offset: int, end: int) -> LaneReport:
    told = {"positions": {str(FLIGHTS): offset}, "ends": {str(FLIGHTS): end}}
    return lane_report(lane=FIRST, phase=LanePhase.RUNNING, **told)


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


def test_a_lane_that_failed_is_begun_again_after_a_pause() -> None:
    supervised = Supervised()
    supervised.runners[0].take_folder(7)
    told = supervised.fail()
    assert (told.phase, told.error, told.attempt.trouble, told.attempt.number) == ("starting", None, "boom", 2)
    supervised.turn()
    supervised.turn(5)
    assert len(supervised.runners) == 1  # the coordinator doesn't know yet that the lane has a folder
    supervised.lane = lane(FIRST, folder_epoch=7)
    supervised.turn()
    assert [(runner.started, runner.lane.folder_epoch) for runner in supervised.runners] == [(True, 0), (True, 7)]
    told = supervised.turn()
    assert (told.phase, told.attempt.number, told.attempt.trouble, told.attempt.stalls) == ("running", 2, "boom", 0)
    supervised.runners[1].stalled = True
    assert supervised.fail().attempt.stalls == 1


def test_a_lane_that_fails_as_it_closes_is_begun_again_to_close() -> None:
    supervised = Supervised()
    supervised.turn()
    supervised.turn(closing=True)
    assert (supervised.state.closing, supervised.supervisor.closed) == (Closing.YES, False)
    supervised.fail()
    supervised.turn(closing=True)
    supervised.lane = lane(FIRST, folder_epoch=1)
    supervised.turn(5, closing=True)
    supervised.turn(closing=True)
    assert (supervised.state.closing, supervised.state.phase, len(supervised.runners)) == (
        Closing.YES,
        Phase.FINISHING,
        2,
    )
    supervised.runners[1].end()
    assert supervised.supervisor.closed


def test_dead_letters_of_earlier_attempts_are_not_forgotten() -> None:
    supervised = Supervised()
    supervised.turn()
    supervised.fail(dead_letters=7)
    supervised.turn()
    supervised.lane = lane(FIRST, folder_epoch=1)
    supervised.turn(5)
    assert [runner.lane.put_aside for runner in supervised.runners] == [0, 7]


def test_that_its_query_has_begun_once_is_not_forgotten() -> None:
    supervised = Supervised()
    supervised.runners[0].say(begun=True)
    assert supervised.fail().attempt.begun
    supervised.turn()
    told = supervised.turn(5)
    assert (len(supervised.runners), supervised.runners[1].report.attempt.begun, told.attempt.begun) == (2, False, True)
    supervised.runners[1].remedy = Remedy.NONE
    assert (supervised.fail().phase, supervised.supervisor.report.attempt.begun) == ("failed", True)


def test_it_fails_alone_in_the_end() -> None:
    supervised = Supervised()
    supervised.lane = lane(FIRST, folder_epoch=1)
    phases = []
    for _ in range(3):
        phases.append(supervised.fail(batch=5).phase)
        supervised.turn()
        supervised.turn(1.5)
        supervised.turn(1.5)
    assert phases == ["starting", "starting", "failed"]
    told = supervised.supervisor.report
    assert (told.error, told.attempt.number, len(supervised.runners), supervised.supervisor.ended) == (
        "boom",
        3,
        3,
        True,
    )


def test_a_lane_waits_for_its_surroundings_without_end_and_counts_no_attempt() -> None:
    supervised = Supervised(most=1)
    supervised.lane = lane(FIRST, folder_epoch=1)
    for _ in range(50):
        supervised.runners[-1].remedy, supervised.runners[-1].awaits = Remedy.WAIT, "room on a disk"
        told = supervised.fail()
        assert (told.phase, told.error, told.attempt.trouble, told.attempt.number) == ("starting", None, "boom", 1)
        assert (told.attempt.awaits, told.attempt.awaits_since) == ("room on a disk", 1000.0)
        supervised.turn()
        supervised.turn(20)
    assert len(supervised.runners) == 51
    supervised.runners[-1].say(phase=LanePhase.RUNNING)
    assert supervised.turn().attempt.awaits == "room on a disk"  # whether it can write isn't known yet
    supervised.runners[-1].say(batch=0)
    told = supervised.turn()
    assert (told.phase, told.attempt.awaits, told.attempt.trouble) == ("running", "", "")


def test_a_lane_that_has_nothing_to_do_waits_no_more() -> None:
    supervised = Supervised()
    supervised.lane = lane(FIRST, folder_epoch=1)
    supervised.runners[-1].remedy, supervised.runners[-1].awaits = Remedy.WAIT, "the brokers of Kafka"
    supervised.fail()
    supervised.turn()
    supervised.turn(20)
    supervised.runners[-1].say(phase=LanePhase.RUNNING)
    assert supervised.turn().attempt.awaits
    assert supervised.turn(21).attempt.awaits == ""
    supervised.clock.at += 100
    supervised.runners[-1].remedy, supervised.runners[-1].awaits = Remedy.WAIT, "the brokers of Kafka"
    supervised.fail()
    began = 2000 - supervised.clock()
    supervised.turn()
    told = supervised.turn(0.5)
    assert (told.attempt.awaits, told.attempt.awaits_since) == ("the brokers of Kafka", began)  # another wait


def attempts_that_fail(supervised: Supervised, hours: int, run: Callable[[int], None]) -> None:
    """A lane fails again and again for its surroundings, until it is given up, but for so long at most. ``run`` says
    what happens in each attempt."""
    supervised.lane = lane(FIRST, folder_epoch=1)
    for number in range(hours * 3600):
        supervised.runners[-1].remedy, supervised.runners[-1].awaits = Remedy.WAIT, "the brokers of Kafka"
        run(number)
        supervised.fail()
        before = len(supervised.runners)
        while len(supervised.runners) == before and not supervised.supervisor.ended:
            supervised.turn(1)
        if supervised.supervisor.ended or supervised.clock.at > hours * 3600:
            break


def test_an_attempt_that_does_not_know_its_batch_yet_does_not_prolong_the_wait() -> None:
    supervised = Supervised(longest=600)

    def run(number: int) -> None:
        if number % 2:  # the others fail while they take their folders
            supervised.runners[-1].say(phase=LanePhase.RUNNING, batch=41)
            supervised.turn(1)

    attempts_that_fail(supervised, 2, run)
    assert supervised.supervisor.report.phase == "failed"
    assert supervised.clock.at < 1000 + 700


@pytest.mark.parametrize(("batch", "awaits"), [(57, "the brokers of Kafka"), (58, "")])
def test_batches_of_earlier_processes_do_not_end_a_wait(batch: int, awaits: str) -> None:
    supervised = Supervised()
    supervised.lane = lane(FIRST, folder_epoch=1)
    supervised.runners[-1].remedy, supervised.runners[-1].awaits = Remedy.WAIT, "the brokers of Kafka"
    supervised.fail()  # before the query runs
    supervised.turn()
    supervised.turn(20)
    supervised.runners[-1].committed_before = 57
    supervised.runners[-1].say(phase=LanePhase.RUNNING, batch=batch)
    assert supervised.turn().attempt.awaits == awaits


@pytest.mark.parametrize(
    "work",
    [
        {"batch_progress": BatchProgress(number=42, planned=7)},
        {"positions": {str(FLIGHTS): 3}, "ends": {str(FLIGHTS): 4}},  # its batch can't be planned
        {"ends_known": False},
    ],
)
def test_a_query_that_runs_for_a_while_and_then_fails_on_its_batch_does_not_prolong_the_wait(work: Any) -> None:
    supervised = Supervised(longest=600)
    awaited: list[str] = []

    def run(_: int) -> None:
        supervised.runners[-1].say(phase=LanePhase.RUNNING, batch=41, **work)
        for _ in range(30):
            supervised.turn(1)
        awaited.append(supervised.supervisor.report.attempt.awaits)

    attempts_that_fail(supervised, 2, run)
    assert supervised.supervisor.report.phase == "failed"
    assert set(awaited) == {""}  # but while it runs, it doesn't count as waiting
    assert supervised.clock.at < 1000 + 900


def test_the_time_in_which_a_lane_runs_does_not_count_as_a_wait() -> None:
    supervised = Supervised(longest=60)
    supervised.lane = lane(FIRST, folder_epoch=1)
    for seconds in (0, 1000):
        supervised.runners[-1].remedy, supervised.runners[-1].awaits = Remedy.WAIT, "the brokers of Kafka"
        supervised.runners[-1].say(phase=LanePhase.RUNNING, batch_progress=BatchProgress(number=0, planned=7))
        for _ in range(seconds):
            supervised.turn(1)
        supervised.fail(batch_progress=None)
        supervised.turn()
        supervised.turn(10)
    assert (len(supervised.runners), supervised.supervisor.ended) == (3, False)


def test_a_lane_that_waits_can_be_stopped() -> None:
    supervised = Supervised()
    supervised.lane = lane(FIRST, folder_epoch=1)
    supervised.runners[-1].remedy, supervised.runners[-1].awaits = Remedy.WAIT, "room on a disk"
    supervised.fail()
    supervised.turn()
    supervised.supervisor.stop()
    told = supervised.supervisor.report
    assert (told.phase, told.error, told.attempt.stopped, told.attempt.pending, told.attempt.awaits) == (
        "ended",
        None,
        True,
        True,
        "",
    )


def test_a_lane_may_wait_for_so_long_only() -> None:
    supervised = Supervised(longest=30)
    supervised.lane = lane(FIRST, folder_epoch=1)
    for _ in range(4):
        supervised.runners[-1].remedy, supervised.runners[-1].awaits = Remedy.WAIT, "room on a disk"
        supervised.fail()
        supervised.turn()
        supervised.turn(10)
    told = supervised.supervisor.report
    assert (told.phase, told.error) == ("failed", "boom")


def test_what_would_fail_again_is_not_tried() -> None:
    supervised = Supervised()
    supervised.runners[0].remedy = Remedy.NONE
    assert supervised.fail().phase == LanePhase.FAILED
    supervised.turn(100)
    assert len(supervised.runners) == 1


def test_a_lane_that_is_not_wanted_any_more_has_failed() -> None:
    supervised = Supervised()
    supervised.fail()
    supervised.supervisor.stop()
    assert (supervised.supervisor.report.phase, supervised.state.leaving) == ("failed", Leaving.AT_BATCH_END)


def test_another_container_may_try_when_this_one_leaves() -> None:
    supervised = Supervised()
    supervised.fail(positions={str(FLIGHTS): 3})
    supervised.supervisor.leave()
    told = supervised.supervisor.report
    assert (told.phase, told.error, told.attempt.stopped, told.progress.positions[str(FLIGHTS)]) == (
        "ended",
        None,
        True,
        3,
    )


def test_two_attempts_never_run_at_once() -> None:
    supervised = Supervised()
    supervised.fail()
    supervised.runners[0].alive = True  # its thread has not ended
    supervised.turn()
    supervised.turn(100)
    assert len(supervised.runners) == 1
    supervised.runners[0].alive = False
    supervised.turn()
    assert len(supervised.runners) == 2
