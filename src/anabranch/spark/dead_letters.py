"""Records that could not be processed: Python workers put them aside, the driver publishes them with their batch.

A dead letter is the record itself, bytes, headers and timestamp, with headers that say what happened.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import msgspec
import pyarrow as pa
from pyspark import Accumulator, AccumulatorParam, SparkContext, TaskContext

from anabranch.spark.faults import Explain
from anabranch.spark.targets import Refs, Target
from anabranch.systems.embedded import RECORD_SCHEMA, Log, SegmentRef, SegmentWriter, fetch

PREFIX = "anabranch."
"""What the names of our headers begin with: error, operator, stream, partition, offset, job."""

DERIVED = -1
"""The source of a row that comes of no single record."""
_HEADERS = RECORD_SCHEMA.get_field_index("headers")


@dataclass(frozen=True)
class Aside:
    """What workers need to put records aside. Travels with functions.

    ``streams``: stream by the id of the node that reads it; ``targets``: where a stream's dead letters go.
    """

    root: str
    job: str
    streams: Mapping[int, str]
    targets: Mapping[str, Target]
    said: Accumulator[list[Any]]

    def rejects(self, operator: str, keep: bool) -> Rejects:
        """For one Spark task of one operator. ``keep`` false: records are counted and dropped."""
        return Rejects(self, operator, keep)


@dataclass
class Rejects:
    """The records that an operator has rejected in one Spark task; what it adds up to is told when it is closed."""

    aside: Aside
    operator: str
    keep: bool
    _errors: dict[tuple[int, int], dict[int, str]] = field(default_factory=dict)
    _derived: list[tuple[bytes | None, bytes, str]] = field(default_factory=list)
    _count: int = 0

    def add(self, origin: Mapping[str, Any], error: str, row: Mapping[str, Any] | None = None) -> None:
        """Reject what came of one record. ``origin``: the row's hidden column.

        ``row`` stands for a row that an operator with state has made: it comes of no single record.
        """
        self._count += 1
        if not self.keep:
            return
        if origin["source"] == DERIVED:
            value = json.dumps(row, default=str).encode() if row is not None else b"null"
            self._derived.append((origin["key"], value, error))
        else:
            self._errors.setdefault((origin["source"], origin["partition"]), {})[origin["offset"]] = error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()

    def close(self) -> None:
        """Write them as segments that no manifest names yet, and tell the driver where they are."""
        if not self._count:
            return
        log = Log(self.aside.root)
        for (source, partition), errors in self._errors.items():
            stream = self.aside.streams[source]
            offsets = sorted(errors)
            records = fetch(log, stream, partition, offsets)
            self._written(stream, partition, offsets[0], self._letters(records, stream, partition, errors))
        if self._derived:
            stream = min(self.aside.targets)
            self._written(stream, 0, DERIVED, iter([self._made()]))
        if not self.keep:
            self.aside.said.add([_Said(self.operator, "", 0, 0, dropped=self._count)])

    def _written(self, stream: str, partition: int, first: int, letters: Iterator[pa.RecordBatch]) -> None:
        target = self.aside.targets[stream]
        context = TaskContext.get()
        slot = context.partitionId() if context is not None else 0
        writer = SegmentWriter(self.aside.root, target.stream, partition % target.partitions, slot)
        try:
            for batch in letters:
                writer.write(batch)
            ref = writer.close()
        except BaseException:
            writer.abort()
            raise
        self.aside.said.add([_Said(self.operator, target.stream, partition, first, msgspec.msgpack.encode(ref))])

    def _letters(
        self, records: Iterator[pa.RecordBatch], stream: str, partition: int, errors: Mapping[int, str]
    ) -> Iterator[pa.RecordBatch]:
        offsets = iter(sorted(errors))
        for batch in records:
            held = batch.column(_HEADERS).to_pylist()
            told = []
            for headers in held:
                offset = next(offsets)
                at = {"stream": stream, "partition": str(partition), "offset": str(offset)}
                told.append([*(headers or ()), *self._headers(errors[offset], at)])
            yield batch.set_column(_HEADERS, "headers", pa.array(told, RECORD_SCHEMA.field("headers").type))

    def _made(self) -> pa.RecordBatch:
        now = Log(self.aside.root).now()
        rows = [
            {"key": key, "value": value, "headers": self._headers(error, {}), "timestamp": now * 1000}
            for key, value, error in self._derived
        ]
        return pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA)

    def _headers(self, error: str, at: Mapping[str, str]) -> list[dict[str, Any]]:
        said = {"error": error, "operator": self.operator, **at, "job": self.aside.job}
        return [{"key": f"{PREFIX}{name}", "value": text.encode()} for name, text in said.items()]


class _Said(msgspec.Struct, frozen=True):
    """What a task tells the driver: of a replayed task, the last word counts. ``ref`` is an encoded SegmentRef."""

    operator: str
    stream: str
    partition: int
    first: int
    ref: bytes = b""
    dropped: int = 0


class _Sayings(AccumulatorParam[list[Any]]):
    def zero(self, value: list[Any]) -> list[Any]:
        return []

    def addInPlace(self, value1: list[Any], value2: list[Any]) -> list[Any]:
        return [*value1, *value2]


def listening(context: SparkContext) -> Accumulator[list[Any]]:
    """What tasks have said, heard by the driver when they have ended."""
    said: Accumulator[list[Any]] = context.accumulator([], _Sayings())
    return said


def heard(aside: Aside) -> tuple[Refs, int]:
    """What was said since the last call: the segments with dead letters, and how many records were dropped."""
    said = aside.said.value
    aside.said.value = []
    last = {(each.operator, each.stream, each.partition, each.first): each for each in said if each.ref}
    refs: Refs = {}
    for each in last.values():
        ref = msgspec.msgpack.decode(each.ref, type=SegmentRef)
        refs.setdefault((each.stream, ref.partition), []).append(ref)
    return refs, sum(each.dropped for each in said)


def looked_through(aside: Aside, operator: str, dropping: Collection[str], explain: Explain) -> Any:
    """For ``mapInArrow`` over rows of (source, partition, offset, fault): rejects each record, gives nothing.

    ``dropping``: the faults whose records are only counted; ``explain``: see :func:`faults.explaining`.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        log = Log(aside.root)
        with aside.rejects(operator, keep=True) as kept, aside.rejects(operator, keep=False) as dropped:
            for batch in batches:
                for row in _with_records(log, aside, batch):
                    fault = row["fault"]
                    rejects = dropped if fault in dropping else kept
                    rejects.add(row, explain(fault, row["key"], row["value"]))
            yield from ()

    return run


def _with_records(log: Log, aside: Aside, batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    faults = batch.to_pylist()
    for source, partition in sorted({(row["source"], row["partition"]) for row in faults}):
        mine = sorted(
            (row for row in faults if (row["source"], row["partition"]) == (source, partition)),
            key=lambda row: int(row["offset"]),
        )
        records = fetch(log, aside.streams[source], partition, [row["offset"] for row in mine])
        found = (record for each in records for record in each.select(["key", "value"]).to_pylist())
        for row, record in zip(mine, found, strict=True):
            yield {**row, **record}
