"""Batches sized by time: what the next one may have, by how long the last ones took."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from anabranch.pace.controller import BatchRun, BatchTarget, Pace

AIM = BatchTarget(target=4.0, least=2, most=1_000_000, allowed=120.0)
FIRST = 50
BESIDE = 0.1
"""Seconds between two batches."""


@dataclass
class Lane:
    """A lane with more to read than it can: a batch takes ``fixed`` seconds and ``each`` for a record; ``disturbed``
    makes other seconds of them, by when the batch begins and its number."""

    each: float
    fixed: float = 0.4
    first: int = FIRST
    aim: BatchTarget = AIM
    noise: float = 0.1
    disturbed: Callable[[float, int, float], float] = lambda at, number, seconds: seconds

    def run(self, seconds: float) -> list[tuple[float, int, float]]:
        """When each batch ended, how many records it had, and how long it took."""
        chance, pace, at = random.Random(7), Pace(self.aim, self.first), 0.0
        found: list[tuple[float, int, float]] = []
        while at < seconds:
            rows = pace.limit
            took = self.fixed * (1 + self.noise * chance.random()) + self.each * rows
            took = self.disturbed(at, len(found), took)
            at += took + BESIDE
            pace = pace.after(BatchRun(rows, took))
            found.append((at, rows, took))
        return found


def rate(run: list[tuple[float, int, float]], begin: float, end: float) -> float:
    """Records a second of the batches that were run between."""
    inside = [(at - took - BESIDE, at, rows) for at, rows, took in run if at - took - BESIDE >= begin and at <= end]
    return sum(rows for *_, rows in inside) / (inside[-1][1] - inside[0][0])


@pytest.mark.parametrize(
    ("each", "fixed"),
    [(1e-6, 0.2), (3e-6, 0.4), (1e-5, 0.3), (1e-4, 0.4), (1e-3, 0.4), (2e-3, 0.5), (0.02, 0.4), (0.3, 0.4), (1.0, 0.4)],
)
def test_a_batch_comes_to_take_as_long_as_it_should_whatever_a_record_takes(each: float, fixed: float) -> None:
    *_, (_, rows, took) = Lane(each, fixed).run(240)
    assert rows == AIM.most or 0.8 * AIM.target <= took <= 1.25 * AIM.target


@pytest.mark.parametrize(("each", "within"), [(1e-6, 4.0), (1e-5, 4.0), (1e-4, 4.0), (1e-3, 6.0)])
def test_a_quick_job_is_at_full_speed_within_seconds(each: float, within: float) -> None:
    run = Lane(each).run(120)
    full = run[-1][1]
    reached = next(at - took for at, rows, took in run if rows >= 0.5 * full)
    assert reached <= within


@pytest.mark.parametrize("each", [0.02, 0.1, 1.0])
def test_nothing_is_known_and_yet_no_batch_is_long(each: float) -> None:
    run = Lane(each).run(300)
    assert max(took for *_, took in run) <= max(1.3 * AIM.target, FIRST * each + 1)
    assert max(took for *_, took in run[1:]) <= 1.6 * AIM.target


@pytest.mark.parametrize("each", [1e-5, 1e-3, 0.02])
@pytest.mark.parametrize("outage", [20.0, 70.0, 600.0])
def test_one_slow_batch_makes_one_batch_small_and_leaves_no_trace(each: float, outage: float) -> None:
    def away(_: float, number: int, seconds: float) -> float:
        return seconds + outage if number == 20 else seconds

    run = Lane(each, disturbed=away).run(outage + 200)
    before, small, after = run[19][1], run[21][1], run[22][1]
    assert small < before / 2
    assert after >= 0.8 * before
    ended = run[20][0]
    assert rate(run, ended + 5, ended + 65) >= 0.97 * rate(run, 20, run[19][0])


@pytest.mark.parametrize("times", [3, 8, 30])
def test_a_minute_after_a_machine_was_under_load_nothing_is_seen_of_it(times: int) -> None:
    def loaded(at: float, _: int, seconds: float) -> float:
        return seconds * times if 60 <= at < 130 else seconds

    run = Lane(1e-3, disturbed=loaded).run(320)
    ended = max(at for at, _, took in run if at - took - BESIDE < 130)
    assert rate(run, ended + 60, 320) >= 0.97 * rate(run, 20, 60)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("each", [1e-5, 1e-3])
def test_batches_that_differ_by_chance_take_as_long_as_they_should_on_average(each: float, seed: int) -> None:
    chance = random.Random(seed)
    run = Lane(each, disturbed=lambda _, __, seconds: seconds * chance.uniform(0.8, 1.25)).run(400)
    later = [took for at, _, took in run if at > 60]
    assert 0.9 * AIM.target <= sum(later) / len(later) <= 1.15 * AIM.target


def test_a_process_that_becomes_faster_soon_has_larger_batches() -> None:
    def warming(_: float, number: int, seconds: float) -> float:
        return seconds * max(1.0, 2.5 - number * 0.25)

    run = Lane(1e-5, disturbed=warming).run(120)
    warm = next(place for place in range(len(run)) if 2.5 - place * 0.25 <= 1.0)
    assert run[warm + 3][2] >= 0.9 * AIM.target


def test_a_slow_time_from_now_on_is_followed_at_once() -> None:
    def slower(at: float, _: int, seconds: float) -> float:
        return 0.4 + (seconds - 0.4) * 100 if at >= 60 else seconds

    run = Lane(1e-3, noise=0.0, disturbed=slower).run(900)
    slow = [took for at, _, took in run if at - took - BESIDE >= 60]
    assert slow[0] > 100
    assert max(slow[1:]) <= 1.5 * AIM.target
    assert min(slow[2:]) >= 0.5 * AIM.target


def test_time_that_does_not_go_by_records_is_told_apart_and_limits_do_not_creep_down() -> None:
    run = Lane(1e-5, fixed=10.0).run(900)
    assert run[-1][1] >= 500_000
    assert run[-1][2] <= 2.5 * 10.0 * 1.1


@pytest.mark.parametrize("fixed", [0.4, 2.0, 3.0, 4.0, 6.0, 10.0, 20.0])
@pytest.mark.parametrize(
    ("each", "first"), [*itertools.product([1e-4, 1e-3, 0.02], [2, 50, 5000]), (1.0, 2), (1.0, 50)]
)
@pytest.mark.parametrize("aim", [AIM, BatchTarget(4.0, 1, 1_000_000)], ids=["in transactions", "without"])
def test_fixed_time_near_or_above_the_target_is_not_taken_for_slow_records(
    fixed: float, each: float, first: int, aim: BatchTarget
) -> None:
    """As with lanes' folders in a slow object store. Batches that had fewer and fewer records were not quicker."""
    run = Lane(each, fixed, first=first, aim=aim).run(1800)
    seconds = max(4.0, 1.25 * fixed, min(4 * fixed, aim.allowed / 4))
    rows = min(aim.most, (seconds - fixed) / each)
    assert rate(run, 600, 1800) >= 0.85 * rows / (fixed + rows * each + BESIDE)
    assert max(took for at, _, took in run if at > 600) <= 1.6 * seconds


