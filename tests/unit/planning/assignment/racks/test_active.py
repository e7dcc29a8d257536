"""Active tasks: balanced, and at the least cost that any balanced placement has."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from anabranch.planning.assignment.racks.problem import Container, Partition, Problem, Task
from anabranch.planning.assignment.racks.reasons import compared, explained
from anabranch.planning.assignment.racks.solver import solve
from tests.unit.planning.assignment.racks import helpers as referee
from tests.unit.planning.assignment.racks.helpers import changed

STRATEGIES = ["none", "min_traffic", "balance_subtopology"]


def checked(asked: Problem) -> None:
    """Balanced, and its own figures true."""
    answer = solve(asked)
    by_id = {one.id: one for one in asked.containers}
    assert set(answer.active) == {task.name for task in asked.tasks} == set(explained(asked, answer))
    assert set(answer.active.values()) <= set(by_id)
    stateful = [task for task in asked.tasks if task.stateful]
    assert referee.is_balanced(asked, answer.active, asked.tasks, asked.tasks)
    assert referee.is_balanced(asked, answer.active, stateful, stateful)
    if asked.strategy == "balance_subtopology":
        for stage in {task.stage for task in asked.tasks}:
            tasks = [task for task in asked.tasks if task.stage == stage]
            assert referee.is_balanced(asked, answer.active, tasks, tasks)
    assert answer.cost == referee.cost(asked, answer.active, answer.standby)
    assert (answer.lower_bound, answer.gap) == (answer.cost, 0)
    assert answer.moved == sum(referee.is_moved(task, by_id[answer.active[task.name]]) for task in asked.tasks)
    assert answer.loads == {one: Counter(answer.active.values())[one] for one in by_id}
    reads = sum(referee.reads(asked, task.partitions, by_id[answer.active[task.name]]) for task in asked.tasks)
    assert answer.traffic == reads


def values(asked: Problem) -> tuple[referee.Value, referee.Value]:
    """(cost, moves) of stateful tasks and of the others."""
    answer = solve(asked)
    by_id = {one.id: one for one in asked.containers}
    found = []
    for kind in (True, False):
        pairs = [(task, by_id[answer.active[task.name]]) for task in asked.tasks if task.stateful is kind]
        found.append(
            (sum(referee.active_cost(asked, *pair) for pair in pairs), sum(referee.is_moved(*pair) for pair in pairs))
        )
    return found[0], found[1]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.suite(cases=3)
def test_as_good_as_the_best_of_all_placements(strategy: str, seed: int) -> None:
    rng = random.Random(f"{strategy} {seed}")
    for _ in range(250):
        asked = referee.problem(rng, rng.randint(0, 6), rng.randint(1, 4), stages=rng.randint(1, 3), strategy=strategy)
        checked(asked)
        assert values(asked) in referee.best_active(asked)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.suite(cases=3)
def test_as_good_as_another_solver_finds(strategy: str, seed: int) -> None:
    rng = random.Random(f"{strategy} {seed}")
    for _ in range(35):
        asked = referee.problem(rng, rng.randint(7, 40), rng.randint(2, 9), stages=rng.randint(1, 4), strategy=strategy)
        checked(asked)
        answer = solve(asked)
        stateful = [task for task in asked.tasks if task.stateful]
        others = [task for task in asked.tasks if not task.stateful]
        found = values(asked)
        if stateful:
            model = referee.Milp()
            referee.add_actives(model, asked, stateful, Counter(), others)
            assert model.least() == pytest.approx(found[0][0])
        if others:
            model = referee.Milp()
            beside = Counter(answer.active[task.name] for task in stateful)
            referee.add_actives(model, asked, others, beside, [])
            assert model.least() == pytest.approx(found[1][0])


@pytest.mark.parametrize("seed", range(4))
def test_fixed_loads_are_those_of_the_first_containers(seed: int) -> None:
    """One kind of task, so nothing but order decides: then as good as the best placement with these counts."""
    rng = random.Random(seed)
    for _ in range(100):
        asked = referee.problem(rng, rng.randint(0, 6), rng.randint(1, 4), loads="fixed")
        asked = changed(asked, tasks=tuple(changed(task, stateful=True) for task in asked.tasks))
        checked(asked)
        answer = solve(asked)
        shares = {one.id: referee.share(asked, one, len(asked.tasks)) for one in asked.containers}
        left = len(asked.tasks) - sum(low for low, _ in shares.values())
        uneven = [one for one in sorted(shares) if shares[one][0] < shares[one][1]]
        counts = {one: low + (one in uneven[:left]) for one, (low, _) in shares.items()}
        assert answer.loads == counts
        options = referee.active_values(asked, asked.tasks, Counter(), len(asked.tasks))
        assert answer.cost == min(value[0] for value, loads in options if all(loads[c] == counts[c] for c in counts))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_fixed_loads_of_stateful_and_stateless_tasks_fit(strategy: str) -> None:
    rng = random.Random(strategy)
    for _ in range(70):
        asked = referee.problem(rng, rng.randint(1, 12), rng.randint(1, 5), stages=3, strategy=strategy, loads="fixed")
        checked(asked)
        free = changed(asked, loads="flexible")
        assert solve(asked).loads == solve(changed(asked, traffic_cost=0, non_overlap_cost=0)).loads
        assert sum(solve(free).loads.values()) == sum(solve(asked).loads.values())


def test_remainders_go_where_they_cost_least() -> None:
    """The KIP's counts would give the third task to c1, in the wrong rack."""
    asked = Problem(
        containers=(Container(id="c1", rack="a"), Container(id="c2", rack="b")),
        tasks=tuple(
            Task(name=f"t{n}", partitions=(Partition(stream="in", partition=n, racks=("b" if n else "a",)),))
            for n in range(3)
        ),
    )
    assert (solve(asked).traffic, solve(asked).loads) == (0, {"c1": 1, "c2": 2})
    assert (solve(changed(asked, loads="fixed")).traffic, solve(changed(asked, loads="fixed")).loads) == (
        1,
        {"c1": 2, "c2": 1},
    )


