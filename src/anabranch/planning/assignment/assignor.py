"""Assigns the tasks of a job to its seats. The seats are balanced, few containers read each partition, and few tasks
move. If racks are taken into account (if they *count*), there is also little traffic across racks.

The solver for racks is imported on demand, because the import takes half a second and few jobs use racks.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from anabranch.model.job_model import StageModel
from anabranch.model.ssp import SSP, wholes
from anabranch.model.task import Task
from anabranch.planning.assignment import placement
from anabranch.planning.assignment.lineage import Lineage
from anabranch.planning.assignment.racks.problem import Container, Partition, Problem
from anabranch.planning.assignment.racks.problem import Task as Load

__all__ = ["Placed", "Placing", "Rules", "Seating", "Where", "explained", "plain", "seat"]

Placed = Mapping[str, Mapping[str, str]]
"""The seat of each task, by the stage and the task's name."""


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The criteria by which one of the balanced placements is chosen; see
    :class:`anabranch.config.AssignmentSettings`."""

    strategy: Literal["none", "min_traffic", "balance_subtopology"] = "none"
    first: Literal["containers", "traffic"] = "containers"
    traffic_cost: int = 10
    non_overlap_cost: int = 1


@dataclass(frozen=True, kw_only=True)
class Where:
    """The racks of seats and of partitions.

    Attributes:
        seats: the rack of each seat; None if it isn't known.
        partitions: for each ``system/stream`` and partition, the racks of the replicas, the leader's first; None stands
            for a broker without a rack. Contains only streams of systems with racks.
        coming: the streams that the job will create, as ``system/stream``; their traffic doesn't count.
        lanes: for each stage and ``system/stream``, how many groups of the stage read the stream. A stream that is
            missing here counts as read by one group.
    """

    seats: Mapping[str, str | None]
    partitions: Mapping[str, Mapping[int, Sequence[str | None]]] = field(default_factory=dict)
    coming: Collection[str] = ()
    lanes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def read(self, stage: str, ssps: Iterable[SSP]) -> tuple[Partition, ...]:
        """Those partitions of a task's ``ssps`` whose racks matter (see :meth:`counts`), in the solver's form.
        ``stage`` is the task's stage."""
        found = []
        for ssp in dict.fromkeys(wholes(ssps)):
            stream = f"{ssp.system}/{ssp.stream}"
            if self.counts(stream):
                racks = tuple(self.partitions.get(stream, {}).get(ssp.partition, ()))
                weight = self.lanes.get(stage, {}).get(stream, 1)
                found.append(Partition(stream=stream, partition=ssp.partition, racks=racks, weight=weight))
        return tuple(found)

    def counts(self, stream: str) -> bool:
        """Whether a stream's racks matter: the stream exists, and its system has racks."""
        system, _, _ = stream.partition("/")
        return stream not in self.coming and any(name.startswith(f"{system}/") for name in self.partitions)


@dataclass(frozen=True, kw_only=True)
class Seating:
    """The seats of tasks, by the stage and the task's name.

    Attributes:
        racks: the rack of each seat; None if it isn't known, or if racks don't count although the rules ask for them.
        why_not: why racks don't count although the rules ask for them. Empty if racks count, if the rules don't ask for
            them, or if there is only one seat.
        cost: the sum of two parts. The first part is ``traffic_cost`` for each partition that a container reads from
            another rack, multiplied by the number of groups that read the partition. The second part is
            ``non_overlap_cost`` for each task that moves. If several tasks in a container read a partition, the
            partition counts once per task. However, if ``Rules.first`` is ``containers``, tasks of a stage that read
            exactly the same partitions count as one task. If racks don't count, the cost is 0.
        lower_bound: a lower bound on the cost of any placement that is as well balanced as this one. If ``Rules.first``
            is ``containers``, the bound holds only for placements that also read partitions in as few containers as
            this one. If racks don't count, the bound is 0.
    """

    seats: Mapping[str, Mapping[str, str]]
    racks: Mapping[str, str | None]
    why_not: str = ""
    cost: float = 0
    lower_bound: float = 0

    @property
    def gap(self) -> float:
        return self.cost - self.lower_bound


Placing = Callable[[Sequence[StageModel], Placed], Seating]
"""Assigns the tasks of stages to seats. The second argument is the tasks' former seats."""


def plain(containers: int) -> Placing:
    """A :data:`Placing` that ignores racks. The number of seats is ``containers``, and their names are ``0``, ``1`` and
    so on.
    """
    where = Where(seats={str(number): None for number in range(containers)})
    return lambda stages, former: seat(stages, former, where, Rules())


