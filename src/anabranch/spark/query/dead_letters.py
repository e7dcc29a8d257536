"""Collects the records that operators reject, and writes them as dead letters. Records that are dropped are only
counted. Python workers write dead letters as a part of the batch's output.

A dead letter is the record itself (key, value, headers and timestamp), cut if it is too large. Additional headers
contain the error, the operator, the record's origin and the job. If a rejected row doesn't come from a single record,
the dead letter's value is the row as JSON, and the headers for the origin are missing.
"""

from __future__ import annotations

import hashlib
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
"""A row that doesn't come from a single record: the row's offset, key, value and error. The offset is negative, or 0 if
the row comes from state."""

STATE = -1
"""The source number in rows that a stateful operator has made."""
_HEADERS = RECORD_SCHEMA.get_field_index("headers")


@dataclass(frozen=True)
class Letters:
    """The stream that gets the dead letters of another stream, and the output that writes them there."""

    target: Target
    output: Output


@dataclass(frozen=True)
class WorkerDeadLetters:
    """Everything that Python workers need to write dead letters.

    Attributes:
        streams: the stream of each source, by the source's number.
        systems: the system of each stream.
        letters: where dead letters go, by the stream from which the records come. The alphabetically first entry also
            applies to rows from state, and to streams without an entry.
        operators: each operator's name in slots, by the operator's label.
        slots: the names of the lane's slots; a slot's number is its index.
        said: the accumulator through which Spark tasks report to the driver.
        gathers: whether Spark tasks only report the records that they reject, and :func:`put` later writes the dead
            letters. This is necessary if several Spark tasks may reject the same record of a broadcast input. It is
            also necessary if several Spark tasks may reject records of one slot, which only one Spark task can write.
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
        """An object that collects the records that an operator rejects in one Spark task, or only counts them if
        ``keep`` is false."""
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
    """Collects the records that an operator rejects in one Spark task, or only counts them if ``keep`` is false.
    :meth:`close` writes the dead letters or, if ``aside.gathers`` is true, only reports the records to the driver.

    Several threads may call :meth:`add` at the same time."""

    aside: WorkerDeadLetters
    operator: str
    keep: bool
    _errors: dict[tuple[int, int], dict[int, str]] = field(default_factory=dict)
    _derived: dict[tuple[int, int], list[_Derived]] = field(default_factory=dict)
    _count: int = 0
    _adding: threading.Lock = field(default_factory=threading.Lock)

    def add(self, origin: Mapping[str, Any], error: str, row: Mapping[str, Any] | pa.RecordBatch | None = None) -> None:
        """Reject a row, and thus its record. This never fails, whatever the row contains.

        Args:
            origin: the source, partition and offset from the row's hidden column. The key is needed as well if the row
                doesn't come from a single record.
            row: the row, as a mapping or an Arrow batch of one row. Only needed if the row doesn't come from a single
                record.
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
        """Write the dead letters durably, and report what was written. If ``aside.gathers`` is true, only report the
        rejected records. In either case, also report how many records were dropped."""
        if self._count and not self.keep:
            self.aside.said.add([_TaskReport(self.operator, 0, b"", dropped=self._count)])
        for source, partition in {**self._errors, **self._derived}:
            errors = self._errors.get((source, partition), {})
            derived = self._derived.get((source, partition), [])
            identity = _identity(source, errors, derived)
            rejected = Rejected(self.operator, source, partition, errors, derived, identity)
            if self.aside.gathers:
                self.aside.said.add([rejected])
            else:
                self._write(rejected)

    def _write(self, rejected: Rejected) -> None:
        """Write and report the dead letters from one partition, all at once, because a slot can be written only once in
        a batch."""
        read, partition = self.aside.streams.get(rejected.source, ""), rejected.partition
        slot = self.aside.slot(self.operator, read, partition)
        stream = read if read in self.aside.letters else min(self.aside.letters)
        target, output = self.aside.letters[stream].target, self.aside.letters[stream].output
        parts: list[tuple[int, Iterator[pa.RecordBatch]]] = []
        if rejected.errors:
            records = fetch(self.aside.systems[read], read, partition, sorted(rejected.errors))
            letters = self.letters_of(records, read, partition, rejected.errors)
            parts.append((partition % target.partitions, letters))
        if rejected.derived:
            parts.append((0, iter([self.derived_letters(rejected.derived)])))
        writer, limit = output.writer(task_number(), batch_number()), output.limit(target.stream)
        with aborting.on_error(writer):
            for number, letters in parts:
                for batch in fitting(letters, limit):
                    writer.write(target, slot, np.full(batch.num_rows, number, np.int32), batch)
            written = writer.close()
        self.aside.said.add([_TaskReport(self.operator, slot, rejected.identity, tuple(written))])

    def letters_of(
        self, records: Iterator[Records], stream: str, partition: int, errors: Mapping[int, str]
    ) -> Iterator[pa.RecordBatch]:
        """The dead letters for ``records`` of a partition. ``errors`` has the error text of each record, by offset."""
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
    """The columns of a row as Python values. If a value can't be converted, a description of the error replaces it."""
    found = {}
    for name, column in zip(row.schema.names, row.columns, strict=True):
        try:
            (found[name],) = column.to_pylist(maps_as_pydicts=None)
        except Exception as error:
            found[name] = f"({error_text.described(error)})"
    return found


