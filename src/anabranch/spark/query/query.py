"""Starts a lane's streaming query, and computes and publishes its batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from threading import Event
from time import monotonic
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from anabranch import crash_points
from anabranch.config import Settings
from anabranch.errors import ClockError, GraphError
from anabranch.event_time import durations
from anabranch.event_time.progress import Progress
from anabranch.model.graph import Node
from anabranch.model.lane import Lane
from anabranch.model.ssp import SSP
from anabranch.operators.rules import on_late
from anabranch.planning import stages
from anabranch.spark.functions import error_text, isolation
from anabranch.spark.functions import wrap as user_functions
from anabranch.spark.internals import batch_clock, debug_lines, local_properties
from anabranch.spark.operators import evaluation, late_rows
from anabranch.spark.operators.labels import label
from anabranch.spark.query import clock, one_at_a_time, sink, streaming_checks, under_way
from anabranch.spark.query.batch_target import LaneBatchTarget
from anabranch.spark.query.checkpoint_sync import CheckpointSync
from anabranch.spark.query.frames import LaneFrames
from anabranch.spark.query.gate import Gate
from anabranch.spark.query.outputs import LaneOutputs
from anabranch.spark.query.pacer import Pacer
from anabranch.spark.query.plan import LanePlan, LoadedJob
from anabranch.spark.query.planned_batch import Batch
from anabranch.spark.query.set_back import SetBack
from anabranch.spark.query.source import Measured, by_node, day, measured
from anabranch.spark.query.sources import LaneSources
from anabranch.spark.query.under_way import CurrentBatch
from anabranch.spark.query.workers import LaneWorkers
from anabranch.spark.values import meta_column
from anabranch.systems.output import Written

_BATCH_MS = 300_000
"""The length of a batch in real-time mode if ``[job] interval`` is 0. At the end of each batch, records wait for 0.3 to
1 s. This happens only once in five minutes, so it doesn't affect the 99th percentile of latency."""
_TICK_MS = 1000
"""How many ms late a processing-time timer may be if no records arrive, unless ``[job] interval`` is longer."""


def real_time_seconds(settings: Settings) -> float:
    """The length of a batch in real-time mode: ``[job] interval`` or, if the interval is 0, 300 seconds."""
    return (durations.parse(settings.job.interval) or _BATCH_MS) / 1000


