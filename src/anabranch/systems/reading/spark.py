"""What a system provides for Spark, and a source (of Arrow batches) for systems that don't have their own."""

from __future__ import annotations

import base64
import importlib
import json
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, Protocol, cast

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadMaxRows
from pyspark.sql.types import StructType

from anabranch import crash_points
from anabranch.errors import StateError
from anabranch.systems.contract import Records, System
from anabranch.systems.source import BARE, SCHEMA, Reading, columns, share
from anabranch.task_progress import counts, meters

__all__ = [
    "SOURCES",
    "PlainWriter",
    "Reader",
    "SparkSide",
    "SystemSource",
    "options",
    "plain",
    "spark_side",
    "streamed",
]

FORMAT = "anabranch-system"


class PlainWriter(Protocol):
    """Writes at-least-once output, with Spark's own sink."""

    def write(self, rows: DataFrame) -> None:
        """Write the rows of a batch that belong to this writer's outputs."""
        ...

    def stream(self, rows: DataFrame) -> Any:
        """A ``DataStreamWriter`` for all of this writer's outputs, in real-time mode."""
        ...


class SparkSide(Protocol):
    """The contents of the module that a system names in ``System.spark``."""

    SOURCES: Sequence[type[DataSource]]
    """The sources that are written in Python. A session registers them."""

    def streamed(self, spark: SparkSession, system: Any, reading: Reading) -> DataFrame:
        """A streaming DataFrame with the records that ``reading`` describes, in the columns of ``SCHEMA`` or, with
        ``reading.bare``, of ``BARE``.
        """
        ...

    def plain(self, system: Any, streams: Mapping[int, str]) -> PlainWriter:
        """A writer for at-least-once output. ``streams`` maps each output's number to the output's stream. Raises
        NotImplementedError if the system doesn't have ``delivery`` among its ``stream_settings``.
        """
        ...


def spark_side(system: System) -> SparkSide:
    """The module that the system names in ``System.spark``."""
    return cast(SparkSide, importlib.import_module(system.spark))


def streamed(spark: SparkSession, system: System, reading: Reading) -> DataFrame:
    """See :meth:`SparkSide.streamed`. Works with every system."""
    given = {**options(reading), "system": base64.b64encode(pickle.dumps(system)).decode()}
    return spark.readStream.format(FORMAT).options(**given).load()


def plain(system: System, streams: Mapping[int, str]) -> PlainWriter:
    raise NotImplementedError(f"{system.name} writes nothing at least once: it has no delivery in stream_settings")


def options(reading: Reading) -> dict[str, str]:
    """The options of a :class:`Reader`, which are also the options of its source:

    - ``stream``: the stream's name.
    - ``partitions``: a JSON list of partition numbers.
    - ``starting``: JSON with the start offset of each partition.
    - ``until``: JSON that gives, for some partitions, the offset before which reading stops.
    - ``max_rows``: the maximum number of records in a batch while the query has no read limit.
    - ``lane``, ``commits``: the lane's id and commit folder, for tests that kill a process at a crash point.
    - ``bare``: ``true`` to leave out headers and timestamps.
    - ``loss``: what to do if records are gone: ``fail`` to fail, ``skip`` to skip these records.
    - ``line``: where workers report their progress; see :class:`anabranch.task_progress.counts.ReportAddress`.
    """
    limits = reading.limits
    return {
        "stream": reading.stream,
        "partitions": json.dumps(sorted(reading.starting)),
        "starting": json.dumps(reading.starting),
        "until": json.dumps(reading.starting if limits.nothing else reading.until),
        "max_rows": str(limits.max_rows),
        "lane": limits.lane,
        "commits": limits.commits,
        "bare": str(reading.bare).lower(),
        "loss": "fail" if limits.fail_on_loss else "skip",
        "line": "" if limits.line is None else limits.line.text,
    }


