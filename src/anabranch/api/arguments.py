"""Checks the arguments of a user's calls, and converts them for the job's graph. Errors name the line of the call, and
say how to correct the call.
"""

from __future__ import annotations

import datetime as dt
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, TypeGuard

from anabranch.api.processor import Processor
from anabranch.api.table import Table
from anabranch.api.timers import EVENT_TIME, PROCESSING_TIME
from anabranch.errors import GraphError
from anabranch.event_time import durations
from anabranch.event_time.windows import Window

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_API = str(Path(__file__).parent)
_MOST_ROWS = 2**63 - 1
_STARTS = ("earliest", "latest")
_TABLES = ("parquet", "orc", "csv", "json", "delta")
_TEXTS = {
    "key": 'write text, such as key="tailnum string" in read and table, and key="tailnum" in write',
    "schema": 'write the columns and their types as text, such as schema="dest string, dep_delay int"',
    "prefix": 'write text, such as prefix="landed_"',
}
"""The arguments that must be text in every operator that has them. Each is mapped to the advice in the error that is
raised if the argument isn't text.
"""


def check_texts(kind: str, given: Mapping[str, object]) -> None:
    """Raises GraphError if ``given`` has a ``key``, ``schema`` or ``prefix`` that is neither None nor a string."""
    for name, cure in _TEXTS.items():
        value = given.get(name)
        if value is not None and not isinstance(value, str):
            raise GraphError(f"{kind} at {caller()} has {name}= of the type {type(value).__name__}, not text", cure)


def stream(kind: str, name: object) -> str:
    """Return ``name`` if it is a nonempty string. Otherwise, raise GraphError."""
    if not isinstance(name, str) or not name:
        raise GraphError(
            f"{kind} at {caller()} was given {name!r}, not the name of a stream",
            f'give its name as text, as in {kind}("flights")',
        )
    return name


def read_as_forms(kind: str, read_as: object) -> dict[str, str]:
    """Return ``read_as`` as a dict, or an empty dict if ``read_as`` is None. Raises GraphError if ``read_as`` isn't a
    mapping from strings (column names) to strings (such as ``epoch-millis``).
    """
    if read_as is None:
        return {}
    if isinstance(read_as, Mapping) and all(isinstance(text, str) for text in (*read_as, *read_as.values())):
        return dict(read_as)
    raise GraphError(
        f"{kind} at {caller()} has read_as={read_as!r}", 'write a dict, such as read_as={"at": "epoch-millis"}'
    )


def _columns(kind: str, given: object, example: str) -> list[str]:
    """Return the column names in ``given``, which is one name or an iterable of names. Raises GraphError if a name
    isn't a nonempty string.
    """
    names: list[Any] = list(given) if isinstance(given, Iterable) and not isinstance(given, str) else [given]
    for name in names:
        if not isinstance(name, str) or not name:
            raise GraphError(f"{kind} at {caller()} was given {name!r}, not a column", f"write {example}")
    return names


def plausible_times(event_time: str | None, wanted: tuple[str, str]) -> list[Any]:
    """The checked parts of ``event_time_range``: the earliest plausible date, and how many ms after the end of the
    current day (in UTC) an event time may be.
    """
    if event_time is None:
        raise GraphError(
            f"read at {caller()} has event_time_range but no event_time", 'name the column: event_time="at"'
        )
    try:
        earliest, ahead = wanted
        # Python takes other forms of ISO 8601, too, which Spark doesn't.
        return [dt.date.fromisoformat(earliest).isoformat(), durations.parse(ahead)]
    except (TypeError, ValueError) as error:
        raise GraphError(
            f"read at {caller()} has event_time_range={wanted!r}: {error}",
            'write a date, and how far times may be ahead of today: event_time_range=("1900-01-01", "1 day")',
        ) from None


def check_start(start: object) -> None:
    if start not in _STARTS:
        raise GraphError(
            f"read at {caller()} has start={start!r}", f"write {' or '.join(f'start={each!r}' for each in _STARTS)}"
        )


