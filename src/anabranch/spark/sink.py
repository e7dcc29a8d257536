"""Writes a batch's output rows into the embedded log: segments in Python workers, then entries by the driver."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import DataFrame

from anabranch.errors import OperatorError
from anabranch.event_time.control import Control
from anabranch.model.hashing import partitions_for
from anabranch.spark.dead_letters import Rejects
from anabranch.spark.functions import Rejecting
from anabranch.spark.targets import Refs, Target
from anabranch.systems.embedded import RECORD_SCHEMA, LaneWriter, SegmentRef, SegmentWriter, headers

_REFS = pa.schema([("output", pa.int32()), ("ref", pa.binary())])
_REFS_DDL = "output int, ref binary"


@dataclass(frozen=True)
class Keyless:
    """What becomes of rows without a key that go into an intermediate stream: they are rejected.

    ``outputs``: the label of the operator, by the number of its output; ``rejecting`` None: they fail the lane.
    """

    outputs: dict[int, str]
    rejecting: Rejecting | None

    def taken_out(self, number: int, rows: pa.RecordBatch, rejects: dict[int, Rejects]) -> pa.RecordBatch:
        """The rows of an output that have a key."""
        keys = rows.column("key")
        if number not in self.outputs or not keys.null_count:
            return rows
        if self.rejecting is None:
            raise OperatorError(
                f"the key is null in a row that reached {self.outputs[number]}",
                'filter such rows before, or set [job] on_null_key = "dead-letter" or "drop"',
            )
        if number not in rejects:
            rejects[number] = self.rejecting(self.outputs[number])
        lost = rows.filter(pc.is_null(keys)).select(["source", "partition", "origin", "value"]).to_pylist()
        for row in lost:
            origin = {"source": row["source"], "partition": row["partition"], "offset": row["origin"], "key": None}
            rejects[number].add(origin, "the key is null", msgspec.json.decode(row["value"]))
        return rows.filter(pc.is_valid(keys))


def write_segments(frame: DataFrame, root: str, targets: dict[int, Target], keyless: Keyless | None = None) -> Refs:
    """Write all output rows into durable segments that no entry names yet; returns them by stream and partition."""
    rows = frame.mapInArrow(_segments(root, targets, keyless), _REFS_DDL).collect()
    refs: Refs = {}
    for row in rows:
        ref = msgspec.msgpack.decode(bytes(row["ref"]), type=SegmentRef)
        refs.setdefault((targets[row["output"]].stream, ref.partition), []).append(ref)
    return refs


def publish(writer: LaneWriter, refs: Refs, batch: int, controls: Mapping[Target, Control] | None = None) -> None:
    """Name the segments in their partitions' manifests: each partition once, a replay changes nothing.

    ``controls``: what to tell the readers of intermediate streams, in all of their partitions.
    """
    told = {(t.stream, p): c.to_builtins() for t, c in (controls or {}).items() for p in range(t.partitions)}
    for stream, partition in sorted({*refs, *told}):
        place = (stream, partition)
        writer.publish(stream, partition, batch, refs.get(place, []), told.get(place))


def _segments(
    root: str, targets: dict[int, Target], keyless: Keyless | None
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        slot = context.partitionId() if context is not None else 0
        writers: dict[tuple[int, int], SegmentWriter] = {}
        rejects: dict[int, Rejects] = {}
        try:
            for batch in batches:
                for number, all_rows in _by_output(batch):
                    rows = all_rows if keyless is None else keyless.taken_out(number, all_rows, rejects)
                    for partition, part in _by_partition(rows, targets[number].partitions):
                        if (number, partition) not in writers:
                            stream = targets[number].stream
                            writers[number, partition] = SegmentWriter(root, stream, partition, slot)
                        writers[number, partition].write(part)
            for rejected in rejects.values():
                rejected.close()
            closed = [(number, writer.close()) for (number, _), writer in writers.items()]
        except BaseException:
            for writer in writers.values():
                writer.abort()
            raise
        outputs = pa.array([number for number, _ in closed], pa.int32())
        encoded = pa.array([msgspec.msgpack.encode(ref) for _, ref in closed], pa.binary())
        yield pa.RecordBatch.from_arrays([outputs, encoded], schema=_REFS)

    return run


def _by_output(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    numbers = batch.column("output").to_numpy(zero_copy_only=False)
    for number in np.unique(numbers):
        mine = np.flatnonzero(numbers == number)
        yield int(number), batch if len(mine) == batch.num_rows else batch.take(pa.array(mine))


def _by_partition(rows: pa.RecordBatch, count: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Rows by murmur2 of their key; those without a key by the offset they come from, so that a replay agrees."""
    at = rows.schema.get_field_index("headers")
    unpacked = rows.set_column(at, "headers", headers.unpack(rows.column(at)))
    columns = [unpacked.column(field.name).cast(field.type) for field in RECORD_SCHEMA]
    records = pa.RecordBatch.from_arrays(columns, schema=RECORD_SCHEMA)
    if count == 1:
        yield 0, records
        return
    keys = rows.column("key")
    partitions = np.asarray(partitions_for(keys, count))
    if keys.null_count:
        origin = rows.column("origin").to_numpy(zero_copy_only=False)
        partitions = np.where(partitions < 0, origin % count, partitions)
    order = np.argsort(partitions, kind="stable")
    ordered = records.take(pa.array(order))
    edges = np.searchsorted(partitions[order], np.arange(count + 1))
    for partition in range(count):
        start, end = int(edges[partition]), int(edges[partition + 1])
        if end > start:
            yield partition, ordered.slice(start, end - start)
