"""Where a lane's rows go: its sinks, their slots, and what publishes them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from pathlib import Path

from pyspark import Accumulator
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from anabranch.formats import JSON, Format
from anabranch.grouping.ownership import owned
from anabranch.model.graph import Node
from anabranch.operators import rule
from anabranch.operators.rules import is_boundary, is_shuffle, late_of, on_late
from anabranch.pace.controller import Aim
from anabranch.planning import stages
from anabranch.spark import values
from anabranch.spark.functions import busy_time
from anabranch.spark.functions.busy_time import Busy
from anabranch.spark.functions.wrap import Rejecting
from anabranch.spark.operators import evaluation, frames_of_operators, late_rows, routing
from anabranch.spark.operators.evaluation import Sink
from anabranch.spark.operators.labels import label
from anabranch.spark.operators.routing import Routing
from anabranch.spark.query import dead_letters, tables
from anabranch.spark.query.dead_letters import Aside, Letters
from anabranch.spark.query.lane_parts import LaneParts
from anabranch.spark.query.pacer import Pacer, name_of
from anabranch.spark.query.planned_batch import Batch
from anabranch.spark.query.publishing import Publishing
from anabranch.spark.query.sink import Keyless
from anabranch.spark.query.source import Source
from anabranch.spark.query.tables import TablePublisher
from anabranch.spark.values import meta_column, task_header
from anabranch.spark.values.decoding import FAULTS
from anabranch.spark.values.task_header import TaskNames
from anabranch.systems.output import Publisher, Target, Written
from anabranch.systems.reading.spark import PlainWriter, spark_side
from anabranch.tables.contract import Owner, Table

_ASIDE, _DROP, _FAIL = "dead-letter", "drop", "fail"
_UNKNOWN = ("transform", "foreach_batch")
"""Operators that call functions of the job once for a batch, which may take any time for it."""
_FIRST = 50
"""The records of a first batch: as many as are through in a minute, if each takes a second."""
_FIRST_OF_SQL = 100_000
_AWAITED = 0.5
"""Of the target, what a batch aims at that a change must wait for. It costs no throughput that bench/backlog shows; a
quarter costs a tenth, and isn't needed."""
_BUCKETS = 1000
"""No container works on many more at once."""
_KEYLESS = "the key is null, and the operator keeps its rows by key"


