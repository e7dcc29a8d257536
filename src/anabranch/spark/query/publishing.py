"""The end of a batch: its rows, its dead letters and its control records are published together, then time goes on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from anabranch import crash_points
from anabranch.clocks import boottime
from anabranch.event_time import progress
from anabranch.event_time.control import Control
from anabranch.event_time.progress import Progress
from anabranch.event_time.windows import Window
from anabranch.model.lane import Lane
from anabranch.spark.internals import query_plan
from anabranch.spark.operators import evaluation
from anabranch.spark.operators.labels import label
from anabranch.spark.query import clock, dead_letters, sink
from anabranch.spark.query.clock import Clock
from anabranch.spark.query.dead_letters import Aside
from anabranch.spark.query.gate import Gate
from anabranch.spark.query.planned_batch import Batch
from anabranch.spark.query.sink import Keyless
from anabranch.spark.query.source import Measured, Source, by_node
from anabranch.spark.values import meta_column
from anabranch.spark.values.decoding import Marks
from anabranch.systems.output import Publisher, Target, Written
from anabranch.systems.reading.spark import PlainWriter
from anabranch.task_progress.counts import Line


@dataclass(frozen=True)
class Publishing:
    """What one lane does with each batch.

    ``targets`` are by the number of their output; ``timed`` those of them whose readers need the lane's watermark.
    ``publishers`` are by the system; ``plain`` writes the outputs, by number, that are written at least once.
    ``clock``: the file of the lane's event time, None if it has none; ``delays`` of its SSPs, by which it goes, or the
    ``window`` of processing time.
    ``reports``: the sources whose unreadable records this lane puts aside, but for the faults in ``dropping``.
    ``keyless_rows`` finds the rows with null keys that come to the operator ``into_state``, from some rows of each
    source. ``dropped`` is told how many were dropped. ``inherited`` gives how far in event time the lanes were that
    it goes on from, None if it goes on from none. ``unruly``: rows of one slot may be in several Spark tasks.
    ``gate``: all that others may see of a batch passes there.
    ``late_rows``: what messages call the operators that put late rows aside; ``late`` is told how many, by SSP.
    ``line``: where workers tell how far they are.
    """

    spark: SparkSession
    lane: Lane
    publishers: Mapping[str, Publisher]
    plain: Mapping[int, PlainWriter]
    targets: Mapping[int, Target]
    timed: Sequence[Target]
    without_key: Keyless | None
    aside: Aside
    sources: Sequence[Source]
    reports: Sequence[str]
    dropping: Collection[str]
    keyless_rows: Callable[[dict[int, DataFrame]], DataFrame]
    into_state: str
    planned: Callable[[int], Batch]
    clock: Path | None
    delays: Mapping[str, int | None]
    dropped: Callable[[int], None]
    inherited: Callable[[], Progress] | None = None
    unruly: bool = False
    window: Window | None = None
    late_rows: frozenset[str] = frozenset()
    late: Callable[[Mapping[str, int]], None] = lambda _: None
    line: Line | None = None
    gate: Gate = field(default_factory=Gate)

    def written(self, rows: DataFrame, batch: int, apart: bool = False) -> list[Written]:
        """Write a batch's output rows, so that they are durable. ``apart``: their branches were computed apart."""
        if meta_column.END in rows.columns:
            rows = self._cut(rows, self.planned(batch)).drop(meta_column.END)
        ways = self._ways
        self.gate.check()
        if len(set(ways.values())) == 1 and not self.aside.gathers:
            return self._written(rows, next(iter(ways)), batch, apart)
        kept = rows.persist()
        try:
            if self.aside.gathers:
                # First what was put aside: a row that a replay doesn't reject would be in neither, if it was last.
                kept.count()
                self.gate.check()
                dead_letters.put(self.spark, self.aside)
            found: list[Written] = []
            for way in sorted(set(ways.values())):
                mine = [number for number, each in ways.items() if each == way]
                found += self._written(kept.where(F.col("output").isin(mine)), mine[0], batch, apart)
            return found
        finally:
            kept.unpersist()

    @staticmethod
    def _cut(rows: DataFrame, batch: Batch) -> DataFrame:
        return evaluation.told_cut(rows, batch.reached) if batch.drains else rows

    def planned_write(self, rows: DataFrame, batch: int) -> DataFrame | None:
        """What writes a batch's output rows, planned by Spark and not run; None where that isn't one pass of ours."""
        numbers, ways = [*self._ways], {*self._ways.values()}
        if self.aside.gathers or len(ways) != 1 or not self._plannable(*ways):
            return None
        writing = self._writing(rows, numbers[0], batch, apart=False)
        query_plan.prepare(writing)
        return writing

    def _plannable(self, way: str) -> bool:
        return way in self.publishers and self.publishers[way].plannable

    @property
    def _ways(self) -> dict[int, str]:
        """What writes each output, by its number."""
        systems = {number: self.lane.system(target.stream) for number, target in self.targets.items()}
        return {number: "plain" if number in self.plain else systems[number] for number in systems}

    def _written(self, rows: DataFrame, number: int, batch: int, apart: bool) -> list[Written]:
        """Write rows that go the same way as those of an output."""
        if number in self.plain:
            self.gate.passes(f"is being written at least once to {self.targets[number].stream}", exact=False)
            self.plain[number].write(rows)
            return []
        self.gate.check()
        return sink.write(self._writing(rows, number, batch, apart))

    def _writing(self, rows: DataFrame, number: int, batch: int, apart: bool) -> DataFrame:
        publisher = self.publishers[self.lane.system(self.targets[number].stream)]
        if publisher.slotted and (self.unruly or apart):
            # The second Spark task with rows of a slot would find the first one's marker, and write nothing.
            rows = rows.repartitionById(len(self.lane.slots), F.col(sink.SLOT))
        return sink.writing(rows, publisher.output, self.targets, batch, self.without_key, self.line)

    def settle(self) -> None:
        """Let readers see what was published; see :meth:`Publisher.settle`."""
        for publisher in self.publishers.values():
            publisher.settle()

    def put_aside(self) -> int:
        """How many records this lane has ever put aside: the streams that hold them know it."""
        streams = sorted({*self.lane.dead_letters.values()})
        return sum(
            publisher.put_aside([stream for stream in streams if self.lane.system(stream) == system])
            for system, publisher in self.publishers.items()
        )

    def finish(self, number: int, written: list[Written], measured: Mapping[str, Measured]) -> None:
        """Publish a batch whose rows are written, with what it has rejected, and let the lane's time go on.

        ``measured``: what was observed of each source, by its name.
        """
        marks = [Marks.of(seen) for seen in measured.values()]
        look = any(each.faulty or each.keyless for each in marks)
        self.gate.check()
        batch = self.planned(number) if look or self.clock is not None else None
        if look and batch is not None:
            self._look_for_faulty(batch, measured)
        dead_letters.put(self.spark, self.aside)
        heard = dead_letters.heard(self.aside)
        told = [*written, *heard.written]
        self.dropped(heard.dropped)
        self.late({ssp: rows for (operator, ssp), rows in heard.aside.items() if operator in self.late_rows})
        controls: dict[Target, Control] = {}
        if batch is not None and self.timed:
            said = Control(
                lane=self.lane.id,
                watermark=batch.progress.watermark,
                predecessors=self.lane.speaks_for,
                beside=self.lane.beside,
                idle=progress.all_idle(batch.progress, self.delays) and not self.reads(batch),
                open=not batch.drains,
            )
            controls = dict.fromkeys(self.timed, said)
        self.gate.passes("is being published", exact=True)
        for system, publisher in self.publishers.items():
            mine = [each for each in told if self.lane.system(each.stream) == system]
            publisher.publish(number, mine, {t: c for t, c in controls.items() if self.lane.system(t.stream) == system})
        if batch is not None and self.clock is not None:
            self._tick(batch, measured)
        if batch is not None and batch.drains:
            crash_points.reach(crash_points.ENDED, self.lane.id, number)

    def begin(self, last: Batch | None, pending: bool) -> None:
        """Set the clock before the query starts. ``last``: the last planned batch; unless it is ``pending``, and runs
        again anyway, what it had is read once more."""
        if self.clock is None:
            return
        self.clock.unlink(missing_ok=True)
        if last is None and self.inherited is not None:
            begun = progress.after(self.inherited(), self.delays, {}, {})
            Clock(begun, self.delays, {str(s): at for source in self.sources for s, at in source.begun()}).write(
                self.clock
            )
        if last is None or pending:
            return
        again = {
            source.name: source.measured_again(last.ranges(source.stream, source.starts), last.at)
            for source in self.sources
            if source.timed and source.intake is not None
        }
        self._tick(last, again)

    def _tick(self, batch: Batch, measured: Mapping[str, Measured]) -> None:
        maxima: dict[str, int] = {}
        for source in self.sources:
            for ssp, at in source.maxima(measured.get(source.name, {})).items():
                maxima[ssp] = max(at, maxima.get(ssp, at))
        now = progress.after(batch.progress, self.delays, maxima, {})
        positions = {str(ssp): batch.ends[ssp.stream][ssp.partition] for source in self.sources for ssp in source.ssps}
        assert self.clock is not None
        newest = self._newest(batch) if self.window is not None else 0
        Clock(now, self.delays, positions, self.window, newest, batch.at, boottime()).write(self.clock)

    def _newest(self, batch: Batch) -> int:
        """When the last record was taken in; after a restart, when it may have been."""
        assert self.clock is not None
        before = clock.read(self.clock)
        return batch.at if before is None or self.reads(batch) else before.newest

    def reads(self, batch: Batch) -> bool:
        """Whether a batch reads any records."""
        ranges = [each for s in self.sources for each in batch.ranges(s.stream, s.starts).values()]
        return any(end > first for first, end in ranges)

    def _look_for_faulty(self, batch: Batch, measured: Mapping[str, Measured]) -> None:
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
