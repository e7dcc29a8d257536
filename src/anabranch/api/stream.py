"""The streams of a job. Their methods record the job's operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from anabranch.api import arguments
from anabranch.api.arguments import caller
from anabranch.api.first_rows import FirstRows
from anabranch.api.graph_builder import GraphBuilder
from anabranch.api.processor import Processor
from anabranch.api.table import Table
from anabranch.api.windowed import Windowed
from anabranch.errors import GraphError
from anabranch.event_time.windows import Window
from anabranch.model.graph import Node

__all__ = ["Stream"]


class Stream:
    """The result of an operator. Most methods add an operator to the job, and return that operator's result as a new
    stream. :meth:`write` and :meth:`foreach_batch` end a branch of the graph, and return nothing.

    If you call two methods on the same stream, the job has two branches. Every branch must end in :meth:`write` or
    :meth:`foreach_batch`. Conditions and expressions are Spark SQL. A method raises
    :class:`~anabranch.errors.GraphError` if it can tell that an argument is invalid; the error names the line in the
    job file. Errors in SQL and in schemas are found when the job is planned.

    A message becomes a dead letter if a processor, or the function of :meth:`map`, :meth:`flat_map`, :meth:`filter` or
    :meth:`map_arrow`, can't process it. With ``[job] on_error``, you can choose to drop such messages instead, or to
    let the lane fail.
    """

    def __init__(self, builder: GraphBuilder, node: Node) -> None:
        self._builder = builder
        self._node = node

    def where(self, condition: str) -> Stream:
        """Keep the rows for which an SQL condition is true.

        Example: ``flights.where("dep_delay >= 15 and dest is not null")``.
        """
        return self._then("where", {"condition": arguments.sql("where", condition)})

    def select(self, *expressions: str) -> Stream:
        """Replace all columns with the results of these SQL expressions.

        Example: ``flights.select("tailnum", "dep_delay / 60 as hours", "upper(dest) as to")``.
        """
        if not expressions:
            raise GraphError(f"select at {caller()} has no columns", 'name at least one, as in select("dest")')
        return self._then("select", {"expressions": [arguments.sql("select", e) for e in expressions]})

    def with_columns(self, **expressions: str) -> Stream:
        """Add or replace columns. The values of each column are the results of an SQL expression.

        Example: ``flights.with_columns(hours="dep_delay / 60", late="dep_delay >= 15")``.
        """
        if not expressions:
            raise GraphError(f"with_columns at {caller()} has no columns", 'write with_columns(late="delay > 15")')
        return self._then(
            "with_columns", {"columns": {n: arguments.sql("with_columns", e) for n, e in expressions.items()}}
        )

    def transform(self, function: Callable[[Any], Any], *, name: str | None = None) -> Stream:
        """Apply a function to a Spark DataFrame of the rows.

        The function must be stateless (no aggregates, ``distinct``, window functions, sorts or limits) and must keep
        the column ``_anabranch``. The function is called in the driver: first with empty DataFrames, to determine the
        columns, and later whenever a lane starts. If Spark can't run the operator as a part of the lane's query, the
        function is instead called once per batch. If the function raises an exception in a lane, or the DataFrame that
        it returned can't be computed, the lane fails.

        Args:
            function: takes a DataFrame and returns a DataFrame.
            name: the operator's name.

        Example: ``flights.transform(lambda df: df.withColumn("far", df.distance > 1000))``.
        """
        return self._then("transform", {}, name, arguments.function("transform", function))

    def map_arrow(
        self, function: Callable[[Any], Any], *, schema: str | None = None, name: str | None = None
    ) -> Stream:
        """Apply a function to Arrow batches. This is the fastest way to run Python.

        Args:
            function: takes a ``pyarrow.RecordBatch`` with up to 10,000 rows of one partition, in order, and returns a
                RecordBatch or a Table with any number of rows. By default, rows for which the function fails become
                dead letters.
            schema: the columns of the result, such as ``"tailnum string, n int"``. Default: the input's.
            name: the operator's name.

        Example: ``flights.map_arrow(lambda batch: batch.filter(batch.column("dep_delay").is_valid()))``.
        """
        return self._then("map_arrow", {"schema": schema}, name, arguments.function("map_arrow", function))

    def map(self, function: Callable[[Any], Any], *, schema: str | None = None, name: str | None = None) -> Stream:
        """Replace each message with another message.

        Args:
            function: takes a message as a dict and returns a row: a dict, dataclass, NamedTuple or ``Row``. Columns
                that the row lacks are null. The function may be ``async``. If it raises an exception, the message
                becomes a dead letter by default.
            schema: the columns of the result. Default: the input's. If a value does not fit its column, the message
                becomes a dead letter by default; see docs/reference/function-results.md.
            name: the operator's name.

        Example: ``flights.map(lambda m: {**m, "dest": m["dest"].lower()})``.
        """
        return self._then("map", {"schema": schema}, name, arguments.function("map", function))

    def flat_map(self, function: Callable[[Any], Any], *, schema: str | None = None, name: str | None = None) -> Stream:
        """Replace each message with any number of messages.

        Args:
            function: takes a message as a dict and returns an iterable of rows, as in :meth:`map`. It may be ``async``,
                a generator or an async generator. If it raises an exception, or one of the rows is invalid, none of the
                rows is used, and the message becomes a dead letter by default.
            schema: the columns of the result. Default: the input's.
            name: the operator's name.

        Example: ``lines.flat_map(lambda m: [{"word": word} for word in m["value"].split()], schema="word string")``.
        """
        return self._then("flat_map", {"schema": schema}, name, arguments.function("flat_map", function))

    def filter(self, function: Callable[[Any], Any], *, name: str | None = None) -> Stream:
        """Keep the messages for which a function returns true. If SQL can express the condition, use :meth:`where`,
        which is faster.

        Args:
            function: takes a message as a dict and returns ``True`` to keep it, or ``False`` or ``None`` to drop it.
                The function may be ``async``. If it raises an exception, the message becomes a dead letter by default.
            name: the operator's name.

        Example: ``flights.filter(lambda flight: flight["dest"] in OURS)``.
        """
        return self._then("filter", {}, name, arguments.function("filter", function))

    def merge(self, *others: Stream) -> Stream:
        """Merge the rows of several streams into one stream.

        All streams must have the same column names, and each column must have the same type in all of them. There are
        two exceptions: numeric types may differ, and are widened to a common type (but decimals aren't rounded); and a
        column without a type (``NULL``) fits any type. Rows keep their order within each partition of each input.

        Example: ``domestic.merge(international).write("all-flights")``.
        """
        for other in others:
            self._check_input("merge", other, "write a.merge(b, c), with b = job.read(...)")
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
        """Pair rows of this stream with rows of another stream. The two rows of a pair have the same stage key, and
        their event times are at most ``within`` apart.

        Both streams need event time, and key columns with the same names and types. A pair has this stream's columns,
        followed by the other stream's columns without the key. A pair has no event time. Each pair is emitted as soon
        as both rows have been read. Rows wait in state until the watermark shows that no partner can come any more.
        Rows older than the watermark are dropped.

        Args:
            other: another stream of the same job.
            within: the largest distance (inclusive) between the event times, in either direction, such as ``"1 hour"``.
            how: ``"inner"`` or ``"left"``. With ``"left"``, a row of this stream without a partner is emitted once,
                with nulls, when the watermark shows that no partner can come any more.
            prefix: a prefix for the names of the other stream's columns, except those of the key.
            name: the operator's name, under which its state is kept.

        Example: ``departures.join(landings, within="8 hours", how="left", prefix="landed_")``.
        """
        self._check_input("join", other, 'write a.join(b, within="10 minutes"), with b = job.read(...)')
        arguments.check_how("join", how)
        args = {"within": arguments.distance(within), "how": how, "prefix": prefix}
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
        """Join each row with the matching rows of a small table, and add the table's columns, except those in ``on``.

        The whole table is loaded into the driver, and sent to every Spark executor. So the table must fit in the memory
        of the driver, and in the memory of each executor. A batch uses the same version of the table for all its rows.

        Args:
            table: a path or URI that all containers can read; a stream as a table, from :meth:`Job.table`; or a
                function that takes a SparkSession and returns a DataFrame.
            on: a column that both the stream and the table have, several such columns, or a dict from columns of the
                stream to columns of the table.
            how: ``"inner"`` or ``"left"``. With ``"left"``, rows without a match are kept, with nulls.
            refresh: how old a lane's copy of the table can become before the next batch reads the table again, such as
                ``"10 minutes"``. Default: a lane reads the table once after each start.
            format: for a path, the files' format. Default: the format that the path's extension names, or
                ``"parquet"`` if the extension names no format. CSV files must have a header.
            schema: for a path, the table's columns. Default: the columns that Spark infers from the files.
            prefix: a prefix for the names of the added columns.
            name: the operator's name.

        Example: ``flights.join_table("airports.csv", on={"dest": "iata"}, how="left", refresh="10 minutes")``.
        """
        columns = arguments.joined_columns(on)
        arguments.check_how("join_table", how)
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
        """Make ``columns`` the key of the rows for all operators that follow. By default, a new stage starts here.

        Args:
            columns: the new stage key.
            via: ``"stream"`` writes the rows to a durable intermediate stream, so the next stage can be scaled and
                moved. ``"spark"`` shuffles the rows within the lane's query, which is faster, but requires that the
                job has factor 1 and one container.
            partitions: the partition count with which the intermediate stream is created. Default: the largest count
                among the inputs of the stage that writes the stream.
            name: the operator's name, which is also part of the intermediate stream's name.

        Example: ``flights.partition_by("dest").agg(flights="count(*)").write("flights-by-destination")``.
        """
        arguments.check_partition_by(columns, via, partitions)
        args = {"columns": list(columns), "via": via, "partitions": partitions}
        return self._then("partition_by", args, name, derived="by-" + "-".join(columns))

    def window(
        self,
        window: Window,
        *,
        time: Literal["event", "processing"] = "event",
        on_late: Literal["drop", "dead-letter", "fail"] = "drop",
    ) -> Windowed:
        """Divide each key's rows into windows. Only ``agg`` can follow.

        Args:
            window: ``tumbling("1 hour")``, ``sliding("1 hour", "10 minutes")`` or ``session("30 minutes")``.
            time: ``"event"`` uses the column named by ``read(event_time=...)``; ``"processing"`` uses the time at which
                the row's batch was planned.
            on_late: what happens to a late row (a row whose windows are all closed): ``"drop"``, ``"dead-letter"`` or
                ``"fail"``. With ``time="processing"``, no row is late, and only ``"drop"`` is allowed.

        Example: ``flights.window(tumbling("1 hour")).agg(flights="count(*)", mean_delay="avg(dep_delay)")``.
        """
        arguments.check_window(window, time, on_late)
        return Windowed(self._then, window, time, on_late)

    def agg(
        self,
        *,
        by: str | list[str] | None = None,
        emit: Literal["on_update"] = "on_update",
        name: str | None = None,
        **aggregates: str,
    ) -> Stream:
        """Compute running aggregates for each stage key. With ``by``, the aggregates are computed for each combination
        of stage key and values of the ``by`` columns. Each batch emits an updated row for every key or combination that
        occurs in the batch.

        The latest row of a key or combination contains the current values. The result's columns are the key, ``by``,
        and the aggregates.

        Args:
            by: further columns to group by, in addition to the stage key.
            emit: must be ``"on_update"``. For aggregates that are emitted when a window closes, use :meth:`window`.
            name: the operator's name, under which its state is kept.
            aggregates: result columns and their SQL aggregates, such as ``flights="count(*)"``.

        Example: ``flights.agg(by="carrier", flights="count(*)", worst="max(dep_delay)")``.
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
        """Process messages one at a time, with state and timers for each stage key. See :class:`anabranch.Processor`.

        Messages that are older than the watermark are processed, too. With ``timers="event_time"``, you can recognize
        such a message: its event time is before ``timers.now``, the watermark (None if there is no watermark yet).

        Args:
            processor: an instance of your class. Each Python worker gets a copy.
            schema: the columns of the rows that the processor returns. Default: the input's.
            timers: the clock of the processor's timers. Required if the processor defines ``on_timer``, and must be
                None otherwise. ``"event_time"`` is the watermark. ``"processing_time"`` is the time at which a batch
                was planned. With ``"processing_time"``, a batch begins every second (or every ``[job] interval``, if
                the interval is longer), even without new records. If a batch takes longer, the next batch begins later.
            name: the operator's name, under which its state is kept.
        """
        processor = arguments.processor(processor, timers)
        args = {"schema": schema, "timers": timers, "state": arguments.declared(processor)}
        return self._then("process", args, name, processor)

    def limit_per_key(self, n: int, *, name: str | None = None) -> Stream:
        """For each stage key, pass on the first ``n`` rows in the partition's order, and drop all later rows.

        For each key, the operator's state contains the number of rows that were passed on. This state is kept forever.
        The resulting rows have no event time and no headers, and their timestamp is the time of writing.

        Args:
            n: the maximum number of rows per key; at least 1.
            name: the operator's name, under which its state is kept.

        Example: ``flights.limit_per_key(3).write("first-flights")``.
        """
        limit = arguments.row_limit(n)
        processor = FirstRows(limit)
        args = {"limit_per_key": limit, "state": arguments.declared(processor)}
        return self._then("process", args, name, processor, derived="limit-per-key")

    def write(self, stream: str, *, key: str | None = None, name: str | None = None) -> None:
        """Write the rows to a stream, or to the table that ``[outputs.NAME]`` binds to this name.

        Args:
            stream: the name of the stream or table. If it does not exist, a new job or a new version creates it.
            key: an SQL expression for the message key. Default: the input's message key or, after a ``partition_by``
                or a stateful operator, the stage key. Required after a ``map_arrow``, unless the result has the columns
                of a stage key.
            name: the operator's name. Default: the stream's name.
        """
        stream = arguments.stream("write", stream)
        self._then("write", {"stream": stream, "key": key}, name, derived=stream)

    def foreach_batch(self, function: Callable[[Any, str, int, int], None], *, name: str | None = None) -> None:
        """Call a function for each batch, at least once.

        After a crash or an error, the function can be called again with the same ``lane`` and ``batch``, and with rows
        computed again from the same records. To write each batch only once, see docs/how-to/write-your-own-table.md.

        Args:
            function: takes a DataFrame, the lane's id, the batch number, and the epoch, a number that rises whenever
                another process takes over the lane. The function runs in the driver.
            name: the operator's name.

        Example:
            ```python
            def save(df, lane, batch, epoch):
                df.write.mode("overwrite").parquet(f"out/{lane}/{batch}")


            flights.foreach_batch(save, name="save")
            ```
        """
        self._then("foreach_batch", {}, name, arguments.function("foreach_batch", function))

    def _check_input(self, kind: str, other: object, cure: str) -> None:
        if not isinstance(other, Stream):
            raise GraphError(f"{kind} at {caller()} was given {other!r}, not a stream of the job", cure)
        self._builder.check_shared(kind, other._builder)

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
