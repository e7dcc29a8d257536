"""Builds the streaming DataFrames of a lane, from its sources to the last operator that is part of the query."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from time import monotonic

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from anabranch.operators.rules import is_timed
from anabranch.planning.ownership.buckets import owned
from anabranch.spark.operators import evaluation, joining, lookups, routing
from anabranch.spark.operators.frames_of_operators import Context, Workers
from anabranch.spark.operators.lookups import Lookups
from anabranch.spark.query import clock, ownership
from anabranch.spark.query.batch_target import place_of
from anabranch.spark.query.outputs import LaneOutputs
from anabranch.spark.query.pacer import Pacer
from anabranch.spark.query.plan import LanePlan
from anabranch.spark.query.source import Source, by_node
from anabranch.spark.query.sources import LaneSources
from anabranch.spark.query.workers import LaneWorkers
from anabranch.spark.values import codec, meta_column
from anabranch.systems.source import Limits

__all__ = ["LaneFrames"]


@dataclass(frozen=True)
class LaneFrames:
    """The streaming DataFrames of one lane.

    Attributes:
        folder: the checkpoint folder, as a path for Spark.
        nothing: whether the query's batches must read no records.
    """

    plan: LanePlan
    sources: LaneSources
    workers: LaneWorkers
    outputs: LaneOutputs
    folder: str
    clock: str
    nothing: bool
    pacer: Callable[[], Pacer]

    @cached_property
    def context(self) -> Context:
        job = self.plan.settings.job
        return replace(
            self.plan.bare_context,
            on_error=self.outputs.rejecting(job.on_error),
            on_null_key=self.outputs.rejecting(job.on_null_key),
            on_late=partial(self.outputs.aside.rejects, keep=True) if self.plan.late_rows else None,
            watermarked=self._watermarked,
            following=self._following,
            workers=Workers(
                home=self.plan.job.home,
                threads=job.threads,
                busy=self.workers.busy.add,
                routing=self.workers.routing,
                routed=routing.before(self.plan.group),
                line=self.workers.line,
                message_seconds=self.plan.message_limit,
                inputs=self.sources.streams,
            ),
            shuffle_partitions=self.plan.lane.state_partitions,
            factor=self.plan.lane.factor,
            table=self._tables_joined.now,
            own_state=ownership.of_state(self.plan.lane) if self.plan.group.stateful is not None else None,
            own_tasks=owned(self.plan.lane) if self.plan.lane.predecessors else None,
        )

    def streamed(self, source: Source) -> DataFrame:
        until = {ssp.partition: self.plan.until[ssp] for ssp in source.ssps if ssp in self.plan.until}
        limits = Limits(
            max_rows=0 if self.plan.real_time else self.pacer().shares[place_of(source)],
            fail_on_loss=self.plan.systems.on_data_loss(source.stream) == "fail",
            lane=self.plan.lane.id,
            commits=f"{self.folder.removeprefix('file://')}/commits",
            nothing=self.nothing,
            line=self.workers.line,
        )
        return source.streamed(until, limits)

    def _clock_frame(self, rows: bool) -> DataFrame:
        carried = clock.carried(self.plan.systems)
        options = {"file": self.clock, "systems": carried, "rows": str(rows).lower()}
        return self.plan.job.spark.readStream.format(clock.FORMAT).options(**options).load()

    def _watermarked(self, frame: DataFrame, column: str, behind: int) -> DataFrame:
        """The DataFrame with the lane's watermark on a column. ``behind`` says how many ms the operator's watermark
        must be behind the lane's.

        If the lane has a clock, Spark takes the watermark from a row of the clock's DataFrame; this row is dropped
        afterwards. ``withWatermark`` is called only on the clock's DataFrame, because a stream with few records would
        hold back a watermark that Spark computes from rows. Without a clock (``watermark_scope = "lane"``), Spark
        computes the watermark from the rows, with the longest delay of all inputs of the job.
        """
        if not self.sources.has_event_time:
            delays = [
                source.args.get("watermark", 0) for source in self.plan.graph.nodes if "event_time" in source.args
            ]
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
        """The right side of a join, with the watermark that :meth:`_watermarked` has added to the left side. For
        ``column`` and ``behind``, see :meth:`_watermarked`.
        """
        return (
            joining.followed(frame, column) if self.sources.has_event_time else self._watermarked(frame, column, behind)
        )

    @cached_property
    def _tables_joined(self) -> Lookups:
        records = partial(lookups.everything, self.plan.systems)
        fails = self.plan.settings.job.on_error == "fail"
        load = partial(
            lookups.load, functions=self.plan.job.functions, records=records, formats=self.plan.job.formats, fails=fails
        )
        return Lookups(load, self.plan.job.schemas, monotonic, self.plan.job.home)

    def ticking(self, frame: DataFrame) -> DataFrame:
        """The DataFrame with the lane's clock as an additional source without rows, so that Spark plans a batch even if
        only the lane's event time has advanced. Unchanged if an operator with a watermark already reads the clock, or
        if anabranch computes no watermark for the lane.
        """
        if not self.sources.delays or (self.plan.group.stateful is not None and is_timed(self.plan.group.stateful)):
            return frame
        nothing = [F.lit(None).cast(f.dataType).alias(f.name) for f in frame.schema]
        return self._clock_frame(rows=False).select(*nothing).union(frame)

    @cached_property
    def whole(self) -> tuple[DataFrame | None, int | None]:
        """The streaming DataFrame that the lane's query computes, and a node id.

        If the query computes all operators, the DataFrame contains the output rows, and the id is None. If some
        operators are computed batch by batch, the DataFrame contains the rows before these operators, and the id is the
        node id of the last operator in the query. Both are None if a source's path branches or reaches a ``join_table``
        before all sources have come together.
        """
        group, context, sinks = self.plan.group, self.context, self.outputs.sinks
        frames = by_node(self.sources.all, lambda s: s.rows(s.observed(s.opened(self.streamed(s)))))
        way = evaluation.trunk(group, frames, context)
        if way is None:
            return None, None
        last, frame = way
        if sinks and not self.outputs.tables and evaluation.fans_out(group, last):
            rows = evaluation.fan_out(group, last, frame, sinks)
            if rows is not None:
                return self.ticking(rows), None
        return self.ticking(frame), last.id
