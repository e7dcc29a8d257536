"""Calls a user's function on rows.

This code runs in Spark's Python workers, and in the processes of :mod:`anabranch.spark.functions.isolation`.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import math
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from anabranch.spark.functions import arrow_batches, error_text, maps
from anabranch.spark.functions.error_text import shortened
from anabranch.spark.functions.job_functions import JobFunction
from anabranch.spark.functions.results import ResultError, Results, check_awaited

__all__ = [
    "BATCH",
    "Begin",
    "Evaluator",
    "Outcome",
    "Places",
    "Rejection",
    "UserFunction",
    "awaits",
    "messages",
    "overdue",
]

Places = npt.NDArray[np.int64]
Begin = Callable[[int], None]
"""A function that is called with the index of each row before the user's function is called on this row. If the user's
function gets all rows in one call, the index is 0.

After the last call to the user's function, ``Begin`` is called once more, with the number of rows, unless a rejection
fails the lane. After this last call, no time limit applies, because later steps, such as converting the results, don't
concern a single row.
"""

BATCH = -1
"""The ``place`` of a rejection that concerns all rows."""


class Rejection(NamedTuple):
    """A rejected row or timer.

    ``place`` is the index of the row; it is :data:`BATCH` if all rows are rejected together, and 0 for a timer.
    ``error`` is the reason in words. ``raised`` is true if the function raised an exception, or if the row couldn't be
    converted to Python values. It is false if the function returned a wrong result or took too long, or if its process
    died.
    """

    place: int
    error: str
    raised: bool = True


class Outcome(NamedTuple):
    """The result of calling a function on rows. For each result row, ``places`` has the index of the input row from
    which the result row was made. A ``map_arrow`` function can get several rows at once, and return more or fewer rows.
    The indexes of the result rows are then guessed from the order of the results, and ``guessed`` is true for these
    rows. ``guessed`` is None if no index is guessed.
    """

    rows: pa.Table
    places: Places
    rejected: tuple[Rejection, ...] = ()
    guessed: npt.NDArray[np.bool_] | None = None


@dataclass(frozen=True)
class UserFunction:
    """The user's function in an operator, with everything that is needed to call it.

    Attributes:
        kind: the kind of the operator: ``map``, ``flat_map``, ``filter`` or ``map_arrow``.
        schema: the columns of the operator's result.
        home: the job's folder. Tracebacks show only files in this folder.
        seconds: how long the function may work on a message.
        source: what other processes get instead of the pickled function; None if the function itself is pickled.
    """

    kind: str
    function: Callable[..., Any]
    schema: pa.Schema
    home: str
    seconds: float = math.inf
    source: JobFunction | None = None

    def __reduce__(self) -> tuple[Callable[..., UserFunction], tuple[Any, ...]]:
        if self.source is None:
            return UserFunction, (self.kind, self.function, self.schema, self.home, self.seconds)
        return _from_source, (self.kind, self.source, self.schema, self.seconds)


def _from_source(kind: str, source: JobFunction, schema: pa.Schema, seconds: float) -> UserFunction:
    return UserFunction(kind, source.value, schema, source.home, seconds, source)


def awaits(function: Callable[..., Any]) -> bool:
    """Whether calling a function requires an event loop."""
    if isinstance(function, functools.partial):
        return awaits(function.func)
    called = getattr(type(function), "__call__", None)  # noqa: B004
    return any(inspect.iscoroutinefunction(each) or inspect.isasyncgenfunction(each) for each in (function, called))


def overdue(seconds: float) -> str:
    """The error text for a message that a function has worked on for more than ``seconds`` seconds."""
    return f"the function worked on it for more than {seconds:g} s: [job] message_timeout"


class Evaluator:
    """Calls a user's function. Several threads may call the same evaluator at the same time."""

    def __init__(self, user: UserFunction) -> None:
        self._user = user
        self._awaits = awaits(user.function)
        self._results = Results(user.schema)
        takes = {"map": self._results.owned, "flat_map": self._several, "filter": _kept}
        self._take: Callable[[Any], Any] = takes.get(user.kind, _kept)

    async def __call__(self, rows: pa.RecordBatch, begin: Begin, fails: bool = False) -> Outcome:
        """The results for some rows.

        Args:
            fails: whether a rejection fails the lane. If so, the function isn't called again after a call that failed.
                (But if a ``map`` or ``flat_map`` function returns a row that doesn't have the declared schema, the
                fault is usually noticed only after the function has been called for all rows.)
        """
        match self._user.kind:
            case "map_arrow":
                return self._map_arrow(rows, begin, fails)
            case "filter":
                return await self._filter(rows, begin, fails)
            case "map":
                returned, places, rejected = await self._called(rows, begin, fails)
                return self._outcome(returned, places, rejected)
            case _:
                returned, places, rejected = await self._called(rows, begin, fails)
                flat = [each for several in returned for each in several]
                of = [place for place, several in zip(places, returned, strict=True) for _ in several]
                return self._outcome(flat, of, rejected)

    def _outcome(self, returned: list[Any], places: list[int], rejected: list[Rejection]) -> Outcome:
        rows, errors = self._results.table(returned)
        of = np.array(places, np.int64)
        if errors:
            wrong: dict[int, str] = {}
            for number, error in errors.items():
                wrong.setdefault(places[number], error)
            of = np.delete(of, list(errors))
            whole = ~np.isin(of, list(wrong))  # one wrong result of a message invalidates all its results
            rows, of = rows.filter(pa.array(whole)), of[whole]
            rejected += [Rejection(place, error, raised=False) for place, error in wrong.items()]
        return Outcome(rows, of, tuple(sorted(rejected)))

    async def _filter(self, rows: pa.RecordBatch, begin: Begin, fails: bool) -> Outcome:
        returned, places, rejected = await self._called(rows, begin, fails)
        kept = np.array([place for keep, place in zip(returned, places, strict=True) if keep], np.int64)
        schema = self._user.schema
        found = rows.select(schema.names).take(pa.array(kept)).cast(schema)
        return Outcome(pa.Table.from_batches([found]), kept, tuple(rejected))

    async def _called(
        self, rows: pa.RecordBatch, begin: Begin, fails: bool
    ) -> tuple[list[Any], list[int], list[Rejection]]:
        """Call the function at most once for each message. Returns the results, the index of each result's row, and the
        rejections.
        """
        function, take = self._user.function, self._take
        returned: list[Any] = []
        places: list[int] = []
        rejected: list[Rejection] = []
        for place, message in enumerate(messages(rows)):
            begin(place)
            try:
                if type(message) is _Unreadable:
                    raise message.error
                found = take(await self._awaited(message) if self._awaits else function(message))
            except BaseException as error:
                if _is_cancelled(error):
                    raise
                ours = isinstance(error, ResultError | _OverdueError)
                told = error_text.one_line(str(error)) if ours else error_text.described(error, self._user.home)
                rejected.append(Rejection(place, told, raised=not ours))
                if fails:
                    break
            else:
                returned.append(found)
                places.append(place)
        else:
            begin(rows.num_rows)
        return returned, places, rejected

    async def _awaited(self, message: Any) -> Any:
        if math.isinf(self._user.seconds):
            return await self._value(self._user.function(message))
        try:
            async with asyncio.timeout(self._user.seconds) as limit:
                return await self._value(self._user.function(message))
        except TimeoutError:
            if limit.expired():
                raise _OverdueError(overdue(self._user.seconds)) from None
            raise

    async def _value(self, called: Any) -> Any:
        """The result of a call. ``called`` is what the call has returned: a coroutine, an async generator, or the
        result itself."""
        if inspect.isasyncgen(called):
            own = self._results.owned if self._user.kind == "flat_map" else _same
            async with contextlib.aclosing(called):
                return [own(each) async for each in called]
        return await called if isinstance(called, Awaitable) else called

    def _several(self, returned: Any) -> list[Any]:
        """Copies of the rows that a call has returned. Each row is copied before the next row is requested, because
        user code that makes the next row can change earlier rows."""
        if type(returned) is not list:
            check_awaited(returned)
            if isinstance(returned, dict | str | bytes) or not isinstance(returned, Iterable):
                told = f"it returned {shortened(returned)}, not several rows: yield them, or return a list"
                raise ResultError(told)
        return [self._results.owned(each) for each in returned]

    def _map_arrow(self, rows: pa.RecordBatch, begin: Begin, fails: bool) -> Outcome:
        try:
            begin(0)
            returned = self._returned(rows)
            begin(rows.num_rows)
            return self._cast(returned, rows)
        except BaseException as error:
            if fails or rows.num_rows == 1:
                if not fails:
                    begin(rows.num_rows)
                place = BATCH if fails else 0
                return Outcome(self._none, np.array([], np.int64), (self._rejection(place, error),))
        results: list[pa.Table] = [self._none]
        places: list[int] = []
        rejected: list[Rejection] = []
        for place in range(rows.num_rows):
            begin(place)
            row = rows.slice(place, 1)
            try:
                result = self._cast(self._returned(row), row).rows
            except BaseException as error:
                rejected.append(self._rejection(place, error))
            else:
                results.append(result)
                places += [place] * result.num_rows
        begin(rows.num_rows)
        whole = arrow_batches.combined(pa.concat_tables(results))
        return Outcome(pa.Table.from_batches(whole), np.array(places, np.int64), tuple(rejected))

    def _returned(self, rows: pa.RecordBatch) -> pa.RecordBatch | pa.Table:
        result = self._user.function(rows)
        check_awaited(result)
        if not isinstance(result, pa.RecordBatch | pa.Table):
            raise ResultError(f"it returned {shortened(result)}, not a pyarrow.RecordBatch")
        return result

    def _cast(self, result: pa.RecordBatch | pa.Table, rows: pa.RecordBatch) -> Outcome:
        parts = arrow_batches.combined(result) if isinstance(result, pa.Table) else [result]
        cast = pa.Table.from_batches([self._results.cast(each) for each in parts])
        guessed = None if cast.num_rows == rows.num_rows else np.full(cast.num_rows, True)
        return Outcome(cast, np.minimum(np.arange(cast.num_rows), rows.num_rows - 1), guessed=guessed)

    def _rejection(self, place: int, error: BaseException) -> Rejection:
        if isinstance(error, ResultError):
            return Rejection(place, error_text.one_line(str(error)), raised=False)
        return Rejection(place, error_text.described(error, self._user.home))

    @property
    def _none(self) -> pa.Table:
        return self._user.schema.empty_table()


