"""How much of a batch is lost when its lane is told to end."""

from __future__ import annotations

import statistics

import pytest

from anabranch.pace import breaking_off


@pytest.mark.parametrize(
    ("whole", "spent", "lost"),
    [
        (4.0, 0.5, 1.0),  # what was done, and the time to break it off
        (4.0, 1.2, 1.7),
        (4.0, 2.0, 1.25),  # in the middle, either may happen
        (4.0, 2.25, 0.6875),
        (4.0, 2.6, 0.0),
        (4.0, 5.0, 0.0),
        (0.6, 0.3, 0.32),  # so little is left that it rather isn't broken off
        (60.0, 20.0, 20.5),
        (60.0, 40.0, 0.0),
    ],
)
def test_what_was_done_of_a_batch_is_lost_if_more_is_left(whole: float, spent: float, lost: float) -> None:
    assert breaking_off.expected_loss(whole, spent, 0.5) == pytest.approx(lost)


@pytest.mark.parametrize("whole", [2.0, 4.0, 9.0])
def test_the_mean_over_all_moments_is_about_an_eighth_of_a_batch(whole: float) -> None:
    moments = [breaking_off.expected_loss(whole, whole * at / 1000, 0.01) for at in range(1001)]
    assert breaking_off.mean_loss(whole) == pytest.approx(statistics.mean(moments), rel=0.02)


@pytest.mark.parametrize(
    ("left", "spent", "found"), [(3.0, 1.0, True), (1.0, 3.0, False), (0.4, 0.1, False), (0.6, 0.1, True)]
)
def test_a_batch_is_broken_off_if_more_is_left_than_is_lost(left: float, spent: float, found: bool) -> None:
    assert breaking_off.is_worth_it(left, spent) is found
