"""Represents a problem in numbers: containers, tasks, racks and stages as indexes, and traffic as arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property

import numpy as np

from anabranch.errors import ConfigError
from anabranch.planning.assignment.racks.network import Whole
from anabranch.planning.assignment.racks.problem import Container, Partition, Problem, Task

__all__ = ["Instance", "Traffic", "unknown"]

_LARGEST = 2**60


class Traffic:
    """How much each task would read from other racks if it were in a given rack: the task's ``total`` minus what the
    replicas in that rack cover. Tasks and racks are numbers.

    Args:
        partitions: the partitions that each task reads.
        rack_numbers: the number of each rack, by name.
        scale: a factor that makes all weights whole numbers. The attributes contain weights multiplied by this factor.

    Attributes:
        total: the weight of all that each task reads.
        sum: the sum of ``total``.
        tasks, racks, covered: parallel arrays, sorted by task and rack: a task, a rack, and the weight of the task's
            partitions that have a replica in the rack. If a pair of a task and a rack is missing, this weight is 0.
    """

    def __init__(self, partitions: Sequence[Sequence[Partition]], rack_numbers: dict[str, int], scale: int) -> None:
        self._racks = max(1, len(rack_numbers))
        tasks, racks, weights, totals = [], [], [], []
        for number, each in enumerate(partitions):
            total = 0
            for partition in each:
                weight = _whole(partition.weight, scale)
                total += weight
                for rack in {rack_numbers[name] for name in partition.racks if name in rack_numbers}:
                    tasks.append(number)
                    racks.append(rack)
                    weights.append(weight)
            totals.append(total)
        self.sum = sum(totals)
        if self.sum > _LARGEST:
            raise ConfigError("the weights are too large to be added exactly", "give them in a larger unit")
        self.total = np.array(totals, np.int64)
        keys = np.array(tasks, np.int64) * self._racks + np.array(racks, np.int64)
        self._keys, where = np.unique(keys, return_inverse=True)
        self.covered = np.zeros(len(self._keys), np.int64)
        np.add.at(self.covered, where, np.array(weights, np.int64))
        self.tasks, self.racks = np.divmod(self._keys, self._racks)

    def of(self, tasks: Whole, racks: Whole) -> Whole:
        """For each pair of a task and a rack, how much the task reads from other racks if it runs in this rack."""
        tasks, racks = np.broadcast_arrays(tasks, racks)
        traffic = self.total[tasks]
        if len(self._keys):
            keys = tasks * self._racks + racks
            at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
            traffic = traffic - np.where(self._keys[at] == keys, self.covered[at], 0)
        return traffic


class Instance:
    """A problem in numbers. Everything is numbered in the order of names, so that neither the order of the input nor
    hash values affect the answer.

    Attributes:
        scale: the factor that makes weights whole numbers.
        by_traffic: whether traffic has a cost. It has a cost if racks are known and the strategy isn't ``none``.
        spread_by: for the rack (if racks are known) and for each tag, the containers' values, as numbers.
        place_of: each container's place. Containers with equal values in ``spread_by`` are in the same place.
        on: each task's current container; -1 if the task is new, -2 if its container is gone.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.containers = sorted(problem.containers, key=lambda container: container.id)
        self.tasks = sorted(problem.tasks, key=lambda task: task.name)
        self.container_numbers = {container.id: number for number, container in enumerate(self.containers)}
        self.slots = np.array([container.slots for container in self.containers], np.int64)
        self.why_not = unknown(problem)
        names = [] if self.why_not else sorted({container.rack or "" for container in self.containers})
        self.racks = names or ["?"]
        numbers = {name: number for number, name in enumerate(names)}
        self.rack_of = np.array([numbers.get(container.rack or "", 0) for container in self.containers], np.int64)
        self.spread_by = _dimensions(self.containers, names)
        kinds = np.array(self.spread_by, np.int64).reshape(len(self.spread_by), len(self.containers))
        _, first, places = np.unique(kinds, axis=1, return_index=True, return_inverse=True)
        self.place_of = places.reshape(-1).astype(np.int64) if self.spread_by else 0 * self.slots
        self.rack_of_place = self.rack_of[first] if self.spread_by else np.zeros(1, np.int64)
        self.by_traffic = not self.why_not and problem.strategy != "none"
        stages = {name: number for number, name in enumerate(sorted({task.stage for task in self.tasks}))}
        self.stage_of = np.array([stages[task.stage] for task in self.tasks], np.int64)
        self.stateful = np.array([task.stateful for task in self.tasks], bool)
        self.on = np.array([self._number(task.on) for task in self.tasks], np.int64)
        weights = (p.weight for t in self.tasks for p in (*t.partitions, *t.state_partitions))
        self.scale = math.lcm(*{Fraction(repr(w)).denominator for w in weights if isinstance(w, float)})
        self._numbers = numbers
        self.active_traffic = self._traffic([task.partitions for task in self.tasks])

    @cached_property
    def standby_traffic(self) -> Traffic:
        return self._traffic([task.state_partitions for task in self.tasks])

    @property
    def by_stage(self) -> bool:
        return self.problem.strategy == "balance_subtopology"

    @property
    def traffic_cost(self) -> int:
        """The cost of a unit of scaled weight; 0 if traffic doesn't count."""
        return self.problem.traffic_cost if self.by_traffic else 0

    @property
    def move_cost(self) -> int:
        """The cost of a move, scaled like the weights."""
        return self.problem.non_overlap_cost * self.scale

    @property
    def most(self) -> int:
        """An upper bound on the cost of any assignment of active tasks."""
        return self.active_traffic.sum * self.traffic_cost + len(self.tasks) * self.move_cost

    def standby_on(self, task: Task) -> list[int]:
        """The existing containers that have a standby of the task, in the order of ``task.standby_on``."""
        found = (self.container_numbers.get(one) for one in task.standby_on)
        return list(dict.fromkeys(number for number in found if number is not None))

    def unscaled(self, amount: int) -> int | float:
        return amount if self.scale == 1 else amount / self.scale

    def _number(self, container: str | None) -> int:
        return -1 if container is None else self.container_numbers.get(container, -2)

    def _traffic(self, partitions: Sequence[Sequence[Partition]]) -> Traffic:
        found = Traffic(partitions, self._numbers, self.scale)
        if found.sum * self.traffic_cost + len(self.tasks) * self.move_cost > _LARGEST:
            raise ConfigError("costs are too large to be added exactly", "give the weights in a larger unit")
        return found


