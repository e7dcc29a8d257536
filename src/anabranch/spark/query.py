"""Builds and starts a lane's streaming query: sources, operators, hidden columns, outputs."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from anabranch import steps
from anabranch.config import Settings
from anabranch.errors import GraphError
from anabranch.event_time import durations
from anabranch.model.graph import Graph, Node
from anabranch.model.job_model import JobModel
from anabranch.model.lane import Lane
from anabranch.model.ssp import SSP
from anabranch.operators.rules import is_boundary, is_shuffle, is_windowed
from anabranch.planning import groups, plan, stages
from anabranch.planning.groups import Group
from anabranch.planning.stages import Stage
from anabranch.spark import clock, codec, dead_letters, evaluation, hidden, intake, operators, pruning, publishing
from anabranch.spark import functions as user_functions
from anabranch.spark.batches import Batch
from anabranch.spark.dead_letters import Aside, Letters
from anabranch.spark.evaluation import Sink
from anabranch.spark.functions import Rejecting
from anabranch.spark.intake import FAULTS
from anabranch.spark.labels import label
from anabranch.spark.operators import Context
from anabranch.spark.publishing import Publishing
from anabranch.spark.records import SCHEMA, Limits
from anabranch.spark.sink import Keyless
from anabranch.spark.source import Measured, Source, measured
from anabranch.systems.embedded.output import EmbeddedPublisher
from anabranch.systems.kafka.output import KafkaPublisher
from anabranch.systems.kafka.spark import Plain
from anabranch.systems.output import Publisher, Target, Written
from anabranch.systems.systems import Systems

_DROP, _FAIL = "drop", "fail"
_STATE_FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"
_BATCH_MS = 60_000
"""Of real-time mode. Where a batch ends, records wait for some 150 ms: once in a minute, that is below the p99."""


class HeldBackError(Exception):
    """Ends a query before it begins a batch."""


@dataclass(frozen=True)
class LaneQuery:
    """Everything a lane's query is made of. ``starting`` are offsets by whole SSP, for a lane without a checkpoint.

    ``folder``: the checkpoint folder as Spark takes it; ``planned`` gives what its offset log says of a batch.
    ``gate``: a local file that stops intake while it exists; ``clock``: one for the lane's event time.
    ``until``: offsets by whole SSP that are never read beyond. ``schemas``: columns after each operator.
    ``dropped`` is told how many records each batch has dropped. ``held_back`` is set when the query has ended because
    of the gate, with a batch that is planned and not begun. ``max_rows``: of a batch (0: as settings say).
    """

    spark: SparkSession
    settings: Settings
    graph: Graph
    functions: Mapping[int, Callable[..., Any]]
    schemas: Mapping[int, Any]
    model: JobModel
    lane: Lane
    epoch: int
    folder: str
    planned: Callable[[int], Batch]
    gate: str
    clock: str
    home: str
    starting: Mapping[SSP, int]
    until: Mapping[SSP, int] = field(default_factory=dict)
    dropped: Callable[[int], None] = lambda _: None
    held_back: threading.Event = field(default_factory=threading.Event)
    max_rows: int = 0

    def start(self, once: bool = False, last: Batch | None = None, pending: bool = False) -> StreamingQuery:
        """Start it: endlessly, or for ``once``: a pending (or planned) batch is run and the query ends.

        ``last``: the batch that was planned last, if there is one; ``pending``: it isn't committed. Spark's errors in
        the plan come out here.
        """
        self.spark.conf.set("spark.sql.shuffle.partitions", str(self.lane.state_partitions))
        if self.real_time and not once:
            return self._start_real_time()
        if not once:
            self._publishing.take(new=last is None)
        self._publishing.begin(last, pending)
        body = self._body()
        each = body.each if once else partial(self._unless_gated, body.each)
        writer = body.frame.writeStream.foreachBatch(each).queryName(self.lane.id)
        writer = writer.option("checkpointLocation", self.folder)
        stateful = self._group.stateful
        closing = stateful is None or stateful.args["emit"] == "on_close"
        writer = writer.outputMode("append" if closing else "update")
        interval = f"{durations.parse(self.settings.job.interval)} milliseconds"
        return (writer.trigger(once=True) if once else writer.trigger(processingTime=interval)).start()

    @property
    def stateful(self) -> bool:
        """Whether it keeps state."""
        return self._group.stateful is not None

    @property
    def own(self) -> frozenset[str]:
        """The streams between the job's stages."""
        return frozenset(stages.stream_of(self.graph, node) for node in self.graph.nodes if is_boundary(node))

    @property
    def most(self) -> int:
        """The rows that a batch may have."""
        return self.max_rows or self.settings.job.max_rows_per_batch

    @property
    def allowed(self) -> float:
        """The seconds that a batch may take."""
        if not any(publisher.slotted for publisher in self._publishers.values()):
            return math.inf
        return durations.parse(self.settings.systems.kafka.transaction_timeout) / 1000

    @property
    def real_time(self) -> bool:
        """Whether records go through one by one. Up to noted ends, they go in batches."""
        return self.settings.job.trigger == "real-time" and not self.until

    def _start_real_time(self) -> StreamingQuery:
        """Batches last for the interval; where they end, the positions are kept. A stop abandons the one that runs."""
        frames = {s.node.id: s.rows(s.opened(self._streamed(s))) for s in self._sources}
        way = evaluation.trunk(self._group, frames, self._context)
        rows = None if way is None else evaluation.fan_out(self._group, *way, self._sinks)
        if rows is None:
            raise GraphError(
                f"lane {self.lane.id} can't run in real time: its records take several ways that can't be one pass",
                'set [job] trigger = "micro-batch"',
            )
        numbers = {s.number: stages.stream_of(self.graph, s.node) for s in self._sinks.values()}
        plain = next(iter(self._plain(numbers).values()))
        length = durations.parse(self.settings.job.interval) or _BATCH_MS
        stream = plain.options(rows.select(*plain.columns()).writeStream.format("kafka"))
        stream = stream.queryName(self.lane.id).option("checkpointLocation", self.folder).outputMode("update")
        self.spark.conf.set(_STATE_FORMAT, "2")
        started: StreamingQuery = stream.trigger(realTime=f"{length} milliseconds").start()
        return started

    @property
    def operators(self) -> tuple[Node, ...]:
        """The operators that it runs."""
        return self._group.nodes

    def ranges(self, batch: Batch) -> dict[str, tuple[int, int]]:
        """What a batch reads: by SSP, the first offset and the one after the last."""
        return {
            f"{source.system.name}/{source.stream}/{partition}": each
            for source in self._sources
            for partition, each in batch.ranges(source.stream, source.starts).items()
        }

    @property
    def has_event_time(self) -> bool:
        """Whether the lane has a watermark of ours."""
        return bool(self._delays)

    @cached_property
    def _stage(self) -> Stage:
        return next(s for s in stages.cut(self.graph) if s.id == self.lane.stage)

    @cached_property
    def _groups(self) -> tuple[Group, ...]:
        """All groups of the stage, of which the lane runs one."""
        written = [stages.stream_of(self.graph, s) for s in self._stage.sinks if s.kind != "foreach_batch"]
        return groups.cut(self.graph, self._stage, {stream: self._kind(stream) for stream in written})

    def _kind(self, stream: str) -> str:
        return plan.kind(self._where[stream], self._is_plain(stream))

    @cached_property
    def systems(self) -> Systems:
        """The systems that its streams live in."""
        return Systems(self.settings, self.lane.job)

    @cached_property
    def _where(self) -> Mapping[str, str]:
        return stages.systems(self.graph, self.systems.bound(), self.systems.default)

    @cached_property
    def _group(self) -> Group:
        return next(group for group in self._groups if group.name == self.lane.group)

    @cached_property
    def _delays(self) -> dict[str, int | None]:
        """Of each SSP that moves the lane's watermark, the delay in ms; None: its writers tell their own."""
        if self.settings.job.watermark_scope != "ssp":
            return {}
        found: dict[str, int | None] = {}
        for source in self._sources:
            if source.timed or (is_boundary(source.node) and source.node in self._group.timed(self.graph)):
                for ssp in source.ssps:
                    delay = source.node.args.get("watermark")
                    known = found.get(str(ssp))
                    found[str(ssp)] = delay if known is None or delay is None else max(known, delay)
        return found

    @cached_property
    def _context(self) -> Context:
        job = self.settings.job
        return replace(
            self._bare_context,
            on_error=self._rejecting(job.on_error),
            on_null_key=self._rejecting(job.on_null_key),
            watermarked=self._watermarked,
            home=self.home,
            shuffle_partitions=self.lane.state_partitions,
        )

    def _rejecting(self, policy: str) -> Rejecting | None:
        return None if policy == _FAIL else partial(self._aside.rejects, keep=policy != _DROP)

    @cached_property
    def _aside(self) -> Aside:
        read = {n.id: stages.stream_of(self.graph, n) for n in self._group.sources}
        letters = {
            stream: Letters(Target(dead, self.lane.outputs[dead]), self._publishers[self.lane.system(dead)].output)
            for stream, dead in self.lane.dead_letters.items()
        }
        return Aside(
            job=self.lane.job,
            streams=read,
            systems={stream: self.systems.named(self._where[stream]) for stream in read.values()},
            letters=letters,
            operators={label(node): node.name for node in self._group.nodes},
            slots=self.lane.slots,
            said=dead_letters.listening(self.spark.sparkContext),
        )

    @cached_property
    def _publishers(self) -> dict[str, Publisher]:
        """How the lane writes exactly once, by the system."""
        written = [stages.stream_of(self.graph, n) for n in self._group.sinks if n.kind != "foreach_batch"]
        exact = [*self.lane.dead_letters.values(), *(stream for stream in written if not self._is_plain(stream))]
        return {name: self._publisher(name) for name in sorted({self.lane.system(stream) for stream in exact})}

    def _publisher(self, system: str) -> Publisher:
        if system == "kafka":
            return KafkaPublisher(self.systems.kafka, self.lane, self.epoch)
        return EmbeddedPublisher(self.systems.embedded, self.lane, self.epoch)

    @cached_property
    def _sources(self) -> list[Source]:
        return [self._source(node) for node in self._group.sources]

    def _source(self, node: Node) -> Source:
        stage, factor = self._stage, self.model.factor
        stream, broadcast = stages.stream_of(self.graph, node), bool(node.args.get("broadcast"))
        held = self.lane.broadcast if broadcast else self.lane.ssps
        model = next(s for s in self.model.stages if s.stage == stage.id)
        mine = [task for task in model.tasks if task.name in self.lane.tasks]
        job = self.settings.job
        return Source(
            spark=self.spark,
            system=self.systems.named(self._where[stream]),
            node=node,
            stream=stream,
            ssps=tuple(sorted({s.whole for s in held if s.stream == stream}, key=lambda s: s.order)),
            starting=self.starting,
            tasks=plan.task_numbers(model, factor),
            everyone=sorted({task.index // factor for task in mine}) if broadcast else (),
            intake=None if is_boundary(node) else self._intake(node),
            columns=self._columns(node) if is_boundary(node) else self.schemas[node.id],
            fail=job.on_error == _FAIL,
            timed=not is_boundary(node) and job.watermark_scope == "ssp" and node in self._group.timed(self.graph),
            bare=self._group.stateful is not None,
        )

    def _intake(self, node: Node) -> intake.Intake:
        format_, keyed = self._format(node.args["stream"]), self._looks_for_null_keys
        whole = intake.of_graph(node, format_, keyed)
        if sum(node in group.sources for group in self._groups) > 1:
            return whole  # all lanes must find the same records faulty
        rows = whole.rows(whole.opened(self._no_records), F.lit(0), "", fail=False)
        needed = pruning.needed(self._group, node, rows.schema, self._bare_context)
        return whole if needed is None else intake.of_graph(node, format_, keyed, needed | {whole.time})

    @property
    def _looks_for_null_keys(self) -> bool:
        """Whether rows with null keys may come to the lane's state and must be told of: they are those of records with
        null keys, as long as neither a shuffle nor a function has given rows other keys."""
        stateful = self._group.stateful
        shuffled = any(is_shuffle(node) for node in self._group.nodes)
        if stateful is None or shuffled or self.settings.job.on_null_key == _FAIL:
            return False
        return stateful.inputs[0] not in self._bare_context.changed

    def _keyless(self, frames: dict[int, DataFrame]) -> DataFrame:
        """Of some records' rows, those that come to the state with null keys, as :meth:`Source.faulty` tells it."""
        rows = evaluation.before_state(self._group, frames, self._bare_context)
        at = [hidden.field(name) for name in ("source", "partition", "offset")]
        return rows.where(operators.keyless()).select(*at, F.lit("null_key").alias("fault"))

    def _columns(self, node: Node) -> StructType:
        """The columns of an intermediate stream that are needed."""
        whole = self.schemas[node.id]
        frame = self._no_records.select(codec.parse_json(F.col("value"), whole), hidden.of_record(F.lit(0), node.id))
        return codec.pruned(whole, pruning.needed(self._group, node, frame.schema, self._bare_context))

    @property
    def _no_records(self) -> DataFrame:
        return self.spark.createDataFrame([], SCHEMA)

    @cached_property
    def _bare_context(self) -> Context:
        graph, stage = self.graph, self._stage
        changed = stages.changed(graph, stage)
        return Context(self.functions, stages.key_columns(graph, stage), stages.event_times(graph), changed)

    def _format(self, stream: str) -> str:
        bound = self.settings.streams.get(stream)
        return bound.format if bound is not None else "json"

    def _streamed(self, source: Source) -> DataFrame:
        until = {ssp.partition: self.until[ssp] for ssp in source.ssps if ssp in self.until}
        limits = Limits(
            max_rows=0 if self.real_time else self.most,
            fail_on_loss=self.systems.on_data_loss(source.stream) == "fail",
            gate=self.gate,
            lane=self.lane.id,
            commits=f"{self.folder.removeprefix('file://')}/commits",
        )
        return source.streamed(until, limits)

    def _clock_frame(self, rows: bool) -> DataFrame:
        carried = clock.carried(self.systems)
        options = {"file": self.clock, "systems": carried, "gate": self.gate, "rows": str(rows).lower()}
        return self.spark.readStream.format(clock.FORMAT).options(**options).load()

    def _watermarked(self, frame: DataFrame, column: str) -> DataFrame:
        """The frame with the lane's watermark on a column: of a row of the clock's, which then goes no further.

        Only the clock has ``withWatermark``, and it comes first: else a sparse stream would hold the watermark back.
        """
        if not self._delays:
            delays = [source.args.get("watermark", 0) for source in self.graph.nodes if "event_time" in source.args]
            return frame.withWatermark(column, f"{max(delays)} milliseconds")
        told = self._clock_frame(rows=True).select(
            *[
                F.col("watermark").alias(f.name) if f.name == column else F.lit(None).cast(f.dataType).alias(f.name)
                for f in frame.schema
            ]
        )
        both = told.withWatermark(column, "0 seconds").union(frame)
        return both.where(f"if(spark_partition_id() >= 0, {hidden.NAME} is not null, false)")

    def _ticking(self, frame: DataFrame) -> DataFrame:
        """A frame without state that still has batches when only the lane's event time has gone on."""
        if not self._delays or (self._group.stateful is not None and is_windowed(self._group.stateful)):
            return frame
        nothing = [F.lit(None).cast(f.dataType).alias(f.name) for f in frame.schema]
        return self._clock_frame(rows=False).select(*nothing).union(frame)

    def _body(self) -> _Body:
        group, context, sinks = self._group, self._context, self._sinks
        frames = {s.node.id: s.rows(s.observed(s.opened(self._streamed(s)))) for s in self._sources}
        way = evaluation.trunk(group, frames, context)
        if way is None:
            return self._apart()
        last, frame = way
        if sinks and evaluation.fans_out(group, last):
            rows = evaluation.fan_out(group, last, frame, sinks)
            if rows is not None:
                return _Body(self._ticking(rows), self._writing)
        return _Body(self._ticking(frame), partial(self._evaluating, lambda batch: ({last.id: batch}, {})))

    @cached_property
    def _sinks(self) -> dict[int, Sink]:
        traced = any(is_boundary(node) for node in self._group.sinks)
        return {
            node.id: Sink(number, node, self._written_as(node), traced, self._slots(node))
            for number, node in enumerate(self._group.sinks)
            if node.kind != "foreach_batch"
        }

    def _written_as(self, node: Node) -> str:
        return "json" if is_boundary(node) else self._format(node.args["stream"])

    def _slots(self, node: Node) -> dict[tuple[int, int], int] | None:
        """See :class:`Sink`."""
        stream = stages.stream_of(self.graph, node)
        if self._is_plain(stream) or not self._publishers[self.lane.system(stream)].slotted:
            return None
        if self._group.stateful is not None:
            return {}
        return {(s.node.id, ssp.partition): self.lane.slots.index(str(ssp)) for s in self._sources for ssp in s.ssps}

    def _plain(self, streams: Mapping[int, str]) -> dict[int, Plain]:
        """What writes the outputs that are written at least once, by their numbers."""
        kafka = self.systems.kafka
        topics = {number: kafka.topic(stream) for number, stream in streams.items() if self._is_plain(stream)}
        return dict.fromkeys(topics, Plain(kafka, topics))

    def _is_plain(self, stream: str) -> bool:
        return self.settings.job.trigger == "real-time" or stream in self.settings.at_least_once

    @cached_property
    def _publishing(self) -> Publishing:
        job = self.settings.job
        streams = {s.number: stages.stream_of(self.graph, s.node) for s in self._sinks.values()}
        targets = {n: Target(stream, self.lane.outputs[stream]) for n, stream in streams.items()}
        boundaries = {s.number: s.node for s in self._sinks.values() if is_boundary(s.node)}
        keyless = {number: label(node) for number, node in boundaries.items()}
        wanted = stages.timed(self.graph)
        dropping = [*(["null_key"] if job.on_null_key == _DROP else []), *(FAULTS if job.on_error == _DROP else [])]
        stateful = self._group.stateful
        return Publishing(
            spark=self.spark,
            lane=self.lane,
            publishers=self._publishers,
            plain=self._plain(streams),
            targets=targets,
            timed=[targets[n] for n, node in boundaries.items() if node.id in wanted and self._delays],
            without_key=Keyless(keyless, self._rejecting(job.on_null_key)) if keyless else None,
            aside=self._aside,
            sources=self._sources,
            reports=self.lane.reports,
            dropping=dropping,
            keyless_rows=self._keyless,
            into_state=label(stateful) if stateful is not None else "",
            planned=self.planned,
            clock=Path(self.clock) if self._delays else None,
            delays=self._delays,
            dropped=self.dropped,
            unruly=any(node.kind == "transform" or is_shuffle(node) for node in self._group.nodes),
        )

    def _apart(self) -> _Body:
        """Sources that part before they come together: their records go through the query as they are."""
        tagged = [self._streamed(s).withColumn("source", F.lit(s.node.id)) for s in self._sources]
        union = tagged[0]
        for frame in tagged[1:]:
            union = union.union(frame)

        def begin(batch: DataFrame) -> tuple[dict[int, DataFrame], dict[str, Measured]]:
            kept = batch.persist()
            opened = {s.node.id: s.opened(kept.where(f"source = {s.node.id}")) for s in self._sources}
            seen = {s.node.name: measured(opened[s.node.id], s.measures()) for s in self._sources}
            return {s.node.id: s.rows(opened[s.node.id]) for s in self._sources}, seen

        def each(batch: DataFrame, number: int) -> None:
            try:
                self._evaluating(begin, batch, number)
            finally:
                batch.unpersist()

        return _Body(self._ticking(union), each)

    def _evaluating(self, begin: _Begin, batch: DataFrame, number: int) -> None:
        """Compute what could not be computed in the query itself, and publish."""
        steps.reach(steps.PLANNED, self.lane.id, number)
        frames, seen = begin(batch)
        written: list[Written] = []
        with evaluation.inside_batch(self._group, frames, self._context) as ended:
            if self._sinks:
                written = self._publishing.written(evaluation.together(ended, self._sinks), number)
            for node in self._group.sinks:
                if node.id not in self._sinks:
                    self._call(node, ended[node.id].drop(hidden.NAME), number)
            self._publishing.finish(number, written, seen or publishing.observed(self.spark, self.lane.id))
        steps.reach(steps.PUBLISHED, self.lane.id, number)

    def _writing(self, batch: DataFrame, number: int) -> None:
        """Publish rows that the query has computed."""
        steps.reach(steps.PLANNED, self.lane.id, number)
        written = self._publishing.written(batch, number)
        self._publishing.finish(number, written, publishing.observed(self.spark, self.lane.id))
        steps.reach(steps.PUBLISHED, self.lane.id, number)

    def _unless_gated(self, each: Callable[[DataFrame, int], None], batch: DataFrame, number: int) -> None:
        """Where a source has no gate, a batch may begin when none should: it is left as it was planned."""
        if self._ungated and os.path.exists(self.gate):
            self.held_back.set()
            raise HeldBackError(f"batch {number} of lane {self.lane.id} waits for the next start")
        each(batch, number)

    @cached_property
    def _ungated(self) -> bool:
        return any(source.system.name != "embedded" for source in self._sources)

    def settle(self) -> None:
        """Let readers see what the lane has published, once it has ended."""
        self._publishing.settle()

    @property
    def put_aside(self) -> int:
        """How many records this lane has ever put aside."""
        return self._publishing.put_aside()

    def _call(self, node: Node, batch: DataFrame, number: int) -> None:
        try:
            self.functions[node.id](batch, self.lane.id, number, self.epoch)
        except Exception as error:
            if "anabranch.errors." in str(error):
                raise  # of an operator before it: Spark computes only when the function asks
            raise user_functions.of_batch(error, label(node), number, self.home) from None


_Begin = Callable[[DataFrame], tuple[dict[int, DataFrame], dict[str, Measured]]]


@dataclass(frozen=True)
class _Body:
    """The streaming frame, and what is done with each batch of it."""

    frame: DataFrame
    each: Callable[[DataFrame, int], None]
