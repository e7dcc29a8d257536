"""``process`` on Spark: hands a processor rows, state and timers of one key at a time, in Python workers."""

from __future__ import annotations

import copy
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.errors import ParseException
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
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
    TimestampType,
    _make_type_verifier,
)

from anabranch.errors import GraphError, OperatorError
from anabranch.keyed import timers as user_timers
from anabranch.keyed.journal import Journal
from anabranch.keyed.processor import Processor
from anabranch.keyed.state import MapState, State
from anabranch.keyed.timers import Timers
from anabranch.model import hashing
from anabranch.model.ssp import WHOLE
from anabranch.spark import codec, hidden, working
from anabranch.spark.buckets import Bucket
from anabranch.spark.dead_letters import STATE, Rejects
from anabranch.spark.functions import CURE, Rejecting, traced
from anabranch.spark.job_functions import JobFunction
from anabranch.spark.records import task_number

__all__ = ["Process", "applied"]

_TASK, _KEY, _AT = "_anabranch_task", "_anabranch_key", "_anabranch_at"
_VALUE = "value"
_MODES = {None: "None", user_timers.EVENT_TIME: "EventTime", user_timers.PROCESSING_TIME: "ProcessingTime"}


_STORED = re.compile(r"[^\W\d]\w*")
"""Names that Spark's state can have, which writes its schema as Avro's."""

_ORIGIN = pa.struct(
    {"source": pa.int32(), "partition": pa.int32(), "offset": pa.int64(), "key": pa.binary(), "bucket": pa.int32()}
)


@dataclass(frozen=True)
class Process:
    """A ``process`` as workers need it.

    ``function``: the processor; ``clock``: of its timers, None if it has none; ``result``: the schema of its rows;
    ``columns``: of messages; ``keys``: those of the stage key. ``own``: the lane's tasks, by number, with their
    buckets; None: all that there are. Others as for :func:`anabranch.spark.functions.wrap`.
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
    working: str

    @property
    def processor(self) -> Processor:
        processor: Processor = self.function.value
        return processor

    @property
    def home(self) -> str:
        return self.function.home

    def owns(self, task: int, key: bytes) -> bool:
        """Whether a key's state is the lane's."""
        return self.own is None or hashing.bucket(key, 0, self.factor) in self.own.get(task, ())

    def bucket(self, task: int, key: bytes) -> Bucket:
        """What the time that a key takes is counted for."""
        return task, hashing.bucket(key, 0, self.factor) if self.factor > 1 else WHOLE


def applied(frame: DataFrame, key: Column, process: Process, result: StructType) -> DataFrame:
    """The rows that a processor gives, hidden column included. ``key``: the bytes of the stage key."""
    its = {name: _schemas(process.label, name, each) for name, each in process.processor.states().items()}
    # Others keep their names: state that was kept knows its keys by them.
    plain = {name: name if _STORED.fullmatch(name) else f"_anabranch_{n}" for n, name in enumerate(process.columns)}
    at = F.struct(*[hidden.field(name).alias(name) for name in ("source", "partition", "offset")])
    opened = frame.select(
        hidden.field("task").alias(_TASK),
        *[_untimed(name, alias) for name, alias in plain.items()],
        key.alias(_KEY),
        at.alias(_AT),
    )
    whole = StructType(
        [StructField(_TASK, IntegerType()), StructField(_KEY, BinaryType()), *result.fields],
    )
    keys = [alias for key in process.keys.names for name, alias in plain.items() if name.lower() == key.lower()]
    grouped = opened.groupBy(_TASK, *[codec.quoted(name) for name in keys], _KEY)
    made = grouped.transformWithState(_Worker(process, its), whole, "Update", _MODES[process.clock])
    names = [F.col(codec.quoted(name)) for name in result.names]
    return made.select(*names, hidden.of_result(F.col(_TASK), F.col(_KEY)))


def _untimed(name: str, alias: str) -> Column:
    """A column that Spark doesn't drop late rows by: with one that it knows to be the event time, it would."""
    return F.col(codec.quoted(name)).alias(alias, metadata={"anabranch": ""})