def unknown(problem: Problem) -> str | None:
    """Why racks can't be used; None if they can."""
    for container in problem.containers:
        if container.rack is None:
            return f"container {container.id} has no rack"
    for task in problem.tasks:
        for partition in (*task.partitions, *task.state_partitions):
            if not partition.racks:
                return f"nothing is known of partition {partition.partition} of {partition.stream}"
            if None in partition.racks:
                return f"a broker that has partition {partition.partition} of {partition.stream} has no rack"
    return None


def _dimensions(containers: Sequence[Container], racks: Sequence[str]) -> list[Whole]:
    """For the rack (if racks are known) and each tag, the containers' values, as numbers. Raises ConfigError if only
    some containers have a tag."""
    numbers = {name: number for number, name in enumerate(racks)}
    found = [np.array([numbers[container.rack or ""] for container in containers])] if racks else []
    for tag in sorted({tag for container in containers for tag in container.tags}):
        for container in containers:
            if tag not in container.tags:
                raise ConfigError(
                    f"container {container.id} has no tag {tag}, and others have",
                    "give it to all containers or to none",
                )
        values = [container.tags[tag] for container in containers]
        found.append(np.unique(values, return_inverse=True)[1])
    return found


def _whole(weight: int | float, scale: int) -> int:
    return weight * scale if isinstance(weight, int) else int(Fraction(repr(weight)) * scale)
