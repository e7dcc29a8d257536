"""Adding records from outside of any job, as ``anabranch stream put`` does."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from types import TracebackType
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from anabranch.model.hashing import partitions_for
from anabranch.systems.embedded.log import Log
from anabranch.systems.embedded.segments import SegmentWriter
from anabranch.systems.embedded.writer import LaneWriter

__all__ = ["PUT_JOB", "Appender", "append"]

PUT_JOB = "stream-put"
"""The job under which records from outside are published; each producer is a lane of its own."""


class Appender:
    """Partitions records by key as Kafka's default partitioner does; null keys go round. For one thread.

    Each batch is published before ``append`` returns, partition by partition, not in one transaction. Close
    it, or use it in ``with``, so that the stream can forget it.
    """

    def __init__(self, log: Log, stream: str) -> None:
        producer = uuid.uuid4()
        self._log = log
        self._stream = stream
        self._writer = LaneWriter(log, PUT_JOB, f"put-{producer.hex}", epoch=1)
        self._batch = 0
        self._next = producer.int % log.describe(stream).partitions

    def append(self, batch: pa.RecordBatch) -> int:
        """Publish a batch in the columns of ``RECORD_SCHEMA``; returns its number of records."""
        if not batch.num_rows:
            return 0
        where = self._partitions(batch.column("key"))
        order = np.argsort(where, kind="stable")
        numbers, firsts = np.unique(where[order], return_index=True)
        for number, rows in zip(numbers.tolist(), np.split(order, firsts[1:]), strict=True):
            segment = SegmentWriter(self._log.root, self._stream, number, slot=0)
            segment.write(batch if len(numbers) == 1 else batch.take(pa.array(rows)))
            self._writer.publish(self._stream, number, self._batch, [segment.close()])
        self._batch += 1
        return int(batch.num_rows)

    def close(self) -> None:
        """Tell the stream that this producer is done."""
        if self._batch:
            self._writer.close([self._stream])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _partitions(self, keys: pa.Array) -> npt.NDArray[np.int32]:
        count = self._log.describe(self._stream).partitions
        where = partitions_for(keys, count)
        keyless = np.flatnonzero(where < 0)
        where[keyless] = (np.arange(len(keyless)) + self._next) % count
        self._next = (self._next + len(keyless)) % count
        return where


def append(log: Log, stream: str, batches: Iterable[pa.RecordBatch]) -> int:
    """Publish batches with an :class:`Appender` of their own; returns the number of records."""
    with Appender(log, stream) as appender:
        return sum(appender.append(batch) for batch in batches)
