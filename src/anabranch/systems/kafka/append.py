"""Adds records to a topic from outside any job, as ``anabranch stream put`` does."""

from __future__ import annotations

import functools
import time
import uuid
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Producer

from anabranch.errors import AnabranchError
from anabranch.model.hashing import partitions_for
from anabranch.systems.appender import PartlyWrittenError
from anabranch.systems.kafka import timestamps
from anabranch.systems.kafka.topics import LARGEST, LIMIT, Topics
from anabranch.systems.records import RECORD_SCHEMA

__all__ = ["KafkaAppender"]

_LEAST, _MOST = 1000, 1_000_000_000
"""The range in which librdkafka's size limit for a record must be. A topic can have any limit."""
_SERVED_EVERY = 256
_STEP_SECONDS = 0.1
_TOO_LARGE = {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE}
_REFUSED = _TOO_LARGE | {
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.INVALID_RECORD,
    KafkaError.POLICY_VIOLATION,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
}
"""After one of these errors, a record certainly wasn't written. After other errors, such as a timeout, the record may
have been written.
"""

_Headers = list[tuple[str, str | bytes | None]] | None


class KafkaAppender:
    """Adds records to one topic. As with Kafka's default partitioner, the key determines the partition. Records with
    null keys are distributed round-robin. Not thread-safe.

    A batch is not a transaction: after an error, some of the batch's records may have been written. The error says how
    many. The client accepts no timestamps before 1970-01-01 00:00:00.001 UTC. Earlier timestamps are replaced by this
    time.
    """

    def __init__(self, topics: Topics, stream: str) -> None:
        self._topics = topics
        self._cluster = topics.cluster
        self._stream = stream
        self._topic = topics.topic(stream)
        self._count = len(topics.describe(stream).partitions)
        self._next = uuid.uuid4().int % self._count
        self._limit = topics.largest([self._topic])[self._topic]
        self._producer, self._health = self._cluster.open(Producer, self._properties())
        self._sent = self._written = self._refused = 0
        self._failed: list[tuple[int, KafkaError]] = []

    def append(self, batch: pa.RecordBatch) -> int:
        """Write a batch with the columns of ``RECORD_SCHEMA``, and return its number of records.

        Raises:
            PartlyWrittenError: a record is too large or was refused, the cluster doesn't answer, or the cluster refuses
                the client. If the fault is in a record, the message names the record.
            AnabranchError: the topic can't be described. Nothing was written.
        """
        if not batch.schema.equals(RECORD_SCHEMA):
            batch = batch.select(RECORD_SCHEMA.names).cast(RECORD_SCHEMA)
        self._sent, self._written, self._refused, self._failed = 0, 0, 0, []
        where = self.partitions_of(batch.column("key"))
        keys, values = batch.column("key").to_pylist(), batch.column("value").to_pylist()
        times = timestamps.milliseconds(batch.column("timestamp")).tolist()
        headers = _headers(batch.column("headers"))
        rows = zip(where.tolist(), keys, values, times, headers, strict=True)
        for row, (partition, key, value, at, pairs) in enumerate(rows):
            self._send(row, value, key, partition, at, pairs)
            if row % _SERVED_EVERY == 0:
                self._producer.poll(0)
            if self._failed:
                break
        self._finish()
        if self._failed:
            raise self._fault(batch)
        return int(batch.num_rows)

    def close(self) -> None:
        """Discard what a failed :meth:`append` has left in the producer."""
        self._producer.purge()
        self._producer.flush(self._cluster.patience)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _send(
        self, row: int, value: bytes | None, key: bytes | None, partition: int, at: int, headers: _Headers
    ) -> None:
        done = functools.partial(self._done, row)
        deadline, written = time.monotonic() + self._cluster.patience, self._written
        while True:
            try:
                self._producer.produce(self._topic, value, key, partition, done, timestamp=at, headers=headers)
            except BufferError:
                self._producer.poll(_STEP_SECONDS)
                deadline, written = self._progress(deadline, written)
            except KafkaException as error:
                self._failed.append((row, error.args[0]))
                return
            else:
                self._sent += 1
                return

    def _finish(self) -> None:
        deadline, written = time.monotonic() + self._cluster.patience, self._written
        while self._producer.flush(_STEP_SECONDS):
            deadline, written = self._progress(deadline, written)

    def _progress(self, deadline: float, before: int) -> tuple[float, int]:
        """Check that the producer makes progress, and return the arguments for the next check. If more than ``before``
        records have been written, the new arguments are a later deadline and the new number of written records.
        Otherwise, they are the same as in this call.

        Raises:
            PartlyWrittenError: no more records have been written; and either the deadline has passed, or a broker has
                refused the client.
        """
        if self._written > before:
            return time.monotonic() + self._cluster.patience, self._written
        try:
            self._cluster.check(self._health, deadline)
        except AnabranchError as error:
            self._producer.purge()
            raise self._partly(error) from None
        return deadline, before

    def _done(self, row: int, error: KafkaError | None, _: Any) -> None:
        if error is None:
            self._written += 1
        else:
            self._failed.append((row, error))
            self._refused += error.code() in _REFUSED

    def _fault(self, batch: pa.RecordBatch) -> PartlyWrittenError:
        sizes = {row: _size(batch, row) for row, _ in self._failed}
        row, error = max(
            self._failed, key=lambda failed: (failed[1].code() in _TOO_LARGE, sizes[failed[0]], -failed[0])
        )
        if error.code() in _TOO_LARGE:
            fault = AnabranchError(
                f"record {row} of the batch for {self._stream} is too large with {sizes[row]:,} bytes: at most "
                f"{self._limit:,} fit, its own overhead included",
                f"raise {LIMIT} of the topic {self._topic} (message.max.bytes of the broker), or shorten the record",
            )
            return self._partly(fault)
        return self._partly(self._cluster.explained(error, f"writing record {row} of the batch to {self._stream}"))

    def _partly(self, error: AnabranchError) -> PartlyWrittenError:
        """``error``, extended by two numbers: how many records were written, and how many more may have been written.
        The second number counts the records that were sent, but neither confirmed nor refused.
        """
        written, unsure = self._written, self._sent - self._written - self._refused
        told = "1 record written" if written == 1 else f"{written:,} records written"
        perhaps = f", and {unsure:,} more may have been written" if unsure else ""
        return PartlyWrittenError(f"{error.what}; {told}{perhaps}", error.cure, written, unsure)

    def partitions_of(self, keys: pa.Array) -> npt.NDArray[np.int32]:
        """The partition for each key in ``keys``. Null keys are distributed round-robin."""
        count = len(self._topics.describe(self._stream).partitions)
        if count != self._count:
            self._producer.list_topics(self._topic, timeout=self._cluster.patience)
            self._count = count
        where = partitions_for(keys, count)
        keyless = np.flatnonzero(where < 0)
        where[keyless] = (np.arange(len(keyless)) + self._next) % count
        self._next = (self._next + len(keyless)) % count
        return where

    def _properties(self) -> dict[str, Any]:
        limit = min(max(_LEAST, self._limit), _MOST)
        return {
            "acks": "all",
            "enable.idempotence": True,
            "compression.type": "lz4",
            "linger.ms": 20,
            "message.max.bytes": limit,
            "batch.size": min(LARGEST, limit),
        }


def _headers(column: pa.Array) -> list[_Headers]:
    if column.null_count == len(column):
        return [None] * len(column)
    return [None if row is None else [(pair["key"], pair["value"]) for pair in row] for row in column.to_pylist()]


def _size(batch: pa.RecordBatch, row: int) -> int:
    # The timestamp is left out, because a datetime may be unable to hold it.
    cells = batch.select(["key", "value", "headers"]).slice(row, 1).to_pylist()[0]
    pairs = cells["headers"] or []
    parts = [
        cells["key"],
        cells["value"],
        *(pair["key"].encode() for pair in pairs),
        *(pair["value"] for pair in pairs),
    ]
    return sum(len(part) for part in parts if part is not None)