class _OverdueError(Exception):
    """A message took too long."""


@dataclass(frozen=True)
class _Unreadable:
    """A row that can't be converted to Python values, for example because of a time beyond the year 9999."""

    error: Exception


def messages(rows: pa.RecordBatch) -> list[Any]:
    """The rows as dicts. Maps in the rows also become dicts, or lists of pairs if their keys are arrays or structs. A
    row that can't be converted becomes an :class:`_Unreadable`.
    """
    if any(maps.has_unhashable_keys(field.type) for field in rows.schema):
        readers = [(field.name, read) for field in rows.schema if (read := maps.reader(field.type)) is not None]
        return [_with_dicts(message, readers) for message in _messages(rows, None)]
    return _messages(rows, "strict")


def _with_dicts(message: Any, readers: Iterable[tuple[str, Callable[[Any], Any]]]) -> Any:
    if type(message) is _Unreadable:
        return message
    try:
        return message | {name: read(message[name]) for name, read in readers if message[name] is not None}
    except KeyError as error:
        return _Unreadable(error)


def _messages(rows: pa.RecordBatch, maps_as_dicts: str | None) -> list[Any]:
    try:
        found: list[Any] = rows.to_pylist(maps_as_pydicts=maps_as_dicts)
        return found
    except Exception:
        return [_message(rows.slice(place, 1), maps_as_dicts) for place in range(rows.num_rows)]


def _message(row: pa.RecordBatch, maps_as_dicts: str | None) -> Any:
    try:
        return row.to_pylist(maps_as_pydicts=maps_as_dicts)[0]
    except Exception as error:
        return _Unreadable(error)


def _is_cancelled(error: BaseException) -> bool:
    """Whether an exception comes from the cancellation of the current asyncio task, rather than from user code."""
    if not isinstance(error, asyncio.CancelledError):
        return False
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return False
    return task is not None and task.cancelling() > 0


def _same(returned: Any) -> Any:
    return returned


def _kept(returned: Any) -> bool:
    if returned is True or returned is False:
        return returned
    check_awaited(returned)
    if returned is not None and not isinstance(returned, bool | np.bool_):
        raise ResultError(f"it returned {shortened(returned)}, neither True nor False; bool(…) makes one")
    return bool(returned)