def seat(stages: Sequence[StageModel], former: Placed, where: Where, rules: Rules) -> Seating:
    """Assign the tasks of ``stages`` to the seats in ``where``. These are the criteria, in order of importance:

    1. Balance: of each stage's tasks, each seat gets the floor or the ceiling of the average number.
    2. Each partition is read in few containers (see :func:`placement.place`).
    3. If racks count, the cost (see :class:`Seating`) is low; otherwise, few tasks move. If racks count, and
       ``rules.first`` is ``traffic``, the cost comes before the number of containers.

    If racks count, the strategy ``min_traffic`` weakens the balance, provided that ``rules.first`` is ``traffic`` or no
    two tasks of a stage read the same partition. Only two numbers are then balanced, each counted across all stages: a
    seat's number of stateful tasks, and its total number of tasks.

    The order of the arguments' elements doesn't matter. If the seats of the result are passed as ``former``, and
    ``non_overlap_cost`` isn't 0, no task moves.

    Args:
        former: the former seats, by stage and by the tasks' former names. If the factor has changed, a task's former
            name differs from the present name.

    Raises:
        ConfigError: there are no seats, or the costs are too large for an exact comparison.
    """
    if rules.strategy == "none":
        return Seating(seats=_without_racks(stages, former, where), racks=where.seats)
    from anabranch.planning.assignment.racks import solver
    from anabranch.planning.assignment.racks.instance import unknown

    problem = _problem(stages, former, where, rules)
    why_not = unknown(problem) if where.partitions else "no stream that the job reads is in racks"
    if why_not:
        why_not = "" if len(where.seats) == 1 else why_not
        return Seating(seats=_without_racks(stages, former, where), racks=dict.fromkeys(where.seats), why_not=why_not)
    if not any(map(_shares, stages)):
        answer = solver.solve(problem)
        seats = _by_stage(stages, answer.active)
        return Seating(seats=seats, racks=where.seats, cost=answer.cost, lower_bound=answer.lower_bound)
    if rules.first == "traffic":
        return _traffic_first(stages, problem, where)
    return _containers_first(stages, problem, where, rules)


def explained(stages: Sequence[StageModel], former: Placed, where: Where, rules: Rules) -> dict[str, dict[str, str]]:
    """For each task, by stage and name: an explanation, in words, of why :func:`seat` chooses the task's seat."""
    found = seat(stages, former, where, rules)
    if rules.strategy == "none" or found.why_not or None in where.seats.values() or any(map(_shares, stages)):
        return _told(stages, former, where, rules, found)
    from anabranch.planning.assignment.racks import reasons, solver

    problem = _problem(stages, former, where, rules)
    why = reasons.explained(problem, solver.solve(problem))
    return {stage.stage: {task.name: why[_name(task)] for task in stage.tasks} for stage in stages}


def _without_racks(stages: Sequence[StageModel], former: Placed, where: Where) -> dict[str, dict[str, str]]:
    return {each.stage: placement.place(each.tasks, where.seats, former.get(each.stage, {})) for each in stages}


def _name(task: Task) -> str:
    """The solver's name for a task. Within a stage, these names sort by the tasks' indexes. So neighboring tasks, which
    often read the same partitions, stay neighbors."""
    return f"{task.stage}/{task.index:08}/{task.name}"


def _id(seat: str) -> str:
    return f"seat {seat}"


def _problem(stages: Sequence[StageModel], former: Placed, where: Where, rules: Rules) -> Problem:
    loads = []
    for stage in stages:
        lineage = Lineage(former.get(stage.stage, {}))
        for task in stage.tasks:
            home = lineage.seat(task.name)
            loads.append(
                Load(
                    name=_name(task),
                    stage=stage.stage,
                    stateful=stage.stateful,
                    partitions=where.read(stage.stage, task.ssps),
                    on=None if home is None else _id(home),
                )
            )
    return Problem(
        containers=tuple(Container(id=_id(seat), rack=rack) for seat, rack in where.seats.items()),
        tasks=tuple(loads),
        strategy=rules.strategy,
        traffic_cost=rules.traffic_cost,
        non_overlap_cost=rules.non_overlap_cost,
    )


def _by_stage(stages: Sequence[StageModel], active: Mapping[str, str]) -> dict[str, dict[str, str]]:
    return {
        stage.stage: {task.name: active[_name(task)].removeprefix("seat ") for task in stage.tasks} for stage in stages
    }


def _shares(stage: StageModel) -> bool:
    """Whether at least one partition is read by several tasks of the stage."""
    read = Counter(whole for task in stage.tasks for whole in set(wholes(task.ssps)))
    return any(count > 1 for count in read.values())