@dataclass(frozen=True)
class _Schemas:
    """``names``: of a map's entries; ``single``: values are no structs, and kept in a struct of one field."""

    names: StructType | None
    values: StructType
    single: bool


def _schemas(label: str, name: str, state: State) -> _Schemas:
    values, single = _struct(label, name, state.type)
    if not isinstance(state, MapState):
        return _Schemas(None, values, single)
    names, simple = _struct(label, name, state.names)
    if not simple or not isinstance(names.fields[0].dataType, AtomicType):
        raise GraphError(
            f"{label}: the entries of state {name!r} are named by {state.names!r}", "use one simple type, as string"
        )
    return _Schemas(names, values, single)


def _struct(label: str, name: str, declared: str) -> tuple[StructType, bool]:
    try:
        kind = codec.parse_type(declared)
    except ParseException:
        cure = 'write an SQL type, as "long", or named fields, as "count long, last timestamp"'
        raise GraphError(f"{label}: state {name!r} is declared with {declared!r}, no type of SQL", cure) from None
    odd = next((field for field in _field_names(kind) if not _STORED.fullmatch(field)), None)
    if odd is not None:
        raise GraphError(
            f"{label}: state {name!r} has a field {odd!r}; Spark keeps no such name",
            "use letters, digits and underscores, not a digit first",
        )
    if isinstance(kind, StructType):
        return kind, False
    return StructType([StructField(_VALUE, kind)]), True


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
    """One for each Spark task. Spark calls it for each key with rows, for each timer that is due, and at the end."""

    def __init__(self, process: Process, schemas: Mapping[str, _Schemas]) -> None:
        self._process = process
        self._schemas = schemas

    def init(self, handle: StatefulProcessorHandle) -> None:
        process = self._process
        self._journal = Journal()
        self._processor = copy.copy(process.processor)
        self._states: list[State] = []
        for name, state in process.processor.states().items():
            bound = state.bound(_stored(handle, name, state, self._schemas[name]), self._journal)
            setattr(self._processor, name, bound)
            self._states.append(bound)
        stored = _Timers(handle) if process.clock is not None else None
        self._timers = Timers(stored, process.clock, self._journal)
        self._rejects: Rejects | None = None
        self._seconds: dict[Bucket, float] = {}
        self._deleted: set[tuple[bytes, int, int]] = set()
        self._keys = [(field.name, _reader(field.dataType)) for field in process.keys]
        self._names = frozenset(process.result.names)
        self._columns = (_TASK, *process.columns, _KEY, _AT)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        begun = time.perf_counter()
        task, key_bytes = key[0], bytes(key[-1])
        self._begin(timerValues)
        messages = sorted((dict(zip(self._columns, row, strict=True)) for row in rows), key=_place)
        origins = [{**message.pop(_AT), "key": key_bytes, "bucket": None} for message in messages]
        with self._working(origins):
            for number, (message, origin) in enumerate(zip(messages, origins, strict=True)):
                del message[_TASK], message[_KEY]
                working.at(number)
                self._journal.begin()
                try:
                    made = self._made(self._processor.on_message(message, self._timers))
                except Exception as error:
                    on = f"on offset {origin['offset']} of partition {origin['partition']}"
                    self._failed(error, on, origin, message)
                else:
                    yield from self._rows(task, key_bytes, made)
        self._end()
        self._worked(task, key_bytes, begun)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        begun = time.perf_counter()
        task, key_bytes, at = key[0], bytes(key[-1]), expiredTimerInfo.getExpiryTimeInMs()
        if not self._process.owns(task, key_bytes) or (key_bytes, task, at) in self._deleted:
            return
        self._begin(timerValues)
        named = _fields(self._keys, key[1:-1])
        origin = {"source": STATE, "partition": task_number(), "offset": 0, "key": key_bytes, "bucket": None}
        self._journal.begin()
        try:
            with self._working([origin]):
                made = self._made(self._processor.on_timer(named, user_timers.moment(at), self._timers))
        except Exception as error:
            moment = user_timers.moment(at).isoformat()
            self._failed(error, f"on the timer of {named} at {moment}", origin, {**named, "timer": moment})
        else:
            yield from self._rows(task, key_bytes, made)
        for other, there in self._end().items():
            if not there:
                self._deleted.add((key_bytes, task, other))
        self._worked(task, key_bytes, begun)

    def close(self) -> None:
        if self._seconds:
            self._process.busy(self._seconds)
        if self._rejects is not None:
            self._rejects.close()

    def _begin(self, now: Any) -> None:
        clock = self._process.clock
        event = clock == user_timers.EVENT_TIME
        at = now.getCurrentWatermarkInMs() if event else now.getCurrentProcessingTimeInMs()
        self._timers.begin(at if clock is not None else 0)
        for state in self._states:
            state.begin()

    def _end(self) -> dict[int, bool]:
        for state in self._states:
            state.flush()
        return self._timers.flush()

    def _made(self, given: Iterable[dict[str, Any]] | None) -> list[dict[str, Any]]:
        if isinstance(given, dict):
            raise TypeError("it returned a dict; rows are given by yield, or as a list")
        made = list(given or ())
        for row in made:
            if not isinstance(row, dict):
                raise TypeError(f"it gave {row!r}, not a dict of the result's columns")
            if not row.keys() <= self._names:
                unknown = min(row.keys() - self._names)
                raise TypeError(f"its row has the unknown column {unknown!r}; declare the result with schema=")
        if made:
            pa.RecordBatch.from_pylist(
                made, schema=self._process.result
            )  # else a row that can't be would fail the task
        return made

    def _rows(self, task: int, key: bytes, made: list[dict[str, Any]]) -> Iterator[Row]:
        for row in made:
            yield Row(**{_TASK: task, _KEY: key, **row})

    def _failed(self, error: Exception, on: str, origin: Mapping[str, Any], row: Mapping[str, Any]) -> None:
        process = self._process
        told = f"{type(error).__name__}: {error}{traced(error, process.home)}"
        if process.on_error is None:
            raise OperatorError(f"{process.label} raised {told}, {on}", CURE) from None
        self._journal.take_back()
        if self._rejects is None:
            self._rejects = process.on_error(process.label)
        self._rejects.add(origin, told, row)

    def _working(self, origins: list[dict[str, Any]]) -> AbstractContextManager[None]:
        process = self._process
        rows = pa.array(origins if process.working else [], _ORIGIN)
        return working.on(process.working, process.label, rows, process.factor)

    def _worked(self, task: int, key: bytes, begun: float) -> None:
        bucket = self._process.bucket(task, key)
        self._seconds[bucket] = self._seconds.get(bucket, 0.0) + time.perf_counter() - begun


