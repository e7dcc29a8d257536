"""Determines the sources of a lane: the streams that its query reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from anabranch.model.graph import Node
from anabranch.model.ssp import SSP, WHOLE
from anabranch.operators import rule
from anabranch.operators.rules import is_boundary
from anabranch.planning import stages
from anabranch.spark.operators.broadcast_routing import BroadcastRouting
from anabranch.spark.operators.labels import label
from anabranch.spark.query import ownership, pruning
from anabranch.spark.query.plan import LanePlan
from anabranch.spark.query.planned_batch import Batch
from anabranch.spark.query.source import Source
from anabranch.spark.values import codec, decoding, meta_column
from anabranch.systems.source import SCHEMA

__all__ = ["LaneSources"]

_FAIL = "fail"


@dataclass(frozen=True)
class LaneSources:
    """The sources of one lane. For a lane without a checkpoint, ``starting`` has the start offset of each whole SSP."""

    plan: LanePlan
    starting: Mapping[SSP, int]

    @property
    def labels(self) -> dict[str, frozenset[int]]:
        """The numbers of the sources from which each operator gets input rows, directly or through state. The keys are
        the operators' labels. Only operators whose functions run in Python workers are included.
        """
        numbers: dict[int, frozenset[int]] = {}
        for node in self.plan.group.nodes:
            mine = frozenset(source.number for source in self.all if source.node.id == node.id)
            inputs = () if node in self.plan.group.sources else node.inputs
            numbers[node.id] = mine.union(*(numbers.get(i, frozenset()) for i in inputs))
        return {label(node): numbers[node.id] for node in self.plan.group.nodes if rule(node).function}

    @property
    def streams(self) -> dict[int, str]:
        """The stream of each source as ``system/stream``, by the source's number."""
        return {source.number: f"{source.system.name}/{source.stream}" for source in self.all}

    def ranges_by_source(self, batch: Batch) -> dict[tuple[int, int], tuple[int, int]]:
        """The first offset that a batch reads, and one more than the last, by source number and partition."""
        return {
            (source.number, partition): each
            for source in self.all
            for partition, each in batch.ranges(source.stream, source.starts).items()
        }

    def ssp_of(self, source: int, partition: int, bucket: int) -> SSP | None:
        """The SSP of a row with this source number, partition and bucket. None if the lane has no source with this
        number. For example, a row from state has the number -1.
        """
        for each in self.all:
            if each.number == source:
                key_bucket = bucket if self.plan.lane.factor > 1 else WHOLE
                return SSP(system=each.system.name, stream=each.stream, partition=partition, key_bucket=key_bucket)
        return None

    def ranges(self, batch: Batch) -> dict[str, tuple[int, int]]:
        """For each SSP, the first offset that a batch reads, and one more than the last."""
        return {
            f"{source.system.name}/{source.stream}/{partition}": each
            for source in self.all
            for partition, each in batch.ranges(source.stream, source.starts).items()
        }

    @property
    def skipping(self) -> frozenset[str]:
        """The streams of which lost records may be skipped."""
        return frozenset(s.stream for s in self.all if self.plan.systems.on_data_loss(s.stream) != _FAIL)

    @property
    def skips_lost(self) -> bool:
        """Whether Spark's own connector reads one of the streams, and is allowed to skip lost records of this stream.
        If the stream ends before the lane's position, such a connector continues from the stream's end."""
        skipping = self.skipping
        return any(s.system.connector and s.stream in skipping for s in self.all)

    @property
    def has_event_time(self) -> bool:
        """Whether the lane has a watermark that anabranch computes."""
        return bool(self.delays) or self.plan.by_intake

    @cached_property
    def delays(self) -> dict[str, int | None]:
        """The watermark delay in ms of each SSP whose watermark determines the lane's watermark. For an SSP of an
        intermediate stream, the delay is None, because the stream's writers report their own watermark. If
        ``watermark_scope`` isn't "ssp", the result is empty.
        """
        if self.plan.settings.job.watermark_scope != "ssp":
            return {}
        found: dict[str, int | None] = {}
        for source in self.all:
            if source.timed or (is_boundary(source.node) and source.node in self.plan.group.timed(self.plan.graph)):
                for ssp in source.ssps:
                    delay = source.node.args.get("watermark")
                    known = found.get(str(ssp))
                    found[str(ssp)] = delay if known is None or delay is None else max(known, delay)
        return found

    @cached_property
    def all(self) -> list[Source]:
        """The sources, one for each stream of each input. If a lane without state has no SSPs of a stream, that stream
        is left out, but each input keeps at least one stream. In a lane with state, the sources must be in the same
        order as in the offset log of the lane's folder.
        """
        found = []
        for node in self.plan.group.sources:
            streams = self.plan.lane.streams_of(stages.stream_of(self.plan.graph, node))
            if len(streams) > 1 and not self.plan.lane.stateful:
                held = {ssp.stream for ssp in self.plan.lane.ssps}
                streams = tuple(stream for stream in streams if stream in held) or streams[:1]
            taken = None if is_boundary(node) else self._intake(node)
            found += [self._source(node, taken, *each) for each in enumerate(streams)]
        return found

    def _source(self, node: Node, taken: decoding.RecordDecoding | None, number: int, stream: str) -> Source:
        broadcast = bool(node.args.get("broadcast"))
        held = self.plan.lane.broadcast if broadcast else self.plan.lane.ssps
        ssps = tuple(sorted({s.whole for s in held if s.stream == stream}, key=lambda s: s.order))
        job = self.plan.settings.job
        return Source(
            spark=self.plan.job.spark,
            system=self.plan.systems.named(self.plan.where[stages.stream_of(self.plan.graph, node)]),
            node=node,
            number=node.id + number * len(self.plan.graph.nodes),
            stream=stream,
            ssps=ssps,
            starting=self.starting,
            tasks=self.plan.lane.numbers,
            audience=BroadcastRouting(self.plan.lane, ssps, self._key_bytes(node)) if broadcast else None,
            own=None if broadcast else ownership.of_records(self.plan.lane, ssps, self._key_bytes(node)),
            intake=taken,
            columns=self._columns(node) if is_boundary(node) else self.plan.job.schemas[node.id],
            fail=job.on_error == _FAIL,
            timed=not is_boundary(node)
            and job.watermark_scope == "ssp"
            and node in self.plan.group.timed(self.plan.graph),
            bare=self.plan.group.stateful is not None,
        )

    def _key_bytes(self, node: Node) -> Column:
        """The bytes of a record's key, which determine the record's bucket. If a stateful lane reads a key with
        declared columns, the key is decoded and encoded again, so that it has the same bytes as in state. If
        the result is null, the original bytes are used.
        """
        key, declared = F.col("key"), node.args.get("key")
        if not self.plan.lane.stateful or not declared or is_boundary(node):
            return key
        schema = codec.parse_schema(declared)
        columns = codec.decode_key(key, schema)
        again = codec.encode_key([(c, field.dataType) for c, field in zip(columns, schema.fields, strict=True)])
        return F.coalesce(again, key)

    def _intake(self, node: Node) -> decoding.RecordDecoding:
        format_, keyed = self.plan.format_of(node.args["stream"]), self.plan.looks_for_null_keys
        whole = decoding.of_graph(node, format_, keyed)
        if sum(node in group.sources for group in self.plan._groups) > 1:
            return whole  # several groups read this stream, and their lanes must find the same records unreadable
        needed = self._needed(node, lambda: whole.rows(whole.opened(self._no_records), F.lit(0), "", fail=False))
        return whole if needed is None else whole.pruned(needed | {whole.time})

    def _needed(self, node: Node, rows: Callable[[], DataFrame]) -> Set[str] | None:
        """The result of :func:`pruning.needed`, determined only once for all lanes of a group. Spark takes half a
        second to determine this result.
        """
        key = (self.plan.group.name, node.id)
        if key not in self.plan.job.needs:
            self.plan.job.needs[key] = pruning.needed(self.plan.group, node, rows().schema, self.plan.bare_context)
        return self.plan.job.needs[key]

    def _columns(self, node: Node) -> StructType:
        """The columns of an intermediate stream that the lane needs."""
        whole = self.plan.job.schemas[node.id]
        parsed = codec.parse_json(F.col("value"), whole)
        needed = self._needed(node, lambda: self._no_records.select(parsed, meta_column.of_record(F.lit(0), node.id)))
        return codec.pruned(whole, needed)

    @property
    def _no_records(self) -> DataFrame:
        return self.plan.job.spark.createDataFrame([], SCHEMA)
