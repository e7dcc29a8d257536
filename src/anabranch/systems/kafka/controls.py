"""Writes and reads the control records of a job's intermediate streams, in a separate, compacted topic.

A control record contains the high watermark that each partition of its stream had when the record was written. In each
partition, the control record applies to readers that have read up to this high watermark.
"""

from __future__ import annotations

import bisect
import threading
import time
from collections.abc import Mapping
from typing import Any

import msgspec
from confluent_kafka import KafkaError, Message, Producer

from anabranch import logs
from anabranch.errors import AnabranchError, UnsupportedFormatError
from anabranch.systems.kafka.records import Reader
from anabranch.systems.kafka.topics import UNCOMMITTED, Topics

__all__ = ["COMPACTED", "ControlLog"]

COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "600000",
    "segment.bytes": "16777216",
    "min.cleanable.dirty.ratio": "0.2",
}
"""Topic settings with small segments, so that older records of a lane are removed soon. This matters because a process
reads the whole topic when it starts."""

log = logs.get_logger()

_VERSION = 1
_EXPECTED = 10_000
_KEPT = 20_000


class _Value(msgspec.Struct, frozen=True, kw_only=True):
    """The value of a control record in its topic.

    Attributes:
        id: the stream's id. A control record doesn't apply to a later stream of the same name.
        ends: the high watermark of each partition, by the partition's number as text. In a partition that was added
            later, the control record applies from the beginning.
        control: the fields of the :class:`anabranch.event_time.control.Control`.
    """

    version: int = _VERSION
    stream: str
    id: str
    ends: dict[str, int]
    control: dict[str, Any]


_read = msgspec.json.Decoder(_Value).decode


