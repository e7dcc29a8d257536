"""The job that a job file builds. Only ``preview`` and ``to_dataframe`` need Spark, so only these methods import the
module that uses Spark.
"""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, Protocol, cast

from anabranch.api import arguments
from anabranch.api.arguments import caller
from anabranch.api.graph_builder import GraphBuilder
from anabranch.api.hooks import ON_DRAIN, DrainedTask
from anabranch.api.stream import Stream
from anabranch.api.table import Table
from anabranch.errors import GraphError
from anabranch.model.graph import Graph

__all__ = ["Job"]

_FRAMES = "anabranch.launch.preview"
"""The module that makes DataFrames from a job. It is imported on demand, because it belongs to a higher layer than this
module."""


class _Frames(Protocol):
    def preview(self, job: Job, stream: str, n: int, config: Path | str | None) -> list[dict[str, Any]]: ...
    def to_dataframe(self, job: Job, spark: Any, output: str | None, config: Path | str | None) -> Any: ...


class Job:
    """A named graph of operators over streams. A job file contains one job.

    Args:
        name: up to 100 letters, digits, dots, dashes and underscores, beginning with a letter or digit. The job's
            intermediate streams, positions and state belong to this name.

    Attributes:
        module: the name of the module that created the job.
        sha256: the hash of this module's file when the job was created; '' if there was no such file.

    Raises:
        GraphError: the name does not have this form.

    Example:
        ```python
        from anabranch import Job

        job = Job("late")
        flights = job.read("flights", key="tailnum string", schema="dest string, dep_delay int")
        flights.where("dep_delay >= 15").write("late-flights")
        ```
    """

    def __init__(self, name: str) -> None:
        arguments.check_name("job", name)
        self.name = name
        names = arguments.calling_frame().f_globals
        self.module = str(names.get("__name__", ""))
        self.sha256 = _hash_of(names.get("__file__"), names.get("__loader__"))
        self._builder = GraphBuilder(name)

    @property
    def graph(self) -> Graph:
        """All operators so far, as plain data."""
        return self._builder.graph

    @property
    def functions(self) -> dict[int, Any]:
        """Maps node numbers to the functions and processors that operators call, and
        :data:`~anabranch.api.hooks.ON_DRAIN` to the ``on_drain`` function."""
        return self._builder.functions

    def on_drain(self, function: Callable[[DrainedTask], None]) -> Callable[[DrainedTask], None]:
        """Call a function for each task that has drained, before the task's container ends. Use this method as a
        decorator.

        The function runs in the container's driver process. When the function is called, the task has processed all its
        records, and the task's stage has written all results of these records, including the results of windows and
        timers. Later stages may still be draining. The function is called again if it raises an exception, or if the
        container dies before it has reported the drain. Therefore, the function should be idempotent.

        Args:
            function: takes one :class:`~anabranch.api.hooks.DrainedTask`, with the names of the job, stage and task.

        Returns:
            The function itself.

        Raises:
            GraphError: the job has an ``on_drain`` function already, or ``function`` isn't a function.

        Example:
            ```python
            @job.on_drain
            def drained(task):
                print(task.job, task.stage, task.name)
            ```
        """
        if ON_DRAIN in self.functions:
            raise GraphError(f"on_drain at {caller()} is the second one", "call both from one function")
        self.functions[ON_DRAIN] = arguments.function("on_drain", function)
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

        The result has the columns of the value, followed by the columns of the key. The value and the key must not have
        a column of the same name.

        Args:
            stream: the stream's name. ``[streams.NAME]`` in the configuration binds the stream to a system.
            key: the columns in the message key, such as ``"tailnum string"``. If there are several columns, or if the
                only column is not a ``string``, ``binary``, ``int`` or ``bigint``, the key is read as a JSON array.
            schema: the columns in the value, such as ``"carrier string, dep_delay int"``. Required for JSON
                streams. Streams of the formats ``string`` and ``raw`` have one column, ``value``, and take no schema.
                For other formats, the default is all columns of the stream's own schema.
            read_as: a dict that maps names of JSON columns to forms. Needed for columns whose values are not in the
                usual form of their type. ``"epoch-seconds"``, ``"epoch-millis"`` and ``"epoch-micros"`` read numbers as
                timestamps, and ``"epoch-days"`` as dates; ``"nan-is-null"`` reads NaN and infinity as null; ``"json"``
                reads a value of any kind into a string column, as JSON text. See docs/reference/values.md.
            event_time: the ``timestamp`` column that says when the event in a record happened. Required for event-time
                windows and timers, and for :meth:`Stream.join`.
            watermark: how much older a record can be than the newest record of its partition, such as ``"10 minutes"``.
                Required with ``event_time``. Records that are even older can be late (see :meth:`Stream.window`).
            event_time_range: a pair that says which event times are plausible. The first part is the earliest date. The
                second part says how far an event time can be in the future, counted from the end of the day (in UTC) on
                which the record's batch was planned. The default is ``("1900-01-01", "1 day")``. A record whose event
                time is outside the range is treated as ``[job] on_error`` says (by default, it becomes a dead letter),
                and does not move the watermark.
            broadcast: let every task read the whole stream. Each record is then processed once by each task.
            start: ``"earliest"`` or ``"latest"``: where the job begins to read a stream for which it has no position.
                The job has no position if it is new or was reset, or if a new version begins to read the stream. A
                partition that is added to the stream later is read from its beginning.
            name: the operator's name in ``plan`` and errors. Default: the stream's name.

        Raises:
            GraphError: an argument isn't of the declared type, the arguments for event time don't fit together or are
                malformed, ``start`` is unknown, or the operator's name isn't allowed or belongs to another operator.
                Errors inside ``key``, ``schema`` and ``read_as`` are found when the job is planned.

        Example:
            ```python
            flights = job.read(
                "flights",
                key="tailnum string",
                schema="dest string, dep_delay int, at timestamp",
                event_time="at",
                watermark="10 minutes",
            )
            ```
        """
        stream = arguments.stream("read", stream)
        delay = arguments.watermark_delay(event_time, watermark)
        arguments.check_start(start)
        args: dict[str, Any] = {"stream": stream, "key": key, "schema": schema, "broadcast": broadcast, "start": start}
        args |= {"event_time": event_time, "watermark": delay}
        args |= {"read_as": forms} if (forms := arguments.read_as_forms("read", read_as)) else {}
        args |= (
            {"event_time_range": arguments.plausible_times(event_time, event_time_range)} if event_time_range else {}
        )
        return Stream(self._builder, self._builder.add("read", (), args, name, stream))

    def table(
        self, stream: str, *, key: str, schema: str | None = None, read_as: Mapping[str, str] | None = None
    ) -> Table:
        """Use a stream as a table for :meth:`Stream.join_table`. The table contains the latest value of each key,
        unless this value is null.

        Args:
            stream: the stream's name. Each refresh reads the whole stream, so keep the stream small, for example by
                compacting its topic.
            key: the columns in the message key, as for :meth:`read`.
            schema: the columns in the value, as for :meth:`read`.
            read_as: a dict that maps names of JSON columns to the forms of their values, as for :meth:`read`.

        Raises:
            GraphError: an argument isn't of the declared type.

        Example:
            ```python
            airports = job.table("airports", key="iata string", schema="city string")
            flights.join_table(airports, on={"dest": "iata"}, how="left").write("flights-with-city")
            ```
        """
        stream = arguments.stream("table", stream)
        arguments.check_texts("table", {"key": key, "schema": schema})
        return Table(stream, key, schema, arguments.read_as_forms("table", read_as))

    def preview(self, stream: str, n: int = 20, *, config: Path | str | None = None) -> list[dict[str, Any]]:
        """Return the first rows of a stream as dicts, for notebooks. Nothing is written.

        If the job reads the stream, the rows are the stream's first records, with the columns that ``read`` declares.
        Records of the first partition come first. If the job writes the stream, the rows are those that the job would
        write, computed from the records that the job's inputs contain now. Records that cannot be processed are handled
        as in :meth:`to_dataframe`. The call uses this process's Spark session, or starts one.

        Args:
            stream: a stream that the job reads or writes.
            n: the maximum number of rows.
            config: the path of an ``anabranch.toml``. Default: the one in the working folder.

        Returns:
            A dict for each row, with nulls as None. A ``timestamp`` is a datetime in UTC, and a ``timestamp_ntz`` a
            datetime without a zone. A ``timestamp`` outside the years 1 to 9999 is replaced with the first or last time
            that a datetime can hold. Dates, decimals and ``binary`` columns are ``date``, ``Decimal`` and ``bytes``;
            structs and maps are dicts, and arrays are lists.

        Raises:
            UsageError: the job neither reads nor writes the stream, or ``n`` is less than 1. For a stream that the job
                writes, this error is also raised if the job has a ``process`` or ``limit_per_key``, or if the job's
                module has been edited since it was imported.
            AnabranchError: the job cannot be planned, for example because a stream is missing.

        Example:
            ```python
            job.preview("late-flights", n=5)
            ```
        """
        return _frames().preview(self, stream, n, config)

    def to_dataframe(self, spark: Any, output: str | None = None, *, config: Path | str | None = None) -> Any:
        """All rows that the job would write to a stream, as a DataFrame that isn't streaming. The rows are computed
        from the records that the job's inputs contain now. Writes nothing.

        Of the rows of an ``agg`` without windows, the DataFrame has only the latest for each key or, with ``by``, for
        each combination of key and values of ``by``. For each window, it has the row that would be emitted if no more
        records came. By default, records that cannot be processed are left out. If ``on_error`` is ``"fail"``, such a
        record raises an error instead. A record with a null key raises an error if ``on_null_key`` is ``"fail"``.

        Args:
            spark: the SparkSession to use.
            output: a stream that the job writes. If the job writes only one stream, not counting intermediate streams,
                this argument can be omitted.
            config: the path of an ``anabranch.toml``. Default: the one in the working folder.

        Raises:
            UsageError: the job does not write the stream ``output``, or ``output`` is omitted although the job doesn't
                write exactly one stream. This error is also raised if the job has a ``process`` or ``limit_per_key``,
                or if the job's module has been edited since it was imported.
            AnabranchError: the job cannot be planned, for example because a stream is missing.

        Example: ``job.to_dataframe(spark, "late-flights").groupBy("dest").count().show()``.
        """
        return _frames().to_dataframe(self, spark, output, config)


def _frames() -> _Frames:
    return cast(_Frames, importlib.import_module(_FRAMES))


def _hash_of(file: object, loader: Any) -> str:
    """The SHA-256 of a module's file; '' if the file can't be read. Most loaders don't keep the source that they have
    imported. Therefore the file is read again when the job is created, which is soon after the import.
    """
    if not isinstance(file, str):
        return ""
    try:
        content = loader.get_data(file) if hasattr(loader, "get_data") else Path(file).read_bytes()
    except OSError:
        return ""
    return hashlib.sha256(content).hexdigest()