def test_two_replicas_in_a_rack_count_once() -> None:
    partition = Partition(stream="in", partition=0, racks=("a", "a"), weight=3)
    other = Partition(stream="in", partition=1, racks=("b",), weight=2)
    asked = Problem(containers=(Container(id="c1", rack="a"),), tasks=(Task(name="t", partitions=(partition, other)),))
    assert (solve(asked).traffic, solve(asked).cost) == (2, 20)


def test_weights_are_exact_at_any_size() -> None:
    """Where a double can't tell 2**53 + 1 from 2**53, nor a flow's 64 bits hold costs and moves at once."""
    heavy = 2**53
    tasks = tuple(
        Task(
            name=f"t{n}",
            on="c1",
            partitions=(
                Partition(stream="x", partition=n, racks=("a",), weight=heavy + n),
                Partition(stream="y", partition=n, racks=("b",), weight=heavy + 1 - n),
            ),
        )
        for n in range(2)
    )
    asked = Problem(
        containers=(Container(id="c1", rack="a"), Container(id="c2", rack="b")),
        tasks=tasks,
        traffic_cost=1,
        non_overlap_cost=0,
    )
    answer = compared(asked, solve(asked))
    assert answer.active == {"t0": "c2", "t1": "c1"}
    assert answer.traffic == 2 * heavy


def test_decimals_are_exact() -> None:
    partitions = tuple(Partition(stream="in", partition=n, racks=("b",), weight=0.1) for n in range(3))
    asked = Problem(containers=(Container(id="c1", rack="a"),), tasks=(Task(name="t", partitions=partitions),))
    assert (solve(asked).traffic, solve(asked).cost) == (0.3, 3.0)


def test_further_moves_say_what_they_save() -> None:
    """t0 must go to the new c2; that t1 and t2 change places saves 2 * 10 - 2."""
    at = {"t0": "b", "t1": "b", "t2": "a", "t3": "a"}
    asked = Problem(
        containers=(Container(id="c1", rack="a"), Container(id="c2", rack="b")),
        tasks=tuple(
            Task(name=name, on=on, partitions=(Partition(stream="in", partition=n, racks=(at[name],)),))
            for n, (name, on) in enumerate({"t0": "c1", "t1": "c1", "t2": "c2", "t3": "c1"}.items())
        ),
    )
    answer = compared(asked, solve(asked))
    assert answer.active == {"t0": "c2", "t1": "c2", "t2": "c1", "t3": "c1"}
    assert (answer.moved, answer.needed_moves, answer.saved_by_moves) == (3, 1, 18)


def test_each_task_says_why_it_is_where_it_is() -> None:
    def reading(name: str, *racks: str, on: str | None = None) -> Task:
        return Task(name=name, on=on, partitions=(Partition(stream=name, partition=0, racks=racks),))

    asked = Problem(
        containers=(Container(id="c1", rack="a"), Container(id="c2", rack="b")),
        tasks=(
            reading("t1", "a", on="c1"),
            reading("t2", "a", on="c2"),
            reading("t3", "a"),
            reading("t4", "b", on="gone"),
            Task(name="t5", on="c1"),
        ),
    )
    assert explained(asked, solve(asked)) == {
        "t1": "stays in c1; all it reads has a replica in rack a",
        "t2": "moves from c2 to c1; all it reads has a replica in rack a",
        "t3": "new in c1; all it reads has a replica in rack a",
        "t4": "moves from gone to c2, as that is gone; all it reads has a replica in rack b",
        "t5": "moves from c1 to c2; balance keeps it out of c1",
    }
    crowded = changed(asked, tasks=(*asked.tasks[:3], reading("t6", "a")))
    assert explained(crowded, solve(crowded))["t2"] == (
        "stays in c2; 1 of 1 comes from other racks than b; rack a would cost 9 less, but its containers are full"
    )