def _containers_first(stages: Sequence[StageModel], problem: Problem, where: Where, rules: Rules) -> Seating:
    from anabranch.planning.assignment import colocated_racks

    homes = {load.name: load.on.removeprefix("seat ") for load in problem.tasks if load.on is not None}
    read = {load.name: load.partitions for load in problem.tasks}
    load: Counter[str] = Counter()
    seats: dict[str, dict[str, str]] = {}
    cost = 0.0
    for stage in sorted(stages, key=lambda each: (not each.stateful, each.stage)):
        tasks = [
            colocated_racks.Member(_name(task), task, read[_name(task)], homes.get(_name(task))) for task in stage.tasks
        ]
        placed, its_cost = colocated_racks.place(tasks, where.seats, load, rules.traffic_cost, rules.non_overlap_cost)
        seats[stage.stage] = {task.name: placed[_name(task)] for task in stage.tasks}
        load.update(placed.values())
        cost += its_cost
    found = {each.stage: seats[each.stage] for each in stages}
    return Seating(seats=found, racks=where.seats, cost=cost, lower_bound=_bound(problem))


def _bound(problem: Problem) -> float:
    """A lower bound on the cost of any placement that balances each stage: the sum of the stages' bounds. Tasks of a
    stage that are in one seat and read the same partition can share the partition's traffic cost. If at most n tasks of
    the stage read each partition, a task's share of the cost is at least 1/n. Therefore, the solver gets the stage's
    tasks with the traffic cost divided by n, and the solver's lower bound is the stage's bound.
    """
    from anabranch.planning.assignment.racks import solver

    by_stage: dict[str, list[Load]] = defaultdict(list)
    for load in problem.tasks:
        by_stage[load.stage].append(load)
    bound = 0.0
    for loads in by_stage.values():
        shares = Counter((each.stream, each.partition) for load in loads for each in load.partitions)
        most = max(shares.values(), default=1)
        dear = problem.non_overlap_cost * most
        alone = msgspec.structs.replace(problem, tasks=tuple(loads), strategy="min_traffic", non_overlap_cost=dear)
        bound += solver.solve(alone).lower_bound / most
    return bound


def _traffic_first(stages: Sequence[StageModel], problem: Problem, where: Where) -> Seating:
    """An improved version of the solver's placement. Within each rack, a stage's tasks are redistributed among the
    rack's seats. As a result, few tasks move, and tasks that read the same partitions share a seat where there is room.
    Each seat keeps its number of tasks of the stage, so the balance and the cost stay the same.
    """
    from anabranch.planning.assignment.racks import solver

    answer = solver.solve(problem)
    found = _by_stage(stages, answer.active)
    racks: dict[str | None, list[str]] = defaultdict(list)
    for name, rack in where.seats.items():
        racks[rack].append(name)
    homes = {load.name: load.on.removeprefix("seat ") for load in problem.tasks if load.on is not None}
    for stage in stages:
        its = found[stage.stage]
        for seats in racks.values():
            mine = [task for task in stage.tasks if its[task.name] in seats]
            sizes = Counter(its[task.name] for task in mine)
            near = {task.name: homes[_name(task)] for task in mine if homes.get(_name(task)) in seats}
            its.update(placement.place_exactly(mine, {seat: sizes[seat] for seat in seats}, near))
    return Seating(seats=found, racks=where.seats, cost=answer.cost, lower_bound=answer.lower_bound)


def _told(
    stages: Sequence[StageModel], former: Placed, where: Where, rules: Rules, found: Seating
) -> dict[str, dict[str, str]]:
    why = "racks are not asked for: [assignment] strategy is none" if rules.strategy == "none" else ""
    why = f"racks are not used: {found.why_not}" if found.why_not else why
    told: dict[str, dict[str, str]] = {}
    for stage in stages:
        lineage, its = Lineage(former.get(stage.stage, {})), found.seats[stage.stage]
        readers: dict[SSP, list[str]] = defaultdict(list)
        reads = {task.name: frozenset(wholes(task.ssps)) for task in stage.tasks}
        for name, partitions in reads.items():
            for whole in partitions:
                readers[whole].append(name)
        sharing = {
            partitions: Counter(its[name] for name in {name for whole in partitions for name in readers[whole]})
            for partitions in set(reads.values())
        }
        told[stage.stage] = {}
        for task in stage.tasks:
            home, there = lineage.seat(task.name), its[task.name]
            words = [_came(home, there)]
            seats = sharing[reads[task.name]]  # of the tasks that read the same partitions, this one included
            if (mates := seats.total() - 1) > 0:
                words.append(f"{seats[there] - 1} of {mates} tasks that read the same partition are there too")
            words.append(why or _traffic(where.read(stage.stage, task.ssps), where.seats[there]))
            told[stage.stage][task.name] = "; ".join(words)
    return told


def _came(home: str | None, there: str) -> str:
    if home is None:
        return f"new in seat {there}"
    return f"stays in seat {there}" if home == there else f"moves from seat {home} to seat {there}"


def _traffic(read: Sequence[Partition], rack: str | None) -> str:
    far = sum(each.weight for each in read if rack not in each.racks)
    total = sum(each.weight for each in read)
    if not total:
        return "it reads nothing that has a rack"
    if rack is None:
        return "there is no other seat"
    return f"{far:g} of {total:g} comes from other racks than {rack}" if far else f"all it reads is in rack {rack}"
