"""The streams of a test, either in an embedded log or as topics of a broker."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient

from anabranch.config import KafkaSettings
from anabranch.deadlines import wait_until
from anabranch.errors import AnabranchError
from anabranch.systems.embedded import LaneWriter, Log, SegmentWriter, read_slice
from anabranch.systems.embedded.append import PUT_JOB
from anabranch.systems.kafka.cluster import Cluster
from anabranch.systems.kafka.system import KafkaSystem
from anabranch.systems.records import RECORD_SCHEMA, nearest_datetime, to_dicts
from anabranch.testing.messages import Encoded

__all__ = ["EmbeddedStreams", "KafkaStreams", "Streams"]

Found = Iterator[tuple[int, int, dict[str, Any]]]
"""Records, partition by partition, in order. Each item has the partition, the offset, and the columns of
``RECORD_SCHEMA`` as a dict. The timestamp is a value that :func:`nearest_datetime` returns.
"""

_Delete = Callable[[AdminClient, list[str]], Mapping[str, Future[None]]]

_STEP_SECONDS = 0.1
_PATIENCE = 60.0
_GONE = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.GROUP_ID_NOT_FOUND,
    KafkaError.NON_EMPTY_GROUP,  # its last member is just leaving
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.NOT_COORDINATOR,
}
"""Errors after which the deletion of topics or groups continues. With these errors, the topic or group is already
deleted, or can be deleted a moment later."""


class Streams(Protocol):
    """Creates, fills and reads the streams of a test."""

    def names(self) -> list[str]:
        """The names of all streams."""
        ...

    def create(self, stream: str, partitions: int) -> None: ...

    def expand(self, stream: str, partitions: int) -> None: ...

    def put(self, stream: str, messages: Sequence[Encoded]) -> None:
        """Add messages to a stream. The messages of one partition stay in order."""
        ...

    def records(self, stream: str) -> Found:
        """All records of a stream that a reader can see now."""
        ...


class EmbeddedStreams:
    """Streams in an embedded log under the folder ``root``."""

    def __init__(self, root: Path) -> None:
        self._log = Log(root)
        self._writer = LaneWriter(self._log, PUT_JOB, "put-test", epoch=1)
        self._batch = 0

    def names(self) -> list[str]:
        return self._log.streams()

    def create(self, stream: str, partitions: int) -> None:
        self._log.create(stream, partitions)

    def expand(self, stream: str, partitions: int) -> None:
        self._log.expand(stream, partitions)

    def put(self, stream: str, messages: Sequence[Encoded]) -> None:
        for number in sorted({message.partition for message in messages}):
            mine = [message for message in messages if message.partition == number]
            segment = SegmentWriter(self._log.root, stream, number, slot=0)
            segment.write(_batch(mine))
            self._writer.publish(stream, number, self._batch, [segment.close()])
        self._batch += 1

    def records(self, stream: str) -> Found:
        starts = self._log.starts(stream)
        for number, tail in self._log.ends(stream).items():
            offset = starts[number].offset
            for piece in self._log.slices(stream, number, offset, tail.end):
                for batch in read_slice(piece):
                    for record in _rows(batch):
                        yield number, offset, record
                        offset += 1


class KafkaStreams:
    """Streams that are topics of a broker. ``topics`` maps each stream to the stream's topic. All other topics of the
    broker are ignored."""

    def __init__(self, settings: KafkaSettings, topics: Mapping[str, str]) -> None:
        self._settings = settings
        self._topics = dict(topics)
        self._system = KafkaSystem(settings, topics)
        self._cluster = Cluster(settings)

    def names(self) -> list[str]:
        return [stream for stream in self._system.streams() if stream in self._topics]

    def create(self, stream: str, partitions: int) -> None:
        """Create a topic that keeps records of any age. A broker computes a record's age from the record's timestamp,
        and a test's timestamps can be old."""
        self._system.create(stream, partitions, internal=True)

    def expand(self, stream: str, partitions: int) -> None:
        self._system.expand(stream, partitions)

    def put(self, stream: str, messages: Sequence[Encoded]) -> None:
        failed: list[KafkaError] = []
        producer, health = self._cluster.open(
            Producer,
            {
                "acks": "all",
                "enable.idempotence": True,
                "delivery.report.only.error": True,
                "on_delivery": lambda error, _: failed.append(error),
            },
        )
        deadline = time.monotonic() + _PATIENCE
        for message in messages:
            while not _queued(producer, self._topics[stream], message):
                self._cluster.check(health, deadline)
        while producer.flush(_STEP_SECONDS):
            self._cluster.check(health, deadline)
        if failed:
            raise self._cluster.explained(failed[0], f"putting rows into {stream}")

    def records(self, stream: str) -> Found:
        starts = self._system.starts(stream)
        for number, end in self._system.high_watermarks(stream).items():
            for offsets, batch in self._system.read(stream, number, [(starts[number], end)]):
                yield from ((number, offset, record) for offset, record in zip(offsets, _rows(batch), strict=True))

    def clear(self, begin: str) -> None:
        """Delete all topics whose names begin with ``begin``, and all consumer groups whose names contain ``begin``.

        Raises:
            AnabranchError: the broker refuses a deletion, or takes too long.
        """
        topics = KafkaSystem(self._settings).streams
        self._delete("topics", lambda: [name for name in topics() if name.startswith(begin)], AdminClient.delete_topics)
        self._delete(
            "consumer groups",
            lambda: [name for name in self._groups() if begin in name],
            AdminClient.delete_consumer_groups,
        )

    def _groups(self) -> list[str]:
        wait = self._cluster.patience
        answer = self._cluster.ask(lambda admin: {"": admin.list_consumer_groups(request_timeout=wait)})[""]
        if isinstance(answer, KafkaError):
            raise self._cluster.explained(answer, "listing the consumer groups")
        return [each.group_id for each in answer.valid]

    def _delete(self, what: str, listed: Callable[[], list[str]], delete: _Delete) -> None:
        names: list[str] = []

        def look() -> bool | None:
            names[:] = listed()
            if not names:
                return True
            for answer in self._cluster.ask(partial(_asked, delete, names), repeatable=False).values():
                if isinstance(answer, KafkaError) and answer.code() not in _GONE:
                    raise self._cluster.explained(answer, f"deleting the {what} of a test")
            return None

        def late() -> AnabranchError:
            return AnabranchError(
                f"the {what} {', '.join(names)} of a test are still on the Kafka cluster {self._cluster.shown}",
                "delete them by hand: kafka-topics.sh, kafka-consumer-groups.sh",
            )

        wait_until(look, _PATIENCE, late, _STEP_SECONDS / 10)


def _asked(delete: _Delete, names: list[str], admin: AdminClient) -> Mapping[str, Future[None]]:
    return delete(admin, names)


def _queued(producer: Producer, topic: str, message: Encoded) -> bool:
    try:
        producer.produce(
            topic,
            message.value,
            message.key,
            message.partition,
            timestamp=_unix_ms(message.timestamp),
            headers=list(message.headers),
        )
    except BufferError:
        producer.poll(_STEP_SECONDS)
        return False
    return True


def _unix_ms(at: datetime) -> int:
    return max(1, int(at.timestamp() * 1000))  # the client takes 0 for "now"


def _rows(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    return ({**row, "timestamp": nearest_datetime(row["timestamp"])} for row in to_dicts(batch))


def _batch(messages: Sequence[Encoded]) -> pa.RecordBatch:
    rows = [
        {
            "key": message.key,
            "value": message.value,
            "headers": [{"key": name, "value": value} for name, value in message.headers] or None,
            "timestamp": message.timestamp,
        }
        for message in messages
    ]
    return pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA)
