"""What a user imports: a Job and its Streams. Building one needs no Spark: it writes down a graph."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from anabranch.errors import GraphError
from anabranch.event_time import durations
from anabranch.event_time.windows import Tumbling
from anabranch.model.graph import Graph, Node

__all__ = ["Job", "Stream", "Windowed"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_HERE = str(Path(__file__))


class Job:
    """A named graph of operators over streams. One job file holds one job.

    Args:
        name: letters, digits, dots, dashes and underscores. State, streams and folders of the job hang on it.
    """

    def __init__(self, name: str) -> None:
        _check_name("job", name)
        self.name = name
        self.functions: dict[int, Callable[..., Any]] = {}
        self._nodes: list[Node] = []

    @property
    def graph(self) -> Graph:
        """All operators so far, as plain data."""
        return Graph(job=self.name, nodes=tuple(self._nodes))

    def read(
        self,
        stream: str,
        *,
        key: str | None = None,
        schema: str | None = None,
        event_time: str | None = None,
        watermark: str | None = None,
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
            event_time: the column, a timestamp, that says when what a record tells of has happened. Windows need it.
            watermark: how much older than the newest of its partition a record may be, as ``"10 minutes"``.
            broadcast: every task reads all of it.
            start: where a new job begins.
        """
        delay = _delay(event_time, watermark)
        args: dict[str, Any] = {"stream": stream, "key": key, "schema": schema, "broadcast": broadcast, "start": start}
        args |= {"event_time": event_time, "watermark": delay}
        return Stream(self, self._add("read", (), args, name, stream))

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
        function: Callable[..., Any] | None = None,
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

    def window(self, window: Tumbling) -> Windowed:
        """Windows of event time, for the ``agg`` that follows: ``window(tumbling("1 hour")).agg(n="count(*)")``."""
        if not isinstance(window, Tumbling):
            raise GraphError(
                f"window at {_caller()} was given {window!r}, not a window",
                'write window(tumbling("1 hour")), with: from anabranch import tumbling',
            )
        return Windowed(self, window)

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
        function: Callable[..., Any] | None = None,
        derived: str | None = None,
    ) -> Stream:
        derived = derived if derived is not None else kind.replace("_", "-")
        return Stream(self._job, self._job._add(kind, (self._node.id,), args, name, derived, function))


class Windowed:
    """A stream cut into windows of event time: only an ``agg`` can follow."""

    def __init__(self, stream: Stream, window: Tumbling) -> None:
        self._stream = stream
        self._window = window

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
                updated row for each that a batch touched.
            aggregates: result column = SQL aggregate, as in ``flights="count(*)"``.
        """
        if emit not in ("on_close", "on_update"):
            raise GraphError(f"agg at {_caller()} has emit={emit!r}", 'use emit="on_close" or emit="on_update"')
        window = {"kind": "tumbling", "size": self._window.size}
        return self._stream._agg(by, aggregates, {"emit": emit, "window": window}, name)


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
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename == _HERE:
        frame = frame.f_back
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
