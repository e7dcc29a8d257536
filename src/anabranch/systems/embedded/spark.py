"""The embedded log as a Spark source: one Python data source that moves Arrow batches."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadMaxRows
from pyspark.sql.types import StructType

from anabranch import crash_points
from anabranch.errors import StateError
from anabranch.systems.embedded.log import Log
from anabranch.systems.embedded.manifest import Tail
from anabranch.systems.embedded.segments import Slice, read_slice
from anabranch.systems.embedded.system import EmbeddedSystem
from anabranch.systems.source import BARE, SCHEMA, Limits, columns
from anabranch.task_progress import counts, meters

FORMAT = "anabranch-embedded"


def streamed(
    spark: SparkSession,
    system: EmbeddedSystem,
    stream: str,
    starting: Mapping[int, int],
    until: Mapping[int, int],
    limits: Limits,
    bare: bool,
) -> DataFrame:
    """All records of the partitions that ``starting`` names, from there on."""
    options = {
        "root": str(system.log.root),
        "stream": stream,
        "partitions": json.dumps(sorted(starting)),
        "starting": json.dumps(starting),
        "until": json.dumps(starting if limits.nothing else until),
        "max_rows": str(limits.max_rows),
        "lane": limits.lane,
        "commits": limits.commits,
        "bare": str(bare).lower(),
        "line": "" if limits.line is None else limits.line.text,
    }
    return spark.readStream.format(FORMAT).options(**options).load()


class EmbeddedSource(DataSource):
    """Options: ``root``, ``stream``, ``partitions`` (JSON list), ``starting`` (JSON partition → offset), ``max_rows``
    (of a batch, while the query has no read limit), ``until`` (JSON partition → offset: never beyond), ``lane`` and
    ``commits`` (a lane's id and commit folder, for the steps that tests stop at).

    ``bare``: "true": without headers and timestamps. ``line``: where workers tell how far they are, see
    :class:`anabranch.task_progress.counts.Line`.
    """

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return BARE if self._bare else SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return EmbeddedReader(dict(self.options), self._bare)

    @property
    def _bare(self) -> bool:
        return bool(self.options.get("bare") == "true")


class Pieces(InputPartition):
    """What one Spark task reads: slices of one partition, in order."""

    def __init__(self, partition: int, slices: list[Slice]) -> None:
        self.partition = partition
        self.slices = slices


class EmbeddedReader(DataSourceStreamReader):
    """An offset is ``{"stream", "id", "positions": {partition: next offset}}``; it stands in the offset log."""

    def __init__(self, options: dict[str, str], bare: bool) -> None:
        self._bare = bare
        self._log = Log(options["root"])
        self._stream = options["stream"]
        self._partitions: list[int] = json.loads(options["partitions"])
        self._starting = {int(p): o for p, o in json.loads(options["starting"]).items()}
        self._max_rows = int(options["max_rows"])
        self._until = {int(p): o for p, o in json.loads(options.get("until", "{}")).items()}
        self._lane = options.get("lane", "")
        self._commits = options.get("commits", "")
        self._line = counts.of_text(options.get("line", ""))
        self._tails: dict[int, Tail] = {}

    def initialOffset(self) -> dict[str, Any]:
        return self._offset({p: self._starting.get(p, 0) for p in self._partitions})

    def latestOffset(self, start: dict[str, Any], limit: object) -> dict[str, Any]:
        """``limit``: of the query; while it has none, the option ``max_rows`` says it."""
        if crash_points.ACTIVE:
            crash_points.reach(crash_points.PLANNING, self._lane, crash_points.next_batch(self._commits))
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else self._max_rows
        if not most:
            return start
        held = self._positions(start)
        self._tails = self._log.ends(self._stream, self._partitions, self._tails)
        ends = {p: min(tail.end, self._until.get(p, tail.end)) for p, tail in self._tails.items()}
        for p, position in held.items():
            if position > self._tails[p].end:
                raise StateError(
                    f"embedded/{self._stream}/{p} ends at offset {self._tails[p].end}, before the position {position} "
                    "that was read already",
                    "restore the stream's folder: records that were processed are gone from it",
                )
        return self._offset(share(held, ends, most))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        begin, finish = self._positions(start), self._positions(end)
        return [
            Pieces(p, self._log.slices(self._stream, p, begin.get(p, 0), finish[p]))
            for p in sorted(finish)
            if finish[p] > begin.get(p, 0)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Pieces)
        with closing(meters.meter(self._line, counts.READING)) as meter:
            tally = meter.tally(0, 0, partition.partition)
            for piece in partition.slices:
                offset = piece.offset
                for batch in meter.timed(tally, read_slice(piece)):
                    offsets = np.arange(offset, offset + batch.num_rows)
                    yield columns((offsets, batch), partition.partition, self._bare)
                    offset += batch.num_rows
                    tally.rows += batch.num_rows

    def _offset(self, positions: dict[int, int]) -> dict[str, Any]:
        info = self._log.describe(self._stream)
        return {
            "stream": info.name,
            "id": info.id,
            "positions": {str(p): o for p, o in sorted(positions.items())},
        }

    def _positions(self, offset: dict[str, Any]) -> dict[int, int]:
        info = self._log.describe(self._stream)
        if offset["id"] != info.id:
            raise StateError(
                f"stream embedded/{self._stream} is another one than the lane has read so far (it was removed and made "
                "again)",
                "restore the former stream's folder, or run the job under another name",
            )
        return {int(p): o for p, o in offset["positions"].items()}


def share(start: dict[int, int], ends: dict[int, int], most: int) -> dict[int, int]:
    """End positions of a batch of at most ``most`` rows, shared out evenly; what one can't use goes to the others."""
    taken: dict[int, int] = {}
    left = most
    waiting = sorted(start, key=lambda p: (max(0, ends[p] - start[p]), p))
    for number, p in enumerate(waiting):
        rows = min(max(0, ends[p] - start[p]), left // (len(waiting) - number))
        taken[p] = start[p] + rows
        left -= rows
    return taken
