"""The slots of a lane's output in Kafka, with writers in processes of their own."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import Consumer, IsolationLevel, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from confluent_kafka.cimpl import NewTopic

from anabranch.config import KafkaSettings
from anabranch.systems.kafka import markers, transactions
from anabranch.systems.kafka.clients import librdkafka
from anabranch.systems.kafka.markers import Marker
from anabranch.systems.kafka.system import KafkaSystem
from anabranch.systems.kafka.transactions import SlotTransaction, SlotWriter, fence
from anabranch.systems.records import RECORD_SCHEMA
from anabranch.testing.broker import Cluster

AT = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
PARTITIONS = 3
PATIENCE = 100.0
SETTLING = 5.0


class Place:
    """A topic, and a lane of slots that writes to it, of one test."""

    def __init__(self, servers: str, slots: int = 1, epoch: int = 1, **settings: Any) -> None:
        self.settings = KafkaSettings(bootstrap_servers=servers, **settings)
        self.job = f"job-{uuid.uuid4().hex[:8]}"
        self.lane = f"1-{uuid.uuid4().hex[:8]}"
        self.topic = f"{self.job}-out"
        self.slots = range(slots)
        self.admin = AdminClient(librdkafka(self.settings))
        self.create(self.topic)
        self.fence(epoch, new=True)

    def create(self, topic: str, partitions: int = PARTITIONS, **config: str) -> None:
        self.admin.create_topics([NewTopic(topic, partitions, 1, config=config)])[topic].result()

    def writer(self, epoch: int = 1) -> SlotWriter:
        return SlotWriter(self.settings, self.job, self.lane, "out", epoch)

    def fence(self, epoch: int, *, new: bool = False, closed: bool = False) -> dict[int, Marker]:
        return fence(self.settings, self.job, self.lane, "out", self.slots, epoch, new=new, closed=closed)

    def markers(self) -> dict[int, Marker | None]:
        return markers.markers(self.settings, self.job, self.lane, "out", self.slots)

    def write(self, batch: int, values: Iterable[str], slot: int = 0, epoch: int = 1) -> bool:
        """Write a batch as a Spark task does; whether it was done already."""
        with self.writer(epoch).open(slot, batch) as transaction:
            transaction.write(self.topic, *spread(records(values)))
            transaction.commit()
            return transaction.done

    def opened(self, batch: int, values: Iterable[str], epoch: int = 1) -> SlotTransaction:
        """A transaction whose records have reached the broker, and in which nothing else has happened."""
        transaction = self.writer(epoch).open(0, batch)
        transaction.write(self.topic, *spread(records(values)))
        transaction.flush()
        return transaction

    def seen(self, isolation: str = "read_committed") -> list[str]:
        return sorted((value or b"").decode() for _, _, value, *_ in read(self.settings, self.topic, isolation))

    def ends(self, isolation: IsolationLevel) -> list[int]:
        wanted = {TopicPartition(self.topic, number): OffsetSpec.latest() for number in range(PARTITIONS)}
        found = self.admin.list_offsets(wanted, isolation_level=isolation)
        return [found[place].result().offset for place in sorted(wanted, key=lambda place: place.partition)]

    @property
    def held_up(self) -> bool:
        return self.ends(IsolationLevel.READ_COMMITTED) != self.ends(IsolationLevel.READ_UNCOMMITTED)


@pytest.fixture(scope="module")
def servers(cluster: Cluster) -> str:
    return cluster.bootstrap_servers


def records(values: Iterable[str], keys: Sequence[bytes] | None = None) -> pa.RecordBatch:
    rows = [{"key": b"k", "value": value.encode(), "headers": None, "timestamp": AT} for value in values]
    for row, key in zip(rows, keys or [], strict=bool(keys)):
        row["key"] = key
    return pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA)


def spread(given: pa.RecordBatch) -> tuple[pa.RecordBatch, np.ndarray[Any, Any]]:
    return given, np.arange(given.num_rows) % PARTITIONS


def marker(place: Place, slot: int, **fields: Any) -> Marker:
    """What a slot's marker should be, whichever producer wrote it."""
    found = place.markers()[slot]
    assert found is not None
    return Marker(**{"lane": place.lane, "epoch": 1, "instance": found.instance, **fields})


def read(
    settings: KafkaSettings, topic: str, isolation: str = "read_committed"
) -> list[tuple[int, bytes | None, bytes | None, Any, int]]:
    """All records of a topic up to its end, in the order of partitions and offsets.

    A transaction is committed some time before its markers are in the partitions: they are waited for, as long as it
    isn't one that the test leaves open.
    """
    system, deadline = KafkaSystem(settings), time.monotonic() + SETTLING
    while system.ends(topic) != system.high_watermarks(topic) and time.monotonic() < deadline:
        time.sleep(0.02)
    config = {"group.id": "tests", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    config |= {"isolation.level": isolation, "enable.partition.eof": True, "fetch.wait.max.ms": 50}
    with closing(Consumer(librdkafka(settings) | config)) as consumer:
        consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
        found, ended, deadline = [], set(), time.monotonic() + PATIENCE
        while len(ended) < PARTITIONS:
            assert time.monotonic() < deadline, f"{topic} can't be read to its end"
            message = consumer.poll(1.0)
            if message is None:
                continue
            if (error := message.error()) is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                ended.add(message.partition())
            else:
                found.append(message)
    found.sort(key=lambda each: (each.partition(), each.offset()))
    return [(m.partition(), m.key(), m.value(), m.headers(), m.timestamp()[1]) for m in found]


@pytest.fixture(autouse=True)
def fresh_process() -> Iterator[None]:
    yield
    transactions.close()
