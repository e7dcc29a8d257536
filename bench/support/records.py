"""Records that benchmarks write to a stream of any system, and read from it."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from anabranch.systems.contract import System
from anabranch.systems.records import RECORD_SCHEMA

KEYS = 4_000
_AT_ONCE = 50_000


def key_of(number: int) -> bytes:
    """The key of a record. Successive records have different keys, and all keys are equally frequent."""
    return b"k%05d" % (number * 7919 % KEYS)


def append(system: System, stream: str, rows: Iterable[tuple[bytes, bytes]]) -> None:
    """Add keys with their values, in order, with the current time and without headers."""
    appender, left = system.appender(stream), iter(rows)
    while several := [*itertools.islice(left, _AT_ONCE)]:
        keys, values = zip(*several, strict=True)
        nothing = pa.nulls(len(keys), RECORD_SCHEMA[2].type)
        stamps = pa.array([time.time_ns() // 1000] * len(keys), RECORD_SCHEMA[3].type)
        appender.append(pa.record_batch([pa.array(keys), pa.array(values), nothing, stamps], schema=RECORD_SCHEMA))
    appender.close()


def read(system: System, stream: str) -> Iterator[tuple[bytes | None, Any]]:
    """The key of each record, and its value, which is JSON. The records of a partition are in order."""
    for partition, end in system.ends(stream).items():
        for _, batch in system.read(stream, partition, [(0, end)]):
            for key, value in zip(batch.column("key").to_pylist(), batch.column("value").to_pylist(), strict=True):
                yield key, json.loads(value)
