"""Writes dead letters: records that could not be processed. Python workers write them, and the driver publishes them
with their batch.

A dead letter is the record itself (bytes, headers and timestamp), with headers for the error and the record's origin. A
rejected row that doesn't come from a single record becomes a dead letter with the row as JSON, and without an origin.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self

import msgspec
import numpy as np
import pyarrow as pa
from pyspark import Accumulator, AccumulatorParam, SparkContext
from pyspark.sql import SparkSession

from anabranch.errors import GraphError
from anabranch.spark.functions import error_text
from anabranch.spark.query import aborting
from anabranch.spark.query.dead_letter_sizes import CUT, PREFIX, fitting
from anabranch.spark.query.records import batch_number, task_number
from anabranch.systems.contract import Records, System
from anabranch.systems.fetching import fetch
from anabranch.systems.output import Output, Target, Written
from anabranch.systems.records import RECORD_SCHEMA

_Derived = tuple[int, bytes | None, bytes, str]
"""A row that doesn't come from a single record: its offset (negative, or 0 if it comes from state), key, value and
error."""

STATE = -1
"""The source number in rows that a stateful operator has made."""
_HEADERS = RECORD_SCHEMA.get_field_index("headers")


@dataclass(frozen=True)
class Letters:
    """The stream to which the dead letters of another stream are written, and the output that writes them."""

    target: Target
    output: Output


@dataclass(frozen=True)
class WorkerDeadLetters:
    """What Python workers need to write dead letters. It is sent to them along with functions.

    ``streams`` maps the number of a source to its stream. For each stream, ``systems`` has the stream's system, and
    ``letters`` says where dead letters go. ``operators`` maps an operator's name in messages to its name in slots.
    ``slots`` has the names of the lane's slots. Spark tasks report to the driver through ``said``.

    Each slot must be written by one Spark task. If several Spark tasks may reject records of one slot, ``gathers`` is
    true. These Spark tasks then only report the records, and :func:`put` writes them.
    """

    job: str
    streams: Mapping[int, str]
    systems: Mapping[str, System]
    letters: Mapping[str, Letters]
    operators: Mapping[str, str]
    slots: tuple[str, ...]
    said: Accumulator[list[Any]]
    gathers: bool = False

    def rejects(self, operator: str, keep: bool) -> Rejects:
        """Collects the records that a Spark task of an operator rejects. Only counts them if ``keep`` is false."""
        return Rejects(self, operator, keep)

    def slot(self, operator: str, stream: str, partition: int) -> int:
        """The number of the slot for an operator's dead letters from a partition of ``stream``. If ``stream`` is '',
        the partition is a state partition. Raises GraphError if the lane has no such slot."""
        part = f"{self.systems[stream].name}/{stream}/{partition}" if stream else f"state-{partition}"
        name = f"{self.operators.get(operator, operator)}:{part}"
        if name not in self.slots:
            raise GraphError(
                f"{operator} has rejected a row whose origin is unknown",
                'set [job] on_error = "fail" or "drop"',
            )
        return self.slots.index(name)


@dataclass
class Rejects:
    """Collects the records that an operator rejects in one Spark task. :meth:`close` writes and reports them.

    Several threads may call :meth:`add` at the same time."""

    aside: WorkerDeadLetters
    operator: str
    keep: bool
    _errors: dict[tuple[int, int], dict[int, str]] = field(default_factory=dict)
    _derived: dict[tuple[int, int], list[_Derived]] = field(default_factory=dict)
    _count: int = 0
    _adding: threading.Lock = field(default_factory=threading.Lock)

    def add(self, origin: Mapping[str, Any], error: str, row: Mapping[str, Any] | pa.RecordBatch | None = None) -> None:
        """Reject a row, and thus the record from which the row comes. This never fails, whatever the row contains.

        Args:
            origin: the row's hidden column.
            row: the row, as a mapping or an Arrow batch of one row. Only needed if it doesn't come from one record.
        """
        error = error_text.bounded(error)
        with self._adding:
            self._count += 1
            if not self.keep:
                return
            place = origin["source"], origin["partition"]
            if origin["source"] == STATE or origin["offset"] < 0:
                value = error_text.as_json(_values(row) if isinstance(row, pa.RecordBatch) else row)
                self._derived.setdefault(place, []).append((origin["offset"], origin["key"], value, error))
            else:
                self._errors.setdefault(place, {})[origin["offset"]] = error

    def take(self, rejected: Rejected) -> None:
        """Add records that were rejected in another process."""
        place = rejected.source, rejected.partition
        self._count += len(rejected.errors) + len(rejected.derived)
        self._errors |= {place: rejected.errors} if rejected.errors else {}
        self._derived |= {place: rejected.derived} if rejected.derived else {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()

    def close(self) -> None:
        """Write the dead letters durably, or only report them if ``gathers`` is true. Also report what was dropped."""
        if not self._count:
            return
        if self.aside.gathers and self.keep:
            self._tell()
            return
        for (source, partition), errors in self._errors.items():
            stream = self.aside.streams[source]
            slot = self.aside.slot(self.operator, stream, partition)
            records = fetch(self.aside.systems[stream], stream, partition, sorted(errors))
            self._written(stream, partition, slot, min(errors), self.letters_of(records, stream, partition, errors))
        for (source, partition), made in self._derived.items():
            read = self.aside.streams.get(source, "")
            stream = read if read in self.aside.letters else min(self.aside.letters)
            slot = self.aside.slot(self.operator, read, partition)
            self._written(stream, 0, slot, _first(made), iter([self.derived_letters(made)]))
        if not self.keep:
            self.aside.said.add([_TaskReport(self.operator, 0, 0, dropped=self._count)])

    def _written(self, stream: str, partition: int, slot: int, first: int, letters: Iterator[pa.RecordBatch]) -> None:
        target = self.aside.letters[stream].target
        output = self.aside.letters[stream].output
        writer, limit = output.writer(task_number(), batch_number()), output.limit(target.stream)
        with aborting.on_error(writer):
            for batch in fitting(letters, limit):
                same = np.full(batch.num_rows, partition % target.partitions, np.int32)
                writer.write(target, slot, same, batch)
            written = writer.close()
        self.aside.said.add([_TaskReport(self.operator, slot, first, tuple(written))])

    def letters_of(
        self, records: Iterator[Records], stream: str, partition: int, errors: Mapping[int, str]
    ) -> Iterator[pa.RecordBatch]:
        """The dead letters for records of a partition. ``errors`` has the records' errors, by offset."""
        for offsets, batch in records:
            held = batch.column(_HEADERS).to_pylist()
            told = []
            for offset, headers in zip(offsets.tolist(), held, strict=True):
                at = {"stream": stream, "partition": str(partition), "offset": str(offset)}
                ours = self._headers(errors[offset], at)
                names = {header["key"] for header in ours} | {CUT}
                # A dead letter may be read and rejected again. The number of its headers must not grow each time.
                kept = [header for header in headers or () if header["key"] not in names]
                told.append([*kept, *ours])
            yield batch.set_column(_HEADERS, "headers", pa.array(told, RECORD_SCHEMA.field("headers").type))

    def _tell(self) -> None:
        for source, partition in {**self._errors, **self._derived}:
            place = source, partition
            errors, derived = self._errors.get(place, {}), self._derived.get(place, [])
            self.aside.said.add([Rejected(self.operator, source, partition, errors, derived, _first(derived))])

    def derived_letters(self, several: list[_Derived]) -> pa.RecordBatch:
        """The dead letters for rows that don't come from a single record."""
        now = time.time_ns() // 1000
        rows = [
            {"key": key, "value": value, "headers": self._headers(error, {}), "timestamp": now}
            for _, key, value, error in several
        ]
        return pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA)

    def _headers(self, error: str, at: Mapping[str, str]) -> list[dict[str, Any]]:
        said = {"error": error, "operator": self.operator, **at, "job": self.aside.job}
        return [{"key": f"{PREFIX}{name}", "value": error_text.bounded(text).encode()} for name, text in said.items()]