@given(st.floats(3.0, 15.0), st.floats(300.0, 3000.0), st.sampled_from([1e-4, 1e-3, 0.02]))
def test_fixed_time_that_grows_slowly_is_not_taken_for_slow_records(end: float, over: float, each: float) -> None:
    def growing(at: float, _: int, seconds: float) -> float:
        return seconds + (end - 0.4) * min(1.0, at / over)

    run = Lane(each, disturbed=growing).run(over + 1500)
    aimed = min(30.0, max(4.0, 4 * end))
    assert rate(run, over + 600, over + 1500) >= 0.7 * (aimed - end) / each / (aimed + BESIDE)


def test_fixed_time_that_is_longer_than_a_batch_may_take_leaves_some_for_records() -> None:
    run = Lane(1e-3, fixed=2.0, aim=BatchTarget(0.25, 1, 10**6, allowed=1.0)).run(200)
    assert run[-1][1] >= 200


def test_a_slow_first_batch_is_that_of_a_process_which_begins() -> None:
    run = Lane(1e-4, disturbed=lambda _, number, seconds: seconds + 7 if number == 0 else seconds).run(60)
    assert run[1][1] == FIRST
    assert next(at for at, rows, _ in run if rows > 20_000) < 7.5 + 6


@given(st.lists(st.tuples(st.sampled_from([1.0, 100.0]), st.floats(0.1, 1.0)), min_size=50, max_size=120))
def test_records_that_are_a_hundred_times_slower_than_others_neither_stop_it_nor_let_it_swing(
    speeds: list[tuple[float, float]],
) -> None:
    """Each batch is as fast as chance has it. None is longer than its records at their slowest can make it, after
    limits that none of the last batches contradicts; it never becomes smaller than the slowest records call for."""
    pace, each = Pace(AIM, FIRST), 0.001
    slowest = AIM.target / (100 * each)
    for times, part in speeds:
        rows = pace.limit
        assert rows >= min(FIRST, slowest * 0.1)
        pace = pace.after(BatchRun(rows, 0.4 + each * times * part * rows))
        assert pace.limit <= 10 * max([rows, *(ran.rows for ran in pace.ran)])


@given(st.integers(1, 10**6), st.floats(0.01, 3.9), st.integers(1, 10**6))
def test_a_batch_that_read_all_there_was_in_no_time_changes_nothing(rows: int, seconds: float, limit: int) -> None:
    pace = Pace(AIM, max(2, limit))
    for _ in range(10):
        pace = pace.after(BatchRun(rows, seconds, bound=False))
    assert pace.limit == max(2, limit)


def test_a_batch_that_read_all_there_was_and_took_long_says_how_long_records_take() -> None:
    pace = Pace(AIM, 100_000)
    for _ in range(2):
        pace = pace.after(BatchRun(100, 20.0, bound=False))
    assert pace.limit == 20


