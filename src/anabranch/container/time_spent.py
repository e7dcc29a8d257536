"""Divides the time of a running batch among its phases, according to the reports of its Spark tasks. Pure: no clock, no
threads, no Spark."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from anabranch.task_progress.counts import PUBLISHING, READING, Count, TaskCounts

__all__ = ["COMMITTING", "COMPUTING", "FUNCTIONS", "STATE", "Operator", "TimeSpent"]

COMPUTING, COMMITTING = "computing", "committing"
FUNCTIONS, STATE = "functions", "state"
_RECENT = 1.5
"""How far back to look, in seconds. The current phase of a batch is the phase that took most of this time."""


@dataclass(frozen=True)
class Operator:
    """The work that the newest attempts of Spark tasks have done for an operator. ``late`` is True if the operator
    runs in a later Spark stage than the one that reads the sources."""

    label: str
    tasks: Sequence[TaskCounts]
    late: bool

    @property
    def counts(self) -> Iterable[Count]:
        return (count for task in self.tasks for count in task.counts)

    @property
    def rows(self) -> int:
        return sum(count.rows for count in self.counts)


class TimeSpent:
    """Follows how much time one batch spends in each phase. ``since`` is when the query began to compute the batch, on
    the clock of :meth:`look`."""

    def __init__(self, since: float) -> None:
        self._since = since
        self._steps: dict[str, float] = {}
        self._looks: deque[tuple[float, Mapping[str, float]]] = deque()

    def look(
        self, operators: Iterable[Operator], now: float, step: str, stepped: float
    ) -> tuple[dict[str, float], str]:
        """The seconds that the batch has spent in each phase until ``now``, and the current phase. While the
        driver is computing, the current phase is the phase that took most of the last ``_RECENT`` seconds. Otherwise,
        the current phase is the driver's step.

        The time that the driver spends publishing and committing counts toward these two phases. The time before these
        steps is divided among the other phases according to the reports of Spark tasks. If a Spark task gets rows that
        were brought together by key, the task's time in Java counts as state. The time that any other task spends in
        Java counts as reading. Time in which no Spark task runs also counts as reading.

        Args:
            step: what the driver is doing: "computing", "publishing" or "committing".
            stepped: when the driver began this step, on the same clock as ``now``.
        """
        if step != COMPUTING:
            self._steps.setdefault(step, stepped)
        found: dict[str, float] = defaultdict(float)
        committed = self._steps.get(COMMITTING, now)
        computed = self._steps.get(PUBLISHING, committed)
        found[PUBLISHING] += committed - computed
        found[COMMITTING] += now - committed
        weights, alive = _weights(operators, computed)
        total = sum(weights.values())
        alive = min(alive, computed - self._since) if total else 0.0
        found[READING] += computed - self._since - alive
        for phase, weight in weights.items():
            found[phase] += alive * weight / total if total else 0.0
        return dict(found), step if step != COMPUTING else self._phase(found, now)

    def _phase(self, spent: Mapping[str, float], now: float) -> str:
        self._looks.append((now, dict(spent)))
        while len(self._looks) > 2 and self._looks[1][0] <= now - _RECENT:
            self._looks.popleft()
        before = self._looks[0][1] if len(self._looks) > 1 else {}
        grown = {phase: seconds - before.get(phase, 0.0) for phase, seconds in spent.items()}
        return max(grown, key=lambda phase: grown[phase], default=READING)


def _weights(operators: Iterable[Operator], now: float) -> tuple[dict[str, float], float]:
    """The weights by which the time of Spark tasks is divided among phases, and the seconds during which at least one
    Spark task ran."""
    by_task: dict[tuple[int, int], list[tuple[Operator, TaskCounts]]] = defaultdict(list)
    for operator in operators:
        for task in operator.tasks:
            by_task[task.told.stage, task.told.partition].append((operator, task))
    weights: dict[str, float] = defaultdict(float)
    spans: list[tuple[float, float]] = []
    for several in by_task.values():
        lived = max(task.told.alive for _, task in several)
        mine: dict[str, float] = defaultdict(float)
        for operator, task in several:
            mine[operator.label if operator.label in (READING, PUBLISHING) else FUNCTIONS] += task.told.seconds
        worked = sum(mine.values())
        if worked < lived:
            mine[STATE if any(operator.late for operator, _ in several) else READING] += lived - worked
            worked = lived
        for phase, seconds in mine.items():
            weights[phase] += lived * seconds / worked if worked else 0.0
        begun = min(task.at - task.told.alive for _, task in several)
        ended = now if any(task.fresh for _, task in several) else max(task.at for _, task in several)
        spans.append((begun, min(ended, now)))
    return weights, _union(spans)


def _union(spans: Iterable[tuple[float, float]]) -> float:
    covered, reached = 0.0, float("-inf")
    for begun, ended in sorted(spans):
        covered += max(0.0, ended - max(begun, reached))
        reached = max(reached, ended)
    return covered
