"""Runs ``process`` on Spark. Python workers pass the rows, state and timers of one key at a time to a processor."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.errors import ParseException
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import (
    ArrayType,
    AtomicType,
    BinaryType,
    DataType,
    IntegerType,
    MapType,
    StructField,
    StructType,
)

from anabranch.api import timers as user_timers
from anabranch.api.processor import Processor
from anabranch.api.state import MapState, State
from anabranch.errors import GraphError, OperatorError
from anabranch.model import hashing
from anabranch.model.ssp import WHOLE
from anabranch.spark.functions import error_text, in_flight, isolation, maps, turns
from anabranch.spark.functions import wrap as user_functions
from anabranch.spark.functions.buckets import Bucket
from anabranch.spark.functions.calling import Rejection
from anabranch.spark.functions.deleted_timers import DeletedTimers
from anabranch.spark.functions.job_functions import JobFunction
from anabranch.spark.functions.turns import VALUE, KeyedProcessor, Schemas, Turn, Turns, fields, read, reader
from anabranch.spark.functions.wrap import CURE, Rejecting, partition_of
from anabranch.spark.internals import kept_timers, type_verifiers
from anabranch.spark.operators import python_times
from anabranch.spark.query.dead_letters import STATE, Rejects
from anabranch.spark.query.records import task_number
from anabranch.spark.values import codec, meta_column
from anabranch.task_progress import meters
from anabranch.task_progress.counts import ReportAddress

__all__ = ["Process", "applied"]

_TASK, _KEY, _AT = "_anabranch_task", "_anabranch_key", "_anabranch_at"
_BEYOND = "beyond"
"""The field of ``_AT`` with the name of a column whose value Python can't represent; null if there is no such column.
The field is missing if no column can have such values."""
_FILTER = 'filter such rows before, or set [job] on_error = "dead-letter" or "drop"'
_MODES = {None: "None", user_timers.EVENT_TIME: "EventTime", user_timers.PROCESSING_TIME: "ProcessingTime"}


_STORED = re.compile(r"[^\W\d]\w*")
"""The names that fields of Spark's state can have. (Spark writes the schema of state as Avro.)"""


@dataclass(frozen=True)
class Process:
    """The operator ``process``, with everything that Python workers need to run it. For ``on_error``, ``busy``,
    ``line`` and ``inputs``, see :class:`anabranch.spark.functions.wrap.CallSettings`.

    Attributes:
        label: the operator's label.
        function: the processor, as a function of the job.
        clock: the clock of the processor's timers; None if the processor has no timers.
        result: the schema of the rows that the processor returns.
        columns: the names of the messages' columns.
        keys: the columns of the stage key.
        own: the buckets of the lane's own tasks, by task number; None if the folder has state of no other tasks.
        seconds: how long the processor may work on a message or a timer.
    """

    label: str
    function: JobFunction
    clock: str | None
    result: pa.Schema
    columns: tuple[str, ...]
    keys: StructType
    on_error: Rejecting | None
    own: Mapping[int, frozenset[int]] | None
    factor: int
    busy: Callable[[dict[Bucket, float]], None]
    line: ReportAddress | None
    seconds: float = math.inf
    inputs: Mapping[int, str] = field(default_factory=dict)

    @property
    def processor(self) -> Processor:
        processor: Processor = self.function.value
        return processor

    @property
    def home(self) -> str:
        return self.function.home

    def keyed(self, schemas: Mapping[str, Schemas]) -> KeyedProcessor:
        """The processor, with everything that is needed to call it."""
        return KeyedProcessor(self.processor, self.clock, self.result, schemas, self.home, self.function)

    def owns(self, task: int, key: bytes) -> bool:
        """Whether a key's state belongs to the lane."""
        return self.own is None or hashing.bucket(key, 0, self.factor) in self.own.get(task, ())

    def bucket(self, task: int, key: bytes) -> Bucket:
        """The bucket for which the time spent on a key is counted."""
        return task, hashing.bucket(key, 0, self.factor) if self.factor > 1 else WHOLE