def test_a_batch_without_records_says_nothing() -> None:
    pace = Pace(AIM, 100)
    assert pace.after(BatchRun(0, 500.0)) == pace


ANY_RAN = st.builds(BatchRun, st.integers(0, 2 * 10**6), st.floats(0.0, 1e4), st.booleans())


SMALLER_THAN_ASKED = [BatchRun(100, 0.0), BatchRun(51, 0.0)]
"""The batch after them tries twice the rows of the last one, which are still fewer than the lowest limit."""


@example(SMALLER_THAN_ASKED, 103, 1000)
@given(st.lists(ANY_RAN, max_size=40), st.integers(1, 1000), st.integers(1000, 10**7))
def test_a_limit_stays_in_its_bounds_and_grows_by_ten_at_most(several: list[BatchRun], least: int, most: int) -> None:
    pace = Pace(BatchTarget(4.0, least, most, 120.0), least)
    for ran in several:
        before, pace = pace, pace.after(ran)
        assert least <= pace.limit <= most
        known = [each.rows for each in pace.ran]
        assert pace.limit <= max([before.limit, *(10 * rows for rows in known), least])
        assert 0.0 <= pace.fixed <= 1e4
        assert pace.target <= max(30.0, 1.25 * pace.fixed)


MISLEADING = [BatchRun(1, 5.0, bound=False), BatchRun(2, 5.0, bound=False), BatchRun(37601, 5.0)]
"""A fixed time of 5 s is estimated from them, and then batches of the most records look short."""


@example(MISLEADING, 1e-5)
@given(st.lists(ANY_RAN, max_size=20), st.sampled_from([1e-5, 1e-3, 0.02]))
def test_whatever_was_is_forgotten_within_some_batches(several: list[BatchRun], each: float) -> None:
    pace = Pace(AIM, FIRST)
    for ran in several:
        pace = pace.after(ran)
    for _ in range(30):
        pace = pace.after(BatchRun(pace.limit, 0.4 + each * pace.limit))
    assert 0.75 * AIM.target <= 0.4 + each * pace.limit <= 1.25 * AIM.target


def test_without_a_target_batches_have_all_they_may() -> None:
    pace = Pace(BatchTarget(math.inf, 1, 5000), 5000)
    for seconds in (0.1, 10.0, 1000.0, 0.1):
        pace = pace.after(BatchRun(5000, seconds))
        assert pace.limit == 5000


def test_without_a_target_batches_stay_away_from_the_end_of_a_transaction() -> None:
    pace = Pace(BatchTarget(math.inf, 1, 5000, allowed=120.0), 5000)
    pace = pace.after(BatchRun(5000, 20.0))
    assert pace.limit == 5000
    pace = pace.after(BatchRun(5000, 100.0))
    assert pace.limit == pytest.approx(5000 * 30 / 100, rel=0.3)


@pytest.mark.parametrize("allowed", [120.0, 900.0, math.inf])
def test_without_a_target_no_batch_is_made_smaller_to_learn_from_it(allowed: float) -> None:
    pace = Pace(BatchTarget(math.inf, 1, 5000, allowed=allowed), 5000)
    for _ in range(200):
        pace = pace.after(BatchRun(5000, 4.0))
        assert pace.limit == 5000


def test_what_failed_for_time_with_the_least_that_was_wanted_is_not_wanted_again() -> None:
    failed = Pace(BatchTarget(4.0, 64, 1000, 120.0), 64).failed(64)
    assert failed.limit < 16
    assert failed.after(BatchRun(failed.limit, 0.4 + 2.0 * failed.limit)).limit < 16


def test_a_batch_that_was_broken_off_goes_by_how_far_it_was() -> None:
    pace = Pace(AIM, 40_000)
    for _ in range(5):
        pace = pace.after(BatchRun(40_000, 4.0))
    assert 20 <= pace.failed(40_000, told=BatchRun(120, 12.0)).limit <= 45
    assert pace.failed(40_000, told=BatchRun(39_000, 12.0)).limit == 10_000


def test_a_batch_that_failed_for_time_is_far_smaller_and_the_next_ones_grow_again() -> None:
    pace = Pace(AIM, 40_000)
    for _ in range(5):
        pace = pace.after(BatchRun(40_000, 4.0))
    failed = pace.failed(40_000)
    assert 1 <= failed.limit <= 10_000
    assert failed.after(BatchRun(failed.limit, 0.4 + failed.limit * 1e-4)).limit >= 0.8 * 40_000


@pytest.mark.parametrize(("target", "allowed"), [*itertools.product([1.0, 4.0, 60.0], [20.0, 120.0, math.inf])])
def test_no_batch_comes_near_the_end_of_a_transaction(target: float, allowed: float) -> None:
    run = Lane(0.02, aim=BatchTarget(target, 1, 10**6, allowed)).run(600)
    assert max(took for *_, took in run) <= allowed / 2
