"""The integer program that places active tasks together with their standbys."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np

from anabranch.planning.assignment.racks import active, standby
from anabranch.planning.assignment.racks.balance import Slopes
from anabranch.planning.assignment.racks.instance import Instance, Traffic
from anabranch.planning.assignment.racks.network import Whole
from anabranch.planning.assignment.racks.program import Program
from anabranch.planning.assignment.racks.shares import between

__all__ = ["Search", "is_collapsed"]

_Role = tuple[str, int]
_STANDBY = ("standby", 0)


def is_collapsed(it: Instance) -> bool:
    """Whether the containers of a place (see :class:`Instance`) are equivalent. They are equivalent if a task and all
    its standbys must be in different places. This is the case if spread comes first for all standbys, there are enough
    places, and racks and tags divide the containers in only one way.
    """
    first, rest = standby.copies_of(it)
    return not rest and not standby.crosses(it) and first < len(it.rack_of_place)


class Search:
    """Searches for the cheapest placement of the stateful tasks and their standbys.

    Args:
        slopes: each container's share of standbys.
        far: the largest allowed distance of the containers' loads of standbys from these shares.
        spread: the least allowed spread, summed over the tasks. If the containers of a place are equivalent, the spread
            is always as large as possible, and this argument is ignored.
    """

    def __init__(self, it: Instance, slopes: Slopes, far: int, spread: int) -> None:
        self.it = it
        self.program = Program()
        self.tasks = np.flatnonzero(it.stateful)
        self.copies = sum(standby.copies_of(it))
        self.collapsed = is_collapsed(it)
        self.weight = 2 * len(self.tasks) * (self.copies + 1) + 2  # a unit of cost counts more than all moves together
        self.constant = 0
        self.held: defaultdict[tuple[_Role, int], list[int]] = defaultdict(list)
        self.in_place: defaultdict[tuple[_Role, int], list[tuple[int, int]]] = defaultdict(list)
        self.direct: list[tuple[_Role, int, int, int]] = []
        self.through: dict[tuple[_Role, int], list[tuple[int, int]]] = {}
        for row, task in enumerate(self.tasks.tolist()):
            self._options(row, task)
        self._places()
        self._actives()
        self._standbys(slopes, far)
        if not self.collapsed and spread:
            self._spread(spread)

    def result(self) -> tuple[Whole | None, int]:
        """The containers of each stateful task, the active task's first (None if no plan was found), and a lower bound
        on the cost of any plan."""
        values, bound = self.program.least()
        least = 0 if bound is None else -((self.weight // 2 - bound - self.constant) // self.weight)
        if values is None:
            return None, least
        actives = np.full((len(self.tasks), 1), -1, np.int64)
        copies: list[list[int]] = [[] for _ in self.tasks]
        found = [(role, row, container) for role, row, container, variable in self.direct if values[variable]]
        for key, through in self.through.items():
            rows = (row for row, variable in self.in_place[key] if values[variable])
            containers = (container for container, variable in through for _ in range(values[variable]))
            found += [(key[0], row, container) for row, container in zip(rows, containers, strict=True)]
        for role, row, container in found:
            if role == _STANDBY:
                copies[row].append(container)
            else:
                actives[row] = container
        rest = np.sort(np.array(copies, np.int64).reshape(len(self.tasks), self.copies), axis=1)
        return np.hstack([actives, rest]), least

    def _options(self, row: int, task: int) -> None:
        """Add the options of a task and its standbys, which must all use different containers or, if the containers
        of a place are equivalent, different places.
        """
        it, on = self.it, int(self.it.on[task])
        old = set(it.standby_on(it.tasks[task]))
        self.constant += min(len(old), self.copies) * self._value(0, 1)
        stage = ("active", int(it.stage_of[task]) if it.by_stage else 0)
        apart: defaultdict[int, list[int]] = defaultdict(list)
        self._role(row, task, stage, it.active_traffic, int(on != -1), {on} - {-1, -2}, apart)
        self._role(row, task, _STANDBY, it.standby_traffic, 0, old, apart)
        for together in apart.values():
            self.program.row(0, 1, [(variable, 1) for variable in together])

    def _role(
        self,
        row: int,
        task: int,
        role: _Role,
        traffic: Traffic,
        moves: int,
        homes: set[int],
        apart: dict[int, list[int]],
    ) -> None:
        """Add the options of the active task or of the standbys. Using a container counts as ``moves`` moves, or
        as one fewer if the container is in ``homes``.
        """
        it = self.it
        racks = np.arange(len(it.racks))
        reads = traffic.of(np.full(len(racks), task), racks)
        where = sorted(homes) if self.collapsed else range(len(it.slots))
        costs = [self._value(int(reads[it.rack_of[one]]), moves - (one in homes)) for one in where]
        chosen = [*self.program.variables(len(costs), 1, costs)]
        for container, variable in zip(where, chosen, strict=True):
            self.held[role, container].append(variable)
            self.direct.append((role, row, container, variable))
            apart[int(it.place_of[container]) if self.collapsed else container].append(variable)
        if self.collapsed:
            costs = [self._value(each, moves) for each in reads[it.rack_of_place].tolist()]
            for place, variable in enumerate(self.program.variables(len(costs), 1, costs)):
                self.in_place[role, place].append((row, variable))
                apart[place].append(variable)
                chosen.append(variable)
        count = self.copies if role == _STANDBY else 1
        self.program.row(count, count, [(variable, 1) for variable in chosen])

    def _value(self, traffic: int, moves: int) -> int:
        return (traffic * self.it.traffic_cost + moves * self.it.move_cost) * self.weight + moves

    def _places(self) -> None:
        """Add the part of the program that divides the tasks in each place among the place's containers."""
        for (role, place), tasks in self.in_place.items():
            inside = np.flatnonzero(self.it.place_of == place).tolist()
            variables = self.program.variables(len(inside), len(self.tasks))
            self.through[role, place] = list(zip(inside, variables, strict=True))
            for container, variable in self.through[role, place]:
                self.held[role, container].append(variable)
            self.program.row(
                0, 0, [*((variable, 1) for _, variable in tasks), *((variable, -1) for variable in variables)]
            )

    def _actives(self) -> None:
        it, count = self.it, len(self.it.slots)
        own, total = active.counts(it)
        later = Counter((it.stage_of[~it.stateful] if it.by_stage else 0 * it.stage_of[~it.stateful]).tolist())
        filled: list[list[tuple[int, int]]] = [[] for _ in range(count)]
        for size in later.values():
            share = between(size, it.slots)
            variables = self.program.variables(count, size)
            self.program.row(size, size, [(variable, 1) for variable in variables])
            for container, variable in enumerate(variables):
                filled[container].append((variable, 1))
                if it.by_stage:
                    self.program.row(share.lower[container], share.upper[container], [(variable, 1)])
        stages = sorted({role for role, _ in self.held if role != _STANDBY})
        sizes = Counter(it.stage_of[self.tasks].tolist())
        for container in range(count):
            here: list[tuple[int, int]] = []
            for role in stages:
                terms = [(variable, 1) for variable in self.held[role, container]]
                here += terms
                if it.by_stage:
                    share = between(sizes[role[1]], it.slots)
                    self.program.row(share.lower[container], share.upper[container], terms)
            self.program.row(own.lower[container], own.upper[container], here)
            if later:
                self.program.row(total.lower[container], total.upper[container], here + filled[container])

    def _standbys(self, slopes: Slopes, far: int) -> None:
        beyond: list[tuple[int, int]] = []
        begin = slopes.far(0 * self.it.slots)
        numbers, steps, lengths = slopes.steps(far)
        for container in range(len(self.it.slots)):
            terms = [(variable, 1) for variable in self.held[_STANDBY, container]]
            if not far:
                self.program.row(slopes.lower[container], slopes.upper[container], terms)
                continue
            mine = numbers == container
            for slope, length in zip(steps[mine].tolist(), lengths[mine].tolist(), strict=True):
                (variable,) = self.program.variables(1, length)
                terms.append((variable, -1))
                beyond.append((variable, slope))
            self.program.row(0, 0, terms)
        if far:
            self.program.row(-np.inf, far - begin, beyond)

    def _spread(self, spread: int) -> None:
        found: list[tuple[int, int]] = []
        copies: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
        for _, row, container, variable in self.direct:
            copies[row, container].append(variable)
        for values in self.it.spread_by:
            held: defaultdict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
            for (row, container), variables in copies.items():
                held[row, int(values[container])] += [(variable, 1) for variable in variables]
            for terms in held.values():
                (variable,) = self.program.variables(1, 1)
                self.program.row(0, np.inf, [*terms, (variable, -1)])
                found.append((variable, 1))
        self.program.row(spread, np.inf, found)
