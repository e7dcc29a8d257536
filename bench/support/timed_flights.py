"""Fills a topic with flights in order of their event time: a process of its own.

Keys take turns. Where wanted, records of a much later time come at the end of each partition, which close all
windows. Arguments: bootstrap servers, topic, ``dep_delay`` or ``arr_delay``, records, keys, records a second, seconds
by which all are later, and 1 for those last records.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from bench.support.filling import fill

BEGIN = 1_356_998_400
LATER = 60
LAST = 64
"""So many keys that each partition has one of them."""


def key_of(number: int, keys: int) -> bytes:
    """The key of a record. It comes again after as many records as there are keys, if their number isn't a multiple
    of 7919."""
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
