"""Reads selected records of a stream once more, as a DataFrame that isn't streaming. Also determines, for code in a
Spark task, the numbers of the Spark task and of its batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from anabranch.spark.internals import local_properties
from anabranch.systems.contract import Range, System
from anabranch.systems.source import BARE, SCHEMA, columns


def again(
    spark: SparkSession, system: System, stream: str, ranges: Mapping[int, Sequence[Range]], bare: bool = False
) -> DataFrame:
    """Selected records of a stream, as a batch DataFrame. One Spark task reads all ranges of a partition, in the given
    order.

    Args:
        ranges: the ranges of offsets to read from each partition.
        bare: whether to read the records without headers and timestamps.
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
    """The number of the current Spark task; 0 outside Spark tasks."""
    context = TaskContext.get()
    return context.partitionId() if context is not None else 0


def batch_number() -> int:
    """The number of the current Spark task's batch; -1 outside a streaming query."""
    context = TaskContext.get()
    number = None if context is None else context.getLocalProperty(local_properties.BATCH)
    return -1 if number is None else int(number)