def watermark_delay(event_time: str | None, watermark: str | None) -> int | None:
    """Return ``watermark`` in milliseconds, or None if ``event_time`` is None. ``watermark`` says how much older a
    record can be than the newest record of its partition.
    """
    if event_time is None:
        if watermark is not None:
            raise GraphError(
                f"read at {caller()} has watermark={watermark!r} but no event_time", 'name the column: event_time="at"'
            )
        return None
    if not isinstance(event_time, str) or not event_time:
        raise GraphError(f"read at {caller()} has event_time={event_time!r}", 'name the column: event_time="at"')
    if watermark is None:
        raise GraphError(
            f"read at {caller()} has event_time={event_time!r} but no watermark",
            'say how much older than the newest of its partition a record may be: watermark="10 minutes"',
        )
    try:
        return durations.parse(watermark)
    except ValueError as error:
        raise GraphError(f"read at {caller()}: watermark {error}", 'write watermark="10 minutes"') from None


def refresh_interval(refresh: str | None) -> int | None:
    """``refresh`` in milliseconds; None if the table is read only when a lane starts."""
    if refresh is None:
        return None
    try:
        return durations.parse(refresh)
    except ValueError as error:
        raise GraphError(f"join_table at {caller()}: refresh {error}", 'write refresh="10 minutes"') from None


def sql(kind: str, expression: object) -> str:
    if not isinstance(expression, str) or not expression.strip():
        raise GraphError(
            f"{kind} at {caller()} was given {expression!r}, not an SQL expression",
            "write SQL as a string; for Python functions there are map, filter, map_arrow and transform",
        )
    return expression


def function(kind: str, function: object) -> Callable[..., Any]:
    if not callable(function):
        raise GraphError(f"{kind} at {caller()} was given {function!r}, not a function", "pass a function")
    return function


def aggregation(by: str | list[str] | None, aggregates: Mapping[str, str]) -> dict[str, Any]:
    """The arguments of an ``agg`` operator: the list of columns ``by``, and ``aggregates``, which maps each result
    column to its SQL expression.
    """
    if not aggregates:
        raise GraphError(f"agg at {caller()} computes nothing", 'write agg(n="count(*)")')
    columns = [] if by is None else _columns("agg", by, 'agg(by="carrier", ...) or agg(by=["carrier", "dest"], ...)')
    return {"by": columns, "aggregates": {name: sql("agg", each) for name, each in aggregates.items()}}


def check_how(kind: str, how: object) -> None:
    """Raises GraphError if this kind of join doesn't exist."""
    if how not in ("inner", "left"):
        raise GraphError(f"{kind} at {caller()} has how={how!r}", 'use how="inner" or how="left"')


def distance(within: str) -> int:
    """``within`` in milliseconds: the largest distance between the event times of two joined rows."""
    try:
        return durations.parse(within)
    except ValueError as error:
        raise GraphError(f"join at {caller()}: within {error}", 'write within="10 minutes"') from None


def joined_columns(on: str | Sequence[str] | Mapping[str, str]) -> dict[str, str]:
    """The condition of a join, as a dict from columns of the stream to columns of the table. Rows match if the two
    columns of each pair are equal.

    Args:
        on: a column that both the stream and the table have, several such columns, or a mapping from columns of the
            stream to columns of the table.

    Raises:
        GraphError: ``on`` names no column, or contains something that isn't the name of a column.
    """
    example = 'join_table(..., on="dest") or on={"dest": "iata"}'
    if isinstance(on, Mapping):
        columns = dict(zip(*(_columns("join_table", side, example) for side in (on, on.values())), strict=True))
    else:
        columns = {column: column for column in _columns("join_table", on, example)}
    if not columns:
        raise GraphError(f"join_table at {caller()} names no column", 'write join_table(..., on="dest")')
    return columns


def joined_table(
    table: str | Table | Callable[[Any], Any], format: str | None, schema: str | None
) -> tuple[dict[str, Any], Callable[..., Any] | None]:
    """A pair: the operator arguments that describe the table, and the user's function that reads the table. If the
    table is a path or a stream, the function is None.
    """
    if isinstance(table, str):
        ending = table.rstrip("/").rpartition(".")[2].lower()
        kind = format or (ending if ending in _TABLES else "parquet")
        if kind not in _TABLES:
            raise GraphError(
                f"join_table at {caller()} has format={format!r}",
                f"use one of {', '.join(_TABLES)}, or give a function: join_table(lambda spark: spark.read..., ...)",
            )
        return {"path": table, "format": kind, "schema": schema}, None
    if format is not None or schema is not None:
        raise GraphError(
            f"join_table at {caller()} has format= or schema=, but the table isn't a path",
            "leave them out: a function reads its table itself, and job.table(...) declares a stream's columns",
        )
    if isinstance(table, Table):
        of: dict[str, Any] = {"stream": table.stream, "key": table.key}
        of |= {} if table.schema is None else {"schema": table.schema}
        of |= {"read_as": dict(table.read_as)} if table.read_as else {}
        return {"of": of}, None
    return {}, function("join_table", table)


