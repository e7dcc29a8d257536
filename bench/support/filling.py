"""Fills topics with records that are made one by one."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import Producer

__all__ = ["fill"]

_POLLED_EVERY = 5_000


def fill(bootstrap: str, topic: str, records: Iterable[tuple[bytes, str | bytes]]) -> None:
    """Write records, keys with their values, in order, and wait until the brokers have them."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 20,
            "compression.type": "lz4",
            "partitioner": "murmur2_random",
            "queue.buffering.max.messages": 500_000,
        }
    )
    for number, (key, value) in enumerate(records):
        while True:
            try:
                producer.produce(topic, value, key)
                break
            except BufferError:
                producer.poll(0.05)
        if number % _POLLED_EVERY == 0:
            producer.poll(0)
    producer.flush()
