"""The embedded log as a Spark source: one Python data source that moves Arrow batches."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from anabranch import steps
from anabranch.errors import StateError
from anabranch.systems.embedded import headers
from anabranch.systems.embedded.log import Log
from anabranch.systems.embedded.manifest import Tail
from anabranch.systems.embedded.segments import RECORD_SCHEMA, Slice, read_slice

FORMAT = "anabranch-embedded"
_HEADERS = RECORD_SCHEMA.get_field_index("headers")
SCHEMA = "key binary, value binary, headers string, timestamp timestamp, partition int, offset bigint"
_BARE = "key binary, value binary, partition int, offset bigint"


class EmbeddedSource(DataSource):
    """Options: ``root``, ``stream``, ``partitions`` (JSON list), ``starting`` (JSON partition → offset), ``max_rows``,
    ``gate`` (a file: while it is there nothing more is taken in), ``until`` (JSON partition → offset: never beyond),
    ``lane`` and ``commits`` (a lane's id and commit folder, for the steps that tests stop at).

    As a batch source, ``root``, ``stream`` and ``ranges``: see :class:`RangeReader`. For both, ``bare`` ("true":
    without headers and timestamps, which cost a reader some percent that doesn't need them).
    """

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return _BARE if self._bare else SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        return RangeReader(dict(self.options), self._bare)

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
        self._gate = options.get("gate", "")
        self._until = {int(p): o for p, o in json.loads(options.get("until", "{}")).items()}
        self._lane = options.get("lane", "")
        self._commits = options.get("commits", "")
        self._tails: dict[int, Tail] = {}

    def initialOffset(self) -> dict[str, Any]:
        return self._offset({p: self._starting.get(p, 0) for p in self._partitions})

    def latestOffset(self, start: dict[str, Any], limit: object) -> dict[str, Any]:
        if self._gate and os.path.exists(self._gate):
            return start
        if steps.ACTIVE:
            steps.reach(steps.PLANNING, self._lane, steps.next_batch(self._commits))
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
        return self._offset(share(held, ends, self._max_rows))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        begin, finish = self._positions(start), self._positions(end)
        return [
            Pieces(p, self._log.slices(self._stream, p, begin.get(p, 0), finish[p]))
            for p in sorted(finish)
            if finish[p] > begin.get(p, 0)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _rows(partition, self._bare)

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


class RangeReader(DataSourceReader):
    """A batch of chosen records. ``ranges`` is JSON: partition → list of ``[start, end)``, in order of offsets.

    Each stream partition is one Spark partition, its rows in the order of the ranges.
    """

    def __init__(self, options: dict[str, str], bare: bool) -> None:
        self._bare = bare
        self._log = Log(options["root"])
        self._stream = options["stream"]
        self._ranges = {int(p): ranges for p, ranges in json.loads(options["ranges"]).items()}

    def partitions(self) -> Sequence[InputPartition]:
        found = [
            Pieces(p, [piece for start, end in ranges for piece in self._log.slices(self._stream, p, start, end)])
            for p, ranges in sorted(self._ranges.items())
        ]
        return found or [Pieces(0, [])]  # without any, Spark would make one that is none of ours

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _rows(partition, self._bare)


def _rows(partition: InputPartition, bare: bool) -> Iterator[pa.RecordBatch]:
    """The records of the pieces, with their partition and offsets."""
    assert isinstance(partition, Pieces)
    for piece in partition.slices:
        offset = piece.offset
        for batch in read_slice(piece):
            rows = batch.num_rows
            if bare:
                taken = batch.select(["key", "value"])
            else:
                taken = batch.set_column(_HEADERS, "headers", headers.pack(batch.column(_HEADERS)))
            number = pa.repeat(pa.scalar(partition.partition, pa.int32()), rows)
            offsets = pa.array(np.arange(offset, offset + rows))
            offset += rows
            yield pa.RecordBatch.from_arrays(
                [*taken.columns, number, offsets], names=[*taken.schema.names, "partition", "offset"]
            )


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
