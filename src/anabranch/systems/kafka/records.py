"""Reads ranges of a partition's committed records."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaError, Message, TopicPartition

from anabranch.errors import LogError
from anabranch.systems.contract import Range, Records
from anabranch.systems.fetching import NEAR
from anabranch.systems.kafka.topics import Topics
from anabranch.systems.records import RECORD_SCHEMA

__all__ = ["Reader", "read", "record_batch"]

_MOST_ROWS = 50_000
_MOST_QUEUED = 1_000_000
_MOST_QUEUED_KIB = 131_072
_QUEUED_KIB_PER_RECORD = 4
_STEP_SECONDS = 0.1

_MOST_MS = np.iinfo(np.int64).max // 1000
"""The highest timestamp, in ms, that fits into ``RECORD_SCHEMA``, whose timestamps are in microseconds."""

_HEADERS = RECORD_SCHEMA.field("headers").type
_PASSED_OVER = {
    KafkaError.GROUP_AUTHORIZATION_FAILED,  # concerns the coordinator of a group that the consumer doesn't use
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TIMED_OUT,
    KafkaError._RESOLVE,
}


class Reader:
    """A consumer of one partition. Not thread-safe. Close the reader after use.

    Args:
        expected: about how many records will be read. The consumer doesn't prefetch many more.
    """

    def __init__(self, topics: Topics, stream: str, partition: int, expected: int) -> None:
        self._topics = topics
        self._cluster = topics.cluster
        self._stream = stream
        self._place = (topics.topic(stream), partition)
        self._consumer, self._health = self._cluster.open(Consumer, self._properties(expected))

    def messages(self, start: int, end: int) -> Iterator[list[Message]]:
        """The records ``start`` to ``end - 1``, several at a time.

        Raises:
            LogError: some of these records have been deleted, or the partition ends before ``end``.
            AnabranchError: the brokers don't answer, or they refuse the client.
        """
        self._consumer.assign([TopicPartition(*self._place, start)])
        deadline = time.monotonic() + self._cluster.patience
        position, log_end = start, -1
        while position < end:
            found: list[Message] = []
            for message in self._delivered(min(end - position, _MOST_ROWS)):
                error, offset = message.error(), message.offset()
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    self._judge(error, position)
                elif error is not None or offset is None:
                    log_end = -1 if offset is None else offset
                    position = max(position, log_end if log_end >= end else position)
                elif offset >= end:
                    position = end
                    break
                else:
                    found.append(message)
                    position = offset + 1
            if found:
                yield found
                deadline = time.monotonic() + self._cluster.patience
            elif position < end:
                self._check(deadline, start, end, log_end)

    def close(self) -> None:
        self._consumer.close()

    def _delivered(self, most: int) -> list[Message]:
        """Return the available messages (records and errors), at most ``most``. Wait a short time for the first one."""
        first = self._consumer.poll(_STEP_SECONDS)
        if first is None:
            return []
        return [first, *self._consumer.consume(most - 1, 0)] if most > 1 else [first]

    def _judge(self, error: KafkaError, position: int) -> None:
        where = f"{self._stream}/{self._place[1]}"
        if error.code() in {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}:
            kept = self._topics.starts(self._stream, [self._place[1]])
            oldest = kept[self._place[1]]
            if oldest > position:
                raise LogError(
                    f"{where} doesn't hold the {oldest - position:,} offsets from {position} on any more: the oldest "
                    f"kept is {oldest}",
                    f"they were deleted by the topic's retention; let it keep more, or continue from {oldest}",
                )
            raise self._short(position)
        if error.code() not in _PASSED_OVER:
            raise self._cluster.explained(error, f"reading {where}")

    def _check(self, deadline: float, start: int, end: int, log_end: int) -> None:
        if self._health.refused is None and time.monotonic() > deadline and log_end >= 0:
            raise self._short(end)
        self._cluster.check(self._health, deadline)

    def _short(self, wanted: int) -> LogError:
        ends = self._topics.ends(self._stream, [self._place[1]])
        return LogError(
            f"{self._stream}/{self._place[1]} ends at offset {ends[self._place[1]]}, before {wanted}, which was to be "
            "read",
            "the topic was created again or cut short, or a transaction in it is still open",
        )

    def _properties(self, expected: int) -> dict[str, Any]:
        return {
            "group.id": f"{self._cluster.settings.prefix}.read",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            "queued.min.messages": min(max(expected, 1), _MOST_QUEUED),
            "queued.max.messages.kbytes": min(max(expected * _QUEUED_KIB_PER_RECORD, 1024), _MOST_QUEUED_KIB),
            "fetch.queue.backoff.ms": 5,
            "fetch.error.backoff.ms": 50,
            "fetch.wait.max.ms": 20,
        }


def read(topics: Topics, stream: str, partition: int, ranges: Sequence[Range]) -> Iterator[Records]:
    """See :meth:`anabranch.systems.contract.System.read`."""
    wanted = [(start, end) for start, end in ranges if start < end]
    if not wanted:
        return
    topics.check(stream, partition)
    reader = Reader(topics, stream, partition, sum(end - start for start, end in wanted))
    try:
        for near in _near(wanted):
            bounds = np.array(near, dtype=np.int64).ravel()
            for messages in reader.messages(near[0][0], near[-1][1]):
                yield from _in_ranges(messages, bounds)
    finally:
        reader.close()


def _near(ranges: Sequence[Range]) -> list[list[Range]]:
    """The ranges, divided into groups. Each group is read as a single range, because its ranges are close together."""
    groups = [[ranges[0]]]
    for before, after in itertools.pairwise(ranges):
        if after[0] - before[1] < NEAR:
            groups[-1].append(after)
        else:
            groups.append([after])
    return groups


def _in_ranges(messages: list[Message], bounds: np.ndarray[Any, np.dtype[np.int64]]) -> Iterator[Records]:
    """The records within some ranges. ``bounds`` contains the starts and ends of the ranges in ascending order. So an
    offset is in a range if the number of bounds that are at or below the offset is odd.
    """
    offsets = np.fromiter((message.offset() for message in messages), np.int64, len(messages))
    if len(bounds) > 2:
        rows = np.flatnonzero(np.searchsorted(bounds, offsets, side="right") % 2)
        offsets, messages = offsets[rows], [messages[row] for row in rows]
    if messages:
        yield offsets, record_batch(messages)


def record_batch(messages: Sequence[Message]) -> pa.RecordBatch:
    """Messages as rows with the columns of ``RECORD_SCHEMA``. A timestamp that doesn't fit becomes the nearest possible
    one.
    """
    headers = [message.headers() for message in messages]
    if any(headers):
        rows = [None if not row else [{"key": key, "value": value} for key, value in _pairs(row)] for row in headers]
        packed = pa.array(rows, _HEADERS)
    else:
        packed = pa.nulls(len(messages), _HEADERS)
    times = [message.timestamp() for message in messages]
    unix_ms = np.array([0 if kind == TIMESTAMP_NOT_AVAILABLE else at for kind, at in times], dtype=np.int64)
    return pa.record_batch(
        [
            pa.array([message.key() for message in messages], pa.binary()),
            pa.array([message.value() for message in messages], pa.binary()),
            packed,
            pa.array(unix_ms.clip(-_MOST_MS, _MOST_MS) * 1000, pa.timestamp("us", "UTC")),
        ],
        schema=RECORD_SCHEMA,
    )


def _pairs(headers: Any) -> Any:
    return headers.items() if isinstance(headers, dict) else headers
