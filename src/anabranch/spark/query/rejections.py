"""What a lane can't process: which records those are, where they go, and how many were dropped."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from anabranch.spark.operators.labels import label
from anabranch.spark.query import dead_letters
from anabranch.spark.query.dead_letters import WorkerDeadLetters
from anabranch.spark.query.planned_batch import Batch
from anabranch.spark.query.source import Measured, Source, by_node
from anabranch.spark.values.decoding import Marks
from anabranch.systems.output import Written

__all__ = ["Rejections"]


@dataclass(frozen=True)
class Rejections:
    """What one lane does with the records and rows that it can't process.

    ``reports``: the sources whose unreadable records this lane puts aside, but for the faults in ``dropping``.
    ``keyless_rows`` finds the rows with null keys that come to the operator ``into_state``, from some rows of each
    source. ``dropped`` is told how many were dropped.
    ``late_rows``: what messages call the operators that put late rows aside; ``late`` is told how many, by SSP.
    """

    spark: SparkSession
    sources: Sequence[Source]
    aside: WorkerDeadLetters
    reports: Sequence[str]
    dropping: Collection[str]
    keyless_rows: Callable[[dict[int, DataFrame]], DataFrame]
    into_state: str
    dropped: Callable[[int], None]
    late_rows: frozenset[str] = frozenset()
    late: Callable[[Mapping[str, int]], None] = lambda _: None

    def put(self) -> None:
        """Write what operators have rejected so far, so that it is durable."""
        dead_letters.put(self.spark, self.aside)

    def finish(self) -> list[Written]:
        """Write what is left of a batch, and give all that was written; says how many were dropped, and were late."""
        self.put()
        heard = dead_letters.heard(self.aside)
        self.dropped(heard.dropped)
        self.late({ssp: rows for (operator, ssp), rows in heard.aside.items() if operator in self.late_rows})
        return heard.written

    def look(self, batch: Batch, measured: Mapping[str, Measured]) -> None:
        """Find the records of a batch that can't be read, or have a null key, and put them aside."""
        for source in self.sources:
            if source.node.name in self.reports:
                ranges = batch.ranges(source.stream, source.starts)
                found = source.faulty(measured.get(source.name, {}), ranges, batch.at)
                if found is not None:
                    self._put_aside(found, label(source.node))
        if any(Marks.of(seen).keyless for seen in measured.values()):
            frames = by_node(
                self.sources,
                lambda s: s.keyless(measured.get(s.name, {}), batch.ranges(s.stream, s.starts), batch.at),
            )
            self._put_aside(self.keyless_rows(frames), self.into_state)

    def _put_aside(self, found: DataFrame, operator: str) -> None:
        look = dead_letters.looked_through(self.aside, operator, self.dropping)
        found.mapInArrow(look, "nothing int").collect()
