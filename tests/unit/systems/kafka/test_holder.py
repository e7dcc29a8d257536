"""The producer of a slot: its settings, and what becomes of a record that it refuses."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException

from anabranch.config import KafkaSettings
from anabranch.errors import AnabranchError
from anabranch.systems.kafka import holder
from anabranch.systems.kafka.holder import Holder
from anabranch.systems.kafka.markers import Marker
from anabranch.systems.kafka.output import KafkaOutput
from anabranch.systems.kafka.topics import Topics
from anabranch.systems.kafka.transactions import SlotTransaction, SlotWriter
from anabranch.systems.output import Target
from anabranch.systems.records import RECORD_SCHEMA

AT = datetime(2026, 1, 2, tzinfo=UTC)


class Producer:
    """Stands for librdkafka's, without brokers."""

    made: Producer

    def __init__(self, properties: dict[str, Any]) -> None:
        self.properties = properties
        type(self).made = self

    def list_topics(self, topic: str, timeout: float) -> None:
        pass

    def init_transactions(self, timeout: float) -> None:
        pass

    def begin_transaction(self) -> None:
        pass

    def abort_transaction(self, timeout: float) -> None:
        pass

    def poll(self, timeout: float) -> None:
        pass

    def produce(self, *record: object) -> None:
        raise KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))


@pytest.fixture
def producer(monkeypatch: pytest.MonkeyPatch) -> type[Producer]:
    monkeypatch.setattr(holder, "Producer", Producer)
    return Producer


@pytest.mark.parametrize(
    ("client", "taken", "expected"),
    [
        ({}, 1_048_588, 1_000_000),
        ({}, 100_000, 100_000),
        ({}, 0, 1),
        ({"batch.size": "5000"}, 100_000, "5000"),
    ],
)
def test_batches_are_no_larger_than_the_topics_take(
    producer: type[Producer], client: dict[str, str], taken: int, expected: object
) -> None:
    Holder(KafkaSettings(client=client), "id", taken)
    assert producer.made.properties["batch.size"] == expected


@pytest.mark.parametrize(
    ("value", "headers", "size"),
    [
        (600_000, [{"key": "h", "value": b"y" * 500_000}, {"key": "i", "value": None}], 1_100_005),
        (999_990, None, 999_993),
    ],
)
def test_a_record_that_the_producer_refuses_is_not_blamed_on_the_topic(
    producer: type[Producer], value: int, headers: object, size: int
) -> None:
    """It counts headers, and its own overhead."""
    record = {"key": b"big", "value": b"x" * value, "headers": headers, "timestamp": AT}
    writer, marker = SlotWriter(KafkaSettings(), "job", "1-0", "out", 1), Marker(lane="1-0", epoch=1, instance="")
    transaction = SlotTransaction(writer, Holder(writer.settings, "id"), 0, 0, marker)
    named = f"a record of {size} bytes for topic out, key b'big', is larger than the producer's limit of 1000000 bytes"
    with pytest.raises(AnabranchError, match=named) as refused:
        transaction.write("out", pa.RecordBatch.from_pylist([record], schema=RECORD_SCHEMA), np.zeros(1, np.int32))
    assert refused.value.cure.startswith('raise [systems.kafka.client] "message.max.bytes"')


def test_the_smallest_topic_of_a_lane_counts_and_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"one-of-two": 1_048_588, "two-of-two": 100_000}
    looked_up: list[str] = []
    opened: list[int] = []

    def largest(_: Topics, topics: list[str]) -> dict[str, int]:
        looked_up.extend(topics)
        return {topic: sizes[topic] for topic in topics}

    def opens(slot: int, batch: int, batch_size: Callable[[], int]) -> Any:
        opened.append(batch_size())
        return SimpleNamespace(write=lambda *_: None)

    monkeypatch.setattr(Topics, "largest", largest)
    writer: Any = SimpleNamespace(settings=KafkaSettings(), open=opens)
    output = KafkaOutput(writer, {"one": "one-of-two", "two": "two-of-two"})
    records = pa.RecordBatch.from_pylist([{"key": b"k", "value": b"v", "timestamp": AT}], schema=RECORD_SCHEMA)
    for task in range(2):
        output.writer(task, 3).write(Target("one", 1), 0, cast(Any, np.zeros(1, np.int32)), records)
    assert output.limit("two") < 100_000
    assert (opened, looked_up) == ([100_000, 100_000], [*sizes])