def _values(row: pa.RecordBatch) -> dict[str, Any]:
    """The columns of a row as Python values, or as text if Python has no such type."""
    found = {}
    for name, column in zip(row.schema.names, row.columns, strict=True):
        try:
            (found[name],) = column.to_pylist(maps_as_pydicts=None)
        except Exception as error:
            found[name] = f"({error_text.described(error)})"
    return found


def _first(derived: list[_Derived]) -> int:
    """A number for a Spark task's rejected rows that don't come from a single record. Each Spark task has a different
    number, which is the same in a replay. The number is negative, unlike an offset.
    """
    least = min((offset for offset, *_ in derived), default=0)
    return least if least < 0 else -1 - task_number()


class Rejected(msgspec.Struct, frozen=True):
    """The records of a partition that an operator has rejected in one Spark task; see :class:`Rejects`."""

    operator: str
    source: int
    partition: int
    errors: dict[int, str]
    derived: list[_Derived]
    first: int


class _TaskReport(msgspec.Struct, frozen=True):
    """The report of a Spark task to the driver. If the Spark task is repeated, only its last report of written dead
    letters counts. Dropped records may be counted again.
    """

    operator: str
    slot: int
    first: int
    written: tuple[Written, ...] = ()
    dropped: int = 0


class _TaskReportsParam(AccumulatorParam[list[Any]]):
    def zero(self, value: list[Any]) -> list[Any]:
        return []

    def addInPlace(self, value1: list[Any], value2: list[Any]) -> list[Any]:
        return [*value1, *value2]


