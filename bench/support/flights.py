"""A process that fills a topic with keyed JSON records of about 100 bytes.

Arguments: bootstrap servers, topic, number of records, number of keys, seed, and a file to which the number of late
records is written.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path

from bench.support.filling import fill

SCHEMA = "carrier string, flight int, origin string, dest string, dep_delay int, hour string"
LATE = 15


def main(bootstrap: str, topic: str, records: int, count: int, seed: int, file: Path) -> None:
    chance, late = random.Random(seed), 0
    keys = [b"N%05d" % number for number in range(count)]
    value = b'{"carrier":"UA","flight":%d,"origin":"EWR","dest":"D%d","dep_delay":%d,"hour":"2013-01-01T10:00:00Z"}'

    def made() -> Iterator[tuple[bytes, bytes]]:
        nonlocal late
        for number in range(records):
            bits = chance.getrandbits(40)
            delay = (bits & 0xFFF) % 70 - 10
            late += delay >= LATE
            yield keys[(bits >> 24) % count], value % (number, (bits >> 12 & 0xFFF) % 100, delay)

    fill(bootstrap, topic, made())
    file.write_text(str(late))


if __name__ == "__main__":
    bootstrap, topic, records, count, seed, file = sys.argv[1:]
    main(bootstrap, topic, int(records), int(count), int(seed), Path(file))
