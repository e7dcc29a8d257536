"""What a lane's query is made of: its part of the graph, its sources, and the settings it goes by."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from functools import cached_property
from threading import Event
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from anabranch.api.timers import PROCESSING_TIME
from anabranch.config import Settings
from anabranch.event_time import durations, windows
from anabranch.event_time.progress import Progress
from anabranch.event_time.windows import Window
from anabranch.formats import JSON, Format
from anabranch.model.graph import Graph, Node
from anabranch.model.lane import Lane
from anabranch.model.ssp import SSP, WHOLE
from anabranch.operators import rule
from anabranch.operators.rules import is_boundary, is_by_intake, is_shuffle
from anabranch.planning import groups, plan, stages
from anabranch.planning.groups import Group
from anabranch.planning.stages import Stage
from anabranch.planning.transition import after_drain
from anabranch.spark.functions import hearing
from anabranch.spark.functions.hearing import Listener
from anabranch.spark.operators.broadcast_routing import Audience
from anabranch.spark.operators.frames_of_operators import Context
from anabranch.spark.operators.labels import label
from anabranch.spark.query import ownership, pruning
from anabranch.spark.query.gate import Gate
from anabranch.spark.query.planned_batch import Batch
from anabranch.spark.query.pruning import Needs
from anabranch.spark.query.source import Source
from anabranch.spark.query.under_way import UnderWay
from anabranch.spark.values import codec, decoding, meta_column
from anabranch.systems.source import SCHEMA
from anabranch.systems.systems import Systems
from anabranch.task_progress.counts import Line

_DRAINING_SECONDS = 60.0
_DROP, _FAIL = "drop", "fail"


@dataclass(frozen=True)
class LaneParts:
    """Everything a lane's query is made of. ``starting`` are offsets by whole SSP, for a lane without a checkpoint.

    ``folder``: the checkpoint folder as Spark takes it; ``planned`` gives what its offset log says of a batch.
    ``clock``: a local file for the lane's event time.
    ``until``: offsets by whole SSP that are never read beyond. ``inherited`` gives how far in event time the lanes were
    that it goes on from. ``schemas``: columns after each operator. ``formats``:
    of streams that aren't JSON. ``dropped`` is told how many records each batch has dropped. ``remembered`` gives how
    many its first batch may have, by whether it is without functions of the job's; 0: nobody knows. ``nothing``: its
    batches read nothing. ``needs``: the columns that groups need, as far as
    lanes of the job have found that out.
    ``writing``: set while a batch is written; ``under_way``: which one that is; ``gate``: what others may see of it
    passes there.
    """

    spark: SparkSession
    settings: Settings
    graph: Graph
    functions: Mapping[int, Callable[..., Any]]
    schemas: Mapping[int, Any]
    formats: Mapping[str, Format]
    lane: Lane
    epoch: int
    folder: str
    planned: Callable[[int], Batch]
    clock: str
    home: str
    starting: Mapping[SSP, int]
    until: Mapping[SSP, int] = field(default_factory=dict)
    inherited: Callable[[], Progress] = Progress
    dropped: Callable[[int], None] = lambda _: None
    remembered: Callable[[bool], int] = lambda _: 0
    nothing: bool = False
    needs: Needs = field(default_factory=dict)
    writing: Event = field(default_factory=Event)
    under_way: UnderWay = field(default_factory=UnderWay)
    gate: Gate = field(default_factory=Gate)

    @property
    def line(self) -> Line | None:
        """Where Python workers tell how far they are; None: nobody hears them."""
        return None if self.listener is None else self.listener.line

    @cached_property
    def listener(self) -> Listener | None:
        """What hears the lane's Python workers."""
        return hearing.listening(self.spark.sparkContext)

    @property
    def message_patience(self) -> float:
        """After how many seconds on one message a drain is given up. Where messages are bounded, it goes on: a worker
        ends that takes too long on one."""
        return _DRAINING_SECONDS if math.isinf(self.message_limit) else math.inf

    @property
    def message_limit(self) -> float:
        """How many seconds a function may work on one message at all."""
        timeout = self.settings.job.message_timeout
        return math.inf if timeout is None else durations.parse(timeout) / 1000

    @property
    def labels(self) -> dict[str, frozenset[int]]:
        """What messages call the operators whose functions run in Python workers, and the numbers of the sources that
        their rows come from."""
        numbers: dict[int, frozenset[int]] = {}
        for node in self._group.nodes:
            mine = frozenset(source.number for source in self._sources if source.node.id == node.id)
            inputs = () if node in self._group.sources else node.inputs
            numbers[node.id] = mine.union(*(numbers.get(i, frozenset()) for i in inputs))
        return {label(node): numbers[node.id] for node in self._group.nodes if rule(node).function}

    def ranges_by_source(self, batch: Batch) -> dict[tuple[int, int], tuple[int, int]]:
        """As :meth:`ranges`, by the number of a source and the partition."""
        return {
            (source.number, partition): each
            for source in self._sources
            for partition, each in batch.ranges(source.stream, source.starts).items()
        }

    def ssp_of(self, source: int, partition: int, bucket: int) -> SSP | None:
        """Of a partition that the source of that number reads; None: rows of no source's."""
        for each in self._sources:
            if each.number == source:
                key_bucket = bucket if self.lane.factor > 1 else WHOLE
                return SSP(system=each.system.name, stream=each.stream, partition=partition, key_bucket=key_bucket)
        return None

    @property
    def stateful(self) -> bool:
        """Whether it keeps state."""
        return self._group.stateful is not None

    @property
    def empties(self) -> bool:
        """Whether all of its state goes out when time ends."""
        return self.stateful and not after_drain.keeps_state(self.graph, self.lane.group)

    @property
    def sequential(self) -> bool:
        """Whether its functions work on one key after another: Spark gives a processor the rows of a key at a time."""
        functions = [node for node in self._group.nodes if rule(node).function]
        return bool(functions) and all(node.kind == "process" for node in functions)

    @property
    def ticks(self) -> bool:
        """Whether it has timers of processing time: then Spark begins a batch whenever none runs."""
        stateful = self._group.stateful
        return stateful is not None and stateful.args.get("timers") == PROCESSING_TIME

    @property
    def own(self) -> frozenset[str]:
        """The streams between the job's stages."""
        return frozenset(stages.stream_of(self.graph, node) for node in self.graph.nodes if is_boundary(node))

    @property
    def real_time(self) -> bool:
        """Whether records go through one by one. Up to noted ends, they go in batches."""
        return self.settings.job.trigger == "real-time" and not self.until

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
        return bool(self._delays) or self.by_intake

    @property
    def by_intake(self) -> bool:
        """Whether it has windows of processing time: of when a record's batch was planned first."""
        return self._group.stateful is not None and is_by_intake(self._group.stateful)

    @property
    def _window(self) -> Window | None:
        """By which windows of processing time go."""
        stateful = self._group.stateful
        return windows.of_builtins(stateful.args["window"]) if stateful is not None and self.by_intake else None

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
    def _sources(self) -> list[Source]:
        """One for each stream. With state, their order is that of the offsets in the lane's folder."""
        found = []
        for node in self._group.sources:
            streams = self.lane.streams_of(stages.stream_of(self.graph, node))
            if len(streams) > 1 and not self.lane.stateful:
                held = {ssp.stream for ssp in self.lane.ssps}
                streams = tuple(stream for stream in streams if stream in held) or streams[:1]
            taken = None if is_boundary(node) else self._intake(node)
            found += [self._source(node, taken, *each) for each in enumerate(streams)]
        return found

    def _source(self, node: Node, taken: decoding.Intake | None, number: int, stream: str) -> Source:
        broadcast = bool(node.args.get("broadcast"))
        held = self.lane.broadcast if broadcast else self.lane.ssps
        ssps = tuple(sorted({s.whole for s in held if s.stream == stream}, key=lambda s: s.order))
        job = self.settings.job
        return Source(
            spark=self.spark,
            system=self.systems.named(self._where[stages.stream_of(self.graph, node)]),
            node=node,
            number=node.id + number * len(self.graph.nodes),
            stream=stream,
            ssps=ssps,
            starting=self.starting,
            tasks=self.lane.numbers,
            audience=Audience(self.lane, ssps, self._key_bytes(node)) if broadcast else None,
            own=None if broadcast else ownership.of_records(self.lane, ssps, self._key_bytes(node)),
            intake=taken,
            columns=self._columns(node) if is_boundary(node) else self.schemas[node.id],
            fail=job.on_error == _FAIL,
            timed=not is_boundary(node) and job.watermark_scope == "ssp" and node in self._group.timed(self.graph),
            bare=self._group.stateful is not None,
        )

    def _key_bytes(self, node: Node) -> Column:
        """What a record's bucket goes by: its key, as the rows of state have it where there is state."""
        key, declared = F.col("key"), node.args.get("key")
        if not self.lane.stateful or not declared or is_boundary(node):
            return key
        schema = codec.parse_schema(declared)
        columns = codec.decode_key(key, schema)
        again = codec.encode_key([(c, field.dataType) for c, field in zip(columns, schema.fields, strict=True)])
        return F.coalesce(again, key)

    def _intake(self, node: Node) -> decoding.Intake:
        format_, keyed = self._format(node.args["stream"]), self._looks_for_null_keys
        whole = decoding.of_graph(node, format_, keyed)
        if sum(node in group.sources for group in self._groups) > 1:
            return whole  # all lanes must find the same records faulty
        needed = self._needed(node, lambda: whole.rows(whole.opened(self._no_records), F.lit(0), "", fail=False))
        return whole if needed is None else whole.pruned(needed | {whole.time})

    def _needed(self, node: Node, rows: Callable[[], DataFrame]) -> Set[str] | None:
        """See :func:`pruning.needed`. It takes Spark many analyses, half a second: once for all lanes of a group."""
        key = (self._group.name, node.id)
        if key not in self.needs:
            self.needs[key] = pruning.needed(self._group, node, rows().schema, self._bare_context)
        return self.needs[key]

    @property
    def _looks_for_null_keys(self) -> bool:
        """Whether rows with null keys may come to the lane's state and must be told of: they are those of records with
        null keys, as long as neither a shuffle nor a function has given rows other keys."""
        stateful = self._group.stateful
        shuffled = any(is_shuffle(node) for node in self._group.nodes)
        if stateful is None or shuffled or self.settings.job.on_null_key == _FAIL:
            return False
        return not any(i in self._bare_context.changed for i in stateful.inputs)

    def _columns(self, node: Node) -> StructType:
        """The columns of an intermediate stream that are needed."""
        whole = self.schemas[node.id]
        parsed = codec.parse_json(F.col("value"), whole)
        needed = self._needed(node, lambda: self._no_records.select(parsed, meta_column.of_record(F.lit(0), node.id)))
        return codec.pruned(whole, needed)

    @property
    def _no_records(self) -> DataFrame:
        return self.spark.createDataFrame([], SCHEMA)

    @cached_property
    def _bare_context(self) -> Context:
        graph, stage = self.graph, self._stage
        changed = stages.changed(graph, stage)
        return Context(self.functions, stages.key_columns(graph, stage), stages.event_times(graph), changed)

    def _format(self, stream: str) -> Format:
        return self.formats.get(stream, JSON)

    def _is_plain(self, stream: str) -> bool:
        return self.settings.is_plain(stream)
