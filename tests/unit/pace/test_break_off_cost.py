"""How much of a batch is lost when its lane is told to end."""

from __future__ import annotations

import statistics

import pytest

from anabranch.pace import break_off_cost


@pytest.mark.parametrize(
    ("whole", "spent", "gradual", "likely"),
    [
        (6.0, 0.9, True, 1.0),
        (6.0, 1.85, True, 0.75),
        (6.0, 2.1, True, 0.5),  # near the middle, either may happen
        (6.0, 2.35, True, 0.25),
        (6.0, 2.35, False, 0.75),
        (6.0, 2.6, False, 0.5),
        (6.0, 3.1, False, 0.0),
        (6.0, 7.0, False, 0.0),
        (1.6, 0.1, True, 0.3),  # so brief that it rather isn't broken off
        (60.0, 20.0, False, 1.0),
        (60.0, 40.0, False, 0.0),
    ],
)
def test_a_batch_is_likely_to_be_broken_off_if_more_is_left_than_was_done(
    whole: float, spent: float, gradual: bool, likely: float
) -> None:
    assert break_off_cost.likelihood(whole, spent, 0.5, gradual=gradual) == pytest.approx(likely)


@pytest.mark.parametrize("gradual", [False, True])
@pytest.mark.parametrize("told", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("whole", [0.4, 1.0, 2.0, 2.5, 4.0, 9.0])
def test_the_mean_loss_is_the_mean_of_what_is_lost_at_all_moments(whole: float, told: float, gradual: bool) -> None:
    moments = [told + whole * at / 1000 for at in range(1001)]
    lost = [
        spent + break_off_cost.BROKEN_OFF if break_off_cost.is_worth_it(whole - spent, spent, gradual=gradual) else 0.0
        for spent in moments
    ]
    assert break_off_cost.mean_loss(whole, told, gradual=gradual) == pytest.approx(statistics.mean(lost), rel=0.02)


@pytest.mark.parametrize(
    ("left", "spent", "gradual", "found"),
    [
        (2.9, 1.0, True, True),
        (1.0, 3.0, True, False),
        (2.7, 1.0, True, False),
        (1.9, 1.0, False, True),
        (1.7, 1.0, False, False),
        (1.8, 0.1, True, False),
        (1.8, 0.1, False, True),
        (0.7, 0.0, False, False),
        (2.0, 0.1, True, True),
    ],
)
def test_a_batch_is_broken_off_if_more_is_left_than_is_lost(
    left: float, spent: float, gradual: bool, found: bool
) -> None:
    assert break_off_cost.is_worth_it(left, spent, gradual=gradual) is found


@pytest.mark.parametrize(
    ("left", "decided", "found"),
    [(1.7, True, True), (1.9, False, False), (0.7, True, False), (2.9, False, True), (1.9, None, True)],
)
def test_a_decision_stands_where_the_gain_is_a_close_call(left: float, decided: bool | None, found: bool) -> None:
    assert break_off_cost.is_worth_it(left, 1.0, gradual=False, decided=decided) is found
