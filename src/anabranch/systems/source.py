"""What systems' Spark sources share: columns, limits, and the division of a batch among partitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from anabranch.systems import headers
from anabranch.systems.contract import Records
from anabranch.task_progress.counts import ReportAddress

__all__ = ["BARE", "SCHEMA", "Limits", "Reading", "columns", "share"]

SCHEMA = "key binary, value binary, headers string, timestamp timestamp, partition int, offset bigint"
BARE = "key binary, value binary, partition int, offset bigint"
"""The columns without headers and timestamps. These two columns aren't always needed, and reading them costs several
percent of the throughput.
"""


@dataclass(frozen=True)
class Limits:
    """The limits of a lane's source.

    Attributes:
        max_rows: the maximum number of records in the first batch; 0 in real-time mode. The query's read limits apply
            to later batches.
        fail_on_loss: whether to fail if records are gone before they have been read.
        lane: the lane's id, for tests that kill a process at a crash point.
        commits: the lane's commit folder, for the same tests.
        nothing: whether to read nothing, as if there were no records.
        line: where workers report their progress; None if they don't report it.
    """

    max_rows: int
    fail_on_loss: bool = True
    lane: str = ""
    commits: str = ""
    nothing: bool = False
    line: ReportAddress | None = None


@dataclass(frozen=True)
class Reading:
    """What a lane reads from a stream.

    Attributes:
        starting: for each partition that the lane reads, the offset at which the lane begins to read.
        until: for some partitions, the offset before which reading stops. Kafka ignores ``until``.
        bare: whether to use the columns of ``BARE`` instead of ``SCHEMA``.
    """

    stream: str
    starting: Mapping[int, int]
    until: Mapping[int, int]
    limits: Limits
    bare: bool


def share(start: Mapping[int, int], ends: Mapping[int, int], most: int) -> dict[int, int]:
    """The end offset of a batch in each partition. The batch has at most ``most`` rows, divided evenly among the
    partitions. If a partition has fewer rows than its share, the other partitions get the rest of this share.

    Args:
        start: for each partition, the position at which the batch begins.
        ends: for each of these partitions, the offset at which the batch must end at the latest.
        most: the maximum number of rows. Each offset counts as a row, even if the offset has no record.
    """
    taken: dict[int, int] = {}
    left = most
    waiting = sorted(start, key=lambda p: (max(0, ends[p] - start[p]), p))
    for number, p in enumerate(waiting):
        rows = min(max(0, ends[p] - start[p]), left // (len(waiting) - number))
        taken[p] = start[p] + rows
        left -= rows
    return taken


def columns(records: Records, partition: int, bare: bool) -> pa.RecordBatch:
    """Records of a partition in the columns of ``SCHEMA`` or, with ``bare``, of ``BARE``."""
    offsets, batch = records
    taken = batch.select(["key", "value"])
    names = ["key", "value"]
    arrays = list(taken.columns)
    if not bare:
        arrays += [headers.pack(batch.column("headers")), batch.column("timestamp")]
        names += ["headers", "timestamp"]
    arrays += [pa.repeat(pa.scalar(partition, pa.int32()), batch.num_rows), pa.array(offsets)]
    return pa.RecordBatch.from_arrays(arrays, names=[*names, "partition", "offset"])
