"""A process that sends records at a steady rate until it is ended.

Each record contains the time of sending: ``sent`` in Unix ns, ``at`` in seconds. Arguments: bootstrap servers, topic,
records per second.
"""

from __future__ import annotations

import sys
import time

from confluent_kafka import Producer

_SOON = {"topic.metadata.refresh.interval.ms": 5000}
"""The producer finds new partitions within this time."""


def main(bootstrap: str, topic: str, rate: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "partitioner": "murmur2_random", **_SOON})
    begun = time.monotonic()
    number = 0
    while True:
        ahead = begun + number / rate - time.monotonic()
        if ahead > 0:
            producer.poll(ahead)
            continue
        sent = time.time_ns()
        value = b'{"dep_delay":20,"sent":%d,"at":%d}' % (sent, sent // 1_000_000_000)
        producer.produce(topic, value, b"N%05d" % (number % 20_000))
        number += 1


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