class Reader(DataSourceStreamReader):
    """Plans batches from the ends of a stream. Subclasses define how the ends are found, and how a Spark task reads.

    The offsets that Spark writes to the offset log have the form ``{"stream", "id", "positions": {partition: next
    offset}}``.

    Args:
        options: the source's options, as returned by :func:`options`.
        bare: whether to read the columns of ``BARE`` instead of ``SCHEMA``.
        name: the system's name, for messages.
    """

    def __init__(self, options: dict[str, str], bare: bool, name: str) -> None:
        self._bare = bare
        self._name = name
        self._stream = options["stream"]
        self._partitions: list[int] = json.loads(options["partitions"])
        self._starting = {int(p): o for p, o in json.loads(options["starting"]).items()}
        self._max_rows = int(options["max_rows"])
        self._until = {int(p): o for p, o in json.loads(options.get("until", "{}")).items()}
        self._lane = options.get("lane", "")
        self._commits = options.get("commits", "")
        self._skips_lost = options.get("loss") == "skip"
        self._line = counts.of_text(options.get("line", ""))

    def id(self) -> str:
        """The current id of the stream."""
        raise NotImplementedError

    def ends(self) -> Mapping[int, int]:
        """The current ends of the partitions."""
        raise NotImplementedError

    def begins(self) -> Mapping[int, int]:
        """The offset of each partition's oldest existing record. If the system can't skip missing records, the result
        is empty, and reading missing records fails."""
        return {}

    def piece(self, partition: int, begin: int, end: int) -> InputPartition:
        """The work of one Spark task: the records ``begin`` to ``end - 1`` of a partition."""
        raise NotImplementedError

    def initialOffset(self) -> dict[str, Any]:
        return self._offset({p: self._starting.get(p, 0) for p in self._partitions})

    def latestOffset(self, start: dict[str, Any], limit: object) -> dict[str, Any]:
        """The end of the next batch, as a Spark offset. If the batch's limit is 0, the result is ``start``.

        Args:
            start: the end of the previous batch.
            limit: the query's read limit. If ``limit`` isn't a number of rows, the option ``max_rows`` is the limit.

        Raises:
            StateError: a partition ends before the lane's position, or the stream was deleted and created again.
        """
        if crash_points.ACTIVE:
            crash_points.reach(crash_points.PLANNING, self._lane, crash_points.next_batch(self._commits))
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else self._max_rows
        if not most:
            return start
        held = self._kept(self._positions(start))
        there = self.ends()
        ends = {p: min(end, self._until.get(p, end)) for p, end in there.items()}
        for p, position in held.items():
            if position > there[p]:
                raise StateError(
                    f"{self._name}/{self._stream}/{p} ends at offset {there[p]}, but the lane has already read up to "
                    f"{position}",
                    "restore the stream, which has lost records that were processed; or stop the job, and let it "
                    f"continue with the stream as it is: anabranch accept JOB {self._stream}",
                )
        return self._offset(share(held, ends, most))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        begin, finish = self._kept(self._positions(start)), self._positions(end)
        ranges = [(p, begin.get(p, 0), finish[p]) for p in sorted(finish)]
        return [self.piece(p, first, last) for p, first, last in ranges if last > first]

    def metered(self, partition: int, pieces: Iterable[Callable[[], Iterable[Records]]]) -> Iterator[pa.RecordBatch]:
        """The records of the ``pieces`` of a partition, in the columns of ``SCHEMA`` or of ``BARE``. Each piece is a
        function that reads records. The worker reports how many records it has read, and how long reading took."""
        with closing(meters.meter(self._line, counts.READING)) as meter:
            tally = meter.tally(0, 0, partition)
            for piece in pieces:
                for records in meter.timed(tally, piece()):
                    yield columns(records, partition, self._bare)
                    tally.rows += records[1].num_rows

    def _offset(self, positions: dict[int, int]) -> dict[str, Any]:
        told = {str(p): o for p, o in sorted(positions.items())}
        return {"stream": self._stream, "id": self.id(), "positions": told}

    def _kept(self, positions: dict[int, int]) -> dict[int, int]:
        """The ``positions``. If lost records may be skipped, each position before the oldest record of its partition is
        raised to this record's offset."""
        if not self._skips_lost:
            return positions
        begins = self.begins()
        return {p: max(position, begins.get(p, 0)) for p, position in positions.items()}

    def _positions(self, offset: dict[str, Any]) -> dict[int, int]:
        if offset["id"] != self.id():
            raise StateError(
                f"stream {self._name}/{self._stream} isn't the one that the lane has read so far (it was deleted and "
                "created again)",
                "restore the former stream; or stop the job, and let it continue with this one: "
                f"anabranch accept JOB {self._stream}",
            )
        return {int(p): o for p, o in offset["positions"].items()}


class _Range(InputPartition):
    def __init__(self, partition: int, begin: int, end: int) -> None:
        self.partition = partition
        self.begin = begin
        self.end = end


class SystemReader(Reader):
    """Reads any system through its contract alone."""

    def __init__(self, options: dict[str, str], bare: bool) -> None:
        self._system: System = pickle.loads(base64.b64decode(options["system"]))
        super().__init__(options, bare, self._system.name)

    def id(self) -> str:
        return self._system.id(self._stream)

    def ends(self) -> Mapping[int, int]:
        return self._system.ends(self._stream, self._partitions)

    def piece(self, partition: int, begin: int, end: int) -> InputPartition:
        return _Range(partition, begin, end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Range)
        p, ranges = partition.partition, [(partition.begin, partition.end)]
        return self.metered(p, [lambda: self._system.read(self._stream, p, ranges)])


class SystemSource(DataSource):
    """The source for any system. In addition to the options of :func:`options`, the source has the option ``system``,
    which contains the pickled system in base64.
    """

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return BARE if self._bare else SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return SystemReader(dict(self.options), self._bare)

    @property
    def _bare(self) -> bool:
        return bool(self.options.get("bare") == "true")


SOURCES = (SystemSource,)
