"""The same plan whatever the order of the input and the hash seed; on its own output nothing moves."""

from __future__ import annotations

import os
import random
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.planning.assignment.racks.problem import Answer, Container
from anabranch.planning.assignment.racks.reasons import compared
from anabranch.planning.assignment.racks.solver import solve
from tests.unit.planning.assignment.racks import helpers as referee
from tests.unit.planning.assignment.racks.helpers import changed

RULES: dict[str, dict[str, object]] = {
    "none": {"strategy": "none"},
    "min_traffic": {},
    "balance_subtopology": {"strategy": "balance_subtopology"},
    "fixed": {"loads": "fixed"},
    "reliability": {"standbys": 2},
    "cost": {"standbys": 2, "standby_order": "cost"},
    "mixed": {"standbys": 2, "reliable_standbys": 1},
    "joint": {"standbys": 1, "mode": "joint"},
    "joint by cost": {"standbys": 2, "mode": "joint", "standby_order": "cost"},
    "tags": {"standbys": 2, "tags": ["zone"]},
}


def plan(answer: Answer) -> object:
    return changed(answer, seconds=0.0)


@pytest.mark.long
@pytest.mark.parametrize("name", RULES)
@pytest.mark.suite(cases=5)
def test_the_same_after_100_shuffles(name: str) -> None:
    rng = random.Random(name)
    asked = referee.problem(rng, 8 if "joint" in name else 14, 5, stages=3, **RULES[name])
    answer = solve(asked)
    for _ in range(100):
        assert plan(solve(referee.shuffled(asked, rng))) == plan(answer)


def test_the_same_with_another_hash_seed() -> None:
    code = """
import random
from anabranch.planning.assignment.racks.solver import solve
from tests.unit.planning.assignment.racks import helpers as referee
from tests.unit.planning.assignment.racks.test_stability import RULES, plan
for name, rules in RULES.items():
    print(plan(solve(referee.problem(random.Random(name), 9, 5, stages=3, **rules))))
"""
    told = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(told) == 1


@pytest.mark.parametrize("name", RULES)
@pytest.mark.suite(cases=5)
def test_nothing_moves_on_its_own_output(name: str) -> None:
    rng = random.Random(f"again {name}")
    for _ in range(30):
        asked = referee.problem(rng, rng.randint(1, 12), rng.randint(1, 6), stages=2, **RULES[name])
        answer = solve(asked)
        again = solve(referee.shuffled(referee.carried_out(asked, answer), rng))
        assert (again.active, again.standby, again.moved) == (answer.active, answer.standby, 0)


@given(
    seed=st.integers(0, 10**6),
    tasks=st.integers(1, 30),
    containers=st.integers(1, 8),
    strategy=st.sampled_from(["none", "min_traffic"]),
)
@settings(max_examples=150)
def test_one_container_more_moves_what_balance_demands_or_what_pays(
    seed: int, tasks: int, containers: int, strategy: str
) -> None:
    rng = random.Random(seed)
    asked = referee.problem(rng, tasks, containers, strategy=strategy)
    asked = changed(
        asked, non_overlap_cost=1, tasks=tuple(changed(task, on=None, stateful=True) for task in asked.tasks)
    )
    asked = referee.carried_out(asked, solve(asked))
    more = Container(id="new", rack=asked.containers[0].rack, slots=rng.randint(1, 3))
    wider = changed(asked, containers=(*asked.containers, more))
    answer = compared(wider, solve(wider))
    loads = solve(asked).loads
    floors = {one.id: referee.share(wider, one, tasks) for one in wider.containers}
    demanded = max(
        sum(max(0, loads.get(one, 0) - high) for one, (_, high) in floors.items()),
        sum(max(0, low - loads.get(one, 0)) for one, (low, _) in floors.items()),
    )
    assert answer.needed_moves == demanded
    assert answer.saved_by_moves >= 0
    if strategy == "none":
        assert answer.moved == demanded
    else:
        assert (answer.moved == demanded) or answer.saved_by_moves > 0


@given(seed=st.integers(0, 10**6))
@settings(max_examples=60)
def test_what_further_moves_save_is_the_difference_to_the_best_plan_without_them(seed: int) -> None:
    rng = random.Random(seed)
    asked = referee.problem(rng, rng.randint(1, 5), rng.randint(1, 4))
    asked = changed(asked, tasks=tuple(changed(task, stateful=True) for task in asked.tasks))
    answer = compared(asked, solve(asked))
    if asked.non_overlap_cost == 0:
        return
    options = [
        value
        for value, _ in referee.active_values(asked, asked.tasks, {c.id: 0 for c in asked.containers}, len(asked.tasks))
    ]
    fewest = min(moves for _, moves in options)
    assert answer.needed_moves == fewest
    assert answer.saved_by_moves == min(cost for cost, moves in options if moves == fewest) - answer.cost
