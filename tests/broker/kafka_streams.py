"""A Kafka cluster as a system, with streams of a test's own."""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from anabranch.config import KafkaSettings
from anabranch.model.hashing import partition_for
from anabranch.systems.contract import System
from anabranch.systems.kafka.cluster import Cluster
from anabranch.systems.kafka.system import KafkaSystem
from anabranch.systems.records import RECORD_SCHEMA
from anabranch.testing import broker
from tests.broker.reading import values

AT_MS = 1_700_000_000_000


@pytest.fixture(scope="module")
def settings(cluster: broker.Cluster) -> KafkaSettings:
    return KafkaSettings(bootstrap_servers=cluster.bootstrap_servers)


@pytest.fixture
def system(settings: KafkaSettings) -> KafkaSystem:
    return KafkaSystem(settings)


@pytest.fixture
def stream(system: KafkaSystem) -> str:
    return made(system)


def made(system: KafkaSystem, partitions: int = 1) -> str:
    name = f"s-{uuid.uuid4().hex}"
    system.create(name, partitions)
    return name


def record(value: bytes | None, key: bytes | None = None, headers: Any = None, at_ms: int = AT_MS) -> dict[str, Any]:
    return {"key": key, "value": value, "headers": headers, "timestamp": at_ms * 1000}


def key_for(partition: int, count: int) -> bytes:
    return next(
        key for key in (b"%d" % number for number in itertools.count()) if partition_for(key, count) == partition
    )


def batch(records: Iterable[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(records), RECORD_SCHEMA)


def put(system: KafkaSystem, stream: str, *values: bytes) -> None:
    with system.appender(stream) as appender:
        appender.append(batch(record(value) for value in values))


def writer(settings: KafkaSettings) -> Producer:
    """A transactional producer; its transactions are of ``begin_transaction`` and so on."""
    producer, _ = Cluster(settings).open(Producer, {"transactional.id": uuid.uuid4().hex})
    producer.init_transactions(10)
    return producer


def transaction(producer: Producer, stream: str, *values: bytes, commit: bool = True) -> None:
    producer.begin_transaction()
    for value in values:
        producer.produce(stream, value, partition=0)
    producer.flush(10)
    if commit:
        producer.commit_transaction(10)
    else:
        producer.abort_transaction(10)


def read(system: System, stream: str, *ranges: tuple[int, int], partition: int = 0) -> list[tuple[int, bytes]]:
    return values(system.read(stream, partition, ranges))


def ends(system: KafkaSystem, stream: str) -> dict[int, int]:
    """The ends, once they are the high watermarks: a commit or an abort returns before its markers are written."""
    deadline = time.monotonic() + 10
    while (found := system.ends(stream)) != system.high_watermarks(stream):
        assert time.monotonic() < deadline
    return found


def delete(system: KafkaSystem, stream: str) -> None:
    cluster = Cluster(system.settings)
    cluster.ask(lambda admin: admin.delete_topics([stream], operation_timeout=10))