def _identity(source: int, errors: Mapping[int, str], derived: Iterable[_Derived]) -> bytes:
    """A digest of the records and rows that a Spark task has rejected from one partition, without the error texts. If
    the Spark task is repeated, the digest stays the same. Two Spark tasks that reject the same records get equal
    digests. But if a Spark task rejects rows that don't come from a single record, its digest also covers the Spark
    task's number and the source, because different rows of this kind may have the same contents.
    """
    rows = sorted((offset, key or b"", key is None, value) for offset, key, value, _ in derived)
    content = sorted(errors), rows, (task_number(), source) if rows else None
    return hashlib.sha256(msgspec.msgpack.encode(content)).digest()


class Rejected(msgspec.Struct, frozen=True):
    """The records and rows that an operator has rejected from one partition: in one Spark task or, in a result of
    :func:`gathered`, in all Spark tasks. ``errors`` has the error text of each record, by offset. ``derived`` has the
    rows that don't come from a single record. For ``identity``, see :func:`_identity`; it is empty in results of
    :func:`gathered`.
    """

    operator: str
    source: int
    partition: int
    errors: dict[int, str]
    derived: list[_Derived]
    identity: bytes = b""


class _TaskReport(msgspec.Struct, frozen=True):
    """A Spark task's report to the driver that it has written dead letters of a slot, or dropped records. If the Spark
    task is repeated, its reports about the same dead letters have the same ``identity``, and only the last of these
    reports counts. Dropped records may be counted again.
    """

    operator: str
    slot: int
    identity: bytes
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
    """A summary of the reports of Spark tasks. ``written`` describes the dead letters that were written, and
    ``dropped`` is the number of dropped records. ``aside`` has the number of dead letters. Each key of ``aside``
    consists of an operator and of the SSP or state partition in the slot's name."""

    written: list[Written]
    dropped: int
    aside: Mapping[tuple[str, str], int]


def heard(aside: WorkerDeadLetters) -> TaskReports:
    """A summary of the reports that Spark tasks have made since this function was last called."""
    said = aside.said.value
    aside.said.value = []
    last = {(each.operator, each.slot, each.identity): each for each in said if each.written}
    several: Counter[tuple[str, str]] = Counter()
    for each in last.values():
        part = aside.slots[each.slot].partition(":")[2]
        several[each.operator, part] += sum(written.rows for written in each.written)
    return TaskReports(
        [written for each in last.values() for written in each.written], sum(each.dropped for each in said), several
    )


def put(spark: SparkSession, aside: WorkerDeadLetters) -> None:
    """Write the dead letters for all records and rows that Spark tasks have reported as rejected since the last call.
    For each slot, a single Spark task writes all dead letters."""
    said: list[Any] = aside.said.value
    told = [each for each in said if isinstance(each, Rejected)]
    if not told:
        return
    aside.said.value = [each for each in said if not isinstance(each, Rejected)]
    whole = [(msgspec.msgpack.encode(each),) for each in gathered(aside, told)]
    frame = spark.createDataFrame(whole, "rejected binary")
    frame.mapInArrow(_putting(replace(aside, gathers=False)), "nothing int").collect()


def gathered(aside: WorkerDeadLetters, told: Iterable[Rejected]) -> list[Rejected]:
    """Merge reports into one for each operator and each partition of a stream or of state.

    A record that is in several reports is included once. If several reports for a partition have the same ``identity``,
    only one of these reports contributes its rows that don't come from a single record.
    """
    errors: dict[tuple[str, int, int], dict[int, str]] = {}
    derived: dict[tuple[str, int, int], dict[bytes, list[_Derived]]] = {}
    sources = {stream: source for source, stream in aside.streams.items()}
    for each in told:
        source = sources[aside.streams[each.source]] if each.source in aside.streams else each.source
        place = each.operator, source, each.partition
        errors.setdefault(place, {}).update(each.errors)
        derived.setdefault(place, {})[each.identity] = each.derived
    found = []
    for place, its in errors.items():
        rows = [row for several in derived[place].values() for row in several]
        found.append(Rejected(*place, its, rows))
    return found


def _putting(aside: WorkerDeadLetters) -> Any:
    """A function for ``mapInArrow`` that writes dead letters, and returns no rows. Each input row contains everything
    that was rejected for one slot.
    """

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
