"""Several sides in several rounds: who runs when, medians and ratios of what was measured, and a table of them."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Measured:
    """Of one run: records of the input a second, and CPU seconds for a million of them."""

    rate: float
    cpu: float


@dataclass(frozen=True, order=True)
class Entry:
    """Who ran: a side, at a promise."""

    promise: str
    side: str

    def __str__(self) -> str:
        return f"{self.side}, {self.promise}"


Results = Mapping[Entry, Sequence[Measured]]
"""The runs of one work, in the order of the rounds. An entry that didn't run in one of them has no list."""


def order(entries: Sequence[Entry], number: int) -> list[Entry]:
    """The order of a round, counted from 0: each begins with another entry, and every other one goes backwards."""
    if not entries:
        return []
    first = number % len(entries)
    turned = [*entries[first:], *entries[:first]]
    return turned if number % 2 == 0 else turned[::-1]


def whole(results: Results) -> Results:
    """Without what was measured in a last round that broke off, if there were others."""
    fewest = min((len(runs) for runs in results.values()), default=0)
    return {entry: runs[:fewest] for entry, runs in results.items()}


def median(runs: Sequence[Measured]) -> Measured:
    return Measured(statistics.median(run.rate for run in runs), statistics.median(run.cpu for run in runs))


def ratio(mine: Sequence[Measured], other: Sequence[Measured]) -> Measured:
    """The medians, over the rounds, of one side's figures divided by the other's in the same round."""
    pairs = [*zip(mine, other, strict=True)]
    return Measured(
        statistics.median(one.rate / another.rate for one, another in pairs),
        statistics.median(one.cpu / another.cpu for one, another in pairs),
    )


@dataclass(frozen=True)
class Goal:
    """In a work, ``mine`` is to have at least ``least`` times the rate of ``other``."""

    work: str
    mine: Entry
    other: Entry
    least: float


def table(works: Mapping[str, Results], mine: Sequence[str]) -> list[str]:
    """One table for all works. A row of a side that isn't one of ``mine`` says how those with its promise compare."""
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
    """A line for each goal of which both sides ran."""
    lines = []
    for goal in wanted:
        results = works.get(goal.work, {})
        if goal.mine in results and goal.other in results:
            reached = ratio(results[goal.mine], results[goal.other]).rate
            met = "met" if reached >= goal.least else "missed"
            lines.append(f"{goal.work}: {goal.mine} / {goal.other}: {reached:.2f}, goal {goal.least}: {met}")
    return lines