def _place(message: Mapping[str, Any]) -> tuple[int, int, int]:
    """The order of a key's rows: that of their records. (Offsets of rows of no single record are negative.)"""
    at = message[_AT]
    return at["source"], at["partition"], at["offset"] if at["offset"] >= 0 else -1 - at["offset"]


def _reader(kind: DataType) -> Callable[[Any], Any] | None:
    """Makes of a value as Spark's store gives it one as messages have it; None: they are alike."""
    if isinstance(kind, TimestampType):
        return lambda value: value.astimezone(UTC)  # of the worker's own zone
    if isinstance(kind, BinaryType):
        return bytes
    if isinstance(kind, ArrayType):
        element = _reader(kind.elementType)
        return None if element is None else lambda value: [_read(each, element) for each in value]
    if isinstance(kind, MapType):
        name, entry = _reader(kind.keyType), _reader(kind.valueType)
        return lambda value: {_read(n, name): _read(each, entry) for n, each in value.items()}
    if isinstance(kind, StructType):
        return partial(_fields, [(field.name, _reader(field.dataType)) for field in kind])
    return None


def _read(value: Any, reader: Callable[[Any], Any] | None) -> Any:
    return value if reader is None or value is None else reader(value)


def _fields(readers: Sequence[tuple[str, Callable[[Any], Any] | None]], row: Sequence[Any]) -> dict[str, Any]:
    return {name: _read(value, reader) for (name, reader), value in zip(readers, row, strict=True)}


