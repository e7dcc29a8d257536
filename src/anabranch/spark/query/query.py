"""Builds and starts a lane's streaming query: sources, operators, hidden columns, outputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from time import monotonic
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from anabranch import crash_points
from anabranch.config import Settings
from anabranch.errors import GraphError, StateError
from anabranch.event_time import durations
from anabranch.grouping.ownership import owned
from anabranch.model.graph import Node
from anabranch.operators.rules import is_timed, on_late
from anabranch.planning import stages
from anabranch.spark.functions import error_text, isolation
from anabranch.spark.functions import wrap as user_functions
from anabranch.spark.internals import debug_lines, lane_time, local_properties, observed_metrics
from anabranch.spark.operators import evaluation, joining, late_rows, lookups, routing
from anabranch.spark.operators.frames_of_operators import Context
from anabranch.spark.operators.labels import label
from anabranch.spark.operators.lookups import Lookups
from anabranch.spark.query import clock, ownership, sink, streaming_checks, under_way
from anabranch.spark.query.checkpoint_sync import CheckpointSync
from anabranch.spark.query.lane_outputs import LaneOutputs
from anabranch.spark.query.planned_batch import Batch
from anabranch.spark.query.set_back import SetBack
from anabranch.spark.query.source import Measured, Source, by_node, measured
from anabranch.spark.values import codec, meta_column
from anabranch.systems.output import Written
from anabranch.systems.source import Limits

_STATE_FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"
_BATCH_MS = 300_000
"""Of real-time mode. Where a batch ends, records wait for 0.3 to 1 s: once in five minutes, that is beyond the p99."""
_TICK_MS = 1000
"""How late a timer of processing time may be, if there is nothing else to do."""


def real_time_seconds(settings: Settings) -> float:
    """How long a batch of real-time mode lasts."""
    return (durations.parse(settings.job.interval) or _BATCH_MS) / 1000


@dataclass(frozen=True)
class LaneQuery(LaneOutputs):
    """The streaming query of a lane."""

    def start(
        self, once: bool = False, last: Batch | None = None, pending: bool = False, taken: bool = False
    ) -> StreamingQuery:
        """Start it: endlessly, or for ``once``: a pending (or planned) batch is run and the query ends.

        ``last``: the batch that was planned last, if there is one; ``pending``: it isn't committed. ``taken``: its
        outputs are this process's already. Spark's errors in the plan come out here.
        """
        self.spark.conf.set("spark.sql.shuffle.partitions", str(self.lane.state_partitions))
        self.spark.conf.set(_STATE_FORMAT, "2" if self.real_time else "1")
        if self.real_time and not once:
            return self._start_real_time(clock.reached(last, self.clock if self.by_intake else None))
        if not taken:
            self.take(new=last is None or last.number < self.lane.first_batch)
        self._publishing.begin(last, pending)
        return self._start(once, self.publish, clock.reached(last, self.clock if self.by_intake else None))

    def begin_ahead(self, each: Callable[[DataFrame, int], None]) -> StreamingQuery:
        """Start a query that is foreseeable, before its lane begins: ``each`` is called with what :meth:`publish` is to
        be called with, once the lane may publish."""
        self.spark.conf.set("spark.sql.shuffle.partitions", str(self.lane.state_partitions))
        self.spark.conf.set(_STATE_FORMAT, "1")
        return self._start(False, each)

    def _start(self, once: bool, each: Callable[[DataFrame, int], None], since: int = 0) -> StreamingQuery:
        """``since``: see :func:`lane_time.starting`."""
        self.pacer.begin()
        writer = self._body.frame.writeStream.foreachBatch(each).queryName(self.lane.id)
        writer = writer.option("checkpointLocation", self.folder)
        writer = writer.outputMode("append" if streaming_checks.is_closing(self._group) else "update")
        every = f"{self._interval} milliseconds"
        with lane_time.starting(self.spark, self.lane.id, since):
            return (writer.trigger(once=True) if once else writer.trigger(processingTime=every)).start()

    def planned_write(self, batch: DataFrame, number: int) -> DataFrame | None:
        """What computes and writes a batch of the query, as far as it can be made ready before it may; None: it can't
        be."""
        frame, last = self._frame
        return None if frame is None or last is not None else self._publishing.planned_write(batch, number)

    def publish(self, batch: DataFrame, number: int, planned: DataFrame | None = None) -> None:
        """Compute a batch of the query and publish it. ``planned``: what :meth:`planned_write` gave for it."""
        self.writing.set()
        begun, context = monotonic(), self.spark.sparkContext
        try:
            with self.gate.quietly():
                self.gate.begins(number)
                self._checkpoint_sync.sync()
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
    def _checkpoint_sync(self) -> CheckpointSync:
        return CheckpointSync(self.folder)

    @property
    def _interval(self) -> int:
        """Between the starts of batches, in ms."""
        return max(_TICK_MS if self.ticks else 0, durations.parse(self.settings.job.interval))

    @property
    def holdable(self) -> bool:
        """Whether the running query may be held, to run batches that are planned from outside: soon, that is, and not
        when its interval is over."""
        return not self.real_time and self._interval <= _TICK_MS

    def _start_real_time(self, since: int) -> StreamingQuery:
        """Batches last for the interval; where they end, the positions are kept. A stop abandons the one that runs."""
        frames = by_node(self._sources, lambda s: s.rows(s.opened(self._streamed(s))))
        way = evaluation.trunk(self._group, frames, self._context)
        one_pass = way is not None and evaluation.fans_out(self._group, way[0])
        rows = evaluation.fan_out(self._group, *way, self._sinks) if way is not None and one_pass else None
        if rows is None:
            raise GraphError(
                f"lane {self.lane.id} can't run in real time: its records take several ways that can't be one pass",
                'set [job] trigger = "micro-batch"',
            )
        numbers = {s.number: stages.stream_of(self.graph, s.node) for s in self._sinks.values()}
        plain = next(iter(self._plain(numbers).values()))
        length = round(real_time_seconds(self.settings) * 1000)
        stream = (
            plain.stream(rows).queryName(self.lane.id).option("checkpointLocation", self.folder).outputMode("update")
        )
        with lane_time.starting(self.spark, self.lane.id, since):
            started: StreamingQuery = stream.trigger(realTime=f"{length} milliseconds").start()
        return started

    @cached_property
    def _context(self) -> Context:
        job = self.settings.job
        return replace(
            self._bare_context,
            on_error=self._rejecting(job.on_error),
            on_null_key=self._rejecting(job.on_null_key),
            on_late=partial(self._aside.rejects, keep=True) if self._late_rows else None,
            watermarked=self._watermarked,
            following=self._following,
            home=self.home,
            shuffle_partitions=self.lane.state_partitions,
            factor=self.lane.factor,
            threads=job.threads,
            busy=self._busy.add,
            line=self.line,
            message_seconds=self.message_limit,
            routing=self._routing,
            routed=routing.before(self._group),
            table=self._tables_joined.now,
            own_state=ownership.of_state(self.lane) if self._group.stateful is not None else None,
            own_tasks=owned(self.lane) if self.lane.predecessors else None,
        )

    def _streamed(self, source: Source) -> DataFrame:
        until = {ssp.partition: self.until[ssp] for ssp in source.ssps if ssp in self.until}
        limits = Limits(
            max_rows=0 if self.real_time else self.pacer.shares[self._place_of(source)],
            fail_on_loss=self.systems.on_data_loss(source.stream) == "fail",
            lane=self.lane.id,
            commits=f"{self.folder.removeprefix('file://')}/commits",
            nothing=self.nothing,
            line=self.line,
        )
        return source.streamed(until, limits)

    def _clock_frame(self, rows: bool) -> DataFrame:
        carried = clock.carried(self.systems)
        options = {"file": self.clock, "systems": carried, "rows": str(rows).lower()}
        return self.spark.readStream.format(clock.FORMAT).options(**options).load()

    def _watermarked(self, frame: DataFrame, column: str, behind: int) -> DataFrame:
        """The frame with the lane's watermark on a column: of a row of the clock's, which then goes no further.

        Only the clock has ``withWatermark``, and it comes first: else a sparse stream would hold the watermark back.
        ``behind``: how many ms the operator has to stay behind the watermark.
        """
        if not self.has_event_time:
            delays = [source.args.get("watermark", 0) for source in self.graph.nodes if "event_time" in source.args]
            return frame.withWatermark(codec.quoted(column), f"{max(delays) + behind} milliseconds")
        told = self._clock_frame(rows=True).select(
            *[
                F.col("watermark").alias(f.name) if f.name == column else F.lit(None).cast(f.dataType).alias(f.name)
                for f in frame.schema
            ]
        )
        both = told.withWatermark(codec.quoted(column), f"{behind} milliseconds").union(frame)
        return both.where(f"if(spark_partition_id() >= 0, {meta_column.NAME} is not null, false)")

    def _following(self, frame: DataFrame, column: str, behind: int) -> DataFrame:
        """Another frame of the same operator, with the same watermark."""
        return joining.followed(frame, column) if self.has_event_time else self._watermarked(frame, column, behind)

    @cached_property
    def _tables_joined(self) -> Lookups:
        records = partial(lookups.everything, self.systems)
        fails = self.settings.job.on_error == "fail"
        load = partial(lookups.load, functions=self.functions, records=records, formats=self.formats, fails=fails)
        return Lookups(load, self.schemas, monotonic)

    def _ticking(self, frame: DataFrame) -> DataFrame:
        """A frame without state that still has batches when only the lane's event time has gone on."""
        if not self._delays or (self._group.stateful is not None and is_timed(self._group.stateful)):
            return frame
        nothing = [F.lit(None).cast(f.dataType).alias(f.name) for f in frame.schema]
        return self._clock_frame(rows=False).select(*nothing).union(frame)

    def analyze(self) -> None:
        """Let Spark analyze the query, which takes a while: :meth:`start` does the rest. Errors in the plan come out
        here."""
        if not self.real_time:
            _ = self._body

    @property
    def foreseeable(self) -> bool:
        """Whether Spark can analyze the query before it is known where the lane begins: its only source looks into the
        folder for that, and nothing else goes by it."""
        if self.stateful or self.has_event_time or self.real_time or self.until or len(self._sources) != 1:
            return False
        (source,) = self._sources
        return source.system.begins_in_folder and source.audience is None

    @property
    def begins(self) -> dict[str, Any]:
        """Where its only source begins, as that writes it; see ``System.begins_in_folder``."""
        (source,) = self._sources
        return source.system.offset(source.stream, "", source.starts)

    def as_analyzed(self, before: LaneQuery) -> LaneQuery:
        """The query, with what Spark has found out of one that is the same but for where it begins. What functions tell
        is heard by both."""
        for name in ("_busy", "_aside", "_context", "_frame"):
            if name in before.__dict__:
                self.__dict__[name] = before.__dict__[name]
        self.__dict__["pacer"] = self._pacing(before.pacer.limit)  # its sources have these limits already
        return self

    @property
    def _body(self) -> _Body:
        frame, last = self._frame
        if frame is None:
            return self._apart
        if last is None:
            return _Body(frame, self._writing)
        return _Body(frame, partial(self._evaluating, lambda batch: ({last: batch}, {})))

    @cached_property
    def _frame(self) -> tuple[DataFrame | None, int | None]:
        """The streaming frame, of what is written, or of the rows of an operator and its id; None: there isn't one."""
        group, context, sinks = self._group, self._context, self._sinks
        frames = by_node(self._sources, lambda s: s.rows(s.observed(s.opened(self._streamed(s)))))
        way = evaluation.trunk(group, frames, context)
        if way is None:
            return None, None
        last, frame = way
        if sinks and not self._tables and evaluation.fans_out(group, last):
            rows = evaluation.fan_out(group, last, frame, sinks)
            if rows is not None:
                return self._ticking(rows), None
        return self._ticking(frame), last.id

    @cached_property
    def _apart(self) -> _Body:
        """Sources that part before they come together: their records go through the query as they are."""
        tagged = [self._streamed(s).withColumn("source", F.lit(s.number)) for s in self._sources]
        union = tagged[0]
        for frame in tagged[1:]:
            union = union.union(frame)

        def begin(batch: DataFrame) -> tuple[dict[int, DataFrame], dict[str, Measured]]:
            kept = batch.persist()
            opened = {s.number: s.opened(kept.where(f"source = {s.number}")) for s in self._sources}
            seen = {s.name: measured(opened[s.number], s.measures()) for s in self._sources}
            return by_node(self._sources, lambda s: s.rows(opened[s.number])), seen

        def each(batch: DataFrame, number: int) -> None:
            try:
                self._evaluating(begin, batch, number)
            finally:
                batch.unpersist()

        return _Body(self._ticking(union), each)

    def _evaluating(self, begin: _Begin, batch: DataFrame, number: int) -> None:
        """Compute what could not be computed in the query itself, and publish."""
        crash_points.reach(crash_points.PLANNED, self.lane.id, number)
        self._check_time(number)
        frames, seen = begin(batch)
        written: list[Written] = []
        with evaluation.inside_batch(self._group, frames, self._context) as ended:
            if self._sinks:
                rows = evaluation.together({i: ended[i] for i in self._sinks}, self._sinks)
                written = self._publishing.written(rows, number, apart=self._group.branches)
            for node in self._group.sinks:
                if self._table(node):
                    written += self._written_to_table(node, ended[node.id])
                elif node.id not in self._sinks:
                    self._call(node, ended[node.id].drop(meta_column.NAME), number)
            self.under_way.reach(under_way.PUBLISHING)
            self._publishing.finish(number, written, seen or observed_metrics.of_query(self.spark, self.lane.id))
        crash_points.reach(crash_points.PUBLISHED, self.lane.id, number)

    def _writing(self, batch: DataFrame, number: int) -> None:
        """Publish rows that the query has computed."""
        self._publish(number, lambda: self._publishing.written(batch, number))

    def _publish(self, number: int, write: Callable[[], list[Written]]) -> None:
        crash_points.reach(crash_points.PLANNED, self.lane.id, number)
        self._check_time(number)
        written = write()
        self.under_way.reach(under_way.PUBLISHING)
        self._publishing.finish(number, written, observed_metrics.of_query(self.spark, self.lane.id))
        crash_points.reach(crash_points.PUBLISHED, self.lane.id, number)

    def _check_time(self, number: int) -> None:
        """Let tasks know what is late. Raises StateError, before anything of the batch is done, if windows go by when
        it was planned, and that was before the time up to which they are closed: the lane begins anew, and mends it."""
        if self._group.stateful is not None and on_late(self._group.stateful) != "drop":
            late_rows.let_know(self.spark.sparkContext, self.planned(number - 1).watermark if number else 0)
        batch = self.planned(number) if self.by_intake or self.ticks else None
        if batch is not None:
            self._set_back.look(batch.at, clock.unix_ms())
        if batch is not None and self.out_of_time(batch):
            raise StateError(
                f"the clock of this machine was set back by {(batch.watermark - batch.at) / 1000:.1f} s or more: batch "
                f"{number} of lane {self.lane.id} was planned before windows of processing time that are closed",
                "nothing is lost: the lane begins anew, and takes the time of the last one; keep the clocks in step",
            )

    @cached_property
    def _set_back(self) -> SetBack:
        return SetBack(self.lane.id)

    def _call(self, node: Node, batch: DataFrame, number: int) -> None:
        """Give a batch to a ``foreach_batch`` function, which may look at a part of it, at all of it twice, or at
        nothing: the batch is computed before, once and whole. What its tasks tell counts once."""
        rows = batch.persist()
        try:
            rows.count()
            told, worked = self._aside.said.value, self._busy.value
            self.gate.passes(f"has been given to {label(node)}", exact=False)
            try:
                with debug_lines.noted():
                    # Another plan than ours: what the function caches and frees is its own.
                    self.functions[node.id](rows.select("*"), self.lane.id, number, self.epoch)
            except BaseException as error:  # SystemExit as well: it would end no more than a thread, and nobody be told
                if "anabranch.errors." in error_text.described(error, self.home):
                    raise  # of an operator before it, which was computed once more
                raise user_functions.of_batch(error, label(node), number, self.home) from None
            finally:
                self._aside.said.value, self._busy.value = told, worked
        finally:
            rows.unpersist()


_Begin = Callable[[DataFrame], tuple[dict[int, DataFrame], dict[str, Measured]]]


@dataclass(frozen=True)
class _Body:
    """The streaming frame, and what is done with each batch of it."""

    frame: DataFrame
    each: Callable[[DataFrame, int], None]
