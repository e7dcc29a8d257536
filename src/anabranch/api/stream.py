"""Streams: each call writes down one operator of a job."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from anabranch.api import arguments
from anabranch.api.arguments import caller
from anabranch.api.graph_builder import GraphBuilder
from anabranch.api.processor import Processor
from anabranch.api.table import Table
from anabranch.api.timers import EVENT_TIME, PROCESSING_TIME
from anabranch.api.windowed import Windowed
from anabranch.errors import GraphError
from anabranch.event_time import durations
from anabranch.event_time.windows import Window
from anabranch.model.graph import Node

__all__ = ["Stream"]


class Stream:
    """What an operator gives: the start of the next one. Never changed; each call adds an operator to the job."""

    def __init__(self, builder: GraphBuilder, node: Node) -> None:
        self._builder = builder
        self._node = node

    def where(self, condition: str) -> Stream:
        """Keep the rows for which the SQL condition is true."""
        return self._then("where", {"condition": arguments.sql("where", condition)})

    def select(self, *expressions: str) -> Stream:
        """These SQL expressions (``"a"``, ``"b * 2 as c"``, ``"*"``) become the columns."""
        if not expressions:
            raise GraphError(f"select at {caller()} has no columns", 'name at least one, as in select("dest")')
        return self._then("select", {"expressions": [arguments.sql("select", e) for e in expressions]})

    def with_columns(self, **expressions: str) -> Stream:
        """Add or replace columns by SQL expressions."""
        if not expressions:
            raise GraphError(f"with_columns at {caller()} has no columns", 'write with_columns(late="delay > 15")')
        return self._then(
            "with_columns", {"columns": {n: arguments.sql("with_columns", e) for n, e in expressions.items()}}
        )

    def transform(self, function: Callable[[Any], Any], *, name: str | None = None) -> Stream:
        """A function of a Spark DataFrame to a DataFrame; stateless, and it keeps the column ``_anabranch``."""
        return self._then("transform", {}, name, arguments.function("transform", function))

    def map_arrow(
        self, function: Callable[[Any], Any], *, schema: str | None = None, name: str | None = None
    ) -> Stream:
        """A function of a ``pyarrow.RecordBatch`` to a RecordBatch of any number of rows.

        ``schema`` is the result's (default: the input's). A batch holds rows of one partition in order.
        """
        return self._then("map_arrow", {"schema": schema}, name, arguments.function("map_arrow", function))

    def map(self, function: Callable[[Any], Any], *, schema: str | None = None, name: str | None = None) -> Stream:
        """A function of one message (a dict) to one message; plain or ``async``. ``schema``: default the input's."""
        return self._then("map", {"schema": schema}, name, arguments.function("map", function))

    def flat_map(self, function: Callable[[Any], Any], *, schema: str | None = None, name: str | None = None) -> Stream:
        """A function of one message (a dict) to any number of them (an iterable)."""
        return self._then("flat_map", {"schema": schema}, name, arguments.function("flat_map", function))

    def filter(self, function: Callable[[Any], Any], *, name: str | None = None) -> Stream:
        """Keep the messages (dicts) for which the function is true. ``where`` is faster when SQL can say it."""
        return self._then("filter", {}, name, arguments.function("filter", function))

    def merge(self, *others: Stream) -> Stream:
        """The rows of all of them; columns of the same names and types. Order holds per partition of each input."""
        for other in others:
            if other._builder is not self._builder:
                raise GraphError(
                    f"merge at {caller()} takes streams of two jobs: {self._builder.job!r} and {other._builder.job!r}",
                    "merge streams of one job; a stream of another job is read by name",
                )
        if not others:
            raise GraphError(f"merge at {caller()} has nothing to merge with", "pass at least one stream")
        inputs = tuple(stream._node.id for stream in (self, *others))
        return Stream(self._builder, self._builder.add("merge", inputs, {}, None, "merge"))

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
                f"join at {caller()} was given {other!r}, not a stream of the job",
                'write a.join(b, within="10 minutes"), with b = job.read(...)',
            )
        if other._builder is not self._builder:
            raise GraphError(
                f"join at {caller()} takes streams of two jobs: {self._builder.job!r} and {other._builder.job!r}",
                "join streams of one job; a stream of another job is read by name",
            )
        if how not in ("inner", "left"):
            raise GraphError(f"join at {caller()} has how={how!r}", 'use how="inner" or how="left"')
        try:
            length = durations.parse(within)
        except ValueError as error:
            raise GraphError(f"join at {caller()}: within {error}", 'write within="10 minutes"') from None
        args = {"within": length, "how": how, "prefix": prefix}
        return Stream(self._builder, self._builder.add("join", (self._node.id, other._node.id), args, name, "join"))

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
            raise GraphError(f"join_table at {caller()} names no column", 'write join_table(..., on="dest")')
        if how not in ("inner", "left"):
            raise GraphError(f"join_table at {caller()} has how={how!r}", 'use how="inner" or how="left"')
        args = {"on": columns, "how": how, "prefix": prefix, "refresh": arguments.refresh_interval(refresh)}
        read, function = arguments.joined_table(table, format, schema)
        return self._then("join_table", {**args, **read}, name, function)

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
            raise GraphError(f"partition_by at {caller()} names no column", 'write partition_by("dest")')
        if via not in ("stream", "spark"):
            raise GraphError(f"partition_by at {caller()} has via={via!r}", 'use via="stream" or via="spark"')
        if partitions is not None and (via == "spark" or partitions < 1):
            raise GraphError(
                f"partition_by at {caller()} has partitions={partitions}",
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
                f"window at {caller()} was given {window!r}, not a window",
                'write window(tumbling("1 hour")), with: from anabranch import tumbling',
            )
        if time not in ("event", "processing"):
            raise GraphError(f"window at {caller()} has time={time!r}", 'use time="event" or time="processing"')
        if on_late not in ("drop", "dead-letter", "fail"):
            raise GraphError(
                f"window at {caller()} has on_late={on_late!r}", 'use on_late="drop", "dead-letter" or "fail"'
            )
        if on_late != "drop" and time == "processing":
            raise GraphError(
                f"window at {caller()} has on_late={on_late!r}, but no row is late in windows of processing time",
                "leave it out",
            )
        return Windowed(self._then, window, time, on_late)

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
                f"agg at {caller()} has emit={emit!r}",
                'a running agg has emit="on_update"; one that closes has a window: window(tumbling("1 hour")).agg(...)',
            )
        return self._then("agg", {**arguments.aggregation(by, aggregates), "emit": emit}, name)

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
        processor = arguments.processor(processor)
        if timers not in (None, EVENT_TIME, PROCESSING_TIME):
            raise GraphError(
                f"process at {caller()} has timers={timers!r}", 'use timers="event_time" or "processing_time"'
            )
        if processor.has_timers() != (timers is not None):
            does = "has an on_timer, and timers=None" if timers is None else f"has timers={timers!r}, and no on_timer"
            raise GraphError(
                f"process at {caller()} {does}",
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
        self._then("foreach_batch", {}, name, arguments.function("foreach_batch", function))

    def _then(
        self,
        kind: str,
        args: dict[str, Any],
        name: str | None = None,
        function: Any = None,
        derived: str | None = None,
    ) -> Stream:
        derived = derived if derived is not None else kind.replace("_", "-")
        return Stream(self._builder, self._builder.add(kind, (self._node.id,), args, name, derived, function))
