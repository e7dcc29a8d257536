"""Writes a batch's output rows into a system, in Python workers. The rows are divided by slot, output and partition."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from anabranch.errors import OperatorError
from anabranch.model.hashing import partitions_for
from anabranch.spark.functions.wrap import Rejecting
from anabranch.spark.query import aborting
from anabranch.spark.query.dead_letters import Rejects
from anabranch.spark.query.records import task_number
from anabranch.systems import headers
from anabranch.systems.output import Numbers, Output, Target, Written, read_written
from anabranch.systems.records import RECORD_SCHEMA
from anabranch.task_progress import counts, meters
from anabranch.task_progress.counts import ReportAddress
from anabranch.task_progress.meters import Meter, Tally

SLOT, NO_SLOT = "slot", -1
_WRITTEN = pa.schema([("written", pa.binary())])
_WRITTEN_DDL = "written binary"


@dataclass(frozen=True)
class Refusal:
    """Rejects an output's rows that must not reach the next stage: rows without a key and, if rows need an event time,
    rows without an event time. (Rows without a required event time were encoded with a null key.)

    Attributes:
        operator: the label of the operator that writes the output.
        keyless: returns the object that receives the rows that lack only a key; None if such a row fails the lane.
        untimed: returns the object that receives the rows that lack a required event time; None if such a row fails the
            lane.
        time: the event-time column; empty if rows need no event time.
        inputs: the streams by source number, for error messages.
    """

    operator: str
    keyless: Rejecting | None
    untimed: Rejecting | None = None
    time: str = ""
    inputs: Mapping[int, str] = field(default_factory=dict)

    def taken_out(self, rows: pa.RecordBatch, rejects: dict[Rejecting, Rejects]) -> pa.RecordBatch:
        """The rows with a key. The other rows go to the collectors in ``rejects``; missing collectors are added there.

        Raises:
            OperatorError: there is a row to reject, and such rows fail the lane.
        """
        keys = rows.column("key")
        if not keys.null_count:
            return rows
        lost = rows.filter(pc.is_null(keys)).select(["source", "partition", "origin", "value"]).to_pylist()
        for row in lost:
            values = _decoded(row["value"])
            is_untimed = bool(self.time) and values.get(self.time) is None
            what, setting = ("event time", "on_error") if is_untimed else ("key", "on_null_key")
            by = self.untimed if is_untimed else self.keyless
            if by is None:
                stream = self.inputs.get(row["source"])  # None if the row is from state
                where = (
                    "" if stream is None else f", of partition {row['partition']} at offset {row['origin']} of {stream}"
                )
                raise OperatorError(
                    f"the {what} is null in a row that reached {self.operator}{where}",
                    f'filter such rows before, or set [job] {setting} = "dead-letter" or "drop"',
                )
            if by not in rejects:
                rejects[by] = by(self.operator)
            origin = {"source": row["source"], "partition": row["partition"], "offset": row["origin"], "key": None}
            rejects[by].add(origin, f"the {what} is null", values)
        return rows.filter(pc.is_valid(keys))


def _decoded(value: bytes | None) -> dict[str, Any]:
    """The row that anabranch encoded as ``value``, or a row with only the column ``value`` if decoding fails."""
    try:
        found = msgspec.json.decode(value or b"")
    except (msgspec.MsgspecError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {"value": value}


def writing(
    rows: DataFrame,
    output: Output,
    targets: Mapping[int, Target],
    batch: int,
    refusals: Mapping[int, Refusal] = MappingProxyType({}),
    line: ReportAddress | None = None,
) -> DataFrame:
    """A DataFrame that, when it is computed, durably writes the rows of a batch. Pass it to :func:`write`.

    Args:
        rows: the encoded rows; the column ``output`` has the number of each row's output.
        output: creates the writer of each Spark task.
        targets: the stream that each output writes to, by the output's number.
        batch: the batch's number.
        refusals: the rules by which outputs reject rows, by the output's number. An output without a rule accepts
            all rows.
        line: where workers report their progress; None if they don't.
    """
    now = time.time_ns() // 1000  # read once, because executors' clocks may differ
    return rows.mapInArrow(_writing(output, dict(targets), batch, dict(refusals), now, line), _WRITTEN_DDL)


def write(rows: DataFrame) -> list[Written]:
    """Run a DataFrame that :func:`writing` has made, and return what was written."""
    return [read_written(bytes(row["written"])) for row in rows.collect()]


def _writing(
    output: Output,
    targets: dict[int, Target],
    number: int,
    refusals: dict[int, Refusal],
    now: int,
    line: ReportAddress | None,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        meter = meters.meter(line, counts.PUBLISHING)
        everything = meter.tally(0, 0, 0)
        with meter.on(everything, 0):
            writer = output.writer(task_number(), number)
        rejects: dict[int, dict[Rejecting, Rejects]] = {}
        with aborting.on_error(writer), closing(meter):
            for batch in batches:
                for slot, of_slot in _parted(batch, SLOT):
                    for sink, all_rows in _parted(of_slot, "output"):
                        with meter.on(*_counted(meter, slot if SLOT in batch.schema.names else NO_SLOT, all_rows)):
                            refusal, its = refusals.get(sink), rejects.setdefault(sink, {})
                            rows = all_rows if refusal is None else refusal.taken_out(all_rows, its)
                            target = targets[sink]
                            writer.write(target, slot, partitions(rows, target.partitions), _records(rows, now))
            for rejected in (each for its in rejects.values() for each in its.values()):
                rejected.close()
            with meter.on(everything, 0):
                written = writer.close()
        encoded = pa.array([msgspec.msgpack.encode(each) for each in written], pa.binary())
        yield pa.RecordBatch.from_arrays([encoded], schema=_WRITTEN)

    return run


def _counted(meter: Meter, slot: int, rows: pa.RecordBatch) -> tuple[Tally, int, int | None]:
    """Three values: the counter for a slot's rows, the number of ``rows``, and the offset of the last row's record. If
    there are no rows, the offset is None."""
    last = rows.column("origin")[rows.num_rows - 1].as_py() if rows.num_rows else None
    return meter.tally(0, 0, slot), rows.num_rows, last


def _parted(batch: pa.RecordBatch, column: str) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yields each value of a column, in order, with the rows that have this value. If the batch has no such column,
    yields 0 with all rows.
    """
    at = batch.schema.get_field_index(column)
    if at < 0:
        yield 0, batch
        return
    numbers = batch.column(at).to_numpy(zero_copy_only=False)
    for number in np.unique(numbers):
        mine = np.flatnonzero(numbers == number)
        yield int(number), batch if len(mine) == batch.num_rows else batch.take(pa.array(mine))


