"""A job: what a job file builds. It needs no Spark: it writes down a graph."""

from __future__ import annotations

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
"""What makes frames of a job. It stands above all that is imported here, and is imported when somebody asks for it."""


class _Frames(Protocol):
    def preview(self, job: Job, stream: str, n: int, config: Path | str | None) -> list[dict[str, Any]]: ...
    def to_dataframe(self, job: Job, spark: Any, output: str | None, config: Path | str | None) -> Any: ...


class Job:
    """A named graph of operators over streams. One job file holds one job.

    Args:
        name: letters, digits, dots, dashes and underscores. State, streams and folders of the job hang on it.

    ``module`` is the name of the one that the job was made in.
    """

    def __init__(self, name: str) -> None:
        arguments.check_name("job", name)
        self.name = name
        self.module = str(arguments.calling_frame().f_globals.get("__name__", ""))
        self._builder = GraphBuilder(name)

    @property
    def graph(self) -> Graph:
        """All operators so far, as plain data."""
        return self._builder.graph

    @property
    def functions(self) -> dict[int, Any]:
        """What operators call, by the number of their node; and the function for drains."""
        return self._builder.functions

    def on_drain(self, function: Callable[[DrainedTask], None]) -> Callable[[DrainedTask], None]:
        """Call a function for each task that has drained, before its container ends: ``@job.on_drain``.

        It runs beside the driver, once all that the task has taken in is written, with all windows and timers. It is
        called again if the container dies before the coordinator has heard of it, or if it raises.
        """
        if ON_DRAIN in self.functions:
            raise GraphError(f"on_drain at {caller()} is the second one", "call both from one function")
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
        delay = arguments.watermark_delay(event_time, watermark)
        args: dict[str, Any] = {"stream": stream, "key": key, "schema": schema, "broadcast": broadcast, "start": start}
        args |= {"event_time": event_time, "watermark": delay}
        args |= {"read_as": dict(read_as)} if read_as else {}
        args |= (
            {"event_time_range": arguments.plausible_times(event_time, event_time_range)} if event_time_range else {}
        )
        return Stream(self._builder, self._builder.add("read", (), args, name, stream))

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
        return _frames().preview(self, stream, n, config)

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
        return _frames().to_dataframe(self, spark, output, config)


def _frames() -> _Frames:
    return cast(_Frames, importlib.import_module(_FRAMES))
