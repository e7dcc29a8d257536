"""The parts that the Spark sources of all systems share: columns, limits, and how a batch is divided."""

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
"""The columns without headers and timestamps, which cost several percent and which some readers don't need."""


@dataclass(frozen=True)
class Limits:
    """The limits of a lane's source.

    ``max_rows``: for a first batch, 0 in real time; later batches follow the query's read limits. ``nothing``: nothing
    is read, as if there were no records. ``fail_on_loss``: fail if records are gone that haven't been read yet.
    ``lane`` and ``commits`` (a lane's id and commit folder) are for tests that stop at a step. ``line``: where Python
    workers report their progress.
    """

    max_rows: int
    fail_on_loss: bool = True
    lane: str = ""
    commits: str = ""
    nothing: bool = False
    line: ReportAddress | None = None


@dataclass(frozen=True)
class Reading:
    """What a lane reads from a stream: all records of the partitions that ``starting`` names, from these offsets on.

    ``until``: the offsets beyond which nothing is read, if the system can stop there. ``bare``: use the columns of
    ``BARE``.
    """

    stream: str
    starting: Mapping[int, int]
    until: Mapping[int, int]
    limits: Limits
    bare: bool


def share(start: Mapping[int, int], ends: Mapping[int, int], most: int) -> dict[int, int]:
    """End positions of a batch of at most ``most`` rows, divided evenly. If one partition can't use its share, the rest
    goes to the others.
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
