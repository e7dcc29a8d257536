"""Actives and standbys in one problem: no plan by the same rules costs less, or the bound says by how much."""

from __future__ import annotations

import itertools
import random
from collections import Counter

import pytest

from anabranch.planning.assignment.racks import joint
from anabranch.planning.assignment.racks.problem import Container, Partition, Problem, Task
from anabranch.planning.assignment.racks.reasons import explained
from anabranch.planning.assignment.racks.solver import solve
from tests.unit.planning.assignment.racks import helpers as referee
from tests.unit.planning.assignment.racks.helpers import changed, checked

RULES = [
    pytest.param({}, id="reliability"),
    pytest.param({"standby_order": "cost"}, id="cost"),
    pytest.param({"reliable_standbys": 1}, id="mixed"),
    pytest.param({"loads": "fixed"}, id="fixed"),
    pytest.param({"strategy": "balance_subtopology"}, id="stages"),
    pytest.param({"tags": ["zone"]}, id="tags"),
]


def least(asked: Problem) -> float:
    """By scipy: what stateful tasks and their standbys cost at least."""
    tasks = [task for task in asked.tasks if task.stateful]
    others = [task for task in asked.tasks if not task.stateful]
    fresh = solve(
        changed(asked, mode="sequential", tasks=tuple(changed(t, on=None, standby_on=()) for t in asked.tasks))
    )
    count = referee.copies(asked)
    model = referee.Milp()
    actives = referee.add_actives(model, asked, tasks, Counter(), others)
    standbys, away, constant = referee.add_standbys(model, asked, tasks, count)
    for pair, variable in actives.items():
        model.row(0, 1, [(variable, 1), (standbys[pair], 1)])
    model.row(-1e9, referee.far(asked, fresh.standby_loads, len(tasks) * count) - constant, away)
    if asked.standby_order == "reliability":
        spread = referee.add_spread(model, asked, tasks, [actives, standbys], {})
        model.row(fresh.spread, len(spread), spread)
    if asked.loads == "fixed":
        counts = Counter(fresh.active[task.name] for task in tasks)
        for one in asked.containers:
            model.row(counts[one.id], counts[one.id], [(actives[task.name, one.id], 1) for task in tasks])
    ids = {one.id for one in asked.containers}
    there = sum(min(len(set(task.standby_on) & ids), count) for task in tasks)
    return model.least() + asked.non_overlap_cost * there


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.suite(cases=3)
def test_no_plan_costs_less(rules: dict[str, object]) -> None:
    rng = random.Random(str(rules))
    better = 0
    for _ in range(35):
        asked = referee.problem(
            rng, rng.randint(1, 12), rng.randint(2, 6), stages=2, standbys=rng.randint(1, 3), mode="joint", **rules
        )
        answer = solve(asked)
        tasks = checked(asked, answer)
        if not tasks:
            continue
        assert referee.is_balanced(asked, answer.active, asked.tasks, asked.tasks)
        assert referee.is_balanced(asked, answer.active, tasks, tasks)
        stateful = changed(asked, tasks=tuple(tasks))
        assert referee.cost(stateful, answer.active, answer.standby) == pytest.approx(least(asked))
        assert answer.gap == 0
        better += answer.cost < solve(changed(asked, mode="sequential")).cost
    assert better > 3


def least_of_all(asked: Problem) -> float:
    """By trying everything. All tasks are stateful."""
    fresh = solve(
        changed(asked, mode="sequential", tasks=tuple(changed(t, on=None, standby_on=()) for t in asked.tasks))
    )
    count, names = referee.copies(asked), [task.name for task in asked.tasks]
    ids = [one.id for one in asked.containers]
    limit = referee.far(asked, fresh.standby_loads, len(names) * count)
    found = []
    for placed in itertools.product(ids, repeat=len(names)):
        active = dict(zip(names, placed, strict=True))
        if not referee.is_balanced(asked, active, asked.tasks, asked.tasks):
            continue
        options = [list(itertools.combinations([one for one in ids if one != at], count)) for at in placed]
        for chosen in itertools.product(*options):
            standby = dict(zip(names, chosen, strict=True))
            if referee.far(asked, Counter(itertools.chain(*chosen)), len(names) * count) > limit:
                continue
            spread = sum(referee.distinct(asked, [active[name], *standby[name]]) for name in names)
            if asked.standby_order == "cost" or spread >= fresh.spread:
                found.append(referee.cost(asked, active, standby))
    return min(found)


@pytest.mark.parametrize("order", ["reliability", "cost"])
def test_as_good_as_the_best_of_all_plans(order: str) -> None:
    rng = random.Random(order)
    for _ in range(60):
        asked = referee.problem(
            rng, rng.randint(1, 3), rng.randint(2, 4), standbys=rng.randint(1, 2), mode="joint", standby_order=order
        )
        asked = changed(asked, tasks=tuple(changed(task, stateful=True) for task in asked.tasks))
        answer = solve(asked)
        checked(asked, answer)
        assert (answer.cost, answer.gap) == (least_of_all(asked), 0)


def test_an_active_makes_way_for_what_is_dear() -> None:
    """Both racks have the input, only rack a has the changelog: alone, the active would stay in rack a."""
    inputs = (Partition(stream="in", partition=0, racks=("a", "b")),)
    state = (Partition(stream="state", partition=0, racks=("a",), weight=9),)
    asked = Problem(
        containers=(Container(id="c1", rack="a"), Container(id="c2", rack="b")),
        tasks=(Task(name="t", stateful=True, partitions=inputs, state_partitions=state, on="c1"),),
        standbys=1,
    )
    assert (solve(asked).active, solve(asked).cost) == ({"t": "c1"}, 90)
    together = solve(changed(asked, mode="joint"))
    assert (together.active, together.standby, together.cost, together.gap) == ({"t": "c2"}, {"t": ("c1",)}, 1, 0)
    assert explained(changed(asked, mode="joint"), together)["t"] == (
        "moves from c1 to c2; all it reads has a replica in rack b; with it in c1 the whole costs more; "
        "standbys in c1 (new): in 2 racks"
    )


def test_too_large_for_a_program_the_plan_is_sequential_and_its_bound_true(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(7)
    gaps = 0
    for _ in range(60):
        asked = referee.problem(rng, rng.randint(1, 8), rng.randint(2, 5), standbys=rng.randint(1, 2), mode="joint")
        exact = solve(asked)
        with monkeypatch.context() as patch:
            patch.setattr(joint, "MOST_OPTIONS", 0)
            rough = solve(asked)
        assert rough.cost == solve(changed(asked, mode="sequential")).cost
        stateful = [task for task in asked.tasks if task.stateful]
        assert rough.lower_bound <= rough.cost
        if len(stateful) == len(asked.tasks):
            assert rough.lower_bound <= exact.cost
        gaps += rough.gap > 0
    assert gaps


def test_reasons_of_joint_plans_speak_of_the_whole() -> None:
    """t reads a little in rack a, and its changelog much: so it reads across racks, though there is room."""
    reading = (Partition(stream="in", partition=0, racks=("a",)),)
    state = (Partition(stream="state", partition=0, racks=("a",), weight=9),)
    asked = Problem(
        containers=(Container(id="c1", rack="a"), Container(id="c2", rack="b")),
        tasks=(Task(name="t", stateful=True, partitions=reading, state_partitions=state),),
        standbys=1,
        mode="joint",
    )
    answer = solve(asked)
    assert (answer.active, answer.cost, answer.gap) == ({"t": "c2"}, 10, 0)
    assert "rack a would cost 10 less, but the whole would cost more" in explained(asked, answer)["t"]
