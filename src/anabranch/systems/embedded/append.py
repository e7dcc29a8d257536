"""Adds records from outside any job, as ``anabranch stream put`` does."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from anabranch.errors import LogError
from anabranch.model.hashing import partitions_for
from anabranch.systems.appender import PartlyWrittenError
from anabranch.systems.embedded.log import Log
from anabranch.systems.embedded.manifest import NOTHING
from anabranch.systems.embedded.segments import SegmentRef, SegmentWriter
from anabranch.systems.embedded.writer import LaneWriter

__all__ = ["PUT_JOB", "Appender", "append"]

PUT_JOB = "stream-put"
"""The job name in the markers of records from outside any job. Each :class:`Appender` counts as a separate lane of this
job.
"""


class Appender:
    """Adds records to one stream. As with Kafka's default partitioner, the key determines the partition. Records with
    null keys are distributed round-robin. Not thread-safe.

    ``append`` publishes a batch partition by partition, not in one transaction, before it returns. Close the appender,
    or use it in ``with``. Otherwise, the appender's markers stay in the manifests forever.
    """

    def __init__(self, log: Log, stream: str) -> None:
        producer = uuid.uuid4()
        self._log = log
        self._stream = stream
        self._writer = LaneWriter(log, PUT_JOB, f"put-{producer.hex}", epoch=1)
        self._batch = NOTHING
        self._failed = False
        self._unavailable: set[int] = set()
        self._next = producer.int % log.describe(stream).partitions

    def append(self, batch: pa.RecordBatch) -> int:
        """Publish a batch, which has the columns of ``RECORD_SCHEMA``, and return its number of records.

        Raises:
            PartlyWrittenError: not all records could be written, for example because a disk is full or faulty, or
                because a file of the log is damaged or locked.
        """
        if not batch.num_rows:
            return 0
        where = self._partitions(batch.column("key"))
        order = np.argsort(where, kind="stable")
        numbers, firsts = np.unique(where[order], return_index=True)
        parts = zip(numbers.tolist(), np.split(order, firsts[1:]), strict=True)
        pieces = {number: batch if len(numbers) == 1 else batch.take(pa.array(rows)) for number, rows in parts}
        published = unsure = 0
        try:
            # All segments are written before the first entry, so that a full disk usually fails the whole batch.
            refs = self._segments(pieces)
            self._batch += 1  # not used again after a failure, because some partitions may have the batch
            for number, ref in refs.items():
                try:
                    self._writer.publish(self._stream, number, self._batch, [ref])
                except (OSError, LogError) as refused:
                    added = self._is_added(number)
                    unsure = ref.rows if added is None else 0
                    if not added:
                        self._unavailable = {number} if isinstance(refused, LogError) else set()
                        raise
                published += ref.rows
        except (OSError, LogError) as error:
            self._failed = True
            perhaps = f", and {unsure} more may have been added" if unsure else ""
            why, cure = str(error), "make room on that disk, or see what is wrong with it"
            if isinstance(error, LogError):
                why, cure = error.what, error.cure
            elif error.strerror:
                why = error.strerror
            raise PartlyWrittenError(
                f"only {published} of {batch.num_rows} records could be added to {self._stream}, in {self._log.root}"
                f"{perhaps}: {why}",
                cure,
                published,
                unsure,
            ) from error
        return int(batch.num_rows)

    def _is_added(self, number: int) -> bool | None:
        """Whether a partition contains its part of the current batch. This method is called after an error that may
        have occurred before or after the part was published. If the partition can't be read, the result is None.
        """
        try:
            return self._writer.known_batch(self._stream, number) >= self._batch
        except (OSError, LogError):
            return None

    def _segments(self, pieces: Mapping[int, pa.RecordBatch]) -> dict[int, SegmentRef]:
        """Write a durable segment for each partition. If a segment can't be written, remove all of the segments."""
        writers: list[SegmentWriter] = []
        refs: dict[int, SegmentRef] = {}
        try:
            for number, piece in pieces.items():
                writers.append(SegmentWriter(self._log.root, self._stream, number, slot=0))
                writers[-1].write(piece)
                refs[number] = writers[-1].close()
        except OSError:
            for writer in writers:
                writer.abort()
            raise
        return refs

    def close(self) -> None:
        """If this producer has added records, mark the producer's lane as closed in the stream. A partition that was
        locked or damaged at the last :meth:`append` is left out, because another attempt would most likely fail too,
        perhaps after another long wait for the lock.
        """
        if self._batch == NOTHING:
            return
        try:
            self._writer.close([self._stream], self._unavailable)
        except (OSError, LogError):
            if not self._failed:  # otherwise the error of append, which counts the records, is the one to report
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _partitions(self, keys: pa.Array) -> npt.NDArray[np.int32]:
        count = self._log.describe(self._stream).partitions
        where = partitions_for(keys, count)
        keyless = np.flatnonzero(where < 0)
        where[keyless] = (np.arange(len(keyless)) + self._next) % count
        self._next = (self._next + len(keyless)) % count
        return where


def append(log: Log, stream: str, batches: Iterable[pa.RecordBatch]) -> int:
    """Publish batches with a new :class:`Appender`, and return the number of records."""
    with Appender(log, stream) as appender:
        return sum(appender.append(batch) for batch in batches)
