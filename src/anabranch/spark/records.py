"""Records of a stream as frames: the columns that every source has, and records read once more as a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from anabranch.spark.counts import Line
from anabranch.spark.internals import local_properties
from anabranch.systems import headers
from anabranch.systems.contract import Range, Records, System

SCHEMA = "key binary, value binary, headers string, timestamp timestamp, partition int, offset bigint"
BARE = "key binary, value binary, partition int, offset bigint"
"""Without headers and timestamps, which cost a reader some percent that doesn't need them."""


@dataclass(frozen=True)
class Limits:
    """What holds a lane's source back.

    ``max_rows``: of a first batch, 0 in real time; later ones go by the query's read limits.
    ``nothing``: none is read, and batches are as if there were none.
    ``fail_on_loss``: when records are gone that were not read yet.
    ``lane`` and ``commits`` (a lane's id and commit folder) are for the steps that tests stop at. ``line``: where
    Python workers tell how far they are.
    """

    max_rows: int
    fail_on_loss: bool = True
    lane: str = ""
    commits: str = ""
    nothing: bool = False
    line: Line | None = None


def columns(records: Records, partition: int, bare: bool) -> pa.RecordBatch:
    """Records of a partition in the columns of ``SCHEMA``, or of ``BARE``."""
    offsets, batch = records
    taken = batch.select(["key", "value"])
    names = ["key", "value"]
    arrays = list(taken.columns)
    if not bare:
        arrays += [headers.pack(batch.column("headers")), batch.column("timestamp")]
        names += ["headers", "timestamp"]
    arrays += [pa.repeat(pa.scalar(partition, pa.int32()), batch.num_rows), pa.array(offsets)]
    return pa.RecordBatch.from_arrays(arrays, names=[*names, "partition", "offset"])


def again(
    spark: SparkSession, system: System, stream: str, ranges: Mapping[int, Sequence[Range]], bare: bool = False
) -> DataFrame:
    """Chosen records as a batch. ``ranges`` are by partition, in order of offsets.

    Each stream partition is one Spark partition, its rows in the order of the ranges.
    """
    wanted = [(partition, list(several)) for partition, several in sorted(ranges.items()) if several]
    if not wanted:
        return spark.createDataFrame([], BARE if bare else SCHEMA)
    tasks = spark.range(0, len(wanted), 1, len(wanted))
    return tasks.mapInArrow(_reading(system, stream, wanted, bare), BARE if bare else SCHEMA)


def _reading(
    system: System, stream: str, wanted: Sequence[tuple[int, list[Range]]], bare: bool
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column("id").to_pylist():
                partition, ranges = wanted[number]
                for records in system.read(stream, partition, ranges):
                    yield columns(records, partition, bare)

    return run


def task_number() -> int:
    """The number of the Spark task that this runs in, 0 outside of one."""
    context = TaskContext.get()
    return context.partitionId() if context is not None else 0


def batch_number() -> int:
    """The batch that the Spark task works for, -1 outside of a streaming query."""
    context = TaskContext.get()
    number = None if context is None else context.getLocalProperty(local_properties.BATCH)
    return -1 if number is None else int(number)