def _stored(handle: StatefulProcessorHandle, name: str, state: State, schemas: _Schemas) -> Any:
    match state.kind:
        case "value":
            return _Value(handle.getValueState(name, schemas.values), schemas)
        case "list":
            return _List(handle.getListState(name, schemas.values), schemas)
        case _:
            assert schemas.names is not None
            return _Map(handle.getMapState(name, schemas.names, schemas.values), schemas)


class _Kept:
    """A kind of Spark's state; its values as functions see them, and as tuples."""

    def __init__(self, state: Any, schemas: _Schemas) -> None:
        self._state = state
        self._schemas = schemas
        # What isn't of its type would fail the task in Spark's store, where no message is to blame.
        self._verify = _make_type_verifier(schemas.values)
        self._readers = [(field.name, _reader(field.dataType)) for field in schemas.values]
        self._times = [isinstance(field.dataType, TimestampType) for field in schemas.values]

    def check(self, value: Any) -> None:
        """Raises an exception of PySpark's, or a TypeError, if it can't be kept."""
        kept = self._kept(value)
        self._verify(kept)
        times = [each for is_time, each in zip(self._times, kept, strict=True) if is_time and each is not None]
        if any(each.tzinfo is None for each in times):
            raise TypeError(f"state was given {value!r}, with a time that has no zone; pass a datetime with tzinfo")

    def clear(self) -> None:
        self._state.clear()

    def _given(self, kept: Any) -> Any:
        read = _fields(self._readers, kept)
        return read[_VALUE] if self._schemas.single else read

    def _kept(self, value: Any) -> tuple[Any, ...]:
        if self._schemas.single:
            return (value,)
        names = self._schemas.values.names
        if not isinstance(value, dict) or not value.keys() <= set(names):
            raise TypeError(f"state of the fields {', '.join(names)} was given {value!r}; give a dict of them")
        return tuple(value.get(name) for name in names)


class _Value(_Kept):
    def get(self) -> Any:
        kept = self._state.get()
        return None if kept is None else self._given(kept)

    def put(self, value: Any) -> None:
        self._state.update(self._kept(value))


class _List(_Kept):
    def get(self) -> Iterable[Any]:
        return [self._given(kept) for kept in self._state.get()]

    def put(self, values: list[Any]) -> None:
        self._state.put([self._kept(value) for value in values])

    def append(self, values: list[Any]) -> None:
        self._state.appendList([self._kept(value) for value in values])


class _Map(_Kept):
    def __init__(self, state: Any, schemas: _Schemas) -> None:
        super().__init__(state, schemas)
        names = schemas.names or StructType()
        self._verify_name = _make_type_verifier(names)
        self._name = _reader(names.fields[0].dataType)

    def check_name(self, name: Any) -> None:
        self._verify_name((name,))

    def get(self, name: Any) -> Any:
        kept = self._state.getValue((name,))
        return None if kept is None else self._given(kept)

    def items(self) -> Iterable[tuple[Any, Any]]:
        return [(_read(name[0], self._name), self._given(kept)) for name, kept in self._state.iterator()]

    def put(self, name: Any, value: Any) -> None:
        self._state.updateValue((name,), self._kept(value))

    def remove(self, name: Any) -> None:
        self._state.removeKey((name,))


class _Timers:
    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle

    def all(self) -> Iterable[int]:
        return list(self._handle.listTimers())

    def register(self, at: int) -> None:
        self._handle.registerTimer(at)

    def delete(self, at: int) -> None:
        self._handle.deleteTimer(at)
