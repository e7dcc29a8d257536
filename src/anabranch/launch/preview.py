"""Computes a job's streams from the current contents of its inputs, as non-streaming DataFrames for notebooks. Nothing
is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from anabranch import config as configuration
from anabranch.api.job import Job
from anabranch.config import Settings
from anabranch.errors import UsageError
from anabranch.formats import JSON
from anabranch.launch import loading, notebook_progress, preparation, preview_rows
from anabranch.launch.loading import JobFile
from anabranch.model.graph import Node
from anabranch.model.job_model import StageModel
from anabranch.operators import rule
from anabranch.operators.rules import is_boundary
from anabranch.planning import patterns, stages
from anabranch.planning import plan as planning
from anabranch.planning.plan import Plan
from anabranch.planning.stages import Stage
from anabranch.spark.functions.wrap import Rejecting
from anabranch.spark.internals import running_context
from anabranch.spark.operators import faulty_rows, frames_of_operators, lookups
from anabranch.spark.operators.faulty_rows import Fault
from anabranch.spark.operators.frames_of_operators import Context, Workers
from anabranch.spark.operators.labels import label
from anabranch.spark.query import dead_letters, ownership, records, resolution
from anabranch.spark.query.dead_letters import WorkerDeadLetters
from anabranch.spark.session import session
from anabranch.spark.values import decoding, meta_column
from anabranch.systems.contract import Range, System
from anabranch.systems.systems import Systems

Config = Path | str | None
_FAIL = "fail"


def preview(job: Job, stream: str, n: int, config: Config) -> list[dict[str, Any]]:
    """See :meth:`anabranch.Job.preview`."""
    batch = _Batch(job, config)
    if n < 1:
        raise UsageError(f"{n} rows can't be previewed", "ask for one or more")
    known = [*batch.reads, *batch.written]
    if stream not in known:
        raise UsageError(f"job {job.name!r} neither reads nor writes {stream!r}", f"its streams: {', '.join(known)}")
    running = running_context.is_there()
    spark = SparkSession.builder.getOrCreate() if running else session.start(batch.settings, str(Path.cwd()))
    session.follow_environment(spark)
    frame = batch.input(spark, stream, n) if stream in batch.reads else batch.output(spark, stream)
    with notebook_progress.shown(spark):
        return preview_rows.first(frame, n)


def to_dataframe(job: Job, spark: SparkSession, output: str | None, config: Config) -> DataFrame:
    """See :meth:`anabranch.Job.to_dataframe`."""
    batch = _Batch(job, config)
    outputs = [stream for stream, nodes in batch.written.items() if not is_boundary(nodes[0])]
    if output is None and len(outputs) != 1:
        raise UsageError(
            f"job {job.name!r} writes {len(outputs)} streams: {', '.join(outputs) or '-'}",
            'name one: to_dataframe(spark, "a-stream")',
        )
    name = outputs[0] if output is None else output
    if name not in batch.written:
        raise UsageError(f"job {job.name!r} doesn't write {name!r}", f"it writes: {', '.join(batch.written) or '-'}")
    session.follow_environment(spark)
    return batch.output(spark, name)


class _Batch:
    """A job that was planned for the streams as they are now."""

    def __init__(self, job: Job, config: Config) -> None:
        self.settings: Settings = configuration.load(Path(config) if config is not None else None)
        self._file: JobFile = loading.of(job)
        self._graph = job.graph
        self._plan: Plan = preparation.plan(self._file, self.settings)
        self._systems = Systems(self.settings, job.graph.job)
        self.formats = preparation.formats(self._file, self.settings)
        self.reads = {n.args["stream"]: n for n in reversed(self._graph.nodes) if n.kind == "read"}
        self.written: dict[str, list[Node]] = {}
        for node in self._graph.nodes:
            if node.kind == "write" or is_boundary(node):
                self.written.setdefault(stages.stream_of(self._graph, node), []).append(node)

    def input(self, spark: SparkSession, stream: str, most: int) -> DataFrame:
        """Up to ``most`` records of a stream. The records of the first partition come first, followed by the records of
        the next partition, and so on. The records are decoded as the job's ``read`` declares. For an input that is
        bound to a pattern, ``most`` applies to each stream.
        """
        node = self.reads[stream]
        read = partial(self._read, spark, node, lambda _: _virtual(F.lit(0)), most)
        frame = resolution.explained(node, read, self._file.home)
        return frame.drop(meta_column.NAME)

    def output(self, spark: SparkSession, stream: str) -> DataFrame:
        """All rows that the job would write to a stream, from every operator that writes to it."""
        session.carry(self._file.functions)
        frames = self._frames(spark)
        several = [frames[node.inputs[0]].drop(meta_column.NAME) for node in self.written[stream]]
        whole = several[0]
        for other in several[1:]:
            whole = whole.unionByName(other, allowMissingColumns=True)
        return whole

    def _frames(self, spark: SparkSession) -> Mapping[int, DataFrame]:
        """For each operator except outputs, the DataFrame that results from it. The keys are node ids. For a
        ``partition_by`` between two stages, the DataFrame contains the rows that the next stage reads.
        """
        frames: dict[int, DataFrame] = {}
        for stage in stages.cut(self._graph):
            context = Context(
                functions=self._file.functions,
                keys=stages.key_columns(self._graph, stage),
                times=stages.event_times(self._graph),
                changed=stages.changed(self._graph, stage),
                on_error=self._rejecting(spark, self.settings.job.on_error),
                on_null_key=self._rejecting(spark, self.settings.job.on_null_key),
                workers=Workers(home=self._file.home),
                shuffle_partitions=self.settings.job.state_partitions,
                table=partial(
                    lookups.load,
                    functions=self._file.functions,
                    records=partial(lookups.everything, self._systems),
                    formats=self.formats,
                    fails=self.settings.job.on_error == _FAIL,
                ),
            )
            model = next(each for each in self._plan.model.stages if each.stage == stage.id)
            for node in stage.nodes:
                if is_boundary(node) or not rule(node).sink:
                    build = partial(self._after, spark, node, stage, model, context, frames)
                    frames[node.id] = resolution.explained(node, build, self._file.home)
        return frames

    def _after(
        self,
        spark: SparkSession,
        node: Node,
        stage: Stage,
        model: StageModel,
        context: Context,
        frames: Mapping[int, DataFrame],
    ) -> DataFrame:
        if node.kind == "read":
            return self._read(spark, node, lambda stream: _task(node, stream, model, self._plan.model.factor))
        inputs = [frames[i] for i in node.inputs]
        if node.kind == "process":
            raise UsageError(
                f"{label(node)} can't be previewed: what it gives depends on the order and the time in which rows come",
                "try it on some rows with anabranch.testing",
            )
        if rule(node).stateful:
            inputs = [frame.where(self._into_state()) for frame in inputs]
        if not is_boundary(node):
            return frames_of_operators.apply(node, inputs, context)
        key = F.col(meta_column.NAME).withField("key", frames_of_operators.stage_key(inputs[0], node.args["columns"]))
        # All rows of a key are in one partition of the stream, so a single task for all rows gives the same aggregates.
        task, none = F.lit(0), F.lit(None).cast("int")
        moved = inputs[0].withColumn(meta_column.NAME, key.withField("task", task).withField("bucket", none))
        null = frames_of_operators.keyless()
        if self.settings.job.on_null_key != _FAIL:
            return moved.where(~null)
        keyless = Fault(null, "the key is null", "on_null_key", None)
        return faulty_rows.without(moved, label(node), [keyless], context.workers.inputs)

    def _rejecting(self, spark: SparkSession, policy: str) -> Rejecting | None:
        """A function that leaves rejected records out, even if the job would write them as dead letters. None if a
        rejected record makes the job fail.
        """
        if policy == _FAIL:
            return None
        said = dead_letters.listening(spark.sparkContext)
        aside = WorkerDeadLetters(self._graph.job, {}, {}, {}, {}, (), said)
        return partial(aside.rejects, keep=False)

    def _into_state(self) -> Column:
        """Whether a row enters state. A broadcast record becomes several rows, one for each virtual task. Of these
        rows, only the row for the virtual task that owns the record's key enters state.
        """
        own = ownership.bucket_of_row(self._plan.model.factor) == meta_column.field("bucket")
        return meta_column.field("bucket").isNull() | own

    def _read(
        self, spark: SparkSession, node: Node, virtual: Callable[[str], Column], most: int | None = None
    ) -> DataFrame:
        """The records of all streams of a ``read``. For a stream, ``virtual`` returns the column with the virtual task
        of each record. A broadcast record gets a row for every virtual task.
        """
        matched = patterns.of_model(self._plan.model)
        name = node.args["stream"]
        streams = matched[name].streams if name in matched else (name,)
        several = [self._records(spark, node, stream, virtual(stream), most) for stream in streams]
        whole = several[0]
        for other in several[1:]:
            whole = whole.unionByName(other)
        return whole

    def _records(self, spark: SparkSession, node: Node, stream: str, virtual: Column, most: int | None) -> DataFrame:
        system = self._systems.of(node.args["stream"])
        raw = records.again(spark, system, stream, ranges(system, stream, most))
        taken = decoding.of_graph(node, self.formats.get(node.args["stream"], JSON), keyed=False)
        fail = self.settings.job.on_error == _FAIL
        opened = taken.opened(raw.withColumn("virtual", virtual), fail)
        task, bucket = F.col("virtual.task"), F.col("virtual.bucket")
        rows = taken.rows(opened, task, f"{system.name}/{stream}", fail, bucket)
        taken.check(rows)
        return rows


def ranges(system: System, stream: str, most: int | None) -> dict[int, list[Range]]:
    """For each partition, the ranges of offsets to read. The partitions are read one after another, up to ``most``
    records in total. If ``most`` is None, all records are read.
    """
    starts, found, left = system.starts(stream), dict[int, list[Range]](), most
    for partition, end in system.ends(stream).items():
        start = stop = starts[partition]
        if left is None:
            stop = end
        elif left > 0 and end > start:
            for offsets, _ in system.read(stream, partition, [(start, end)]):  # offsets may have gaps
                taken = offsets[:left]
                left -= len(taken)
                stop = int(taken[-1]) + 1 if len(taken) else stop
                if not left:
                    break
        found[partition] = [(start, stop)] if stop > start else []
    return found


def _task(node: Node, stream: str, model: StageModel, factor: int) -> Column:
    """The virtual task that reads a record: the number that the task would have at factor 1, and the bucket. A
    broadcast record becomes a row for each virtual task.
    """
    if node.args.get("broadcast"):
        every = [divmod(task.index, factor) for task in model.tasks]
        return F.explode(F.array(*[_virtual(F.lit(n), F.lit(b) if factor > 1 else None) for n, b in every]))
    numbers = planning.task_numbers(model, factor)
    pairs = [F.lit(x) for ssp, n in numbers.items() if ssp.stream == stream for x in (ssp.partition, n)]
    return _virtual(F.create_map(*pairs)[F.col("partition")])


def _virtual(task: Column, bucket: Column | None = None) -> Column:
    """A virtual task. If ``bucket`` is None, the task has the bucket of the record's key."""
    return F.struct(task.alias("task"), (F.lit(None) if bucket is None else bucket).cast("int").alias("bucket"))