class ControlLog:
    """Writes and reads the control records of one job. Control records that were read are kept in memory. Thread-safe.

    Args:
        topics: the topics of the job's streams.
        topic: the topic of the control records. The topic is created when the first control record is written.
        pause: the shortest time in seconds between two reads of the topic. After this process has written a control
            record, the next read doesn't wait for this time.
    """

    def __init__(self, topics: Topics, topic: str, pause: float = 0.05) -> None:
        self._topics = topics
        self._own = Topics(topics.cluster)
        self._topic = topic
        self._pause = pause
        self._lock = threading.Lock()
        self._looked = float("-inf")
        self._reader: Reader | None = None
        self._producer: tuple[Producer, Any] | None = None
        self._ids: dict[str, str] = {}
        self._topic_id = ""
        self._is_anew = False
        """Whether the topic was made anew while this process was reading it."""
        self._next = 0
        self._offsets: list[int] = []
        self._values: list[_Value] = []

    def tell(self, stream: str, control: Mapping[str, Any]) -> None:
        """Write a control record durably. A reader obeys the control record once it has read everything that was
        written to the stream before the record. As soon as the record is written, the brokers can delete earlier
        control records of the same stream and lane (field ``lane``).
        """
        found = self._topics.describe(stream)
        ends = self._topics.ends(stream, range(len(found.partitions)), UNCOMMITTED)
        value = _Value(
            stream=stream,
            id=str(found.topic_id),
            ends={str(number): end for number, end in ends.items()},
            control=dict(control),
        )
        with self._lock:
            self._write(f"{stream}/{control.get('lane', '')}", msgspec.json.encode(value))
            self._looked = float("-inf")

    def heard(self, stream: str, partition: int, cursor: int, position: int) -> tuple[list[dict[str, Any]], int]:
        """The control records after ``cursor`` that apply to a reader at ``position``, and the new cursor.

        The cursor is the offset of the last record that was processed, or that was skipped because it belongs to
        another stream. Before the first record, the cursor is -1. If a record doesn't apply yet, the cursor stops
        before this record, so that the order is kept.

        A cursor at or beyond the topic's end belongs to a topic that was made anew, or that has lost its end. It is set
        back: to -1 if this process knows that the topic was made anew; otherwise to the end, because old records of a
        topic that has lost its end can name closed lanes whose closing is no longer recorded.
        """
        with self._lock:
            self._look()
            if cursor >= self._next:
                self._looked = float("-inf")  # perhaps another process has read records that are new to this one
                self._look()
            if self._reader is not None and cursor >= self._next:
                cursor = -1 if self._is_anew else self._next - 1
            first = bisect.bisect_right(self._offsets, cursor)
            offsets, values = self._offsets[first:], self._values[first:]
        found: list[dict[str, Any]] = []
        for offset, value in zip(offsets, values, strict=True):
            if value.stream == stream and value.id == self._id(stream):
                if position < value.ends.get(str(partition), 0):
                    break
                found.append(dict(value.control))
            cursor = offset
        return found, cursor

    def close(self) -> None:
        with self._lock:
            self._close_reader()
            self._producer = None

    def _id(self, stream: str) -> str:
        if stream not in self._ids:
            self._ids[stream] = str(self._topics.describe(stream).topic_id)
        return self._ids[stream]

    def _look(self) -> None:
        if time.monotonic() - self._looked < self._pause:
            return
        try:
            if not self._is_open():
                self._looked = time.monotonic()
                return
            self._read_on()
        except AnabranchError:
            self._close_reader()  # a broker that has refused a client's login would refuse this client for ever
            raise
        self._looked = time.monotonic()
        if len(self._values) > _KEPT:
            self._compact()

    def _is_open(self) -> bool:
        """Open a reader, unless there is one. Returns False if the topic doesn't exist. If the topic was made anew,
        forget all records."""
        if self._reader is not None:
            return True
        found = self._own.find(self._topic)
        if found is None:
            return False
        topic_id = str(found.topic_id)
        if self._topic_id not in ("", topic_id):
            log.warning("a topic of control records was made anew", topic=self._topic)
            self._next, self._offsets, self._values, self._is_anew = 0, [], [], True
        self._topic_id = topic_id
        self._reader = Reader(self._own, self._topic, 0, _EXPECTED)
        self._next = max(self._next, self._own.starts(self._topic, [0])[0])
        return True

    def _read_on(self) -> None:
        """Read the new records. If the topic now ends before the last record that was read, forget the records that are
        gone."""
        end = self._own.ends(self._topic, [0])[0]
        if end < self._next:
            self._close_reader()
            if not self._is_open():
                return
            if end < self._next:
                log.warning("a topic of control records has lost its end", topic=self._topic, read=self._next, end=end)
                kept = bisect.bisect_left(self._offsets, end)
                self._next, self._offsets, self._values = end, self._offsets[:kept], self._values[:kept]
        assert self._reader is not None
        for messages in self._reader.messages(self._next, end):
            for message in messages:
                self._take(message)
        self._next = max(self._next, end)

    def _close_reader(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()

    def _take(self, message: Message) -> None:
        offset = message.offset()
        assert offset is not None
        value = _decoded(message.value() or b"null", f"{self._topic}, offset {offset}")  # fails alike for every lane
        self._offsets.append(offset)
        self._values.append(value)
        self._next = offset + 1

    def _compact(self) -> None:
        """Drop older control records from memory, except the last one of each lane and stream. (The broker keeps the
        last one, too.)
        """
        older = len(self._values) - _KEPT // 2
        last = {(v.stream, v.id, v.control.get("lane")): row for row, v in enumerate(self._values[:older])}
        kept = [*sorted(last.values()), *range(older, len(self._values))]
        self._offsets = [self._offsets[row] for row in kept]
        self._values = [self._values[row] for row in kept]

    def _write(self, key: str, value: bytes) -> None:
        cluster = self._topics.cluster
        if self._producer is None:
            if self._own.find(self._topic) is None:
                self._own.create(self._topic, 1, COMPACTED)
            self._producer = cluster.open(Producer, {"acks": "all", "enable.idempotence": True, "linger.ms": 0})
        producer, health = self._producer
        told: list[KafkaError | None] = []
        producer.produce(self._topic, value, key, partition=0, on_delivery=lambda error, _: told.append(error))
        deadline = time.monotonic() + cluster.patience
        try:
            while not told:
                producer.poll(0.1)
                if not told:
                    cluster.check(health, deadline)
        except AnabranchError:
            producer.purge()
            self._producer = None
            raise
        if told[0] is not None:
            self._producer = None
            raise cluster.explained(told[0], f"writing to {self._topic}")


def _decoded(raw: bytes, where: str) -> _Value:
    """Parse a control record. Raises UnsupportedFormatError if it has another version, or isn't a control record."""
    try:
        value = _read(raw)
    except (msgspec.DecodeError, RecursionError) as error:
        raise UnsupportedFormatError(
            f"{where} holds something that isn't a control record: {error}",
            "give the job a topic of its own, to which nothing else writes",
        ) from None
    if value.version != _VERSION:
        raise UnsupportedFormatError(
            f"a control record in {where} has format version {value.version}; this anabranch knows {_VERSION}",
            "upgrade anabranch; nothing was changed",
        )
    return value
