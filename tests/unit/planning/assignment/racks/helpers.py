"""Random assignment problems, and referees that share no code with the solver: they try everything, or ask scipy."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from anabranch.planning.assignment.racks.problem import Answer, Container, Partition, Problem, Task

changed = msgspec.structs.replace
Value = tuple[float, ...]


def problem(
    rng: random.Random, tasks: int, containers: int, *, stages: int = 1, tags: Sequence[str] = (), **rules: object
) -> Problem:
    """Racks that are crowded and racks that are not, uneven slots, weights, tasks that run somewhere and new ones."""
    racks = "abcde"[: rng.randint(1, 4)]
    ids = [f"c{number}" for number in range(containers)]
    made = tuple(
        Container(
            id=one,
            rack=rng.choice(racks),
            slots=rng.choice([1, 1, 1, 2, 3]),
            tags={tag: rng.choice("xyz") for tag in tags},
        )
        for one in ids
    )
    by_stage = rules.get("strategy") == "balance_subtopology"
    stateful = [rng.random() < 0.6 for _ in range(stages)]

    def partitions(stream: str, number: int) -> tuple[Partition, ...]:
        return tuple(
            Partition(
                stream=f"{stream}{one}",
                partition=number,
                racks=tuple(rng.sample([*racks, "elsewhere"], rng.randint(1, min(2, len(racks))))),
                weight=rng.choice([1, 1, 1, 2, 0, 0.5]),
            )
            for one in range(rng.randint(0, 2))
        )

    def task(number: int) -> Task:
        stage = rng.randrange(stages)
        return Task(
            name=f"t{number}",
            stage=str(stage),
            stateful=stateful[stage] if by_stage else rng.random() < 0.7,
            partitions=partitions("in", number),
            state_partitions=partitions("changes", number),
            on=rng.choice([None, "gone", *ids]),
            standby_on=tuple(rng.sample([*ids, "gone"], rng.randint(0, min(3, containers)))),
        )

    return Problem(
        containers=made,
        tasks=tuple(map(task, range(tasks))),
        **{"traffic_cost": rng.choice([1, 10]), "non_overlap_cost": rng.choice([0, 1, 5]), **rules},  # type: ignore[arg-type]
    )


def shuffled(asked: Problem, rng: random.Random) -> Problem:
    tasks = (
        changed(
            task,
            partitions=tuple(
                changed(one, racks=tuple(rng.sample(one.racks, len(one.racks))))
                for one in rng.sample(task.partitions, len(task.partitions))
            ),
        )
        for task in rng.sample(asked.tasks, len(asked.tasks))
    )
    containers = tuple(rng.sample(asked.containers, len(asked.containers)))
    return changed(asked, tasks=tuple(tasks), containers=containers)


def carried_out(asked: Problem, answer: Answer) -> Problem:
    """The same problem when the answer is what runs."""
    tasks = (changed(task, on=answer.active[task.name], standby_on=answer.standby[task.name]) for task in asked.tasks)
    return changed(asked, tasks=tuple(tasks))


def share(asked: Problem, container: Container, count: int) -> tuple[int, int]:
    whole = sum(one.slots for one in asked.containers)
    return count * container.slots // whole, -(-count * container.slots // whole)


def is_balanced(asked: Problem, placed: Mapping[str, str], tasks: Sequence[Task], counts: Sequence[Task]) -> bool:
    """Whether each container has the floor or ceiling of its share of ``counts``, of which it has ``tasks``."""
    held = Counter(placed[task.name] for task in tasks)
    return all(
        low <= held[one.id] <= high for one in asked.containers for low, high in [share(asked, one, len(counts))]
    )


def reads(asked: Problem, partitions: Sequence[Partition], container: Container) -> float:
    return sum(one.weight for one in partitions if container.rack not in one.racks)


def active_cost(asked: Problem, task: Task, container: Container) -> float:
    traffic = 0.0 if asked.strategy == "none" else reads(asked, task.partitions, container)
    return traffic * asked.traffic_cost + is_moved(task, container) * asked.non_overlap_cost


def is_moved(task: Task, container: Container) -> bool:
    return task.on is not None and task.on != container.id


def copies(asked: Problem) -> int:
    return min(asked.standbys, len(asked.containers) - 1)


def kept(task: Task, where: Sequence[str]) -> int:
    return len(set(task.standby_on) & set(where))


def cost(asked: Problem, active: Mapping[str, str], standby: Mapping[str, Sequence[str]]) -> float:
    """What a whole plan costs."""
    by_id = {one.id: one for one in asked.containers}
    found = 0.0
    for task in asked.tasks:
        found += active_cost(asked, task, by_id[active[task.name]])
        where = standby[task.name]
        if where and asked.strategy != "none":
            found += asked.traffic_cost * sum(reads(asked, task.state_partitions, by_id[one]) for one in where)
        there = len(set(task.standby_on) & set(by_id))
        if task.stateful:
            found += asked.non_overlap_cost * (min(there, copies(asked)) - kept(task, where))
    return found


def dimensions(asked: Problem) -> list[dict[str, str]]:
    """The rack, and each tag, of each container."""
    tags = sorted({tag for one in asked.containers for tag in one.tags})
    found = [{one.id: one.rack or "" for one in asked.containers}]
    return found + [{one.id: one.tags[tag] for one in asked.containers} for tag in tags]


def distinct(asked: Problem, where: Sequence[str]) -> int:
    return sum(len({values[one] for one in where}) for values in dimensions(asked))


def far(asked: Problem, loads: Mapping[str, int], count: int) -> float:
    """How far standbys are from their shares: squares of what is beyond floor and ceiling, by slots."""
    unit = math.lcm(*(one.slots for one in asked.containers))
    found = 0
    for one in asked.containers:
        low, high = share(asked, one, count)
        found += max(0, low - loads[one.id], loads[one.id] - high) ** 2 * (unit // one.slots)
    return found


# Trying everything


def active_values(
    asked: Problem, tasks: Sequence[Task], beside: Mapping[str, int], counts: int
) -> Iterator[tuple[Value, Counter[str]]]:
    """(cost, moves) and loads of each balanced placement of these tasks, beside so many others."""
    ids = [one.id for one in asked.containers]
    by_id = {one.id: one for one in asked.containers}
    bounds = {one.id: share(asked, one, counts) for one in asked.containers}
    stages = Counter(task.stage for task in tasks) if asked.strategy == "balance_subtopology" else Counter()
    for placed in itertools.product(ids, repeat=len(tasks)):
        loads = Counter(placed)
        if any(not low <= loads[one] + beside[one] <= high for one, (low, high) in bounds.items()):
            continue
        by_stage = Counter((task.stage, one) for task, one in zip(tasks, placed, strict=True))
        if any(
            not low <= by_stage[stage, one.id] <= high
            for stage, size in stages.items()
            for one in asked.containers
            for low, high in [share(asked, one, size)]
        ):
            continue
        pairs = [(task, by_id[one]) for task, one in zip(tasks, placed, strict=True)]
        yield (
            (sum(active_cost(asked, *pair) for pair in pairs), sum(is_moved(*pair) for pair in pairs)),
            loads,
        )


def best_active(asked: Problem) -> set[tuple[Value, Value]]:
    """The best (cost, moves) of stateful tasks that leave the others balanced, and then what these can be."""
    stateful = [task for task in asked.tasks if task.stateful]
    others = [task for task in asked.tasks if not task.stateful]
    found: dict[Value, set[Value]] = {}
    known: dict[tuple[tuple[str, int], ...], Value | None] = {}
    for value, loads in active_values(asked, stateful, Counter(), len(stateful)):
        key = tuple(sorted(loads.items()))
        if key not in known:
            known[key] = min((each for each, _ in active_values(asked, others, loads, len(asked.tasks))), default=None)
        rest = known[key]
        if rest is not None:
            found.setdefault(value, set()).add(rest)
    first = min(found)
    return {(first, rest) for rest in found[first]}


def standby_value(
    asked: Problem, taken: Mapping[str, Sequence[str]], placed: Mapping[str, Sequence[str]], reliable: bool, count: int
) -> Value:
    """What comes first is first. ``taken``: actives and earlier copies; ``count``: standbys of all tasks in the end."""
    by_id = {one.id: one for one in asked.containers}
    tasks = [task for task in asked.tasks if task.name in placed]
    loads = Counter(one for where in taken.values() for one in where[1:]) + Counter(itertools.chain(*placed.values()))
    traffic = sum(reads(asked, t.state_partitions, by_id[one]) for t in tasks for one in placed[t.name])
    spread = -sum(distinct(asked, [*taken[task.name], *placed[task.name]]) for task in tasks)
    near = far(asked, loads, count)
    moves = -sum(kept(task, placed[task.name]) for task in tasks)
    traffic = 0 if asked.strategy == "none" else traffic
    return (spread, near, traffic, moves) if reliable else (near, traffic, spread, moves)


def best_standbys(
    asked: Problem, taken: Mapping[str, Sequence[str]], number: int, reliable: bool, count: int, most: int = 3_000
) -> tuple[Value, list[dict[str, tuple[str, ...]]]] | None:
    """The best value and all that have it; None when there are too many to try."""
    ids = [one.id for one in asked.containers]
    options = [
        [where for where in itertools.combinations(ids, number) if not set(where) & set(held)]
        for held in taken.values()
    ]
    if math.prod(map(len, options)) > most:
        return None
    best: Value | None = None
    found: list[dict[str, tuple[str, ...]]] = []
    for chosen in itertools.product(*options):
        placed = dict(zip(taken, chosen, strict=True))
        value = standby_value(asked, taken, placed, reliable, count)
        if best is None or value < best:
            best, found = value, []
        if value == best:
            found.append(placed)
    assert best is not None
    return best, found


# Asking scipy


@dataclass
class Milp:
    """Rows of (variable, factor)."""

    costs: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    rows: list[tuple[float, float, list[tuple[int, float]]]] = field(default_factory=list)

    def variable(self, upper: float = 1, cost: float = 0) -> int:
        self.costs.append(cost)
        self.upper.append(upper)
        return len(self.costs) - 1

    def row(self, low: float, high: float, terms: Sequence[tuple[int, float]]) -> None:
        self.rows.append((low, high, list(terms)))

    def least(self, costs: Sequence[float] | None = None) -> float:
        at = [(number, variable, factor) for number, row in enumerate(self.rows) for variable, factor in row[2]]
        numbers, variables, factors = zip(*at, strict=True)
        shape = (len(self.rows), len(self.costs))
        matrix = csr_array((np.array(factors, float), (numbers, variables)), shape=shape)
        result = milp(
            np.array(self.costs if costs is None else costs, float),
            integrality=np.ones(len(self.costs)),
            bounds=Bounds(0, np.array(self.upper)),
            constraints=LinearConstraint(matrix, [row[0] for row in self.rows], [row[1] for row in self.rows]),
            options={"mip_rel_gap": 0},
        )
        assert result.status == 0, result.message
        return float(result.fun)


def add_actives(
    model: Milp, asked: Problem, tasks: Sequence[Task], beside: Counter[str], later: Sequence[Task]
) -> dict[tuple[str, str], int]:
    """Variables (task, container): balanced with what is ``beside``, and so that those that come ``later`` can be."""
    by_stage = asked.strategy == "balance_subtopology"
    at = {(t.name, one.id): model.variable(1, active_cost(asked, t, one)) for t in tasks for one in asked.containers}
    stages = Counter(task.stage if by_stage else "" for task in tasks)
    after = Counter(task.stage if by_stage else "" for task in later)
    for task in tasks:
        model.row(1, 1, [(at[task.name, one.id], 1) for one in asked.containers])
    fillers = {(stage, one.id): model.variable(size) for stage, size in after.items() for one in asked.containers}
    for stage, size in after.items():
        model.row(size, size, [(fillers[stage, one.id], 1) for one in asked.containers])
    for one in asked.containers:
        here = [(at[task.name, one.id], 1.0) for task in tasks]
        fill = [(fillers[stage, one.id], 1.0) for stage in after]
        held = beside[one.id]
        if not beside:
            model.row(*share(asked, one, len(tasks)), here)
        low, high = share(asked, one, len(asked.tasks))
        model.row(low - held, high - held, here + fill)
        if by_stage:
            for stage, size in stages.items():
                mine = [(at[task.name, one.id], 1.0) for task in tasks if task.stage == stage]
                model.row(*share(asked, one, size), mine)
            for stage, size in after.items():
                model.row(*share(asked, one, size), [(fillers[stage, one.id], 1.0)])
    return at


def add_standbys(
    model: Milp, asked: Problem, tasks: Sequence[Task], count: int
) -> tuple[dict[tuple[str, str], int], list[tuple[int, float]], float]:
    """Variables (task, container), and how far loads are from their shares: as a sum of terms, and a constant."""
    at = {}
    for task in tasks:
        for one in asked.containers:
            traffic = 0.0 if asked.strategy == "none" else reads(asked, task.state_partitions, one)
            at[task.name, one.id] = model.variable(
                1, traffic * asked.traffic_cost - asked.non_overlap_cost * (one.id in task.standby_on)
            )
        model.row(count, count, [(at[task.name, one.id], 1) for one in asked.containers])
    unit = math.lcm(*(one.slots for one in asked.containers))
    away: list[tuple[int, float]] = []
    constant = 0.0
    for one in asked.containers:
        low, high = share(asked, one, len(tasks) * count)
        weight = unit // one.slots
        constant += low * low * weight
        steps = [-(2 * number - 1) * weight for number in range(low, 0, -1)]
        steps += [0] * (high - low) + [(2 * number - 1) * weight for number in range(1, len(tasks) - high + 1)]
        units = [(model.variable(1), float(step)) for step in steps]
        away += units
        model.row(0, 0, [(at[task.name, one.id], 1.0) for task in tasks] + [(unit, -1.0) for unit, _ in units])
    return at, away, constant


def add_spread(
    model: Milp,
    asked: Problem,
    tasks: Sequence[Task],
    held: Sequence[Mapping[tuple[str, str], int]],
    fixed: Mapping[str, str],
) -> list[tuple[int, float]]:
    """Variables for a task's being in a rack; their sum is how many it is in, less that of its ``fixed`` container."""
    found = []
    for task in tasks:
        for values in dimensions(asked):
            for value in set(values.values()):
                if task.name in fixed and values[fixed[task.name]] == value:
                    continue
                inside = [one for one in values if values[one] == value]
                mark = model.variable()
                model.row(0, math.inf, [(at[task.name, one], 1.0) for at in held for one in inside] + [(mark, -1.0)])
                found.append((mark, 1.0))
    return found


def checked(asked: Problem, answer: Answer) -> list[Task]:
    """Valid, and its own figures true; the tasks that have standbys."""
    by_id = {one.id: one for one in asked.containers}
    count = copies(asked)
    tasks = [task for task in asked.tasks if task.stateful]
    for task in asked.tasks:
        where = answer.standby[task.name]
        assert len(where) == len(set(where)) == (count if task.stateful else 0)
        assert {*where, answer.active[task.name]} <= set(by_id)
        assert answer.active[task.name] not in where
    loads = Counter(itertools.chain(*answer.standby.values()))
    assert answer.standby_loads == {one: loads[one] for one in by_id}
    assert answer.cost == cost(asked, answer.active, answer.standby)
    assert answer.gap == answer.cost - answer.lower_bound
    if count:
        spread = sum(distinct(asked, [answer.active[t.name], *answer.standby[t.name]]) for t in tasks)
        assert answer.spread == spread <= answer.most_spread
    return tasks
