"""Calls processors in turns. In each turn, a processor works on the state of a single key. The processor gets either
the key's messages from a batch, or one of the key's timers.

This code runs in Spark's Python workers, and in the processes of :mod:`anabranch.spark.functions.isolation`. A process
of that module asks its worker whenever the processor reads state or timers, and sends all changes to the worker at the
end of the turn.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from functools import partial
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    MapType,
    StructType,
    TimestampType,
)

from anabranch.api import timers as user_timers
from anabranch.api.first_rows import FirstRows
from anabranch.api.journal import Journal
from anabranch.api.processor import Processor
from anabranch.api.state import State
from anabranch.api.timers import StoredTimers, Timers
from anabranch.spark.functions import error_text, state_values
from anabranch.spark.functions.calling import Begin, Rejection
from anabranch.spark.functions.error_text import shortened
from anabranch.spark.functions.isolation import TRIES, Host, LostError, killed
from anabranch.spark.functions.isolation_host import Channel, Service
from anabranch.spark.functions.job_functions import JobFunction
from anabranch.spark.functions.results import ResultError, Results, check_awaited

__all__ = [
    "VALUE",
    "KeyedProcessor",
    "Schemas",
    "Turn",
    "Turns",
    "fields",
    "isolated",
    "read",
    "reader",
    "service",
]

VALUE = "value"

Stored = Mapping[str, Any]
"""Spark's objects for the states of the current key, by the state's name."""


@dataclass(frozen=True)
class Turn:
    """The result of a turn. ``timers`` maps the time of each changed timer to whether the timer now exists."""

    rows: list[dict[str, Any]]
    rejected: tuple[Rejection, ...]
    timers: Mapping[int, bool]


class Turns(Protocol):
    """Calls a processor in turns.

    Args:
        now: the time on the timers' clock, in Unix ms.
        messages: the messages of one key, in order.
        key: the columns of the timer's key.
        at: the time for which the timer was registered, in Unix ms.
        begin: called with the index of each message before the processor gets the message, and with the number of
            messages after the last call to the processor. For a timer, called with 0 before the call, and 1 after it.
        fails: whether a rejection fails the lane. If so, the turn ends at the first call that raises an exception or
            returns wrong rows.
    """

    def on_messages(self, now: int, messages: list[dict[str, Any]], begin: Begin, fails: bool) -> Turn: ...

    def on_timer(self, now: int, key: dict[str, Any], at: int, begin: Begin, fails: bool) -> Turn: ...


@dataclass(frozen=True)
class Schemas:
    """Spark's schemas for one of a processor's states.

    Attributes:
        names: the schema for the names of a map's entries; None if the state isn't a map.
        values: the schema for the values.
        single: whether each value is stored as the only field of a struct, because the values themselves aren't
            structs.
    """

    names: StructType | None
    values: StructType
    single: bool


@dataclass(frozen=True)
class KeyedProcessor:
    """A processor, with everything that is needed to call it in another process.

    Attributes:
        clock: the clock of the processor's timers; None if the processor has no timers.
        result: the schema of the rows that the processor returns.
        schemas: the schemas of each state, by the state's name.
        home: the job's folder. Tracebacks show only files in this folder.
        source: what other processes get instead of the pickled processor; None if the processor itself is pickled.
    """

    processor: Processor
    clock: str | None
    result: pa.Schema
    schemas: Mapping[str, Schemas]
    home: str
    source: JobFunction | None = None

    def __reduce__(self) -> tuple[Callable[..., KeyedProcessor], tuple[Any, ...]]:
        if self.source is None:
            return KeyedProcessor, (self.processor, self.clock, self.result, self.schemas, self.home)
        return _from_source, (self.source, self.clock, self.result, self.schemas)

    def opened(self, stored: Stored, timers: StoredTimers | None) -> LocalTurns:
        """An object that calls the processor in this process."""
        return LocalTurns(self, stored, timers)


def _from_source(
    source: JobFunction, clock: str | None, result: pa.Schema, schemas: Mapping[str, Schemas]
) -> KeyedProcessor:
    return KeyedProcessor(source.value, clock, result, schemas, source.home, source)


class LocalTurns:
    """Calls a processor in this process; see :class:`Turns`. Messages whose indexes are in ``skip`` are left out."""

    def __init__(self, keyed: KeyedProcessor, stored: Stored, timers: StoredTimers | None) -> None:
        self._home = keyed.home
        self._journal = Journal()
        self._processor = copy.copy(keyed.processor)
        self._states: list[State] = []
        for name, state in keyed.processor.states().items():
            bound = state.bound(_kept(name, state, stored[name], keyed.schemas[name]), self._journal)
            object.__setattr__(self._processor, name, bound)  # a frozen dataclass would refuse
            self._states.append(bound)
        self._timers = Timers(timers, keyed.clock, self._journal)
        self._results = Results(keyed.result, finite=not isinstance(keyed.processor, FirstRows))

    def on_messages(
        self, now: int, messages: list[dict[str, Any]], begin: Begin, fails: bool, skip: frozenset[int] = frozenset()
    ) -> Turn:
        given = ((place, message) for place, message in enumerate(messages) if place not in skip)
        calls = [(place, partial(self._processor.on_message, message, self._timers)) for place, message in given]
        return self._turn(now, calls, len(messages), begin, fails)

    def on_timer(self, now: int, key: dict[str, Any], at: int, begin: Begin, fails: bool) -> Turn:
        call = partial(self._processor.on_timer, key, user_timers.moment(at), self._timers)
        return self._turn(now, [(0, call)], 1, begin, fails)

    def _turn(
        self, now: int, calls: Sequence[tuple[int, Callable[[], Any]]], count: int, begin: Begin, fails: bool
    ) -> Turn:
        self._timers.begin(now)
        for state in self._states:
            state.begin()
        rows: list[dict[str, Any]] = []
        rejected: list[Rejection] = []
        for place, call in calls:
            begin(place)
            self._journal.begin()
            try:
                rows += self._made(call())
            except BaseException as error:
                self._journal.take_back()
                ours = isinstance(error, ResultError)
                told = error_text.one_line(str(error)) if ours else error_text.described(error, self._home)
                rejected.append(Rejection(place, told, raised=not ours))
                if fails:
                    break
        else:
            begin(count)
        for state in self._states:
            state.flush()
        return Turn(rows, tuple(rejected), self._timers.flush())

    def _made(self, given: Any) -> list[dict[str, Any]]:
        check_awaited(given)
        if isinstance(given, dict | str | bytes) or not isinstance(given, Iterable | None):
            raise ResultError(f"it returned {shortened(given)}; rows are given by yield, or as a list")
        return [self._results.row(row) for row in given or ()]


class _Writes:
    """The changes that the worker must make to a key's states and timers after the turn. Each change is noted as the
    name of a state (:data:`_TIMERS` for timers), a method, and the method's arguments.
    """

    def __init__(self) -> None:
        self.noted: list[tuple[str, str, tuple[Any, ...]]] = []


_READS = frozenset({"get", "getValue", "iterator", "all"})
_TIMERS = ""


class _Remote:
    """Represents one of the worker's states, or the worker's timers. A read asks the worker; changes are only noted."""

    def __init__(self, name: str, channel: Channel, writes: _Writes) -> None:
        self._name, self._channel, self._writes = name, channel, writes

    def __getattr__(self, method: str) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            if method in _READS:
                return self._channel.ask((self._name, method, args))
            self._writes.noted.append((self._name, method, args))
            return None

        return call


def service(keyed: KeyedProcessor) -> Callable[[], Service]:
    """The ``open_service`` of a :class:`Host` whose processes call the processor in ``keyed``."""
    return partial(_opened, keyed)


def _opened(keyed: KeyedProcessor) -> Service:
    def serve(request: Any, channel: Channel) -> Any:
        kind, *args, skip = request
        writes = _Writes()
        stored = {name: _Remote(name, channel, writes) for name in keyed.processor.states()}
        timers: Any = _Remote(_TIMERS, channel, writes) if keyed.clock is not None else None
        turns = keyed.opened(stored, timers)
        if kind == "messages":
            now, messages, fails = args
            turn = turns.on_messages(now, messages, channel.begin(len(messages)), fails, skip)
        else:
            now, key, at, fails = args
            turn = turns.on_timer(now, key, at, channel.begin(1), fails)
        return turn, writes.noted

    return serve


def isolated(host: Host, stored: Stored, timers: StoredTimers | None, seconds: float) -> Turns:
    """An object that calls a processor in the processes of a host. ``seconds`` is the time limit for a message or a
    timer."""
    return _IsolatedTurns(host, {**stored, _TIMERS: timers}, seconds)


@dataclass(frozen=True)
class _IsolatedTurns:
    host: Host
    stored: Stored
    seconds: float

    def on_messages(self, now: int, messages: list[dict[str, Any]], begin: Begin, fails: bool) -> Turn:
        return self._turn(("messages", now, messages, fails), begin)

    def on_timer(self, now: int, key: dict[str, Any], at: int, begin: Begin, fails: bool) -> Turn:
        return self._turn(("timer", now, key, at, fails), begin)

    def _turn(self, request: tuple[Any, ...], begin: Begin) -> Turn:
        """Run a turn in another process, then make the turn's changes to state and timers here, and return the turn's
        result.

        If the process dies while it works on a message, the whole turn is repeated. After :data:`TRIES` deaths on the
        same message, or after one timeout, this message is rejected, and the turn is repeated without it. A timer is
        rejected after the same number of deaths, or one timeout. Its turn then ends without rows, and changes nothing.

        Args:
            request: "messages" or "timer", followed by the arguments of :meth:`on_messages` or :meth:`on_timer` except
                ``begin``.
        """
        deaths: dict[int, int] = {}
        rejected: dict[int, str] = {}
        turn: Turn
        while True:
            try:
                turn, writes = self.host.ask((*request, frozenset(rejected)), begin, self.seconds, self._answer)
            except LostError as lost:
                deaths[lost.at] = deaths.get(lost.at, 0) + 1
                if lost.late or deaths[lost.at] == TRIES:
                    rejected[lost.at] = lost.how if lost.late else killed(lost.how)
                    if request[0] == "timer":
                        return Turn([], (Rejection(0, rejected[lost.at], raised=False),), {})
                continue
            for name, method, args in writes:
                getattr(self.stored[name], method)(*args)
            lost_ones = [Rejection(place, error, raised=False) for place, error in rejected.items()]
            return Turn(turn.rows, tuple(sorted([*turn.rejected, *lost_ones])), turn.timers)

    def _answer(self, question: tuple[str, str, tuple[Any, ...]]) -> Any:
        name, method, args = question
        found = getattr(self.stored[name], method)(*args)
        return list(found) if isinstance(found, Iterator) else found


def reader(kind: DataType) -> Callable[[Any], Any] | None:
    """A function that converts values in Spark's state store to the form that processors use; None if processors use
    the values as they are."""
    if isinstance(kind, TimestampType):
        return lambda value: value.astimezone(UTC)  # Spark returns the time in the worker's own zone
    if isinstance(kind, BinaryType):
        return bytes
    if isinstance(kind, ArrayType):
        element = reader(kind.elementType)
        return None if element is None else lambda value: [read(each, element) for each in value]
    if isinstance(kind, MapType):
        name, entry = reader(kind.keyType), reader(kind.valueType)
        return lambda value: {read(n, name): read(each, entry) for n, each in value.items()}
    if isinstance(kind, StructType):
        return partial(fields, [(field.name, reader(field.dataType)) for field in kind])
    return None


def read(value: Any, reader: Callable[[Any], Any] | None) -> Any:
    return value if reader is None or value is None else reader(value)


def fields(readers: Sequence[tuple[str, Callable[[Any], Any] | None]], row: Sequence[Any]) -> dict[str, Any]:
    return {name: read(value, reader) for (name, reader), value in zip(readers, row, strict=True)}


def _kept(name: str, state: State, stored: Any, schemas: Schemas) -> Any:
    kinds: dict[str, type[_Kept]] = {"value": _Value, "list": _List, "map": _Map}
    return kinds[state.kind](name, state, stored, schemas)


class _Kept:
    """Wraps one of Spark's states. Converts values of processors to the tuples that Spark stores, and back."""

    def __init__(self, name: str, state: State, stored: Any, schemas: Schemas) -> None:
        self._state = stored
        self._schemas = schemas
        # A value of a wrong type must be refused here: if Spark's state store refused it, the message couldn't be
        # rejected.
        kind = schemas.values.fields[0].dataType if schemas.single else schemas.values
        self.plain = state_values.converter(f"state {name!r}", state.type, kind)
        self._readers = [(field.name, reader(field.dataType)) for field in schemas.values]

    def clear(self) -> None:
        self._state.clear()

    def _given(self, kept: Any) -> Any:
        read = fields(self._readers, kept)
        return read[VALUE] if self._schemas.single else read

    def _kept(self, value: Any) -> tuple[Any, ...]:
        return (value,) if self._schemas.single else tuple(value[name] for name in self._schemas.values.names)


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
    def __init__(self, name: str, state: Any, stored: Any, schemas: Schemas) -> None:
        super().__init__(name, state, stored, schemas)
        kind = (schemas.names or StructType()).fields[0].dataType
        self.plain_name = state_values.converter(f"the name of an entry in state {name!r}", state.names, kind)
        self._name = reader(kind)

    def get(self, name: Any) -> Any:
        kept = self._state.getValue((name,))
        return None if kept is None else self._given(kept)

    def items(self) -> Iterable[tuple[Any, Any]]:
        return [(read(name[0], self._name), self._given(kept)) for name, kept in self._state.iterator()]

    def put(self, name: Any, value: Any) -> None:
        self._state.updateValue((name,), self._kept(value))

    def remove(self, name: Any) -> None:
        self._state.removeKey((name,))
