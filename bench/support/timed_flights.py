"""A process that fills a topic with flights in the order of their event time.

Keys take turns. If the last argument is 1, records with a much later time follow in each partition, to close all
windows. Arguments: bootstrap servers, topic, the name of the delay's field (``dep_delay`` or ``arr_delay``), number of
records, number of keys, records per second of event time, seconds to add to all event times except those of the last
records, and 1 or 0 for these last records.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from bench.support.filling import fill

BEGIN = 1_356_998_400
LATER = 60
LAST = 64
"""The number of keys of the last records. With so many, each partition gets one."""


def key_of(number: int, keys: int) -> bytes:
    """The key of a record. ``keys`` successive records have different keys, unless ``keys`` is a multiple of 7919."""
    return b"N%05d" % (number * 7919 % keys)


def main(bootstrap: str, topic: str, delay: str, records: int, keys: int, a_second: int, shift: int, last: int) -> None:
    value = '{"carrier":"UA","flight":%d,"origin":"EWR","dest":"D%d","' + delay + '":%d,"at":%d}'

    def made() -> Iterator[tuple[bytes, str]]:
        for number in range(records):
            at = BEGIN + number // a_second + shift
            yield key_of(number, keys), value % (number, number % 100, number * 31 % 70 - 10, at)

    fill(bootstrap, topic, made())
    end = value % (0, 0, 0, BEGIN + LATER + records // a_second)
    fill(bootstrap, topic, ((b"last-%d" % number, end) for number in range(LAST if last else 0)))


if __name__ == "__main__":
    bootstrap, topic, delay, *numbers = sys.argv[1:]
    main(bootstrap, topic, delay, *map(int, numbers))
