"""Several sides in several rounds: the order in which they run, medians and ratios of the results, and a table."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Measured:
    """The result of one run: records of the input per second, and CPU seconds per million of these records."""

    rate: float
    cpu: float


@dataclass(frozen=True, order=True)
class Entry:
    """A side with the promise at which it ran."""

    promise: str
    side: str

    def __str__(self) -> str:
        return f"{self.side}, {self.promise}"


Results = Mapping[Entry, Sequence[Measured]]
"""The runs of one workload, in the order of the rounds. An entry that didn't run in every round isn't in the mapping.
"""


def order(entries: Sequence[Entry], number: int) -> list[Entry]:
    """The entries in the order of round ``number``, counted from 0. Each round begins with another entry, and every
    other round runs backwards.
    """
    if not entries:
        return []
    first = number % len(entries)
    turned = [*entries[first:], *entries[:first]]
    return turned if number % 2 == 0 else turned[::-1]


def whole(results: Results) -> Results:
    """The results without those of a last round that was broken off, unless it is the only round."""
    fewest = min((len(runs) for runs in results.values()), default=0)
    return {entry: runs[:fewest] for entry, runs in results.items()}


def median(runs: Sequence[Measured]) -> Measured:
    return Measured(statistics.median(run.rate for run in runs), statistics.median(run.cpu for run in runs))


def ratio(mine: Sequence[Measured], other: Sequence[Measured]) -> Measured:
    """The medians, over the rounds, of one side's figures divided by those of the other side in the same round."""
    pairs = [*zip(mine, other, strict=True)]
    return Measured(
        statistics.median(one.rate / another.rate for one, another in pairs),
        statistics.median(one.cpu / another.cpu for one, another in pairs),
    )


@dataclass(frozen=True)
class Goal:
    """A goal of a workload: ``mine`` should have at least ``least`` times the rate of ``other``."""

    work: str
    mine: Entry
    other: Entry
    least: float


def table(works: Mapping[str, Results], mine: Sequence[str]) -> list[str]:
    """One table for all workloads. The row of a side that isn't one of ``mine`` compares this side with those of
    ``mine`` that have the same promise.
    """
    lines = [
        f"| work | promise | side | records/s | lowest, highest | CPU s per million | {_heads(mine)} |",
        f"| --- | --- | --- | ---: | ---: | ---: |{' ---: |' * len(mine)}",
    ]
    for work, results in works.items():
        for entry, runs in sorted(results.items(), key=lambda item: item[0].promise):
            middle, rates = median(runs), [run.rate for run in runs]
            ratios = [_compared(results, Entry(entry.promise, each), entry, mine) for each in mine]
            span = f"{min(rates):,.0f}, {max(rates):,.0f}"
            lines.append(
                f"| {work} | {entry.promise} | {entry.side} | {middle.rate:,.0f} | {span} | {middle.cpu:.2f} | "
                f"{' | '.join(ratios)} |"
            )
    return lines


def _heads(mine: Sequence[str]) -> str:
    return " | ".join(f"{each} to it: records/s, CPU" for each in mine)


def _compared(results: Results, ours: Entry, entry: Entry, mine: Sequence[str]) -> str:
    if entry.side in mine or ours not in results:
        return "-"
    compared = ratio(results[ours], results[entry])
    return f"{compared.rate:.2f}, {compared.cpu:.2f}"


def goals(works: Mapping[str, Results], wanted: Sequence[Goal]) -> list[str]:
    """A line for each goal whose two sides both ran."""
    lines = []
    for goal in wanted:
        results = works.get(goal.work, {})
        if goal.mine in results and goal.other in results:
            reached = ratio(results[goal.mine], results[goal.other]).rate
            met = "met" if reached >= goal.least else "missed"
            lines.append(f"{goal.work}: {goal.mine} / {goal.other}: {reached:.2f}, goal {goal.least}: {met}")
    return lines
