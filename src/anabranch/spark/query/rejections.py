"""Finds the records that a lane can't process, and writes them as dead letters or, if they are dropped, counts them."""

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

    Attributes:
        reports: the names of the ``read`` operators whose unreadable records this lane rejects.
        dropping: the faults (``"null_key"`` or any of ``decoding.FAULTS``) whose records are only counted.
        keyless_rows: finds rows that reach the lane's stateful operator with a null key. Called with rows of each
            operator that reads streams, by the id of the operator's node. Returns the origin (source, partition,
            offset) of each row with a null key, with the fault and the reason.
        into_state: the label of the lane's stateful operator; empty if there is no such operator.
        dropped: called right before each batch is published, with the number of records that were dropped.
        late_rows: the labels under which late rows that become dead letters are rejected.
        late: called right before each batch is published, with the number of late rows, by SSP.
        skipping: the streams of which lost records may be skipped.
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
    skipping: Collection[str] = ()

    def begin(self) -> None:
        """Forget the reports of Spark tasks about a batch that was broken off. The batch's records are read again,
        perhaps in another batch."""
        self.aside.said.value = []

    def put(self) -> None:
        """Durably write the dead letters that Spark tasks have reported but not written."""
        dead_letters.put(self.spark, self.aside)

    def finish(self) -> list[Written]:
        """Write the remaining dead letters of a batch. Returns what was written for all dead letters of the batch,
        including those written earlier. Calls ``dropped`` and ``late``.
        """
        self.put()
        heard = dead_letters.heard(self.aside)
        self.dropped(heard.dropped)
        self.late({ssp: rows for (operator, ssp), rows in heard.aside.items() if operator in self.late_rows})
        return heard.written

    def look(self, batch: Batch, measured: Mapping[str, Measured]) -> None:
        """Reject a batch's rows that reach the lane's state with a null key, and the batch's unreadable records if this
        lane must reject them.
        """
        for source in self.sources:
            if source.node.name in self.reports:
                ranges = batch.ranges(source.stream, source.starts)
                seen, skips_lost = measured.get(source.name, {}), source.stream in self.skipping
                found = source.faulty(seen, ranges, batch.at, skips_lost=skips_lost)
                if found is not None:
                    self._put_aside(found, label(source.node))
        if any(Marks.of(seen).keyless for seen in measured.values()):
            frames = by_node(
                self.sources,
                lambda s: s.keyless(
                    measured.get(s.name, {}),
                    batch.ranges(s.stream, s.starts),
                    batch.at,
                    skips_lost=s.stream in self.skipping,
                ),
            )
            self._put_aside(self.keyless_rows(frames), self.into_state)

    def _put_aside(self, found: DataFrame, operator: str) -> None:
        look = dead_letters.looked_through(self.aside, operator, self.dropping)
        found.mapInArrow(look, "nothing int").collect()
