"""What a user imports: a Job and its Streams. Building one needs no Spark: it writes down a graph."""

from __future__ import annotations

import datetime as dt
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Literal

from anabranch.api.hooks import ON_DRAIN, DrainedTask
from anabranch.api.processor import Processor
from anabranch.api.timers import EVENT_TIME, PROCESSING_TIME
from anabranch.errors import GraphError
from anabranch.event_time import durations, windows
from anabranch.event_time.windows import Session, Window
from anabranch.model.graph import Graph, Node

__all__ = ["Job", "Stream", "Table", "Windowed"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_HERE = str(Path(__file__))
_TABLES = ("parquet", "orc", "csv", "json", "delta")


class Job:
    """A named graph of operators over streams. One job file holds one job.

    Args:
        name: letters, digits, dots, dashes and underscores. State, streams and folders of the job hang on it.

    ``module`` is the name of the one that the job was made in.
    """

    def __init__(self, name: str) -> None:
        _check_name("job", name)
        self.name = name
        self.module = str(_calling_frame().f_globals.get("__name__", ""))
        self.functions: dict[int, Any] = {}
        self._nodes: list[Node] = []

    @property
    def graph(self) -> Graph:
        """All operators so far, as plain data."""
        return Graph(job=self.name, nodes=tuple(self._nodes))

    def on_drain(self, function: Callable[[DrainedTask], None]) -> Callable[[DrainedTask], None]:
        """Call a function for each task that has drained, before its container ends: ``@job.on_drain``.

        It runs beside the driver, once all that the task has taken in is written, with all windows and timers. It is
        called again if the container dies before the coordinator has heard of it, or if it raises.
        """
        if ON_DRAIN in self.functions:
            raise GraphError(f"on_drain at {_caller()} is the second one", "call both from one function")
        self.functions[ON_DRAIN] = function
        return function

    def read(
        self,
        stream: str,
        *,
        key: str | None = None,
        schema: str | None = None,
        read_as: Mapping[str, str] | None = None,
        event_time: str | None = None,
        watermark: str | None = None,
        event_time_range: tuple[str, str] | None = None,
        broadcast: bool = False,
        start: Literal["earliest", "latest"] = "earliest",
        name: str | None = None,
    ) -> Stream:
        """Read a stream.

        Args:
            stream: its name; ``[streams.NAME]`` in the configuration binds it to a system.
            key: how the message key is decoded, as ``"tailnum string"``; several fields: a JSON array.
            schema: fields of the value, as ``"carrier string, dep_delay int"``. Without it, values stay as they are
                in a column ``value`` (string or binary, by the stream's format; JSON streams need a schema).
            read_as: how columns of JSON are read that aren't read by their type alone, by name: times that are numbers
                as ``"epoch-seconds"``, ``"epoch-millis"`` or ``"epoch-micros"``, dates as ``"epoch-days"``, floats
                whose NaN and infinity become null as ``"nan-is-null"``, a string that takes a value of any kind as its
                text as ``"json"``. docs/values.md.
            event_time: the column, a timestamp, that says when what a record tells of has happened. Windows need it.
            watermark: how much older than the newest of its partition a record may be, as ``"10 minutes"``.
            event_time_range: which event times are plausible: from a date on, and at most so much ahead of today, as
                ``("1900-01-01", "1 day")``, the default. A record with another one is a dead letter, and doesn't move
                the watermark.
            broadcast: every task reads all of it.
            start: where a new job begins.
        """
        delay = _delay(event_time, watermark)
        args: dict[str, Any] = {"stream": stream, "key": key, "schema": schema, "broadcast": broadcast, "start": start}
        args |= {"event_time": event_time, "watermark": delay}
        args |= {"read_as": dict(read_as)} if read_as else {}
        args |= {"event_time_range": _range(event_time, event_time_range)} if event_time_range else {}
        return Stream(self, self._add("read", (), args, name, stream))

    def table(
        self, stream: str, *, key: str, schema: str | None = None, read_as: Mapping[str, str] | None = None
    ) -> Table:
        """What a stream says last of each key, for ``join_table``; a record without a value takes its key out.

        Args:
            key: how the message key is decoded, as for ``read``.
            schema: fields of the value, as for ``read``.
            read_as: how some of them are read, as for ``read``.
        """
        return Table(stream, key, schema, read_as)

    def preview(self, stream: str, n: int = 20, *, config: Path | str | None = None) -> list[dict[str, Any]]:
        """The first rows of a stream, for notebooks; changes nothing anywhere.

        Of a stream that the job reads: its first records, as ``read`` declares them. Of one that it writes: rows that
        it would write, computed on what is in the inputs now; see :meth:`to_dataframe`. It runs on this process's Spark
        session, or starts one.

        Args:
            config: an ``anabranch.toml`` (default: that of the working folder).

        Raises:
            UsageError: the job neither reads nor writes the stream.
            AnabranchError: the job can't be planned: a missing stream, for one.
        """
        from anabranch.spark import batch

        return batch.preview(self, stream, n, config)

    def to_dataframe(self, spark: Any, output: str | None = None, *, config: Path | str | None = None) -> Any:
        """A batch DataFrame of what the job would write to a stream, over all records that are in the inputs now.

        A running ``agg`` gives one row for each key, the last; a window, its row as if nothing more came. Rows go
        through a ``partition_by`` as they are. What can't be processed is left out, or fails with ``on_error="fail"``.

        Args:
            spark: the SparkSession to make it with.
            output: a stream that the job writes (default: its only one).
            config: an ``anabranch.toml`` (default: that of the working folder).

        Raises:
            UsageError: the job doesn't write it, or writes several and none was named.
            AnabranchError: the job can't be planned: a missing stream, for one.
        """
        from anabranch.spark import batch

        return batch.to_dataframe(self, spark, output, config)

    def _add(
        self,
        kind: str,
        inputs: tuple[int, ...],
        args: dict[str, Any],
        name: str | None,
        derived: str,
        function: Any = None,
    ) -> Node:
        taken = {node.name for node in self._nodes}
        where = _caller()
        if name is not None:
            _check_name("operator", name)
            if name in taken:
                raise GraphError(f"two operators are named {name!r} ({where})", "give one of them another name=")
        node = Node(
            id=len(self._nodes),
            kind=kind,
            name=name if name is not None else _unique(derived, taken),
            inputs=inputs,
            args={key: value for key, value in args.items() if value is not None},
            named=name is not None,
            where=where,
        )
        if function is not None:
            self.functions[node.id] = function
        self._nodes.append(node)
        return node


@dataclass(frozen=True)
class Table:
    """A stream as a table; see :meth:`Job.table`."""

    stream: str
    key: str
    schema: str | None
    read_as: Mapping[str, str] | None = None


class Stream:
    """What an operator gives: the start of the next one. Never changed; each call adds an operator to the job."""

    def __init__(self, job: Job, node: Node) -> None:
        self._job = job
        self._node = node

    def where(self, condition: str) -> Stream:
        """Keep the rows for which the SQL condition is true."""
        return self._then("where", {"condition": _sql("where", condition)})

    def select(self, *expressions: str) -> Stream:
        """These SQL expressions (``"a"``, ``"b * 2 as c"``, ``"*"``) become the columns."""
        if not expressions:
            raise GraphError(f"select at {_caller()} has no columns", 'name at least one, as in select("dest")')
        return self._then("select", {"expressions": [_sql("select", e) for e in expressions]})

    def with_columns(self, **expressions: str) -> Stream:
        """Add or replace columns by SQL expressions."""
        if not expressions:
            raise GraphError(f"with_columns at {_caller()} has no columns", 'write with_columns(late="delay > 15")')
        return self._then("with_columns", {"columns": {n: _sql("with_columns", e) for n, e in expressions.items()}})

    def transform(self, function: Callable[[Any], Any], *, name: str | None = None) -> Stream:
        """A function of a Spark DataFrame to a DataFrame; stateless, and it keeps the column ``_anabranch``."""
        return self._then("transform", {}, name, _function("transform", function))

    def map_arrow(
        self, function: Callable[[Any], Any], *, schema: str | None = None, name: str | None = None
    ) -> Stream:
        """A function of a ``pyarrow.RecordBatch`` to a RecordBatch of any number of rows.

        ``schema`` is the result's (default: the input's). A batch holds rows of one partition in order.
        """
        return self._then("map_arrow", {"schema": schema}, name, _function("map_arrow", function))

    def map(self, function: Callable[[Any], Any], *, schema: str | None = None, name: str | None = None) -> Stream:
        """A function of one message (a dict) to one message; plain or ``async``. ``schema``: default the input's."""
        return self._then("map", {"schema": schema}, name, _function("map", function))

    def flat_map(self, function: Callable[[Any], Any], *, schema: str | None = None, name: str | None = None) -> Stream:
        """A function of one message (a dict) to any number of them (an iterable)."""
        return self._then("flat_map", {"schema": schema}, name, _function("flat_map", function))

    def filter(self, function: Callable[[Any], Any], *, name: str | None = None) -> Stream:
        """Keep the messages (dicts) for which the function is true. ``where`` is faster when SQL can say it."""
        return self._then("filter", {}, name, _function("filter", function))

    def merge(self, *others: Stream) -> Stream:
        """The rows of all of them; columns of the same names and types. Order holds per partition of each input."""
        for other in others:
            if other._job is not self._job:
                raise GraphError(
                    f"merge at {_caller()} takes streams of two jobs: {self._job.name!r} and {other._job.name!r}",
                    "merge streams of one job; a stream of another job is read by name",
                )
        if not others:
            raise GraphError(f"merge at {_caller()} has nothing to merge with", "pass at least one stream")
        inputs = tuple(stream._node.id for stream in (self, *others))
        return Stream(self._job, self._job._add("merge", inputs, {}, None, "merge"))

    def join(
        self,
        other: Stream,
        *,
        within: str,
        how: Literal["inner", "left"] = "inner",
        prefix: str | None = None,
        name: str | None = None,
    ) -> Stream:
        """Pairs of a row here and a row of another stream with the same stage key, not further apart in event time.

        Both sides have event time, and a key of the same columns. A pair comes as soon as both rows are there.

        Args:
            within: how far apart, as ``"10 minutes"``, in either direction; so far is within.
            how: ``"left"``: a row here that has found none comes once, with nulls, when the watermark has passed the
                time in which one could come.
            prefix: put before the names of the other side's columns, but for the key.
        """
        if not isinstance(other, Stream):
            raise GraphError(
                f"join at {_caller()} was given {other!r}, not a stream of the job",
                'write a.join(b, within="10 minutes"), with b = job.read(...)',
            )
        if other._job is not self._job:
            raise GraphError(
                f"join at {_caller()} takes streams of two jobs: {self._job.name!r} and {other._job.name!r}",
                "join streams of one job; a stream of another job is read by name",
            )
        if how not in ("inner", "left"):
            raise GraphError(f"join at {_caller()} has how={how!r}", 'use how="inner" or how="left"')
        try:
            length = durations.parse(within)
        except ValueError as error:
            raise GraphError(f"join at {_caller()}: within {error}", 'write within="10 minutes"') from None
        args = {"within": length, "how": how, "prefix": prefix}
        return Stream(self._job, self._job._add("join", (self._node.id, other._node.id), args, name, "join"))

    def join_table(
        self,
        table: str | Table | Callable[[Any], Any],
        *,
        on: str | Sequence[str] | Mapping[str, str],
        how: Literal["inner", "left"] = "inner",
        refresh: str | None = None,
        format: Literal["parquet", "orc", "csv", "json", "delta"] | None = None,
        schema: str | None = None,
        prefix: str | None = None,
        name: str | None = None,
    ) -> Stream:
        """Each row with the columns of the rows of a table that have the same values in some columns.

        The table is read whole and goes to every executor: it must be small. Each batch has one version of it.

        Args:
            table: where it is, for all containers; a stream, as :meth:`Job.table` has it; or a function of a
                SparkSession to a DataFrame.
            on: the columns that both have; or those of the stream, each with that of the table.
            how: ``"left"``: a row for which there is none comes too, with nulls.
            refresh: how long it may be used before it is read again, as ``"10 minutes"``. Without it, a lane reads it
                once.
            format: of what is there (default: what the name ends with, else ``"parquet"``). CSV has a header.
            schema: of what is there (default: as Spark finds it).
            prefix: put before the names of the table's columns.
        """
        columns = {on: on} if isinstance(on, str) else dict(on) if isinstance(on, Mapping) else {c: c for c in on}
        if not columns:
            raise GraphError(f"join_table at {_caller()} names no column", 'write join_table(..., on="dest")')
        if how not in ("inner", "left"):
            raise GraphError(f"join_table at {_caller()} has how={how!r}", 'use how="inner" or how="left"')
        args: dict[str, Any] = {"on": columns, "how": how, "prefix": prefix, "refresh": _refresh(refresh)}
        if not isinstance(table, str):
            if format is not None or schema is not None:
                raise GraphError(
                    f"join_table at {_caller()} has format= or schema=, and no path",
                    "a function says itself how its table is read, and job.table(...) what is in a stream",
                )
            if isinstance(table, Table):
                of: dict[str, Any] = {"stream": table.stream, "key": table.key}
                of |= {} if table.schema is None else {"schema": table.schema}
                of |= {"read_as": dict(table.read_as)} if table.read_as else {}
                return self._then("join_table", {**args, "of": of}, name)
            return self._then("join_table", args, name, _function("join_table", table))
        ending = table.rstrip("/").rpartition(".")[2].lower()
        kind = format or (ending if ending in _TABLES else "parquet")
        if kind not in _TABLES:
            raise GraphError(
                f"join_table at {_caller()} has format={format!r}",
                f"use one of {', '.join(_TABLES)}, or give a function: join_table(lambda spark: spark.read..., ...)",
            )
        return self._then("join_table", {**args, "path": table, "format": kind, "schema": schema}, name)

    def partition_by(
        self,
        *columns: str,
        via: Literal["stream", "spark"] = "stream",
        partitions: int | None = None,
        name: str | None = None,
    ) -> Stream:
        """Start a new stage whose key is these columns.

        Args:
            via: ``"stream"``: through a durable intermediate stream, elastic and movable. ``"spark"``: a shuffle
                inside the query: faster, but the stage can't be scaled, spread or placed.
            partitions: of the intermediate stream (default: the most that an input of the stage has).
        """
        if not columns:
            raise GraphError(f"partition_by at {_caller()} names no column", 'write partition_by("dest")')
        if via not in ("stream", "spark"):
            raise GraphError(f"partition_by at {_caller()} has via={via!r}", 'use via="stream" or via="spark"')
        if partitions is not None and (via == "spark" or partitions < 1):
            raise GraphError(
                f"partition_by at {_caller()} has partitions={partitions}",
                'give a number from 1 on, and only with via="stream"',
            )
        args = {"columns": list(columns), "via": via, "partitions": partitions}
        return self._then("partition_by", args, name, derived="by-" + "-".join(columns))

    def window(
        self,
        window: Window,
        *,
        time: Literal["event", "processing"] = "event",
        on_late: Literal["drop", "dead-letter", "fail"] = "drop",
    ) -> Windowed:
        """Windows, for the ``agg`` that follows: ``window(tumbling("1 hour")).agg(n="count(*)")``.

        Args:
            window: ``tumbling("1 hour")``, ``sliding("1 hour", "10 minutes")`` or ``session("30 minutes")``.
            time: ``"event"``: by the time that ``read(event_time=...)`` names. ``"processing"``: by when the job takes
                a record in; such windows close as time goes on.
            on_late: what becomes of a row all of whose windows are closed.
        """
        if not isinstance(window, Window):
            raise GraphError(
                f"window at {_caller()} was given {window!r}, not a window",
                'write window(tumbling("1 hour")), with: from anabranch import tumbling',
            )
        if time not in ("event", "processing"):
            raise GraphError(f"window at {_caller()} has time={time!r}", 'use time="event" or time="processing"')
        if on_late not in ("drop", "dead-letter", "fail"):
            raise GraphError(
                f"window at {_caller()} has on_late={on_late!r}", 'use on_late="drop", "dead-letter" or "fail"'
            )
        if on_late != "drop" and time == "processing":
            raise GraphError(
                f"window at {_caller()} has on_late={on_late!r}, but no row is late in windows of processing time",
                "leave it out",
            )
        return Windowed(self, window, time, on_late)

    def agg(
        self,
        *,
        by: str | list[str] | None = None,
        emit: Literal["on_update"] = "on_update",
        name: str | None = None,
        **aggregates: str,
    ) -> Stream:
        """Running aggregates per stage key: an updated row for each key that a batch touched.

        Args:
            by: further columns to group by, below the stage key.
            aggregates: result column = SQL aggregate, as in ``flights="count(*)"``.
        """
        if emit != "on_update":
            raise GraphError(
                f"agg at {_caller()} has emit={emit!r}",
                'a running agg has emit="on_update"; one that closes has a window: window(tumbling("1 hour")).agg(...)',
            )
        return self._agg(by, aggregates, {"emit": emit}, name)

    def _agg(
        self, by: str | list[str] | None, aggregates: dict[str, str], args: dict[str, Any], name: str | None
    ) -> Stream:
        if not aggregates:
            raise GraphError(f"agg at {_caller()} computes nothing", 'write agg(n="count(*)")')
        columns = [by] if isinstance(by, str) else list(by or ())
        checked = {n: _sql("agg", e) for n, e in aggregates.items()}
        return self._then("agg", {"by": columns, "aggregates": checked, **args}, name)

    def process(
        self,
        processor: Processor,
        *,
        schema: str | None = None,
        timers: Literal["event_time", "processing_time"] | None = None,
        name: str | None = None,
    ) -> Stream:
        """Messages one by one, with state and timers for each stage key; see :class:`anabranch.Processor`.

        Late messages come too: ``timers.now`` is the watermark.

        Args:
            processor: an instance; each worker gets a copy.
            schema: of the rows that it gives (default: the input's).
            timers: the clock that they go by: ``"event_time"``, the watermark, or ``"processing_time"``, when batches
                begin: then there is one each second at least, or each ``[job] interval``.
        """
        processor = _processor(processor)
        if timers not in (None, EVENT_TIME, PROCESSING_TIME):
            raise GraphError(
                f"process at {_caller()} has timers={timers!r}", 'use timers="event_time" or "processing_time"'
            )
        if processor.has_timers() != (timers is not None):
            does = "has an on_timer, and timers=None" if timers is None else f"has timers={timers!r}, and no on_timer"
            raise GraphError(
                f"process at {_caller()} {does}",
                'say which clock timers go by, as in process(..., timers="event_time"), and define on_timer',
            )
        state = {name: each.declared for name, each in processor.states().items()}
        args = {"schema": schema, "timers": timers, "state": state}
        return self._then("process", args, name, processor)

    def write(self, stream: str, *, key: str | None = None, name: str | None = None) -> None:
        """Write to a stream. ``key``: an SQL expression (default: the stage key)."""
        self._then("write", {"stream": stream, "key": key}, name, derived=stream)

    def foreach_batch(self, function: Callable[[Any, str, int, int], None], *, name: str | None = None) -> None:
        """Call ``function(df, lane, batch, epoch)`` for each batch: at least once; deduplicate by the last three."""
        self._then("foreach_batch", {}, name, _function("foreach_batch", function))

    def _then(
        self,
        kind: str,
        args: dict[str, Any],
        name: str | None = None,
        function: Any = None,
        derived: str | None = None,
    ) -> Stream:
        derived = derived if derived is not None else kind.replace("_", "-")
        return Stream(self._job, self._job._add(kind, (self._node.id,), args, name, derived, function))


class Windowed:
    """A stream cut into windows: only an ``agg`` can follow."""

    def __init__(self, stream: Stream, window: Window, time: str, on_late: str) -> None:
        self._stream = stream
        self._window = window
        self._said = {
            name: said for name, said, usual in (("time", time, "event"), ("on_late", on_late, "drop")) if said != usual
        }

    def agg(
        self,
        *,
        by: str | list[str] | None = None,
        emit: Literal["on_close", "on_update"] = "on_close",
        name: str | None = None,
        **aggregates: str,
    ) -> Stream:
        """Aggregates per stage key and window, with the columns ``window_start`` and ``window_end``.

        Args:
            by: further columns to group by, below the stage key.
            emit: ``"on_close"``: one row for each window, when the watermark has passed its end; ``"on_update"``: an
                updated row for each that a batch touched (not of sessions).
            aggregates: result column = SQL aggregate, as in ``flights="count(*)"``.
        """
        if emit not in ("on_close", "on_update"):
            raise GraphError(f"agg at {_caller()} has emit={emit!r}", 'use emit="on_close" or emit="on_update"')
        if emit == "on_update" and isinstance(self._window, Session):
            raise GraphError(
                f'agg at {_caller()} has emit="on_update", but where a session ends isn\'t known while it goes on',
                'use emit="on_close": a session has one row, when it has ended',
            )
        window = {**windows.to_builtins(self._window), **self._said}
        return self._stream._agg(by, aggregates, {"emit": emit, "window": window}, name)


def _range(event_time: str | None, wanted: tuple[str, str]) -> list[Any]:
    """The first day, and the milliseconds that times may be ahead."""
    if event_time is None:
        raise GraphError(
            f"read at {_caller()} has event_time_range but no event_time", 'name the column: event_time="at"'
        )
    try:
        earliest, ahead = wanted
        dt.date.fromisoformat(earliest)
        return [earliest, durations.parse(ahead)]
    except (TypeError, ValueError) as error:
        raise GraphError(
            f"read at {_caller()} has event_time_range={wanted!r}: {error}",
            'write a date, and how far times may be ahead of today: event_time_range=("1900-01-01", "1 day")',
        ) from None


def _delay(event_time: str | None, watermark: str | None) -> int | None:
    """The watermark's delay in milliseconds; None without event time."""
    if event_time is None:
        if watermark is not None:
            raise GraphError(
                f"read at {_caller()} has watermark={watermark!r} but no event_time", 'name the column: event_time="at"'
            )
        return None
    if watermark is None:
        raise GraphError(
            f"read at {_caller()} has event_time={event_time!r} but no watermark",
            'say how much older than the newest of its partition a record may be: watermark="10 minutes"',
        )
    try:
        return durations.parse(watermark)
    except ValueError as error:
        raise GraphError(f"read at {_caller()}: watermark {error}", 'write watermark="10 minutes"') from None


def _refresh(refresh: str | None) -> int | None:
    """In milliseconds."""
    if refresh is None:
        return None
    try:
        return durations.parse(refresh)
    except ValueError as error:
        raise GraphError(f"join_table at {_caller()}: refresh {error}", 'write refresh="10 minutes"') from None


def _sql(kind: str, expression: object) -> str:
    if not isinstance(expression, str) or not expression.strip():
        raise GraphError(
            f"{kind} at {_caller()} was given {expression!r}, not an SQL expression",
            "write SQL as a string; for Python functions there are map, filter, map_arrow and transform",
        )
    return expression


def _function(kind: str, function: object) -> Callable[..., Any]:
    if not callable(function):
        raise GraphError(f"{kind} at {_caller()} was given {function!r}, not a function", "pass a function")
    return function


def _processor(given: object) -> Processor:
    if not isinstance(given, Processor):
        what = f"the class {given.__name__}" if isinstance(given, type) else repr(given)
        raise GraphError(
            f"process at {_caller()} was given {what}, not a processor",
            "pass an instance of a class of yours that has anabranch.Processor as its base: process(Silence())",
        )
    return given


def _check_name(what: str, name: object) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise GraphError(
            f"{what} name {name!r} at {_caller()} is refused",
            "use up to 100 letters, digits, dots, dashes and underscores, beginning with a letter or digit",
        )


def _unique(derived: str, taken: set[str]) -> str:
    base = re.sub(r"[^A-Za-z0-9._-]+", "-", derived).strip("-") or "operator"
    name, count = base, 1
    while name in taken:
        count += 1
        name = f"{base}-{count}"
    return name


def _caller() -> str:
    """``file:line`` of the nearest frame outside this module."""
    frame = _calling_frame()
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"


def _calling_frame() -> FrameType:
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename == _HERE:
        frame = frame.f_back
    return frame
