"""Records that could not be processed: Python workers put them aside, the driver publishes them with their batch.

A dead letter is the record itself, bytes, headers and timestamp, with headers that say what happened.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import msgspec
import numpy as np
import pyarrow as pa
from pyspark import Accumulator, AccumulatorParam, SparkContext

from anabranch.errors import GraphError
from anabranch.spark.faults import Explain
from anabranch.spark.records import batch_number, task_number
from anabranch.systems.contract import Records, System
from anabranch.systems.fetching import fetch
from anabranch.systems.output import Output, Target, Written
from anabranch.systems.records import RECORD_SCHEMA

PREFIX = "anabranch."
"""What the names of our headers begin with: error, operator, stream, partition, offset, job."""

STATE = -1
"""The source of a row that an operator with state has made."""
_HEADERS = RECORD_SCHEMA.get_field_index("headers")


@dataclass(frozen=True)
class Letters:
    """Where the dead letters of one stream go, and how they get there."""

    target: Target
    output: Output


@dataclass(frozen=True)
class Aside:
    """What workers need to put records aside. Travels with functions.

    ``streams``: stream by the id of the node that reads it; ``systems``: of those streams; ``letters``: by stream.
    ``operators``: the name of an operator, by what messages call it; ``slots``: the names of the lane's slots.
    """

    job: str
    streams: Mapping[int, str]
    systems: Mapping[str, System]
    letters: Mapping[str, Letters]
    operators: Mapping[str, str]
    slots: tuple[str, ...]
    said: Accumulator[list[Any]]

    def rejects(self, operator: str, keep: bool) -> Rejects:
        """For one Spark task of one operator. ``keep`` false: records are counted and dropped."""
        return Rejects(self, operator, keep)

    def slot(self, operator: str, stream: str, partition: int) -> int:
        """The number of the slot for what an operator rejects of a partition; of a state partition for stream ''."""
        part = f"{self.systems[stream].name}/{stream}/{partition}" if stream else f"state-{partition}"
        name = f"{self.operators.get(operator, operator)}:{part}"
        if name not in self.slots:
            raise GraphError(
                f"{operator} has put a row aside of which nobody knows where it comes from",
                'set [job] on_error = "fail" or "drop"',
            )
        return self.slots.index(name)


@dataclass
class Rejects:
    """The records that an operator has rejected in one Spark task; what it adds up to is told when it is closed.

    Threads may add at the same time.
    """

    aside: Aside
    operator: str
    keep: bool
    _errors: dict[tuple[int, int], dict[int, str]] = field(default_factory=dict)
    _derived: dict[tuple[int, int], list[tuple[bytes | None, bytes, str]]] = field(default_factory=dict)
    _count: int = 0
    _adding: threading.Lock = field(default_factory=threading.Lock)

    def add(self, origin: Mapping[str, Any], error: str, row: Mapping[str, Any] | None = None) -> None:
        """Reject what came of one record. ``origin``: the row's hidden column.

        ``row`` stands for a row that comes of no single record.
        """
        with self._adding:
            self._count += 1
            if not self.keep:
                return
            place = origin["source"], origin["partition"]
            if origin["source"] == STATE or origin["offset"] < 0:
                value = json.dumps(row, default=str).encode() if row is not None else b"null"
                self._derived.setdefault(place, []).append((origin["key"], value, error))
            else:
                self._errors.setdefault(place, {})[origin["offset"]] = error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()

    def close(self) -> None:
        """Write them durably, and tell the driver what was written."""
        if not self._count:
            return
        for (source, partition), errors in self._errors.items():
            stream = self.aside.streams[source]
            slot = self.aside.slot(self.operator, stream, partition)
            records = fetch(self.aside.systems[stream], stream, partition, sorted(errors))
            self._written(stream, partition, slot, min(errors), self._letters(records, stream, partition, errors))
        for (source, partition), made in self._derived.items():
            read = self.aside.streams.get(source, "")
            stream = read if read in self.aside.letters else min(self.aside.letters)
            slot = self.aside.slot(self.operator, read, partition)
            self._written(stream, 0, slot, -1 - slot, iter([self._made(made)]))
        if not self.keep:
            self.aside.said.add([_Said(self.operator, 0, 0, dropped=self._count)])

    def _written(self, stream: str, partition: int, slot: int, first: int, letters: Iterator[pa.RecordBatch]) -> None:
        target = self.aside.letters[stream].target
        writer = self.aside.letters[stream].output.writer(task_number(), batch_number())
        try:
            for batch in letters:
                same = np.full(batch.num_rows, partition % target.partitions, np.int32)
                writer.write(target, slot, same, batch)
            written = writer.close()
        except BaseException:
            writer.abort()
            raise
        self.aside.said.add([_Said(self.operator, slot, first, tuple(written))])

    def _letters(
        self, records: Iterator[Records], stream: str, partition: int, errors: Mapping[int, str]
    ) -> Iterator[pa.RecordBatch]:
        for offsets, batch in records:
            held = batch.column(_HEADERS).to_pylist()
            told = []
            for offset, headers in zip(offsets.tolist(), held, strict=True):
                at = {"stream": stream, "partition": str(partition), "offset": str(offset)}
                told.append([*(headers or ()), *self._headers(errors[offset], at)])
            yield batch.set_column(_HEADERS, "headers", pa.array(told, RECORD_SCHEMA.field("headers").type))

    def _made(self, several: list[tuple[bytes | None, bytes, str]]) -> pa.RecordBatch:
        now = time.time_ns() // 1000
        rows = [
            {"key": key, "value": value, "headers": self._headers(error, {}), "timestamp": now}
            for key, value, error in several
        ]
        return pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA)

    def _headers(self, error: str, at: Mapping[str, str]) -> list[dict[str, Any]]:
        said = {"error": error, "operator": self.operator, **at, "job": self.aside.job}
        return [{"key": f"{PREFIX}{name}", "value": text.encode()} for name, text in said.items()]


class _Said(msgspec.Struct, frozen=True):
    """What a task tells the driver: of a replayed task, the last word counts."""

    operator: str
    slot: int
    first: int
    written: tuple[Written, ...] = ()
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


def heard(aside: Aside) -> tuple[list[Written], int]:
    """What was said since the last call: the dead letters that were written, and how many records were dropped."""
    said = aside.said.value
    aside.said.value = []
    last = {(each.operator, each.slot, each.first): each for each in said if each.written}
    return [written for each in last.values() for written in each.written], sum(each.dropped for each in said)


def looked_through(aside: Aside, operator: str, dropping: Collection[str], explain: Explain) -> Any:
    """For ``mapInArrow`` over rows of (source, partition, offset, fault): rejects each record, gives nothing.

    ``dropping``: the faults whose records are only counted; ``explain``: see :func:`faults.explaining`.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with aside.rejects(operator, keep=True) as kept, aside.rejects(operator, keep=False) as dropped:
            for batch in batches:
                for row in _with_records(aside, batch):
                    fault = row["fault"]
                    rejects = dropped if fault in dropping else kept
                    rejects.add(row, explain(fault, row["key"], row["value"]))
            yield from ()

    return run


def _with_records(aside: Aside, batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    faults = batch.to_pylist()
    for source, partition in sorted({(row["source"], row["partition"]) for row in faults}):
        mine = sorted(
            (row for row in faults if (row["source"], row["partition"]) == (source, partition)),
            key=lambda row: int(row["offset"]),
        )
        stream = aside.streams[source]
        records = fetch(aside.systems[stream], stream, partition, [row["offset"] for row in mine])
        found = (record for _, each in records for record in each.select(["key", "value"]).to_pylist())
        for row, record in zip(mine, found, strict=True):
            yield {**row, **record}
