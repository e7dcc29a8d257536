"""Fills a topic with records of about 100 bytes, JSON, keyed: a process of its own.

Arguments: bootstrap servers, topic, number of records, number of keys, seed, and a file for how many of them are late.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

from confluent_kafka import Producer

SCHEMA = "carrier string, flight int, origin string, dest string, dep_delay int, hour string"
LATE = 15


def main(bootstrap: str, topic: str, records: int, count: int, seed: int, file: Path) -> None:
    chance = random.Random(seed)
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 20,
            "compression.type": "lz4",
            "partitioner": "murmur2_random",
            "queue.buffering.max.messages": 500_000,
        }
    )
    late = 0
    keys = [b"N%05d" % number for number in range(count)]
    value = b'{"carrier":"UA","flight":%d,"origin":"EWR","dest":"D%d","dep_delay":%d,"hour":"2013-01-01T10:00:00Z"}'
    for number in range(records):
        bits = chance.getrandbits(40)
        delay = (bits & 0xFFF) % 70 - 10
        late += delay >= LATE
        while True:
            try:
                producer.produce(topic, value % (number, (bits >> 12 & 0xFFF) % 100, delay), keys[(bits >> 24) % count])
                break
            except BufferError:
                producer.poll(0.05)
        if number % 5_000 == 0:
            producer.poll(0)
    producer.flush()
    file.write_text(str(late))


if __name__ == "__main__":
    bootstrap, topic, records, count, seed, file = sys.argv[1:]
    main(bootstrap, topic, int(records), int(count), int(seed), Path(file))
