"""Determines which outputs and slots a lane's rows go to, how the rows are written there, and what happens to records
that the lane can't process.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from anabranch import logs
from anabranch.event_time.progress import Progress
from anabranch.formats import JSON, Format
from anabranch.model.graph import Node
from anabranch.operators import rule
from anabranch.operators.rules import is_boundary, is_shuffle, on_late
from anabranch.planning import stages
from anabranch.spark import values
from anabranch.spark.functions.wrap import Rejecting
from anabranch.spark.internals import observed_metrics
from anabranch.spark.operators import evaluation, frames_of_operators
from anabranch.spark.operators.evaluation import Sink
from anabranch.spark.operators.labels import label
from anabranch.spark.query import dead_letters, tables
from anabranch.spark.query.dead_letters import Letters, WorkerDeadLetters
from anabranch.spark.query.gate import Gate
from anabranch.spark.query.lane_time import LaneTime
from anabranch.spark.query.plan import LanePlan
from anabranch.spark.query.planned_batch import Batch
from anabranch.spark.query.publishing import Publishing
from anabranch.spark.query.rejections import Rejections
from anabranch.spark.query.sink import Refusal
from anabranch.spark.query.sources import LaneSources
from anabranch.spark.query.tables import TablePublisher
from anabranch.spark.query.workers import LaneWorkers
from anabranch.spark.values import codec, meta_column, task_header
from anabranch.spark.values.decoding import FAULTS
from anabranch.spark.values.task_header import TaskNames
from anabranch.systems.output import Publisher, Target, Written
from anabranch.systems.reading.spark import PlainWriter, spark_side
from anabranch.tables.contract import Owner, Table

__all__ = ["LaneOutputs"]

_ASIDE, _DROP, _FAIL = "dead-letter", "drop", "fail"
_KEYLESS = "the key is null, and the operator keeps its rows by key"

log = logs.get_logger()


@dataclass(frozen=True)
class LaneOutputs:
    """The outputs of a lane, both for its rows and for the records that the lane can't process. For ``planned``,
    ``clock``, ``inherited`` and ``dropped``, see :class:`anabranch.spark.query.query.LaneQuery`.
    """

    plan: LanePlan
    sources: LaneSources
    workers: LaneWorkers
    epoch: int
    planned: Callable[[int], Batch]
    clock: str
    inherited: Callable[[], Progress]
    dropped: Callable[[int], None]
    gate: Gate

    @property
    def allowed(self) -> float:
        """How many seconds a batch may take: the shortest limit of the publishers with slots; infinite if there are
        none."""
        return min((each.batch_seconds for each in self.publishers.values() if each.slotted), default=math.inf)

    @property
    def slotted(self) -> bool:
        """Whether an output has slots."""
        return any(each.slotted for each in self.publishers.values())

    @property
    def slots(self) -> int:
        """The number of slots, without those for dead letters; 0 if no output has slots."""
        return sum(":" not in slot for slot in self.plan.lane.slots) if self.slotted else 0

    def rejecting(self, policy: str) -> Rejecting | None:
        """The receiver of rejected rows if a setting such as ``[job] on_error`` has the value ``policy``. None for
        "fail", because a rejected row then fails the lane. Calls with the same value return the same object: an
        operator handles all faults with the same receiver in one step, because a receiver can write only once in a
        Spark task."""
        return None if policy == _FAIL else self._rejecting[policy != _DROP]

    @cached_property
    def _rejecting(self) -> dict[bool, Rejecting]:
        return {keep: partial(self.aside.rejects, keep=keep) for keep in (True, False)}

    @property
    def repeats(self) -> str:
        """Describes the outputs that would get the rows of a batch twice if the batch ran again; empty if there are
        none.
        """
        written = [node for node in self.plan.group.sinks if node.kind != "foreach_batch"]
        plain = sorted(
            stream
            for stream in (stages.stream_of(self.plan.graph, node) for node in written)
            if self.plan.is_plain(stream)
        )
        called = [label(node) for node in self.plan.group.sinks if node.kind == "foreach_batch"]
        told = [f"writes at least once to {', '.join(plain)}"] if plain else []
        return " and ".join([*told, *(f"is given to {name}" for name in called)])

    def take(self, new: bool) -> None:
        """Take over the lane's exactly-once outputs. Former owners can no longer write to them. ``new`` is true if no
        batch of the lane has been planned yet.
        """
        for publisher in self.publishers.values():
            publisher.take(new)

    def refresh(self) -> None:
        """Take over the lane's slots again. This renews the slots' markers before they expire, and aborts transactions
        that a batch has left open.
        """
        for publisher in self.publishers.values():
            if publisher.slotted:
                publisher.take(new=False)

    @cached_property
    def scattered(self) -> bool:
        """Whether rows from one partition may be in several Spark tasks when they are written. Neither the shuffle of a
        stateful operator nor :attr:`LaneWorkers.splits` is considered.
        """
        read = [stages.stream_of(self.plan.graph, node) for node in self.plan.group.sources]
        return len(set(read)) < len(read) or any(self._spreads(node) for node in self.plan.group.nodes)

    def _spreads(self, node: Node) -> bool:
        """Whether records of one partition may be in several Spark tasks after ``node``."""
        return node.kind == "transform" or is_shuffle(node) or self.plan.group.rejoins(node)

    @cached_property
    def _gathers(self) -> bool:
        """Whether dead letters must be gathered before they are written. They must be gathered if several Spark tasks
        may reject the same record of a broadcast input, or if several Spark tasks may reject records of one slot; see
        :class:`WorkerDeadLetters`.
        """
        job = self.plan.settings.job
        keyed = any(rule(node).stateful or node.kind == "partition_by" for node in self.plan.group.nodes)
        aside = job.on_error == _ASIDE or (keyed and job.on_null_key == _ASIDE)
        aside = aside or any(on_late(node) == _ASIDE for node in self.plan.group.nodes)
        letters = {self.plan.lane.system(stream) for stream in self.plan.lane.dead_letters.values()}
        slotted = any(self.publishers[name].slotted for name in letters)
        shared = self.workers.splits and bool(self.plan.lane.broadcast)
        shuffled = self.plan.group.stateful is not None and rule(self.plan.group.stateful).function
        return aside and (shared or ((self.scattered or self.workers.splits or shuffled) and slotted))

    @cached_property
    def aside(self) -> WorkerDeadLetters:
        read = {source.number: source.stream for source in self.sources.all}
        letters = {
            stream: Letters(
                Target(dead, self.plan.lane.outputs[dead]), self.publishers[self.plan.lane.system(dead)].output
            )
            for stream, dead in self.plan.lane.dead_letters.items()
        }
        return WorkerDeadLetters(
            job=self.plan.lane.job,
            streams=read,
            systems={source.stream: source.system for source in self.sources.all},
            letters=letters,
            operators={label(node): node.name for node in self.plan.group.nodes} | self.plan.late_rows,
            slots=self.plan.lane.slots,
            said=dead_letters.listening(self.plan.job.spark.sparkContext),
            gathers=self._gathers,
        )

    @cached_property
    def late(self) -> Counter[str]:
        """How many late rows this query has written as dead letters, by SSP."""
        return Counter()

    @cached_property
    def publishers(self) -> dict[str, Publisher]:
        """The publishers that write exactly once, by system."""
        written = [stages.stream_of(self.plan.graph, n) for n in self.plan.group.sinks if n.kind != "foreach_batch"]
        exact = [
            *self.plan.lane.dead_letters.values(),
            *(stream for stream in written if not self.plan.is_plain(stream)),
        ]
        return {name: self._publisher(name) for name in sorted({self.plan.lane.system(stream) for stream in exact})}

    def _publisher(self, system: str) -> Publisher:
        tables = {name: table for name, table in self.tables.items() if self.plan.lane.system(name) == system}
        if tables:
            return TablePublisher(self.plan.lane, self.epoch, tables)
        return self.plan.systems.named(system).publisher(self.plan.lane, self.epoch)

    @cached_property
    def tables(self) -> dict[str, Table]:
        """The tables that the lane writes to, by the name of the output."""
        return self.plan.systems.tables(self.plan.lane)

    def table(self, node: Node) -> str:
        """The name of the output if a sink writes to a table; empty for other sinks."""
        output = "" if node.kind == "foreach_batch" else stages.stream_of(self.plan.graph, node)
        return output if output in self.tables else ""

    def written_to_table(self, node: Node, rows: DataFrame, batch: int) -> list[Written]:
        """Write ``rows``, a batch's rows for the sink ``node``, to the sink's table. Returns what was written."""
        output = self.table(node)
        owner = Owner(self.plan.lane.job, self.plan.lane.id, self.epoch)
        writes = [sink for sink in self.plan.group.sinks if self.table(sink) == output]
        schema = tables.schema_of(writes, self.plan.job.schemas)
        rows = rows.select(*map(codec.quoted, schema.names))
        if not self.aside.gathers:
            return tables.write(rows, self.tables[output], output, owner, schema)
        kept = rows.persist()
        try:
            kept.count()
            self.publishing.put_first(batch)
            return tables.write(kept, self.tables[output], output, owner, schema)
        finally:
            kept.unpersist()

    def _keyless(self, frames: dict[int, DataFrame]) -> DataFrame:
        """The rows with a null key that reach the lane's state, in the form of :meth:`Source.faulty`."""
        at = [meta_column.field(name) for name in ("source", "partition", "offset")]
        sides = evaluation.before_state(self.plan.group, frames, self.plan.bare_context)
        said = [F.lit("null_key").alias("fault"), F.lit(_KEYLESS).alias("reason")]
        found = [side.where(frames_of_operators.keyless()).select(*at, *said) for side in sides]
        return reduce(DataFrame.union, found)

    @cached_property
    def sinks(self) -> dict[int, Sink]:
        traced = any(is_boundary(node) for node in self.plan.group.sinks)
        windowed = self.plan.group.stateful is not None and "window" in self.plan.group.stateful.args
        return {
            node.id: Sink(
                number,
                node,
                values.writing(self._written_as(node), ours=is_boundary(node)),
                traced,
                self._slots(node),
                self._named(node),
                windowed,
                self._times.get(node.id, ""),
            )
            for number, node in enumerate(self.plan.group.sinks)
            if node.kind != "foreach_batch" and not self.table(node)
        }

    @cached_property
    def _times(self) -> dict[int, str]:
        """The event-time column of each intermediate stream that refuses rows without event time. The keys are the ids
        of the nodes that write these streams."""
        stage, times = self.plan.stage, stages.event_times(self.plan.graph)
        if not self.plan.lane.dead_letters and any(is_boundary(node) for node in stage.sources):
            return {}  # an older version of anabranch has made the lane, without dead letters for this stage
        return {i: times[i].column for i in stages.untimed_refused(self.plan.graph, stage)}

    def _named(self, node: Node) -> TaskNames | None:
        """The names of the lane's tasks if the output's settings ask for a header with the task; otherwise None."""
        bound = self.plan.settings.streams.get(stages.stream_of(self.plan.graph, node))
        return task_header.of_lane(self.plan.lane) if bound is not None and bound.task_header else None

    def _written_as(self, node: Node) -> Format:
        return JSON if is_boundary(node) else self.plan.format_of(node.args["stream"])

    def _slots(self, node: Node) -> dict[tuple[int, int], int] | None:
        """The slot number of an output's rows, for each source and partition from which the rows' records come. {} if
        the rows come from state, where each state partition is a slot. None if the output has no slots.
        """
        stream = stages.stream_of(self.plan.graph, node)
        if self.plan.is_plain(stream) or not self.publishers[self.plan.lane.system(stream)].slotted:
            return None
        if self.plan.group.stateful is not None:
            return {}
        slots = {ssp: number for number, ssp in enumerate(self.plan.lane.slots)}
        return {(s.number, ssp.partition): slots[str(ssp)] for s in self.sources.all for ssp in s.ssps}

    @property
    def slotted_partitions(self) -> dict[int, tuple[int, int]]:
        """For each slot, by its number, the source and partition of the slot's rows. Slots for dead letters aren't
        included. Empty if the rows come from state, or if no output has slots.
        """
        if self.plan.group.stateful is not None or not self.slotted:
            return {}
        slots = {ssp: number for number, ssp in enumerate(self.plan.lane.slots)}
        places = {str(ssp): (source.number, ssp.partition) for source in self.sources.all for ssp in source.ssps}
        return {slots[ssp]: place for ssp, place in places.items() if ssp in slots}

    def plain(self, streams: Mapping[int, str]) -> dict[int, PlainWriter]:
        """The writer of each at-least-once output in ``streams``, by the number of the output. All at-least-once
        outputs must be in one system. They share one writer.
        """
        plain = {number: stream for number, stream in streams.items() if self.plan.is_plain(stream)}
        if not plain:
            return {}
        (name,) = {self.plan.lane.system(stream) for stream in plain.values()}
        system = self.plan.systems.named(name)
        return dict.fromkeys(plain, spark_side(system).plain(system, plain))

    @cached_property
    def publishing(self) -> Publishing:
        job = self.plan.settings.job
        streams = {s.number: stages.stream_of(self.plan.graph, s.node) for s in self.sinks.values()}
        targets = {n: Target(stream, self.plan.lane.outputs[stream]) for n, stream in streams.items()}
        boundaries = {s.number: s.node for s in self.sinks.values() if is_boundary(s.node)}
        keyless, faulty = self.rejecting(job.on_null_key), self.rejecting(job.on_error)
        refusals = {
            number: Refusal(label(node), keyless, faulty, self._times.get(node.id, ""), self.sources.streams)
            for number, node in boundaries.items()
        }
        wanted = stages.timed(self.plan.graph)
        stateful = self.plan.group.stateful
        return Publishing(
            lane=self.plan.lane,
            publishers=self.publishers,
            plain=self.plain(streams),
            targets=targets,
            timed=[targets[n] for n, node in boundaries.items() if node.id in wanted and self.sources.delays],
            refusals=refusals,
            rejections=self._rejections,
            time=self.time,
            planned=self.planned,
            gate=self.gate,
            unruly=self.scattered or (stateful is None and self.workers.splits),
            line=self.workers.line,
            begins={str(ssp): at for ssp, at in self.sources.starting.items()} if self.sources.skips_lost else None,
            observed=partial(observed_metrics.of_query, self.plan.job.spark, self.plan.lane.id),
        )

    @cached_property
    def _rejections(self) -> Rejections:
        job, stateful = self.plan.settings.job, self.plan.group.stateful
        dropping = [*(["null_key"] if job.on_null_key == _DROP else []), *(FAULTS if job.on_error == _DROP else [])]
        return Rejections(
            spark=self.plan.job.spark,
            sources=self.sources.all,
            aside=self.aside,
            reports=self.plan.lane.reports,
            dropping=dropping,
            keyless_rows=self._keyless,
            into_state=label(stateful) if stateful is not None else "",
            dropped=self.dropped,
            late_rows=frozenset(self.plan.late_rows),
            late=self.late.update,
            skipping=self.sources.skipping,
        )

    @cached_property
    def time(self) -> LaneTime:
        """The lane's event time."""
        lane = self.plan.lane
        return LaneTime(
            lane=lane,
            sources=self.sources.all,
            path=Path(self.clock) if self.sources.has_event_time else None,
            delays=self.sources.delays,
            window=self.plan.window,
            inherited=self.inherited if lane.predecessors or lane.drained is not None else None,
        )

    def out_of_time(self, batch: Batch) -> bool:
        """Whether a batch's records would fall into closed windows of processing time, because the clock was set back
        before the batch was planned.
        """
        return self.plan.by_intake and batch.at < batch.watermark and self.time.reads(batch)

    def settle(self) -> None:
        """Remove the lane's temporary data. Then wait, for a short time at most, until readers can see everything that
        the lane has published. Call this after the lane has ended.
        """
        self.publishing.settle()

    def leave_tables(self) -> None:
        """Remove the lane's temporary data from its tables, without waiting for readers. Call this after the lane has
        ended. If this fails, only a warning is logged, because other lanes wait for the end of this lane.
        """
        for publisher in self.publishers.values():
            if isinstance(publisher, TablePublisher):
                try:
                    publisher.settle()
                except Exception as error:  # the table's class may be the user's own, and raise anything
                    log.warning("a lane's temporary data can't be removed", lane=self.plan.lane.id, error=str(error))

    @property
    def tells_time(self) -> bool:
        """Whether other lanes depend on this lane's event time."""
        return bool(self.publishing.timed)

    @property
    def put_aside(self) -> int:
        """How many dead letters this lane has ever written."""
        return self.publishing.put_aside()
