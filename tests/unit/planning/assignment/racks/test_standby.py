"""Standbys: valid, and in the order of what counts as good as they can be."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Mapping, Sequence

import pytest

from anabranch.errors import ConfigError
from anabranch.planning.assignment.racks import copies
from anabranch.planning.assignment.racks.fitting import fit
from anabranch.planning.assignment.racks.problem import Answer, Container, Partition, Problem, Task
from anabranch.planning.assignment.racks.reasons import explained
from anabranch.planning.assignment.racks.solver import solve
from tests.unit.planning.assignment.racks import helpers as referee
from tests.unit.planning.assignment.racks.helpers import changed, checked

ORDERS = ["reliability", "cost"]


def value_of(asked: Problem, answer: Answer, tasks: Sequence[Task], reliable: bool) -> referee.Value:
    taken = {task.name: (answer.active[task.name],) for task in tasks}
    placed = {task.name: answer.standby[task.name] for task in tasks}
    return referee.standby_value(asked, taken, placed, reliable, len(tasks) * referee.copies(asked))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.suite(cases=4)
def test_as_good_as_the_best_of_all_placements(order: str, seed: int) -> None:
    rng = random.Random(f"{order} {seed}")
    tried = 0
    for _ in range(150):
        asked = referee.problem(
            rng,
            rng.randint(1, 5),
            rng.randint(1, 6),
            standbys=rng.randint(1, 3),
            standby_order=order,
            strategy=rng.choice(["none", "min_traffic", "min_traffic"]),
        )
        answer = solve(asked)
        tasks = checked(asked, answer)
        assert answer.gap == 0
        count = referee.copies(asked)
        taken = {task.name: (answer.active[task.name],) for task in tasks}
        found = referee.best_standbys(asked, taken, count, order == "reliability", len(tasks) * count)
        if found is not None:
            tried += 1
            assert value_of(asked, answer, tasks, order == "reliability") == found[0]
    assert tried > 100


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("seed", range(2))
def test_as_good_as_another_solver_finds(order: str, seed: int) -> None:
    rng = random.Random(f"{order} {seed}")
    for _ in range(25):
        asked = referee.problem(
            rng, rng.randint(5, 25), rng.randint(3, 8), standbys=rng.randint(1, 3), standby_order=order
        )
        asked = changed(asked, non_overlap_cost=0)
        answer = solve(asked)
        tasks = checked(asked, answer)
        assert answer.gap == 0
        if not tasks:
            continue
        count = referee.copies(asked)
        model = referee.Milp()
        at, away, constant = referee.add_standbys(model, asked, tasks, count)
        for task in tasks:
            model.row(0, 0, [(at[task.name, answer.active[task.name]], 1)])
        spread = referee.add_spread(model, asked, tasks, [at], answer.active)
        value = value_of(asked, answer, tasks, order == "reliability")
        if order == "reliability":
            assert answer.spread == answer.most_spread
            model.row(answer.spread - len(tasks), len(spread), spread)
        costs = [0.0] * len(model.costs)
        for variable, factor in away:
            costs[variable] = factor
        near = value[1] if order == "reliability" else value[0]
        assert model.least(costs) + constant == pytest.approx(near)
        model.row(-1e9, near - constant + 0.5, away)
        traffic = value[2] if order == "reliability" else value[1]
        assert model.least() == pytest.approx(traffic * asked.traffic_cost)
        if order == "cost":
            model.row(0, traffic * asked.traffic_cost + 0.1, [(n, cost) for n, cost in enumerate(model.costs) if cost])
            costs = [0.0] * len(model.costs)
            for variable, _ in spread:
                costs[variable] = -1
            assert len(tasks) - model.least(costs) == pytest.approx(answer.spread)


def without(placed: Mapping[str, Sequence[str]], first: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(one for one in where if one not in first[name]) for name, where in placed.items()}


@pytest.mark.parametrize("seed", range(3))
def test_some_copies_by_reliability_and_the_others_by_cost(seed: int) -> None:
    rng = random.Random(seed)
    tried = 0
    for _ in range(80):
        asked = referee.problem(
            rng, rng.randint(1, 4), rng.randint(3, 5), standbys=rng.randint(2, 3), reliable_standbys=1
        )
        answer = solve(asked)
        tasks = checked(asked, answer)
        assert answer.gap == 0
        count = referee.copies(asked)
        taken = {task.name: (answer.active[task.name],) for task in tasks}
        first = {task.name: answer.standby[task.name][:1] for task in tasks}
        found = referee.best_standbys(asked, taken, 1, True, len(tasks))
        held = {name: (*taken[name], *first[name]) for name in taken}
        rest = referee.best_standbys(asked, held, count - 1, False, len(tasks) * count)
        if found is not None and rest is not None:
            tried += 1
            placed = {task.name: answer.standby[task.name] for task in tasks}
            assert referee.standby_value(asked, taken, first, True, len(tasks)) == found[0]
            second = without(placed, first)
            assert referee.standby_value(asked, held, second, False, len(tasks) * count) == rest[0]
    assert tried > 50


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("order", ORDERS)
def test_with_tags_one_copy_is_the_best_and_bounds_of_several_are_true(order: str, seed: int) -> None:
    rng = random.Random(f"{order} {seed}")
    exact = 0
    for _ in range(100):
        asked = referee.problem(
            rng,
            rng.randint(1, 4),
            rng.randint(2, 6),
            standbys=rng.randint(1, 2),
            standby_order=order,
            tags=["cluster", "zone"][: rng.randint(1, 2)],
        )
        answer = solve(asked)
        tasks = checked(asked, answer)
        count = referee.copies(asked)
        taken = {task.name: (answer.active[task.name],) for task in tasks}
        found = referee.best_standbys(asked, taken, count, order == "reliability", len(tasks) * count)
        if found is None or not tasks:
            continue
        value = value_of(asked, answer, tasks, order == "reliability")
        assert value >= found[0]
        cost, spread = min(
            (
                referee.cost(asked, answer.active, {**answer.standby, **placed}),
                -sum(referee.distinct(asked, [answer.active[n], *where]) for n, where in placed.items()),
            )
            for placed in found[1]
        )
        assert answer.lower_bound <= cost
        assert -spread <= answer.most_spread
        if count == 1:
            assert (value, answer.gap) == (found[0], 0)
        exact += value == found[0]
    assert exact > 60


def test_a_copy_is_in_another_rack_even_where_that_costs_more() -> None:
    state = (Partition(stream="state", partition=0, racks=("a",)),)
    asked = Problem(
        containers=(Container(id="c1", rack="a"), Container(id="c2", rack="a"), Container(id="c3", rack="b")),
        tasks=(Task(name="t", stateful=True, partitions=state, state_partitions=state),),
        standbys=1,
    )
    near = solve(changed(asked, standby_order="cost"))
    far = solve(asked)
    assert (near.traffic, near.spread) == (0, 1)
    assert (far.traffic, far.spread, far.standby["t"]) == (1, 2, ("c3",))
    assert explained(asked, far)["t"].endswith("; standbys in c3 (new): in 2 racks")
    assert far.traffic_by_role is not None
    assert (far.traffic_by_role.active, far.traffic_by_role.standby) == (0, 1)


@pytest.mark.parametrize("order", ORDERS)
def test_a_number_of_reliable_copies_takes_the_place_of_the_order(order: str) -> None:
    state = (Partition(stream="state", partition=0, racks=("a",)),)
    asked = Problem(
        containers=(Container(id="c1", rack="a"), Container(id="c2", rack="a"), Container(id="c3", rack="b")),
        tasks=(Task(name="t", stateful=True, partitions=state, state_partitions=state),),
        standbys=1,
    )
    spreads = [solve(changed(asked, standby_order=order, reliable_standbys=count)).spread for count in (0, 1)]
    assert spreads == [1, 2]


def test_more_standbys_than_containers() -> None:
    asked = Problem(
        containers=(Container(id="c1", rack="a"), Container(id="c2", rack="b")),
        tasks=(Task(name="t", stateful=True), Task(name="u")),
        standbys=9,
    )
    answer = solve(asked)
    assert {answer.active["t"], *answer.standby["t"]} == {"c1", "c2"}
    assert answer.standby["u"] == ()


def test_where_racks_are_uneven_standbys_are_as_near_to_their_shares_as_can_be() -> None:
    """Nine of twelve actives are in rack a, so nine standbys must share the one container of rack b."""
    racks = {"c1": "a", "c2": "a", "c3": "a", "c4": "b"}
    asked = Problem(
        containers=tuple(Container(id=one, rack=rack) for one, rack in racks.items()),
        tasks=tuple(Task(name=f"t{number}", stateful=True) for number in range(12)),
        standbys=1,
    )
    assert solve(asked).standby_loads == {"c1": 1, "c2": 1, "c3": 1, "c4": 9}
    assert solve(changed(asked, standby_order="cost")).standby_loads == {"c1": 3, "c2": 3, "c3": 3, "c4": 3}


def test_too_many_to_be_placed_exactly_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two racks for three copies, of which one is crowded: what goes where in a rack takes all arcs."""
    monkeypatch.setattr(copies, "MOST_PAIRS", 0)
    rng = random.Random(0)
    refused = []
    for _ in range(60):
        try:
            solve(referee.problem(rng, 5, 5, standbys=2))
        except ConfigError as error:
            refused.append(str(error))
    assert 0 < len(refused) < 30
    assert "too many to be placed exactly\n  ask for fewer standbys than there are racks" in refused[0]


@pytest.mark.parametrize("seed", range(3))
def test_copies_are_fitted_whenever_they_can_be(seed: int) -> None:
    rng = random.Random(seed)
    fitted = 0
    for _ in range(150):
        containers, tasks = range(rng.randint(1, 4)), range(rng.randint(1, 5))
        barred = {task: {one for one in containers if rng.random() < 0.25} for task in tasks}
        wanted = {task: rng.randint(0, len(containers) - len(barred[task])) for task in tasks}
        loads = dict.fromkeys(containers, 0)
        for _ in range(sum(wanted.values())):
            loads[rng.choice(containers)] += 1
        options = [
            list(itertools.combinations([one for one in containers if one not in barred[task]], wanted[task]))
            for task in tasks
        ]
        ways = any(
            Counter(itertools.chain(*chosen)) == Counter({one: n for one, n in loads.items() if n})
            for chosen in itertools.product(*options)
        )
        found = fit(wanted, barred, loads)
        assert (found is not None) is ways
        if found is not None:
            fitted += 1
            assert all(
                len(set(where)) == wanted[task] and not set(where) & barred[task] for task, where in found.items()
            )
            held = Counter(itertools.chain(*found.values()))
            assert all(held[one] == loads[one] for one in containers)
    assert fitted > 30
