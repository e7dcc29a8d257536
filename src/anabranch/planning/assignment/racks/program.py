"""An integer linear program: its variables, its rows, and the best solution with a bound."""

from __future__ import annotations

import math
from collections.abc import Iterable

__all__ = ["Program"]

_MOST_NODES = 2_000
_EXACT = 2**46
"""The maximum sum of costs. If the sum is larger, the solver's floating-point numbers can't distinguish costs exactly.
"""


class Program:
    """An integer linear program that minimizes the total cost. Costs are whole numbers, so the solver's bound is
    rounded up to a whole number."""

    def __init__(self) -> None:
        from ortools.math_opt.python import mathopt

        self._model = mathopt.Model()
        self.costs: list[int] = []
        self._variables: list[mathopt.Variable] = []

    def variables(self, count: int, upper: int, costs: Iterable[int] | None = None, whole: bool = True) -> range:
        """Add ``count`` variables with values from 0 to ``upper``, and return their numbers. ``costs`` has, for each
        variable, the cost of a unit (by default 0). If ``whole`` is True, only whole numbers are allowed as values."""
        begin = len(self._variables)
        for _ in range(count):
            self._variables.append(self._model.add_variable(lb=0, ub=upper, is_integer=whole))
        self.costs += [0] * count if costs is None else costs
        return range(begin, begin + count)

    def row(self, lower: float, upper: float, terms: Iterable[tuple[int, int]]) -> None:
        """Add a row. ``terms`` contains pairs (variable, factor). The sum of variable * factor over all pairs must be
        between ``lower`` and ``upper``.
        """
        row = self._model.add_linear_constraint(lb=lower, ub=upper)
        for variable, factor in terms:
            row.set_coefficient(self._variables[variable], factor)

    def least(self) -> tuple[list[int] | None, int | None]:
        """The best solution that was found, as the values of all variables by number, and a lower bound on the cost of
        any solution. If the solver found no solution, or no bound, that result is None. If the costs are too large
        for the solver, both results are None.
        """
        from ortools.math_opt.python import mathopt

        if sum(map(abs, self.costs)) > _EXACT:
            return None, None
        objective = self._model.objective
        for variable, cost in zip(self._variables, self.costs, strict=True):
            objective.set_linear_coefficient(variable, cost)
        limits = mathopt.SolveParameters(
            node_limit=_MOST_NODES, random_seed=1, relative_gap_tolerance=0, absolute_gap_tolerance=0.5
        )
        limits.highs.string_options["parallel"] = "off"
        result = mathopt.solve(self._model, mathopt.SolverType.HIGHS, params=limits)
        values = None
        if result.has_primal_feasible_solution():
            values = [round(value) for value in result.variable_values(self._variables)]
        bound = result.best_objective_bound()
        return values, math.ceil(bound - 1e-6 * max(1.0, abs(bound))) if math.isfinite(bound) else None
