"""The order of rounds, the ratios and the table of ``python -m bench.peers``."""

from __future__ import annotations

import pytest
from bench.support.rounds import Entry, Goal, Measured, goals, median, order, ratio, table, whole

OURS, PEER, OTHER = Entry("exactly once", "ours"), Entry("exactly once", "peer"), Entry("at least once", "other")


def runs(*figures: tuple[float, float]) -> list[Measured]:
    return [Measured(rate, cpu) for rate, cpu in figures]


def test_each_round_begins_with_another_entry_and_every_other_one_goes_backwards() -> None:
    entries = [OURS, PEER, OTHER]
    rounds = [order(entries, number) for number in range(6)]
    assert rounds[0] == [OURS, PEER, OTHER]
    assert rounds[1] == [OURS, OTHER, PEER]
    assert rounds[2] == [OTHER, OURS, PEER]
    for one in rounds:
        assert sorted(one) == sorted(entries)
    places = {entry: {one.index(entry) for one in rounds} for entry in entries}
    assert all(found == {0, 1, 2} for found in places.values()), places


@pytest.mark.parametrize("count", [1, 2, 3, 4, 8])
def test_over_as_many_rounds_as_there_are_entries_each_comes_first_or_last_as_often(count: int) -> None:
    entries = [Entry("", str(number)) for number in range(count)]
    rounds = [order(entries, number) for number in range(2 * count)]
    ends = [one[0] for one in rounds] + [one[-1] for one in rounds]
    assert {entry: ends.count(entry) for entry in entries} == dict.fromkeys(entries, 4)


def test_no_entries_have_no_order() -> None:
    assert order([], 3) == []


def test_medians_are_of_each_figure_by_itself() -> None:
    assert median(runs((100, 3.0), (300, 1.0), (200, 2.5))) == Measured(200, 2.5)
    assert median(runs((100, 3.0), (300, 1.0))) == Measured(200, 2.0)


def test_a_ratio_is_the_median_of_those_within_a_round() -> None:
    """A machine that was slow in one round was slow for both."""
    assert ratio(runs((100, 2.0), (10, 20.0), (90, 2.0)), runs((50, 1.0), (5, 10.0), (60, 1.0))) == Measured(2.0, 2.0)


def test_runs_that_do_not_pair_up_have_no_ratio() -> None:
    with pytest.raises(ValueError, match="longer"):
        ratio(runs((100, 2.0)), runs((50, 1.0), (60, 1.0)))


def test_a_round_that_broke_off_is_left_out() -> None:
    one, two = runs((1, 1), (2, 2)), runs((3, 3))
    assert whole({OURS: one, PEER: two}) == {OURS: one[:1], PEER: two}
    assert whole({OURS: one}) == {OURS: one}
    assert whole({}) == {}


def test_the_table_compares_within_a_promise() -> None:
    works = {
        "filter": {
            OURS: runs((200_000, 8.0), (240_000, 6.0)),
            PEER: runs((100_000, 2.0), (120_000, 2.0)),
            OTHER: runs((1_000_000, 1.0), (1_000_000, 1.0)),
        }
    }
    assert table(works, ["ours"])[2:] == [
        "| filter | at least once | other | 1,000,000 | 1,000,000, 1,000,000 | 1.00 | - |",
        "| filter | exactly once | ours | 220,000 | 200,000, 240,000 | 7.00 | - |",
        "| filter | exactly once | peer | 110,000 | 100,000, 120,000 | 2.00 | 2.00, 3.50 |",
    ]


def test_all_lines_of_the_table_have_as_many_cells() -> None:
    lines = table({"filter": {OURS: runs((1, 1)), PEER: runs((2, 1))}, "count": {PEER: runs((2, 1))}}, ["ours", "more"])
    assert {line.count("|") for line in lines} == {9}


def test_goals_are_told_of_what_ran() -> None:
    works = {"filter": {OURS: runs((110, 1)), PEER: runs((100, 1))}, "count": {OURS: runs((110, 1))}}
    wanted = [
        Goal("filter", OURS, PEER, 1.1),
        Goal("filter", OURS, PEER, 1.2),
        Goal("filter", OURS, OTHER, 1.0),
        Goal("count", OURS, PEER, 1.0),
        Goal("join", OURS, PEER, 1.0),
    ]
    assert goals(works, wanted) == [
        "filter: ours, exactly once / peer, exactly once: 1.10, goal 1.1: met",
        "filter: ours, exactly once / peer, exactly once: 1.10, goal 1.2: missed",
    ]