def applied(frame: DataFrame, key: Column, process: Process, result: StructType) -> DataFrame:
    """The rows that a processor returns, including the hidden column. ``key`` has the bytes of the stage key."""
    its = {name: _schemas(process.label, name, each) for name, each in process.processor.states().items()}
    if its:
        type_verifiers.SURFACE.insist(frame.sparkSession)
    # Stored state contains the names of key columns. So a column is renamed only if Spark's state forbids its name.
    plain = {name: name if _STORED.fullmatch(name) else f"_anabranch_{n}" for n, name in enumerate(process.columns)}
    columns = StructType([frame.schema[name] for name in process.columns])
    beyond = {
        each.name: python_times.is_beyond(F.col(codec.quoted(each.name)), each.dataType)
        for each in columns
        if python_times.has_times(each.dataType)
    }
    own = {key.lower() for key in process.keys.names}
    opened = frame.select(
        meta_column.field("task").alias(_TASK),
        *[_given(each, plain[each.name], each.name.lower() in own, beyond.get(each.name)) for each in columns],
        key.alias(_KEY),
        _place_of(beyond).alias(_AT),
    )
    whole = StructType(
        [StructField(_TASK, IntegerType()), StructField(_KEY, BinaryType()), *result.fields],
    )
    keys = [alias for key in process.keys.names for name, alias in plain.items() if name.lower() == key.lower()]
    grouped = opened.groupBy(_TASK, *[codec.quoted(name) for name in keys], _KEY)
    made = grouped.transformWithState(_Worker(process, its, columns), whole, "Update", _MODES[process.clock])
    names = [F.col(codec.quoted(name)) for name in result.names]
    return made.select(*names, meta_column.of_result(F.col(_TASK), F.col(_KEY)))


def _given(column: StructField, alias: str, is_key: bool, beyond: Column | None) -> Column:
    """A column in the form in which it is passed to workers. The column doesn't have the mark for event time, which
    would make Spark drop late rows.

    Args:
        is_key: whether rows are grouped by the column. If so, zeros lose their sign: 0.0 and -0.0 are in one group.
        beyond: a condition that is true for values that Python can't represent, and that are replaced. None if the
            column has no such values.
    """
    values = F.col(codec.quoted(column.name))
    if is_key:
        values = codec.unsigned_zeros(values, column.dataType)
    if beyond is not None:
        instead = python_times.valid(column.dataType) if is_key else F.lit(None)  # a key's nullability must stay
        values = F.when(beyond, instead).otherwise(values)
    return values.alias(alias, metadata={"anabranch": ""})


def _place_of(beyond: Mapping[str, Column]) -> Column:
    """The origin of a row's record, with the field :data:`_BEYOND`. For each column that can have values that Python
    can't represent, ``beyond`` has a condition that is true for these values.
    """
    fields = [meta_column.field(name).alias(name) for name in ("source", "partition", "offset")]
    names = [F.when(condition, F.lit(name)) for name, condition in beyond.items()]
    return F.struct(*fields, *([F.coalesce(*names).alias(_BEYOND)] if names else []))


def _schemas(label: str, name: str, state: State) -> Schemas:
    values, single = _struct(label, name, state.type)
    if not isinstance(state, MapState):
        return Schemas(None, values, single)
    names, simple = _struct(label, name, state.names)
    if not simple or not isinstance(names.fields[0].dataType, AtomicType):
        raise GraphError(
            f"{label}: the entries of state {name!r} are named by {state.names!r}",
            "use one simple type, such as string",
        )
    return Schemas(names, values, single)


