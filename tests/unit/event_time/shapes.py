"""Jobs whose lanes hand event time on, and what may happen to them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from anabranch.model.ssp import SSP
from tests.unit.event_time.memory_log import DELAY, OWN, Row, ssp_of


@dataclass(frozen=True)
class Shape:
    """What is run. Stage ``n`` reads the stream ``s<n>`` of ``counts[n]`` partitions and writes the next one, but the
    last stage: that has windows, and also reads ``own`` partitions of a stream like the first.

    ``lanes``: by stage, the number of the lane for each task. ``rows``: by source SSP, how much later than the latest
    so far each row is (then earlier by what it lags), and its key.
    """

    counts: tuple[int, ...]
    own: int
    lanes: tuple[tuple[int, ...], ...]
    rows: tuple[tuple[tuple[int, int, int], ...], ...]

    @property
    def last(self) -> int:
        return len(self.counts) - 1

    def ssps(self, stage: int, tasks: Iterable[int]) -> list[SSP]:
        found = [ssp_of(f"s{stage}", task) for task in tasks]
        return found + [ssp_of(OWN, ssp.partition) for ssp in found if stage == self.last and ssp.partition < self.own]

    def sources(self) -> list[SSP]:
        return [ssp_of("s0", p) for p in range(self.counts[0])] + [ssp_of(OWN, p) for p in range(self.own)]

    def of(self, source: SSP) -> list[Row]:
        """All rows of a source SSP, none earlier than the latest before it by more than the delay."""
        found, latest = [], 0
        for number, (later, lag, key) in enumerate(self.rows[self.sources().index(source)]):
            latest += later
            found.append(Row(source, number, latest - lag, key))
        return found

    def destinies(self) -> dict[SSP, list[Row]]:
        """All rows that each SSP has, or will have."""
        found = {source: self.of(source) for source in self.sources()}
        rows = [row for p in range(self.counts[0]) for row in found[ssp_of("s0", p)]]
        for stage, count in enumerate(self.counts[1:], 1):
            for task in range(count):
                found[ssp_of(f"s{stage}", task)] = [row for row in rows if self.partition(stage, row) == task]
        return found

    def expanded(self, rows: tuple[tuple[int, int, int], ...]) -> Shape:
        """With one more partition of the first stream, whose rows are not earlier than any other."""
        begin = max((row.at for source in self.sources() for row in self.of(source)), default=0) + DELAY
        (later, lag, key), *rest = rows
        count = self.counts[0]
        added = ((begin + later, lag, key), *rest)
        return replace(self, counts=(count + 1, *self.counts[1:]), rows=(*self.rows[:count], added, *self.rows[count:]))

    def partition(self, stage: int, row: Row) -> int:
        return (row.key + stage) % self.counts[stage]


@dataclass(frozen=True)
class Take:
    """A lane (by its number, modulo how many there are) has a batch of so many rows of each SSP, and may die in it."""

    stage: int
    lane: int
    rows: tuple[int, ...]
    death: str | None = None


@dataclass(frozen=True)
class Split:
    """A lane of several tasks is replaced by two."""

    stage: int
    lane: int


@dataclass(frozen=True)
class Merge:
    """The first two lanes are replaced by one, which is then the last."""

    stage: int


@dataclass(frozen=True)
class Recut:
    """All lanes of a stage are replaced at once; ``lanes`` as in :class:`Shape`."""

    stage: int
    lanes: tuple[int, ...]


@dataclass(frozen=True)
class Expand:
    """The first stream has one partition more, with rows later than all others; a lane is replaced by one that has it.

    ``rows``: as in :class:`Shape`.
    """

    lane: int
    rows: tuple[tuple[int, int, int], ...]


Action = Take | Split | Merge | Recut | Expand