def _records(rows: pa.RecordBatch, now: int) -> pa.RecordBatch:
    """The rows as records. A row without a timestamp gets ``now``, in microseconds since 1970."""
    at = rows.schema.get_field_index("headers")
    unpacked = rows.set_column(at, "headers", headers.unpack(rows.column(at)))
    unpacked = _timed(unpacked, now)
    columns = [unpacked.column(field.name).cast(field.type) for field in RECORD_SCHEMA]
    return pa.RecordBatch.from_arrays(columns, schema=RECORD_SCHEMA)


def _timed(rows: pa.RecordBatch, now: int) -> pa.RecordBatch:
    at = rows.schema.get_field_index("timestamp")
    times = rows.column(at)
    if not times.null_count:
        return rows
    return rows.set_column(at, "timestamp", pc.fill_null(times, pa.scalar(now, pa.int64()).cast(times.type)))


def partitions(rows: pa.RecordBatch, count: int) -> Numbers:
    """The partition to which each row is written. The partition is computed from the murmur2 hash of the row's key. If
    the key is null, the partition is computed from the offset of the row's record. So the partition is the same in a
    replay.
    """
    if count == 1:
        return np.zeros(rows.num_rows, np.int32)
    keys = rows.column("key")
    found = np.asarray(partitions_for(keys, count))
    if keys.null_count:
        origin = rows.column("origin").to_numpy(zero_copy_only=False)
        found = np.where(found < 0, origin % count, found).astype(np.int32)
    return found
