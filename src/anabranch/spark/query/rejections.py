"""Records that a lane can't process: finds them, passes them on, and counts those that were dropped."""

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
    """Handles the records and rows that one lane can't process.

    ``reports``: the sources whose unreadable records this lane rejects, except for the faults in ``dropping``.
    ``keyless_rows`` finds the rows with null keys that reach the operator ``into_state``, among some rows of each
    source. ``dropped`` is called with the number of dropped records. ``late_rows``: the operators that reject late
    rows, by the names used in messages; ``late`` is called with how many there were, by SSP.
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
        """Durably write the records that operators have rejected so far."""
        dead_letters.put(self.spark, self.aside)

    def finish(self) -> list[Written]:
        """Write the rest of a batch's dead letters, and return everything that was written. Reports how many records
        were dropped and how many were late.
        """
        self.put()
        heard = dead_letters.heard(self.aside)
        self.dropped(heard.dropped)
        self.late({ssp: rows for (operator, ssp), rows in heard.aside.items() if operator in self.late_rows})
        return heard.written

    def look(self, batch: Batch, measured: Mapping[str, Measured]) -> None:
        """Find the records of a batch that are unreadable or have a null key, and reject them."""
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
