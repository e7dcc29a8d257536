"""Writes and publishes a batch's rows, dead letters and control records, and then advances the lane's time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from anabranch import crash_points
from anabranch.event_time.control import Control
from anabranch.model.lane import Lane
from anabranch.spark.internals import query_plan
from anabranch.spark.operators import evaluation
from anabranch.spark.query import lost_ends, sink, sql_refusals
from anabranch.spark.query.gate import Gate
from anabranch.spark.query.lane_time import LaneTime
from anabranch.spark.query.planned_batch import Batch
from anabranch.spark.query.rejections import Rejections
from anabranch.spark.query.sink import Refusal
from anabranch.spark.query.source import Measured
from anabranch.spark.values import meta_column
from anabranch.spark.values.decoding import Marks
from anabranch.systems.output import Publisher, Target, Written
from anabranch.systems.reading.spark import PlainWriter
from anabranch.task_progress.counts import ReportAddress


@dataclass(frozen=True)
class Publishing:
    """How one lane publishes each batch.

    Attributes:
        publishers: the publishers that write exactly once, by system.
        plain: the writers of at-least-once outputs, by the number of the output.
        targets: the streams to which rows are written, by the number of the output.
        timed: the streams among ``targets`` whose readers need the lane's watermark.
        refusals: which rows intermediate streams refuse, by the number of the output.
        unruly: whether rows of one slot may be in several Spark tasks. If so, and if the output has slots, the rows of
            each slot are moved to one Spark task before they are written.
        begins: the lane's start offsets, by whole SSP in text form, if the lane must refuse batches that end before
            they begin in a partition (see :mod:`lost_ends`). Otherwise None.
        observed: returns the observations of the running batch, by :attr:`Source.name`. The observations are complete
            once the batch's rows have been computed.
        looked: contains the running batch's number once the batch has been searched for unreadable records and null
            keys; empty before that.
    """

    lane: Lane
    publishers: Mapping[str, Publisher]
    plain: Mapping[int, PlainWriter]
    targets: Mapping[int, Target]
    timed: Sequence[Target]
    refusals: Mapping[int, Refusal]
    rejections: Rejections
    time: LaneTime
    planned: Callable[[int], Batch]
    unruly: bool = False
    line: ReportAddress | None = None
    gate: Gate = field(default_factory=Gate)
    begins: Mapping[str, int] | None = None
    observed: Callable[[], Mapping[str, Measured]] = dict
    looked: set[int] = field(default_factory=set)

    def begin(self, number: int) -> None:
        """Forget what was recorded about the previous batch, or about an earlier run of the same batch. Call this at
        the start of every run of every batch. Raises StateError if ``begins`` isn't None and the batch ends before
        it begins in a partition; see :mod:`lost_ends`."""
        self.looked.clear()
        self.rejections.begin()
        if self.begins is None:
            return
        lost = lost_ends.of_batch(self.planned(number), self.lane, self.begins)
        if lost is not None:
            raise lost

    def written(self, rows: DataFrame, batch: int, apart: bool = False) -> list[Written]:
        """Write a batch's output rows durably, after the dead letters that must be written first (see
        :meth:`put_first`). ``apart`` says whether the group's branches were computed separately, not in one pass.
        """
        if meta_column.END in rows.columns:
            rows = self._cut(rows, self.planned(batch)).drop(meta_column.END)
        ways = self._ways
        self.gate.check()
        if len(set(ways.values())) == 1 and not self.rejections.aside.gathers:
            return self._written(rows, next(iter(ways)), batch, apart)
        kept = rows.persist()
        try:
            if self.rejections.aside.gathers:
                kept.count()
                self.put_first(batch)
            found: list[Written] = []
            for way in sorted(set(ways.values())):
                mine = [number for number, each in ways.items() if each == way]
                found += self._written(kept.where(F.col("output").isin(mine)), mine[0], batch, apart)
            return found
        finally:
            kept.unpersist()

    def put_first(self, number: int) -> None:
        """Write the dead letters of a batch. Call this after the batch's rows are computed and before its outputs are
        written. Otherwise, a row that is rejected now, but not when the batch runs again, could be missing from both
        the outputs and the dead letters.

        A stateful operator's dead letters include records with null keys. This method searches for these records first,
        because all dead letters of a slot must be written at once.
        """
        if self.rejections.into_state and number not in self.looked:
            self._look(number, self.observed())
            self.looked.add(number)
        self.gate.check()
        self.rejections.put()

    def _look(self, number: int, measured: Mapping[str, Measured]) -> None:
        marks = [Marks.of(seen) for seen in measured.values()]
        if any(each.faulty or each.keyless for each in marks):
            self.rejections.look(self.planned(number), measured)

    @staticmethod
    def _cut(rows: DataFrame, batch: Batch) -> DataFrame:
        return evaluation.told_cut(rows, batch.reached) if batch.drains else rows

    def planned_write(self, rows: DataFrame, batch: int) -> DataFrame | None:
        """The DataFrame that writes a batch's output rows, planned by Spark but not run. None if dead letters must be
        written first. Also None unless all rows are written by a single publisher that is ``plannable``.
        """
        numbers, ways = [*self._ways], {*self._ways.values()}
        if self.rejections.aside.gathers or len(ways) != 1 or not self._plannable(*ways):
            return None
        writing = self._writing(rows, numbers[0], batch, apart=False)
        query_plan.prepare(writing)
        return writing

    def _plannable(self, way: str) -> bool:
        return way in self.publishers and self.publishers[way].plannable

    @property
    def _ways(self) -> dict[int, str]:
        """How each output is written, by the number of the output: "plain", or the name of the system whose publisher
        writes it.
        """
        systems = {number: self.lane.system(target.stream) for number, target in self.targets.items()}
        return {number: "plain" if number in self.plain else systems[number] for number in systems}

    def _written(self, rows: DataFrame, number: int, batch: int, apart: bool) -> list[Written]:
        """Write the rows of the output ``number``, and of all other outputs that are written in the same way."""
        if number in self.plain:
            self.gate.passes(f"is being written at least once to {self.targets[number].stream}", exact=False)
            self.plain[number].write(self.accepted(rows))
            return []
        self.gate.check()
        return sink.write(self._writing(rows, number, batch, apart))

    def accepted(self, rows: DataFrame) -> DataFrame:
        """The output rows without those that at-least-once outputs refuse."""
        return sql_refusals.accepted(rows, {n: each for n, each in self.refusals.items() if n in self.plain})

    def _writing(self, rows: DataFrame, number: int, batch: int, apart: bool) -> DataFrame:
        publisher = self.publishers[self.lane.system(self.targets[number].stream)]
        if publisher.slotted and (self.unruly or apart):
            # If two Spark tasks had rows of the same slot, the second would find the marker of the first, and write
            # nothing.
            rows = rows.repartitionById(len(self.lane.slots), F.col(sink.SLOT))
        return sink.writing(rows, publisher.output, self.targets, batch, self.refusals, self.line)

    def settle(self) -> None:
        """Remove the lane's temporary data. Then wait, for a short time at most, until readers can see everything that
        was published; see :meth:`Publisher.settle`."""
        for publisher in self.publishers.values():
            publisher.settle()

    def put_aside(self) -> int:
        """How many dead letters this lane has ever written, according to its publishers."""
        streams = sorted({*self.lane.dead_letters.values()})
        return sum(
            publisher.put_aside([stream for stream in streams if self.lane.system(stream) == system])
            for system, publisher in self.publishers.items()
        )

    def finish(self, number: int, written: list[Written], measured: Mapping[str, Measured]) -> None:
        """Write the remaining dead letters of a batch whose rows are already written, and publish the batch. Then
        advance the lane's time.

        ``measured`` has the observations of each source, by :attr:`Source.name`. If ``measured`` is empty,
        :attr:`observed` supplies the observations.
        """
        measured = measured or self.observed()
        self.gate.check()
        if number not in self.looked:
            self._look(number, measured)
        batch = self.planned(number) if self.time.path is not None else None
        told = [*written, *self.rejections.finish()]
        controls: dict[Target, Control] = {}
        if batch is not None and self.timed:
            controls = dict.fromkeys(self.timed, self.time.control(batch))
        self.gate.passes("is being published", exact=True)
        for system, publisher in self.publishers.items():
            mine = [each for each in told if self.lane.system(each.stream) == system]
            publisher.publish(number, mine, {t: c for t, c in controls.items() if self.lane.system(t.stream) == system})
        if batch is not None and self.time.path is not None:
            self.time.tick(batch, measured)
        if batch is not None and batch.drains:
            crash_points.reach(crash_points.ENDED, self.lane.id, number)
