"""What follows a failure of a lane: another attempt, a new process, or none; and how often that is."""

from __future__ import annotations

import pytest

from anabranch.container.error_text import Remedy
from anabranch.container.restarts import MOST, Restarts, Step, step
from tests.unit.container.supervised import Supervised


@pytest.mark.parametrize(
    ("remedy", "attempts_left", "processes_left", "follows"),
    [
        (Remedy.NONE, True, True, Step.FAILED),
        (Remedy.NONE, False, False, Step.FAILED),
        (Remedy.WAIT, False, False, Step.ATTEMPT),
        (Remedy.ATTEMPT, True, True, Step.ATTEMPT),
        (Remedy.ATTEMPT, True, False, Step.ATTEMPT),
        (Remedy.ATTEMPT, False, True, Step.FAILED),  # a new process would fail as well
        (Remedy.ATTEMPT, False, False, Step.FAILED),
        (Remedy.PROCESS, True, True, Step.ATTEMPT),  # quicker, and most such failures are of one moment
        (Remedy.PROCESS, True, False, Step.ATTEMPT),
        (Remedy.PROCESS, False, True, Step.PROCESS),
        (Remedy.PROCESS, False, False, Step.FAILED),
    ],
)
def test_what_follows(remedy: Remedy, attempts_left: bool, processes_left: bool, follows: Step) -> None:
    assert step(remedy, attempts_left=attempts_left, processes_left=processes_left) is follows


A, B = "0-a", "1-b"


@pytest.mark.parametrize(
    ("number", "before", "lane", "now", "follows"),
    [
        (0, {}, A, {A: -1, B: -1}, 1),
        (1, {A: -1, B: -1}, A, {A: -1, B: -1}, 2),
        (1, {A: 4, B: 7}, B, {A: 4, B: 7}, 2),
        (2, {A: 4, B: 7}, A, {A: 5, B: 7}, 1),  # it has committed a batch since
        (2, {A: 4, B: 7}, A, {A: 4, B: 9}, None),  # others have, and it hasn't
        (2, {A: 4, B: 7}, A, {A: -1}, None),  # it failed before it was known how far it was
        (2, {A: 4}, B, {B: 0}, 1),  # it was made since, and has committed a batch
        (2, {A: 4}, B, {B: -1}, None),
        (2, {A: 4, B: 7}, "", {A: 4, B: 8}, 1),  # Java has ended, and something was done before
        (2, {A: 4, B: 7}, "", {A: 4, B: 7}, None),
        (0, {}, "", {}, 1),  # it has ended before there were lanes
        (2, {}, "", {}, None),
    ],
)
def test_how_often(number: int, before: dict[str, int], lane: str, now: dict[str, int], follows: int | None) -> None:
    found = Restarts(number, before).after(lane, now, "it broke")
    assert found == (None if follows is None else Restarts(follows, {**before, **now}, "it broke"))


def test_without_progress_it_ends() -> None:
    here, processes = Restarts(), 0
    while (following := here.after(A, {A: 3}, "")) is not None and processes < 9:
        here, processes = following, processes + 1
    assert processes == MOST


def test_a_batch_that_was_known_before_is_no_progress() -> None:
    """A new attempt doesn't know its last batch until its query runs."""
    here: Restarts | None = Restarts()
    for now in ({A: 41}, {A: -1}, {A: 41}):
        assert here is not None
        here = here.after("", now, "Java has ended")
    assert here is None


def test_it_goes_through_the_environment() -> None:
    assert Restarts.of_text("") == Restarts()
    told = Restarts(2, {A: 3, B: -1}, "lane 0-a failed:\n  'why'")
    assert Restarts.of_text(told.to_text()) == told


def test_a_lane_waits_for_a_new_process_when_its_attempts_are_used_up() -> None:
    supervised = Supervised(most=2, replaceable=True)
    supervised.fail()
    assert not supervised.supervisor.needs_process
    supervised.turn()
    supervised.turn(5)
    told = supervised.fail()
    assert (told.phase, told.error, told.attempt.number, supervised.supervisor.needs_process) == (
        "starting",
        None,
        2,
        True,
    )
    supervised.turn(100)
    assert (len(supervised.runners), supervised.supervisor.ended) == (2, False)
    supervised.supervisor.leave()
    told = supervised.supervisor.report
    assert (told.phase, told.attempt.stopped, told.attempt.number, told.attempt.trouble) == ("ended", True, 3, "boom")


@pytest.mark.parametrize(("remedy", "replaceable"), [(Remedy.ATTEMPT, True), (Remedy.PROCESS, False)])
def test_it_fails_where_none_would_help_or_there_is_none(remedy: Remedy, replaceable: bool) -> None:
    supervised = Supervised(most=1, replaceable=replaceable)
    supervised.runners[0].remedy = remedy
    assert (supervised.fail().phase, supervised.supervisor.needs_process, supervised.supervisor.ended) == (
        "failed",
        False,
        True,
    )


def test_one_that_is_not_wanted_needs_no_process() -> None:
    supervised = Supervised(most=1, replaceable=True)
    supervised.fail()
    supervised.supervisor.stop()
    assert (supervised.supervisor.report.phase, supervised.supervisor.needs_process) == ("failed", False)