def listening(context: SparkContext) -> Accumulator[list[Any]]:
    """An accumulator for the reports of Spark tasks. The driver receives each report when the Spark task has ended."""
    said: Accumulator[list[Any]] = context.accumulator([], _TaskReportsParam())
    return said


@dataclass(frozen=True)
class TaskReports:
    """What Spark tasks have reported: the dead letters ``written``, how many records were ``dropped``, and in ``aside``
    the number of dead letters, by operator and by the SSP or state partition of the slot."""

    written: list[Written]
    dropped: int
    aside: Mapping[tuple[str, str], int]


def heard(aside: WorkerDeadLetters) -> TaskReports:
    """What Spark tasks have reported since the last call of this function."""
    said = aside.said.value
    aside.said.value = []
    last = {(each.operator, each.slot, each.first): each for each in said if each.written}
    several: Counter[tuple[str, str]] = Counter()
    for each in last.values():
        part = aside.slots[each.slot].partition(":")[2]
        several[each.operator, part] += sum(written.rows for written in each.written)
    return TaskReports(
        [written for each in last.values() for written in each.written], sum(each.dropped for each in said), several
    )


def put(spark: SparkSession, aside: WorkerDeadLetters) -> None:
    """Write the records that Spark tasks have reported since the last call. Each slot is written by one Spark task."""
    said: list[Any] = aside.said.value
    told = [each for each in said if isinstance(each, Rejected)]
    if not told:
        return
    aside.said.value = [each for each in said if not isinstance(each, Rejected)]
    whole = [(msgspec.msgpack.encode(each),) for each in gathered(aside, told)]
    frame = spark.createDataFrame(whole, "rejected binary")
    frame.mapInArrow(_putting(replace(aside, gathers=False)), "nothing int").collect()


def gathered(aside: WorkerDeadLetters, told: Iterable[Rejected]) -> list[Rejected]:
    """The reported records by slot. Each record is included only once, even if it was reported twice."""
    errors: dict[tuple[str, int, int], dict[int, str]] = {}
    derived: dict[tuple[str, int, int], dict[int, list[_Derived]]] = {}
    sources = {stream: source for source, stream in aside.streams.items()}
    for each in told:
        source = sources[aside.streams[each.source]] if each.source in aside.streams else each.source
        place = each.operator, source, each.partition
        errors.setdefault(place, {}).update(each.errors)
        derived.setdefault(place, {}).update({each.first: each.derived} if each.derived else {})
    found = []
    for place, its in errors.items():
        rows = [row for first in sorted(derived[place]) for row in derived[place][first]]
        found.append(Rejected(*place, its, rows, _first(rows)))
    return found


def _putting(aside: WorkerDeadLetters) -> Any:
    """A function for ``mapInArrow`` that writes rejected records, one slot's in each row, and returns no rows."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for text in batch.column("rejected").to_pylist():
                found = msgspec.msgpack.decode(text, type=Rejected)
                with aside.rejects(found.operator, keep=True) as rejects:
                    rejects.take(found)
        yield from ()

    return run


def looked_through(aside: WorkerDeadLetters, operator: str, dropping: Collection[str]) -> Any:
    """A function for ``mapInArrow`` that rejects records, and returns no rows. Its input rows have the columns source,
    partition, offset, fault and reason. Records with a fault in ``dropping`` are only counted.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with aside.rejects(operator, keep=True) as kept, aside.rejects(operator, keep=False) as dropped:
            for batch in batches:
                for row in batch.to_pylist():
                    rejects = dropped if row["fault"] in dropping else kept
                    rejects.add(row, row["reason"] or row["fault"])
            yield from ()

    return run
