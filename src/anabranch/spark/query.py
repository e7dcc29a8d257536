"""Builds and starts a lane's streaming query: sources, operators, hidden columns, outputs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from anabranch import steps
from anabranch.config import Settings
from anabranch.model.graph import Graph, Node
from anabranch.model.job_model import JobModel
from anabranch.model.lane import Lane
from anabranch.model.ssp import SSP
from anabranch.operators.rules import is_boundary
from anabranch.planning import groups, plan, stages
from anabranch.planning.groups import Group
from anabranch.planning.stages import Stage
from anabranch.spark import codec, evaluation, hidden, pruning, resolution, sink
from anabranch.spark import functions as user_functions
from anabranch.spark.evaluation import Sink
from anabranch.spark.operators import Context, label, without_null_keys
from anabranch.systems.embedded import LaneWriter, Log
from anabranch.systems.embedded.spark import FORMAT


@dataclass(frozen=True)
class LaneQuery:
    """Everything a lane's query is made of. ``starting`` are offsets by whole SSP, for a lane without a checkpoint.

    ``folder``: the checkpoint folder as Spark takes it; ``gate``: a local file that stops intake while it exists.
    ``until``: offsets by whole SSP that are never read beyond. ``schemas``: columns after each operator.
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
    gate: str
    home: str
    starting: Mapping[SSP, int]
    until: Mapping[SSP, int] = field(default_factory=dict)

    def start(self, once: bool = False) -> StreamingQuery:
        """Start it: endlessly, or for ``once``: a pending (or planned) batch is run and the query ends.

        Spark's errors in the plan come out here.
        """
        stage = next(s for s in stages.cut(self.graph) if s.id == self.lane.stage)
        group = self._group(stage)
        frames = {source.id: self._source(stage, group, source) for source in group.sources}
        self.spark.conf.set("spark.sql.shuffle.partitions", str(self.lane.state_partitions))
        body = self._body(stage, group, frames)
        writer = body.frame.writeStream.foreachBatch(body.each).queryName(self.lane.id)
        writer = writer.option("checkpointLocation", self.folder)
        writer = writer.outputMode("update" if group.stateful is not None else "append")
        interval = self.settings.job.interval
        return (writer.trigger(once=True) if once else writer.trigger(processingTime=interval)).start()

    def _group(self, stage: Stage) -> Group:
        systems = {stages.stream_of(self.graph, s): "embedded" for s in stage.sinks if s.kind != "foreach_batch"}
        return next(g for g in groups.cut(self.graph, stage, systems) if g.name == self.lane.group)

    def _context(self, stage: Stage) -> Context:
        return Context(
            functions=self.functions,
            keys=stages.key_columns(self.graph, stage),
            on_null_key=self.settings.job.on_null_key,
            home=self.home,
            shuffle_partitions=self.lane.state_partitions,
        )

    def _raw(self, source: Node) -> tuple[DataFrame, list[SSP], bool]:
        stream = stages.stream_of(self.graph, source)
        broadcast = bool(source.args.get("broadcast"))
        held = self.lane.broadcast if broadcast else self.lane.ssps
        mine = [ssp.whole for ssp in held if ssp.stream == stream]
        starting = {ssp.partition: self.starting.get(ssp, 0) for ssp in mine}
        until = {ssp.partition: self.until[ssp] for ssp in mine if ssp in self.until}
        reader = self.spark.readStream.format(FORMAT)
        options = {
            "root": str(self.settings.systems.embedded.root),
            "stream": stream,
            "partitions": json.dumps(sorted(starting)),
            "starting": json.dumps(starting),
            "until": json.dumps(until),
            "max_rows": str(self.settings.job.max_rows_per_batch),
            "gate": self.gate,
            "lane": self.lane.id,
            "commits": f"{self.folder.removeprefix('file://')}/commits",
        }
        return reader.options(**options).load(), mine, broadcast

    def _source(self, stage: Stage, group: Group, source: Node) -> DataFrame:
        raw, mine, broadcast = self._raw(source)
        whole = self._decoded(stage, source, raw, mine, broadcast)
        needed = pruning.needed(group, source, whole.schema, self._context(stage))
        return whole if needed is None else self._decoded(stage, source, raw, mine, broadcast, needed)

    def _decoded(
        self,
        stage: Stage,
        source: Node,
        raw: DataFrame,
        mine: list[SSP],
        broadcast: bool,
        only: set[str] | None = None,
    ) -> DataFrame:
        model = next(s for s in self.model.stages if s.stage == stage.id)
        numbers = plan.task_numbers(model, self.model.factor)
        if broadcast:
            mine_too = [task for task in model.tasks if task.name in self.lane.tasks]
            everyone = sorted({task.index // self.model.factor for task in mine_too})
            raw = raw.withColumn("task", F.explode(F.array(*[F.lit(n) for n in everyone])))
            task = F.col("task")
        else:
            task = _number(numbers, mine)
        if not is_boundary(source):
            stream_format = self._format(source.args["stream"])
            return resolution.read(raw, source, task, stream_format, only)
        parsed = codec.parse_json(F.col("value"), codec.pruned(self.schemas[source.id], only))
        frame = raw.select(parsed, hidden.of_record(task, source.id))
        return without_null_keys(frame, self.settings.job.on_null_key, label(source))

    def _format(self, stream: str) -> str:
        bound = self.settings.streams.get(stream)
        return bound.format if bound is not None else "json"

    def _body(self, stage: Stage, group: Group, frames: dict[int, DataFrame]) -> _Body:
        context = self._context(stage)
        sinks = {
            node.id: Sink(number, node, "json" if is_boundary(node) else self._format(node.args["stream"]))
            for number, node in enumerate(group.sinks)
            if node.kind != "foreach_batch"
        }
        way = evaluation.trunk(group, frames, context)
        if way is None:
            return self._apart(stage, group, sinks, context)
        last, frame = way
        if sinks and evaluation.fans_out(group, last):
            rows = evaluation.fan_out(group, last, frame, sinks)
            if rows is not None:
                return _Body(rows, self._writing(sinks))
        return _Body(frame, self._evaluating(group, sinks, context, lambda batch: {last.id: batch}))

    def _apart(self, stage: Stage, group: Group, sinks: dict[int, Sink], context: Context) -> _Body:
        """Sources that part before they come together: their records go through the query as they are."""
        raws = {source.id: self._raw(source) for source in group.sources}
        tagged = [raw.withColumn("source", F.lit(source)) for source, (raw, _, _) in raws.items()]
        union = tagged[0]
        for frame in tagged[1:]:
            union = union.union(frame)

        def begin(batch: DataFrame) -> dict[int, DataFrame]:
            kept = batch.persist()
            return {
                source.id: self._decoded(stage, source, kept.where(f"source = {source.id}"), *raws[source.id][1:])
                for source in group.sources
            }

        evaluate = self._evaluating(group, sinks, context, begin)

        def each(batch: DataFrame, number: int) -> None:
            try:
                evaluate(batch, number)
            finally:
                batch.unpersist()

        return _Body(union, each)

    def _evaluating(
        self,
        group: Group,
        sinks: dict[int, Sink],
        context: Context,
        begin: Callable[[DataFrame], dict[int, DataFrame]],
    ) -> Callable[[DataFrame, int], None]:
        write = self._write(sinks) if sinks else None

        def each(batch: DataFrame, number: int) -> None:
            steps.reach(steps.PLANNED, self.lane.id, number)
            with evaluation.inside_batch(group, begin(batch), context) as ended:
                if write is not None:
                    write(evaluation.together(ended, sinks), number)
                for node in group.sinks:
                    if node.id not in sinks:
                        visible = ended[node.id].drop(hidden.NAME)
                        self._call(node, visible, number)
            steps.reach(steps.PUBLISHED, self.lane.id, number)

        return each

    def _call(self, node: Node, batch: DataFrame, number: int) -> None:
        try:
            self.functions[node.id](batch, self.lane.id, number, self.epoch)
        except Exception as error:
            if "anabranch.errors." in str(error):
                raise  # of an operator before it: Spark computes only when the function asks
            raise user_functions.of_batch(error, label(node), number, self.home) from None

    def _writing(self, sinks: dict[int, Sink]) -> Callable[[DataFrame, int], None]:
        write = self._write(sinks)

        def each(batch: DataFrame, number: int) -> None:
            steps.reach(steps.PLANNED, self.lane.id, number)
            write(batch, number)
            steps.reach(steps.PUBLISHED, self.lane.id, number)

        return each

    def _write(self, sinks: dict[int, Sink]) -> Callable[[DataFrame, int], None]:
        root = self.settings.systems.embedded.root
        log = Log(root)
        writer = LaneWriter(log, self.lane.job, self.lane.id, self.epoch)
        streams = {s.number: stages.stream_of(self.graph, s.node) for s in sinks.values()}
        targets = {n: sink.Target(stream, self.lane.outputs[stream]) for n, stream in streams.items()}

        def write(rows: DataFrame, number: int) -> None:
            sink.publish(writer, sink.write_segments(rows, str(root), targets), number)

        return write


@dataclass(frozen=True)
class _Body:
    """The streaming frame, and what is done with each batch of it."""

    frame: DataFrame
    each: Callable[[DataFrame, int], None]


def _number(numbers: Mapping[SSP, int], mine: list[SSP]) -> Column:
    """The task number of a record, from its partition."""
    if all(numbers[ssp] == ssp.partition for ssp in mine):
        return F.col("partition")
    pairs = [F.lit(x) for ssp in mine for x in (ssp.partition, numbers[ssp])]
    return F.create_map(*pairs)[F.col("partition")]