@dataclass(frozen=True)
class LaneQuery:
    """The streaming query of a lane. ``folder`` is the path of the checkpoint, in Spark's form. Without a checkpoint,
    the query starts at the offsets in ``starting`` (by whole SSP). For ``until``, see :class:`LanePlan`.

    ``planned`` returns the entry of a batch in the offset log. ``clock`` is a local file for the lane's event time, and
    ``inherited`` returns the event time that the lane takes over. ``dropped`` is called for each batch with the number
    of dropped records. For ``remembered``, see :class:`LaneBatchTarget`; for ``nothing``, see :class:`LaneFrames`.

    ``writing`` is set while a batch is being computed and published. For ``under_way``, see :class:`CurrentBatch`.
    """

    job: LoadedJob
    lane: Lane
    epoch: int
    folder: str
    planned: Callable[[int], Batch]
    clock: str
    starting: Mapping[SSP, int]
    until: Mapping[SSP, int] = field(default_factory=dict)
    inherited: Callable[[], Progress] = Progress
    dropped: Callable[[int], None] = lambda _: None
    remembered: Callable[[bool], int] = lambda _: 0
    nothing: bool = False
    writing: Event = field(default_factory=Event)
    under_way: CurrentBatch = field(default_factory=CurrentBatch)
    gate: Gate = field(default_factory=Gate)

    @cached_property
    def plan(self) -> LanePlan:
        return LanePlan(self.job, self.lane, self.until)

    @cached_property
    def sources(self) -> LaneSources:
        return LaneSources(self.plan, self.starting)

    @cached_property
    def workers(self) -> LaneWorkers:
        return LaneWorkers(self.plan)

    @cached_property
    def outputs(self) -> LaneOutputs:
        return LaneOutputs(
            self.plan,
            self.sources,
            self.workers,
            self.epoch,
            self.planned,
            self.clock,
            self.inherited,
            self.dropped,
            self.gate,
        )

    @cached_property
    def frames(self) -> LaneFrames:
        return LaneFrames(
            self.plan,
            self.sources,
            self.workers,
            self.outputs,
            self.folder,
            self.clock,
            self.nothing,
            lambda: self.pacer,
        )

    @cached_property
    def _batch_target(self) -> LaneBatchTarget:
        return LaneBatchTarget(self.plan, self.sources, self.outputs, self.remembered)

    @cached_property
    def pacer(self) -> Pacer:
        """The pacer, which determines the size of the lane's batches."""
        return self._batch_target.pacer()

    def start(
        self, once: bool = False, last: Batch | None = None, pending: bool = False, taken: bool = False
    ) -> StreamingQuery:
        """Start the query. With ``once``, the query runs a single batch (the pending batch, if there is one), and ends.

        ``last`` is the last planned batch, if any, and ``pending`` says whether it still has to be committed. ``taken``
        says whether the lane has already taken over its outputs (:meth:`take`). Errors in the plan are raised here.
        """
        if self.plan.real_time and not once:
            with one_at_a_time.turn(self.plan):
                return self._start_real_time(clock.reached(last, None))
        if not taken:
            self.take(last)
        self.outputs.time.begin(last, pending)
        return self._start(once, self.publish, clock.reached(last, self.clock if self.plan.by_intake else None))

    def take(self, last: Batch | None) -> None:
        """Take over the lane's outputs. This can take a long time. For ``last``, see :meth:`start`."""
        self.outputs.take(new=last is None or last.number < self.lane.first_batch)

    def begin_ahead(self, each: Callable[[DataFrame, int], None]) -> StreamingQuery:
        """Start a :attr:`foreseeable` query before its lane starts. For each batch, the query calls ``each`` with the
        arguments for :meth:`publish`. ``each`` must wait until the lane may publish, and then call :meth:`publish`.
        """
        return self._start(False, each)

    def _start(self, once: bool, each: Callable[[DataFrame, int], None], since: int = 0) -> StreamingQuery:
        """Start the query, which calls ``each`` for each batch. For ``since``, see :func:`batch_clock.starting`."""
        self.pacer.begin()
        every = f"{self._interval} milliseconds"
        with one_at_a_time.turn(self.plan), batch_clock.starting(self.job.spark, self.lane.id, since):
            writer = self._body.frame.writeStream.foreachBatch(each).queryName(self.lane.id)
            writer = writer.option("checkpointLocation", self.folder)
            writer = writer.outputMode("append" if streaming_checks.is_closing(self.plan.group) else "update")
            return (writer.trigger(once=True) if once else writer.trigger(processingTime=every)).start()

    def planned_write(self, batch: DataFrame, number: int) -> DataFrame | None:
        """The DataFrame that computes and writes a batch, planned by Spark but not run; None if this isn't possible."""
        frame, last = self.frames.whole
        return None if frame is None or last is not None else self.outputs.publishing.planned_write(batch, number)

    def publish(self, batch: DataFrame, number: int, planned: DataFrame | None = None) -> None:
        """Compute and publish a batch. ``planned`` is the batch's :meth:`planned_write`, if it was made in advance."""
        self.writing.set()
        begun, context = monotonic(), self.job.spark.sparkContext
        try:
            with self.gate.quietly():
                self.gate.begins(number)
                self.checkpoint_sync.sync()
                self.outputs.publishing.begin(number)
                isolation.begin(context, self.lane.id)
                self.under_way.begin(number, context.getLocalProperty(local_properties.RUN) or "")
                if planned is None:
                    self._body.each(batch, number)
                else:
                    self._publish(number, lambda: sink.write(planned))
            isolation.end(self.lane.id)
            if not self.nothing:
                self.pacer.ran(number, monotonic() - begun)
            self.under_way.reach(under_way.COMMITTING)
        except BaseException:
            self.under_way.end()
            raise
        finally:
            self.writing.clear()

    @cached_property
    def checkpoint_sync(self) -> CheckpointSync:
        return CheckpointSync(self.folder)

    @property
    def _interval(self) -> int:
        """The least time between the starts of two batches, in ms."""
        return max(_TICK_MS if self.plan.ticks else 0, durations.parse(self.job.settings.job.interval))

    @property
    def holdable(self) -> bool:
        """Whether the running query can be held, and then be given batches that anabranch has planned. False in
        real-time mode, or if the query plans batches less often than once a second.
        """
        return not self.plan.real_time and self._interval <= _TICK_MS

    def _start_real_time(self, since: int) -> StreamingQuery:
        """Start the query in real-time mode. A batch lasts for :func:`real_time_seconds`, and is broken off if the
        query stops. Raises GraphError if the records can't be processed in one pass."""
        frames = by_node(self.sources.all, lambda s: s.rows(s.opened(self.frames.streamed(s))))
        way = evaluation.trunk(self.plan.group, frames, self.frames.context)
        one_pass = way is not None and evaluation.fans_out(self.plan.group, way[0])
        rows = evaluation.fan_out(self.plan.group, *way, self.outputs.sinks) if way is not None and one_pass else None
        if rows is None:
            raise GraphError(
                f"lane {self.lane.id} can't run in real time: its records can't be processed in one pass",
                'set [job] trigger = "micro-batch"',
            )
        numbers = {s.number: stages.stream_of(self.job.graph, s.node) for s in self.outputs.sinks.values()}
        plain = next(iter(self.outputs.plain(numbers).values()))
        length = round(real_time_seconds(self.job.settings) * 1000)
        stream = plain.stream(self.outputs.publishing.accepted(rows)).queryName(self.lane.id).outputMode("update")
        stream = stream.option("checkpointLocation", self.folder)
        with batch_clock.starting(self.job.spark, self.lane.id, since):
            started: StreamingQuery = stream.trigger(realTime=f"{length} milliseconds").start()
        return started

    def analyze(self) -> None:
        """Let Spark analyze the query now, so that :meth:`start` takes less time. Errors in the plan are raised here.
        Does nothing in real-time mode."""
        if not self.plan.real_time:
            _ = self.pacer  # other lanes must not wait until this has read its first size from the storage root
            with one_at_a_time.turn(self.plan):
                _ = self._body

    @property
    def foreseeable(self) -> bool:
        """Whether Spark can analyze the query before it is known where the lane starts. The lane must have no state, no
        watermark that anabranch computes, no given end offsets, and only one source. This source must not be a
        broadcast stream, and its system must have ``begins_in_folder``. False in real-time mode.
        """
        if (
            self.plan.stateful
            or self.sources.has_event_time
            or self.plan.real_time
            or self.until
            or len(self.sources.all) != 1
        ):
            return False
        (source,) = self.sources.all
        return source.system.begins_in_folder and source.audience is None

    @property
    def begins(self) -> dict[str, Any]:
        """The start offsets of the query's only source, in the form of its system; see ``System.begins_in_folder``."""
        (source,) = self.sources.all
        return source.system.offset(source.stream, "", source.starts)

    def as_analyzed(self, before: LaneQuery) -> LaneQuery:
        """This query, with the analysis that Spark has made for ``before``. The query ``before`` differs from this
        query only in where it starts. Reports of Python workers reach both queries.
        """
        for mine, theirs, names in (
            (self.workers, before.workers, ("busy",)),
            (self.outputs, before.outputs, ("aside",)),
            (self.frames, before.frames, ("context", "whole")),
        ):
            mine.__dict__.update({name: theirs.__dict__[name] for name in names if name in theirs.__dict__})
        self.__dict__["pacer"] = self._batch_target.pacer(before.pacer.limit)  # the sources already have these limits
        return self

    @property
    def _body(self) -> _Body:
        frame, last = self.frames.whole
        if frame is None:
            return self._apart
        if last is None:
            return _Body(frame, self._writing)
        return _Body(frame, partial(self._evaluating, lambda batch, _: ({last: batch}, {})))

    @cached_property
    def _apart(self) -> _Body:
        """The body of a query in which a source's path branches or reaches a ``join_table`` before all sources have
        come together. The query itself only passes records on; all operators are computed batch by batch.
        """
        tagged = [self.frames.streamed(s).withColumn("source", F.lit(s.number)) for s in self.sources.all]
        union = tagged[0]
        for frame in tagged[1:]:
            union = union.union(frame)

        def begin(batch: DataFrame, number: int) -> tuple[dict[int, DataFrame], dict[str, Measured]]:
            kept, today = batch.persist(), day(self.planned(number).at)  # current_date would differ in a later replay
            opened = {s.number: s.opened(kept.where(f"source = {s.number}")) for s in self.sources.all}
            seen = {s.name: measured(opened[s.number], s.measures(today)) for s in self.sources.all}
            return by_node(self.sources.all, lambda s: s.rows(opened[s.number], today)), seen

        def each(batch: DataFrame, number: int) -> None:
            try:
                self._evaluating(begin, batch, number)
            finally:
                batch.unpersist()

        return _Body(self.frames.ticking(union), each)

    def _evaluating(self, begin: _Begin, batch: DataFrame, number: int) -> None:
        """Compute the operators that can't be part of the query itself, and publish the batch."""
        crash_points.reach(crash_points.PLANNED, self.lane.id, number)
        self._check_time(number)
        frames, seen = begin(batch, number)
        written: list[Written] = []
        with evaluation.inside_batch(self.plan.group, frames, self.frames.context) as ended:
            if self.outputs.sinks:
                rows = evaluation.together({i: ended[i] for i in self.outputs.sinks}, self.outputs.sinks)
                written = self.outputs.publishing.written(rows, number, apart=self.plan.group.branches)
            for node in self.plan.group.sinks:
                if self.outputs.table(node):
                    written += self.outputs.written_to_table(node, ended[node.id], number)
                elif node.id not in self.outputs.sinks:
                    self._call(node, ended[node.id].drop(meta_column.NAME), number)
            self.under_way.reach(under_way.PUBLISHING)
            self.outputs.publishing.finish(number, written, seen)
        crash_points.reach(crash_points.PUBLISHED, self.lane.id, number)

    def _writing(self, batch: DataFrame, number: int) -> None:
        """Publish rows that the query has computed."""
        self._publish(number, lambda: self.outputs.publishing.written(batch, number))

    def _publish(self, number: int, write: Callable[[], list[Written]]) -> None:
        crash_points.reach(crash_points.PLANNED, self.lane.id, number)
        self._check_time(number)
        written = write()
        self.under_way.reach(under_way.PUBLISHING)
        self.outputs.publishing.finish(number, written, {})
        crash_points.reach(crash_points.PUBLISHED, self.lane.id, number)

    def _check_time(self, number: int) -> None:
        """Tell Spark tasks which rows are late, unless Spark itself drops late rows. Warns if the lane's processing
        time is ahead of the machine's clock. Raises ClockError if the batch's records would fall into closed windows of
        processing time. After this error, the lane restarts with the processing time of its last batch.
        """
        if self.plan.group.stateful is not None and on_late(self.plan.group.stateful) != "drop":
            late_rows.let_know(self.job.spark.sparkContext, self.planned(number - 1).watermark if number else 0)
        batch = self.planned(number) if self.plan.by_intake or self.plan.ticks else None
        if batch is not None:
            self._set_back.look(batch.at, clock.unix_ms())
        if batch is not None and self.outputs.out_of_time(batch):
            raise ClockError(
                f"the clock of this machine was set back by {(batch.watermark - batch.at) / 1000:.1f} s or more: batch "
                f"{number} of lane {self.lane.id} was planned before closed windows of processing time",
                "nothing is lost: the lane restarts from the time of its last batch; keep clocks synchronized",
            )

    @cached_property
    def _set_back(self) -> SetBack:
        return SetBack(self.lane.id)

    def _call(self, node: Node, batch: DataFrame, number: int) -> None:
        """Pass a batch to a ``foreach_batch`` function. The function might compute only some of the batch's rows, none
        at all, or some of them twice. So the batch is computed completely before the call, and reports of Spark tasks
        during the call are ignored.
        """
        rows = batch.persist()
        try:
            rows.count()
            told, worked = self.outputs.aside.said.value, self.workers.busy.value
            self.gate.passes(f"has been given to {label(node)}", exact=False)
            try:
                with debug_lines.noted():
                    # A separate plan, so the function can't free what is cached here.
                    self.job.functions[node.id](rows.select("*"), self.lane.id, number, self.epoch)
            except BaseException as error:  # SystemExit as well, which would otherwise end the thread without a report
                if error_text.quotes_ours(error):
                    raise  # the function has computed the rows once more, and an earlier operator has raised the error
                raise user_functions.of_batch(error, label(node), number, self.job.home) from error_text.quotable(error)
            finally:
                self.outputs.aside.said.value, self.workers.busy.value = told, worked
        finally:
            rows.unpersist()


_Begin = Callable[[DataFrame, int], tuple[dict[int, DataFrame], dict[str, Measured]]]


@dataclass(frozen=True)
class _Body:
    """A query's streaming DataFrame, and the function that handles each of its batches."""

    frame: DataFrame
    each: Callable[[DataFrame, int], None]
