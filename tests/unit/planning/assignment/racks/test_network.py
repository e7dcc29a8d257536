"""What the solver stands on: costs one after the other, and loads that are nearest to their shares."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from anabranch.planning.assignment.racks import network
from anabranch.planning.assignment.racks.balance import Slopes, nearest
from anabranch.planning.assignment.racks.reasons import compared
from anabranch.planning.assignment.racks.shares import between
from anabranch.planning.assignment.racks.solver import solve
from tests.unit.planning.assignment.racks import helpers as referee


@pytest.mark.parametrize("rules", [{}, {"standbys": 2}, {"standbys": 2, "standby_order": "cost"}], ids=str)
def test_costs_too_large_to_be_added_count_one_after_the_other(
    rules: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(str(rules))
    for _ in range(60):
        asked = referee.problem(rng, rng.randint(1, 15), rng.randint(1, 6), **rules)
        alike = tuple(referee.changed(task, stateful=True) for task in asked.tasks)
        asked = referee.changed(asked, tasks=alike)
        together = compared(asked, solve(asked))
        with monkeypatch.context() as patch:
            patch.setattr(network, "LARGEST_COST", 0)
            apart = compared(asked, solve(asked))
        if not rules:  # with standbys, another of several best placements of actives leaves them something else
            figures = (apart.cost, apart.moved, apart.saved_by_moves)
            assert figures == (together.cost, together.moved, together.saved_by_moves)
        assert (apart.cost, apart.gap) == (apart.lower_bound, 0)
        again = solve(referee.carried_out(asked, apart))
        assert (again.active, again.standby, again.moved) == (apart.active, apart.standby, 0)


def test_costs_and_moves_beyond_64_bits() -> None:
    """Together they don't fit: 2**53 * 31 moves * some 70 nodes."""
    rng = random.Random(0)
    asked = referee.problem(rng, 30, 6, traffic_cost=1, non_overlap_cost=0)
    heavy = tuple(
        referee.changed(
            task, partitions=tuple(referee.changed(one, weight=2**53 + rng.randint(0, 1)) for one in task.partitions)
        )
        for task in asked.tasks
    )
    answer = solve(referee.changed(asked, tasks=heavy))
    assert answer.gap == 0
    again = solve(referee.carried_out(referee.changed(asked, tasks=heavy), answer))
    assert (again.active, again.cost, again.moved) == (answer.active, answer.cost, 0)


@pytest.mark.parametrize("seed", range(3))
def test_nearest_bounds_hold_all_nearest_loads_and_no_others(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(80):
        size = rng.randint(1, 3)
        slots = np.array([rng.randint(1, 3) for _ in range(size)])
        most = np.array([rng.randint(0, 6) for _ in range(size)])
        prior = np.array([rng.choice([0, 0, 1, 4]) for _ in range(size)])
        if not most.sum():
            continue
        count = rng.randint(1, int(most.sum()))
        slopes = Slopes.of(between(count + int(prior.sum()), slots), prior, most, slots)
        loads = [np.array(one) for one in itertools.product(*(range(top + 1) for top in most)) if sum(one) == count]
        least = min(slopes.far(one) for one in loads)
        bounds = nearest(slopes, count)
        for one in loads:
            inside = bool((bounds.lower <= one).all() and (one <= bounds.upper).all())
            assert inside is (slopes.far(one) == least)