@dataclass(frozen=True)
class LaneOutputs(LaneParts):
    """What becomes of the rows of a lane, and of what it can't process."""

    @property
    def allowed(self) -> float:
        """The seconds that a batch may take."""
        slotted = [publisher for publisher in self._publishers.values() if publisher.slotted]
        return min((publisher.batch_seconds for publisher in slotted), default=math.inf)

    @cached_property
    def pacer(self) -> Pacer:
        """What sizes the lane's batches."""
        return self._pacing(self._first_rows)

    @property
    def _first_rows(self) -> int:
        """The records of a first batch."""
        if not self.settings.job.target_batch_seconds:
            return self._most_rows
        first = max(_FIRST, 2 * self._least_rows) if self._calls_functions else _FIRST_OF_SQL
        return self.remembered(not self._calls_functions) or first

    @property
    def _calls_functions(self) -> bool:
        """Whether a record may take any time."""
        return any(rule(node).function or node.kind in _UNKNOWN for node in self._group.nodes)

    @property
    def _target_seconds(self) -> float:
        """How long a batch is to take. A change must wait for one that can't be taken back: it is to take less, unless
        it is one of SQL alone, for which its fixed time counts more."""
        target = self.settings.job.target_batch_seconds or math.inf
        return target * _AWAITED if self.repeats and self._calls_functions else target

    @property
    def _least_rows(self) -> int:
        """As many as it has buckets to work on at once."""
        return max(1, min(len(self.lane.ssps), _BUCKETS))

    @property
    def _most_rows(self) -> int:
        return self.settings.job.max_rows_per_batch * max(1, len(self._sources))

    def _pacing(self, first: int) -> Pacer:
        job, most = self.settings.job, self._most_rows
        inputs = {self._place_of(source): source.starts for source in self._sources}
        aim = Aim(self._target_seconds, min(most, self._least_rows), most, self.allowed)
        return Pacer(self.spark, aim, first, job.max_rows_per_batch, inputs)

    def _place_of(self, source: Source) -> str:
        """The name of a source as a pacer knows it."""
        return name_of(source.system.offset(source.stream, "", {}))

    def _rejecting(self, policy: str) -> Rejecting | None:
        return None if policy == _FAIL else partial(self._aside.rejects, keep=policy != _DROP)

    @property
    def repeats(self) -> str:
        """What it does again with a batch that is run again; empty: nothing."""
        written = [node for node in self._group.sinks if node.kind != "foreach_batch"]
        plain = sorted(
            stream for stream in (stages.stream_of(self.graph, node) for node in written) if self._is_plain(stream)
        )
        called = [label(node) for node in self._group.sinks if node.kind == "foreach_batch"]
        told = [f"writes at least once to {', '.join(plain)}"] if plain else []
        return " and ".join([*told, *(f"is given to {name}" for name in called)])

    def take(self, new: bool) -> None:
        """Make the lane's outputs ours: nobody who had them before can write to them any more. ``new``: nobody had."""
        for publisher in self._publishers.values():
            publisher.take(new)

    def refresh(self) -> None:
        """Say once more that the lane's slots are ours, so that what tells it doesn't expire."""
        for publisher in self._publishers.values():
            if publisher.slotted:
                publisher.take(new=False)

    @cached_property
    def _busy(self) -> Accumulator[Busy]:
        return busy_time.listening(self.spark.sparkContext)

    def take_busy(self) -> Busy:
        """The seconds that Python functions have worked on each bucket since the last call."""
        return busy_time.heard(self._busy)

    @cached_property
    def _routing(self) -> Routing | None:
        """How rows get to Python functions; None: those of a partition are in one Spark task anyway."""
        virtual = [(number, bucket) for number, mine in owned(self.lane).items() for bucket in mine]
        cores = self.spark.sparkContext.defaultParallelism
        return routing.over(virtual, self.lane.factor, cores) if routing.before(self._group) else None

    @property
    def _splits(self) -> bool:
        """Whether functions work on rows of one partition in several Spark tasks."""
        return self._routing is not None and (self._routing.splits or bool(self.lane.broadcast))

    @cached_property
    def _scattered(self) -> bool:
        """Whether records of one partition may be in several Spark tasks, without state, when they are written."""
        read = [stages.stream_of(self.graph, node) for node in self._group.sources]
        return len(set(read)) < len(read) or any(self._spreads(node) for node in self._group.nodes)

    def _spreads(self, node: Node) -> bool:
        """Whether records of one partition may be in several Spark tasks behind it."""
        return node.kind == "transform" or is_shuffle(node) or self._group.rejoins(node)

    @cached_property
    def _gathers(self) -> bool:
        """Whether what one slot puts aside may come from several Spark tasks, where it must be written by one; or even
        one record may, of a broadcast."""
        job = self.settings.job
        keyed = any(rule(node).stateful or node.kind == "partition_by" for node in self._group.nodes)
        aside = job.on_error == _ASIDE or (keyed and job.on_null_key == _ASIDE)
        aside = aside or any(on_late(node) == _ASIDE for node in self._group.nodes)
        letters = {self.lane.system(stream) for stream in self.lane.dead_letters.values()}
        slotted = any(self._publishers[name].slotted for name in letters)
        shared = self._splits and bool(self.lane.broadcast)
        shuffled = self._group.stateful is not None and rule(self._group.stateful).function
        return aside and (shared or ((self._scattered or self._splits or shuffled) and slotted))

    @cached_property
    def _aside(self) -> Aside:
        read = {source.number: source.stream for source in self._sources}
        letters = {
            stream: Letters(Target(dead, self.lane.outputs[dead]), self._publishers[self.lane.system(dead)].output)
            for stream, dead in self.lane.dead_letters.items()
        }
        return Aside(
            job=self.lane.job,
            streams=read,
            systems={source.stream: source.system for source in self._sources},
            letters=letters,
            operators={label(node): node.name for node in self._group.nodes} | self._late_rows,
            slots=self.lane.slots,
            said=dead_letters.listening(self.spark.sparkContext),
            gathers=self._gathers,
        )

    @property
    def _late_rows(self) -> dict[str, str]:
        """By what messages call it, the name of what puts late rows aside."""
        return {late_rows.label_of(node): late_of(node) for node in self._group.nodes if on_late(node) == _ASIDE}

    @cached_property
    def late(self) -> Counter[str]:
        """How many rows were put aside for they were late, by SSP."""
        return Counter()

    @cached_property
    def _publishers(self) -> dict[str, Publisher]:
        """How the lane writes exactly once, by the system."""
        written = [stages.stream_of(self.graph, n) for n in self._group.sinks if n.kind != "foreach_batch"]
        exact = [*self.lane.dead_letters.values(), *(stream for stream in written if not self._is_plain(stream))]
        return {name: self._publisher(name) for name in sorted({self.lane.system(stream) for stream in exact})}

    def _publisher(self, system: str) -> Publisher:
        tables = {name: table for name, table in self._tables.items() if self.lane.system(name) == system}
        if tables:
            return TablePublisher(self.lane, self.epoch, tables)
        return self.systems.named(system).publisher(self.lane, self.epoch)

    @cached_property
    def _tables(self) -> dict[str, Table]:
        """The tables that the lane writes, by output."""
        return self.systems.tables(self.lane)

    def _table(self, node: Node) -> str:
        """The output of a sink that writes to a table; '' of others."""
        output = "" if node.kind == "foreach_batch" else stages.stream_of(self.graph, node)
        return output if output in self._tables else ""

    def _written_to_table(self, node: Node, rows: DataFrame) -> list[Written]:
        """Write what comes to the sink of a table."""
        output = self._table(node)
        owner = Owner(self.lane.job, self.lane.id, self.epoch)
        schema = tables.schema_of(self.schemas[node.inputs[0]], label(node))
        rows = rows.drop(meta_column.NAME)
        if not self._aside.gathers:
            return tables.write(rows, self._tables[output], output, owner, schema)
        kept = rows.persist()
        try:
            kept.count()  # as for streams: first what was put aside
            self.gate.check()
            dead_letters.put(self.spark, self._aside)
            return tables.write(kept, self._tables[output], output, owner, schema)
        finally:
            kept.unpersist()

    def _keyless(self, frames: dict[int, DataFrame]) -> DataFrame:
        """Of some records' rows, those that come to the state with null keys, as :meth:`Source.faulty` tells it."""
        at = [meta_column.field(name) for name in ("source", "partition", "offset")]
        sides = evaluation.before_state(self._group, frames, self._bare_context)
        said = [F.lit("null_key").alias("fault"), F.lit(_KEYLESS).alias("reason")]
        found = [side.where(frames_of_operators.keyless()).select(*at, *said) for side in sides]
        return reduce(DataFrame.union, found)

    @cached_property
    def _sinks(self) -> dict[int, Sink]:
        traced = any(is_boundary(node) for node in self._group.sinks)
        windowed = self._group.stateful is not None and "window" in self._group.stateful.args
        return {
            node.id: Sink(
                number,
                node,
                values.writing(self._written_as(node), ours=is_boundary(node)),
                traced,
                self._slots(node),
                self._named(node),
                windowed,
            )
            for number, node in enumerate(self._group.sinks)
            if node.kind != "foreach_batch" and not self._table(node)
        }

    def _named(self, node: Node) -> TaskNames | None:
        """See :class:`Sink`."""
        bound = self.settings.streams.get(stages.stream_of(self.graph, node))
        return task_header.of_lane(self.lane) if bound is not None and bound.task_header else None

    def _written_as(self, node: Node) -> Format:
        return JSON if is_boundary(node) else self._format(node.args["stream"])

    def _slots(self, node: Node) -> dict[tuple[int, int], int] | None:
        """See :class:`Sink`."""
        stream = stages.stream_of(self.graph, node)
        if self._is_plain(stream) or not self._publishers[self.lane.system(stream)].slotted:
            return None
        if self._group.stateful is not None:
            return {}
        return {(s.number, ssp.partition): self.lane.slots.index(str(ssp)) for s in self._sources for ssp in s.ssps}

    @property
    def slotted_partitions(self) -> dict[int, tuple[int, int]]:
        """The source and partition that the rows of a slot come from, where they come of records as they are."""
        if self._group.stateful is not None or not any(each.slotted for each in self._publishers.values()):
            return {}
        slots = {ssp: number for number, ssp in enumerate(self.lane.slots)}
        places = {str(ssp): (source.number, ssp.partition) for source in self._sources for ssp in source.ssps}
        return {slots[ssp]: place for ssp, place in places.items() if ssp in slots}

    def _plain(self, streams: Mapping[int, str]) -> dict[int, PlainWriter]:
        """What writes the outputs that are written at least once, by their numbers. They are all of one system: outputs
        of several are those of several groups."""
        plain = {number: stream for number, stream in streams.items() if self._is_plain(stream)}
        if not plain:
            return {}
        (name,) = {self.lane.system(stream) for stream in plain.values()}
        system = self.systems.named(name)
        return dict.fromkeys(plain, spark_side(system).plain(system, plain))

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
            clock=Path(self.clock) if self.has_event_time else None,
            delays=self._delays,
            window=self._window,
            late_rows=frozenset(self._late_rows),
            late=self.late.update,
            gate=self.gate,
            dropped=self.dropped,
            inherited=self.inherited if self.lane.predecessors or self.lane.drained is not None else None,
            unruly=self._scattered or (stateful is None and self._splits),
            line=self.line,
        )

    def out_of_time(self, batch: Batch) -> bool:
        """Whether records of a batch would fall into windows of processing time that are closed: when it was planned,
        the clock had been set back."""
        return self.by_intake and batch.at < batch.watermark and self._publishing.reads(batch)

    def look_back(self, last: Batch | None) -> None:
        """Find out how far the lane is in event time, after the last batch that was committed."""
        self._publishing.begin(last, pending=False)

    def settle(self) -> None:
        """Let readers see what the lane has published, once it has ended."""
        self._publishing.settle()

    @property
    def tells_time(self) -> bool:
        """Whether others go by the lane's event time."""
        return bool(self._publishing.timed)

    @property
    def put_aside(self) -> int:
        """How many records this lane has ever put aside."""
        return self._publishing.put_aside()