def _struct(label: str, name: str, declared: str) -> tuple[StructType, bool]:
    try:
        kind = codec.parse_type(declared)
    except ParseException:
        cure = 'write an SQL type such as "long", or named fields such as "count long, last timestamp"'
        raise GraphError(f"{label}: state {name!r} is declared with {declared!r}, no type of SQL", cure) from None
    odd = next((field for field in _field_names(kind) if not _STORED.fullmatch(field)), None)
    if odd is not None:
        raise GraphError(
            f"{label}: state {name!r} has a field {odd!r}; Spark can't store this name",
            "use letters, digits and underscores, not a digit first",
        )
    if isinstance(kind, StructType):
        return kind, False
    return StructType([StructField(VALUE, kind)]), True


def _field_names(kind: DataType) -> Iterator[str]:
    match kind:
        case StructType():
            for field in kind:
                yield field.name
                yield from _field_names(field.dataType)
        case ArrayType():
            yield from _field_names(kind.elementType)
        case MapType():
            yield from _field_names(kind.keyType)
            yield from _field_names(kind.valueType)


class _Worker(StatefulProcessor):
    """A processor in one Spark task. Spark calls it when the Spark task begins, for each key with rows, for each due
    timer, and when the Spark task ends.
    """

    def __init__(self, process: Process, schemas: Mapping[str, Schemas], types: StructType) -> None:
        self._process = process
        self._schemas = schemas
        self._types = types

    def init(self, handle: StatefulProcessorHandle) -> None:
        process = self._process
        user_functions.let_signals_end()
        self._host: isolation.Host | None = None
        states = process.processor.states()
        stored = {name: _stored(handle, name, state, self._schemas[name]) for name, state in states.items()}
        timers = _Timers(handle) if process.clock is not None else None
        processor = process.keyed(self._schemas)
        self._turns: Turns = processor.opened(stored, timers)
        if isolation.is_needed():
            self._host = isolation.Host(turns.service(processor))
            self._turns = turns.isolated(self._host, stored, timers, process.seconds)
        self._meter = meters.meter(process.line, process.label, ordered=False)
        self._rejects: Rejects | None = None
        self._seconds: dict[Bucket, float] = {}
        self._deleted = DeletedTimers()
        self._handle = handle
        self._keys = [(field.name, reader(field.dataType)) for field in process.keys]
        columns = to_arrow_schema(self._types, timezone="UTC")
        self._maps = {column.name: each for column in columns if (each := maps.reader(column.type)) is not None}
        self._columns = (_TASK, *process.columns, _KEY, _AT)
        self._names = [_TASK, _KEY, *process.result.names]

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        begun = time.perf_counter()
        task, key_bytes = key[0], bytes(key[-1])
        origins: list[dict[str, Any]] = []
        messages: list[dict[str, Any]] = []
        for message in sorted((dict(zip(self._columns, row, strict=True)) for row in rows), key=_place):
            origin: dict[str, Any] = {**message.pop(_AT), "key": key_bytes, "bucket": None}
            del message[_TASK], message[_KEY]
            beyond = origin.pop(_BEYOND, None)
            if beyond is not None:
                error = f"the column {beyond!r} {python_times.ERROR}"
                rejection = Rejection(len(messages), error, raised=False)
                self._reject(rejection, self._on(origin), origin, {**message, beyond: f"({error})"}, _FILTER)
                continue
            try:
                messages.append(message | {name: read(message[name], made) for name, made in self._maps.items()})
                origins.append(origin)
            except KeyError as error:  # a map that has a key twice
                rejection = Rejection(len(messages), error_text.described(error, self._process.home))
                self._reject(rejection, self._on(origin), origin, message)
        if not messages:
            return
        with self._working(origins, task, key_bytes):
            turn = self._turns.on_messages(self._now(timerValues), messages, in_flight.at, self._fails)
        for rejection in turn.rejected:
            origin = origins[rejection.place]
            self._reject(rejection, self._on(origin), origin, messages[rejection.place])
        yield from self._rows(task, key_bytes, turn)
        self._worked(task, key_bytes, begun)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        begun = time.perf_counter()
        task, key_bytes, at = key[0], bytes(key[-1]), expiredTimerInfo.getExpiryTimeInMs()
        if not self._process.owns(task, key_bytes) or self._deleted.has(task, key_bytes, at):
            return
        named = fields(self._keys, key[1:-1])
        origin = {"source": STATE, "partition": task_number(), "offset": 0, "key": key_bytes, "bucket": None}
        with self._working([origin], task, key_bytes):
            turn = self._turns.on_timer(self._now(timerValues), named, at, in_flight.at, self._fails)
        for rejection in turn.rejected:
            moment = user_timers.moment(at).isoformat()
            self._reject(rejection, f"on the timer of {named} at {moment}", origin, {**named, "timer": moment})
        yield from self._rows(task, key_bytes, turn)
        self._deleted.note(task, key_bytes, turn.timers)
        self._worked(task, key_bytes, begun)
        if turn.timers.get(at):
            kept_timers.keep(self._handle)

    def close(self) -> None:
        self._meter.close()
        if self._host is not None:
            self._host.close()
        if self._seconds:
            self._process.busy(self._seconds)
        if self._rejects is not None:
            self._rejects.close()

    @property
    def _fails(self) -> bool:
        return self._process.on_error is None

    def _now(self, now: Any) -> int:
        clock = self._process.clock
        if clock is None:
            return 0
        event = clock == user_timers.EVENT_TIME
        return int(now.getCurrentWatermarkInMs() if event else now.getCurrentProcessingTimeInMs())

    def _rows(self, task: int, key: bytes, turn: Turn) -> Iterator[Row]:
        row_of = Row(*self._names)
        for row in turn.rows:
            yield row_of(task, key, *row.values())

    def _reject(
        self,
        rejection: Rejection,
        on: str,
        origin: Mapping[str, Any],
        row: Mapping[str, Any],
        cure: str = CURE,
    ) -> None:
        process = self._process
        if process.on_error is None:
            told = f" raised {rejection.error}" if rejection.raised else f": {rejection.error}"
            raise OperatorError(f"{process.label}{told}, {on}", cure) from None
        if self._rejects is None:
            self._rejects = process.on_error(process.label)
        self._rejects.add(origin, rejection.error, row)

    def _on(self, origin: Mapping[str, Any]) -> str:
        return f"on offset {origin['offset']} of {partition_of(origin, self._process.inputs)}"

    def _working(self, origins: list[dict[str, Any]], task: int, key: bytes) -> AbstractContextManager[None]:
        process = self._process
        limit = process.seconds if self._host is None else math.inf
        return in_flight.on_key(self._meter, origins, process.bucket(task, key), limit)

    def _worked(self, task: int, key: bytes, begun: float) -> None:
        bucket = self._process.bucket(task, key)
        self._seconds[bucket] = self._seconds.get(bucket, 0.0) + time.perf_counter() - begun


def _place(message: Mapping[str, Any]) -> tuple[int, int, int]:
    """The value by which a key's rows are sorted into the order of their records. (Rows that don't come from a single
    record have negative offsets.)
    """
    at = message[_AT]
    return at["source"], at["partition"], at["offset"] if at["offset"] >= 0 else -1 - at["offset"]


def _stored(handle: StatefulProcessorHandle, name: str, state: State, schemas: Schemas) -> Any:
    match state.kind:
        case "value":
            return handle.getValueState(name, schemas.values)
        case "list":
            return handle.getListState(name, schemas.values)
        case _:
            assert schemas.names is not None
            return handle.getMapState(name, schemas.names, schemas.values)


class _Timers:
    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle

    def all(self) -> Iterable[int]:
        return list(self._handle.listTimers())

    def register(self, at: int) -> None:
        self._handle.registerTimer(at)

    def delete(self, at: int) -> None:
        self._handle.deleteTimer(at)