def processor(given: object, timers: str | None) -> Processor:
    """Return ``given`` if it is a processor that fits ``timers``; otherwise, raise GraphError. If ``timers`` names a
    clock, the processor must define ``on_timer``. If ``timers`` is None, the processor must not define ``on_timer``.
    """
    if not isinstance(given, Processor):
        what = f"the class {given.__name__}" if isinstance(given, type) else repr(given)
        raise GraphError(
            f"process at {caller()} was given {what}, not a processor",
            "pass an instance of a class of yours that has anabranch.Processor as its base: process(Silence())",
        )
    if timers not in (None, EVENT_TIME, PROCESSING_TIME):
        raise GraphError(f"process at {caller()} has timers={timers!r}", 'use timers="event_time" or "processing_time"')
    if given.has_timers() != (timers is not None):
        does = "has an on_timer, and timers=None" if timers is None else f"has timers={timers!r}, and no on_timer"
        raise GraphError(
            f"process at {caller()} {does}",
            'say which clock timers go by, as in process(..., timers="event_time"), and define on_timer',
        )
    return given


def declared(processor: Processor) -> dict[str, dict[str, str]]:
    """The declared states of a processor, in the form in which the graph stores them."""
    return {name: each.declared for name, each in processor.states().items()}


def row_limit(n: object) -> int:
    """Return ``n`` if it is an int from 1 to the largest value of a ``long``, the type of the state that counts the
    rows. Otherwise, raise GraphError."""
    if not _is_count(n) or n > _MOST_ROWS:
        raise GraphError(
            f"limit_per_key at {caller()} has n={n!r}", "give a whole number of rows from 1 on, as in limit_per_key(3)"
        )
    return n


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def check_partition_by(columns: Sequence[object], via: object, partitions: object) -> None:
    """Raises GraphError if there are no columns, a column isn't a nonempty string, ``via`` is unknown, ``partitions``
    is neither None nor a positive int, or ``partitions`` is given with ``via="spark"``.
    """
    if not columns:
        raise GraphError(f"partition_by at {caller()} names no column", 'write partition_by("dest")')
    _columns("partition_by", columns, 'partition_by("origin", "dest")')
    if via not in ("stream", "spark"):
        raise GraphError(f"partition_by at {caller()} has via={via!r}", 'use via="stream" or via="spark"')
    if partitions is not None and (via == "spark" or not _is_count(partitions)):
        raise GraphError(
            f"partition_by at {caller()} has partitions={partitions!r}",
            'give a whole number from 1 on, and only with via="stream"',
        )


def check_window(window: object, time: str, on_late: str) -> None:
    """Raises GraphError if an argument is invalid. With processing time, ``on_late`` must be ``drop``."""
    if not isinstance(window, Window):
        raise GraphError(
            f"window at {caller()} was given {window!r}, not a window",
            'write window(tumbling("1 hour")), with: from anabranch import tumbling',
        )
    if time not in ("event", "processing"):
        raise GraphError(f"window at {caller()} has time={time!r}", 'use time="event" or time="processing"')
    if on_late not in ("drop", "dead-letter", "fail"):
        raise GraphError(f"window at {caller()} has on_late={on_late!r}", 'use on_late="drop", "dead-letter" or "fail"')
    if on_late != "drop" and time == "processing":
        raise GraphError(
            f"window at {caller()} has on_late={on_late!r}, but no row is late in windows of processing time",
            "leave it out",
        )


def check_name(what: str, name: object) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise GraphError(
            f"{what} name {name!r} at {caller()} is refused",
            "use up to 100 letters, digits, dots, dashes and underscores, beginning with a letter or digit",
        )


def caller() -> str:
    """``file:line`` of the nearest frame outside the package ``anabranch.api``."""
    frame = calling_frame()
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"


def calling_frame() -> FrameType:
    """The nearest frame outside the package ``anabranch.api``."""
    frame = sys._getframe(1)
    while frame.f_back is not None and str(Path(frame.f_code.co_filename).parent) == _API:
        frame = frame.f_back
    return frame
