"""The workloads of ``python -m bench.peers``: their input, and the output that each side must write."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import xxhash
from confluent_kafka import Producer

from bench.support.cluster import Cluster, python
from bench.support.processes import side

KEYS = 20_000
A_KEY = 50
"""The minimum average number of records per key in a batch. With so many, no key is missing from a batch."""
BATCHES = 5
WINDOWS = 40
WINDOW_SECONDS = 10
JOIN_SECONDS = 20
"""The seconds of event time after which a key of the join occurs again. This is more than the ten seconds within which
rows are paired, so each row has only one partner.
"""
AIRPORTS = 100


@dataclass(frozen=True)
class Filled:
    """A workload whose input has been written.

    Attributes:
        records: the number of records in all inputs together.
        expected: how many records are written by a side that writes one for each message.
        batched: how many records are written by a side that writes one for each key and batch.
    """

    work: str
    input: str
    records: int
    expected: int
    batched: int
    other: str = ""
    table: str = ""

    @property
    def batch(self) -> int:
        """The limit on a batch's records from one input: a fifth of the input, plus a few because Spark rounds down."""
        inputs = 2 if self.work == "join" else 1
        return self.records // inputs // BATCHES + 100


def filtering(cluster: Cluster, records: int) -> Filled:
    late = cluster.fill("filter-in", records, _keys(records))
    return Filled("filter", "filter-in", records, late, late)


def counting(cluster: Cluster, records: int) -> Filled:
    keys = _keys(records)
    cluster.fill("count-in", records, keys)
    return Filled("count", "count-in", records, records, BATCHES * keys)


def windowing(cluster: Cluster, records: int) -> Filled:
    in_window = records // WINDOWS
    keys, a_second = in_window // 5, in_window // WINDOW_SECONDS
    _fill_timed(cluster, "windows-in", "dep_delay", a_second * WINDOW_SECONDS * WINDOWS, keys, a_second, last=1)
    return Filled("windows", "windows-in", records, keys * WINDOWS, keys * WINDOWS)


def joining(cluster: Cluster, records: int) -> Filled:
    departures = records // 2
    keys = min(KEYS, departures // A_KEY) // JOIN_SECONDS * JOIN_SECONDS
    for topic, delay, shift in (("departures", "dep_delay", 0), ("landings", "arr_delay", 1)):
        _fill_timed(cluster, topic, delay, departures, keys, keys // JOIN_SECONDS, shift)
    return Filled("join", "departures", 2 * departures, departures, departures, other="landings")


def looking_up(cluster: Cluster, records: int) -> Filled:
    cluster.fill("table-in", records, _keys(records))
    file, topic = cluster.folder / "airports.csv", "airports"
    names = {f"D{number}": f"Airport {number}" for number in range(AIRPORTS)}
    file.write_text("dest,name\n" + "".join(f"{dest},{name}\n" for dest, name in names.items()))
    cluster.create(topic)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "partitioner": "murmur2_random"})
    for dest, name in names.items():
        producer.produce(topic, name, dest)
    producer.flush()
    return Filled("table", "table-in", records, records, records, other=topic, table=str(file))


def calling(cluster: Cluster, records: int) -> Filled:
    cluster.fill("function-in", records, _keys(records))
    return Filled("function", "function-in", records, records, records)


def waiting(cluster: Cluster, records: int) -> Filled:
    cluster.fill("slow-in", records, KEYS)  # so many keys that no bucket has many more records than others
    return Filled("slow", "slow-in", records, records, records)


WORKS: dict[str, tuple[float, Callable[[Cluster, int], Filled]]] = {
    "filter": (1.0, filtering),
    "count": (0.5, counting),
    "windows": (0.5, windowing),
    "join": (0.5, joining),
    "table": (0.5, looking_up),
    "function": (0.1, calling),
    "slow": (0.04, waiting),
}
"""The share of ``--records`` that each workload has, and the function that writes its input."""


def _keys(records: int) -> int:
    return min(KEYS, records // BATCHES // A_KEY)


def _fill_timed(
    cluster: Cluster, topic: str, delay: str, records: int, keys: int, a_second: int, shift: int = 0, last: int = 0
) -> None:
    cluster.create(topic)
    begun = time.monotonic()
    given = (cluster.bootstrap_servers, topic, delay, records, keys, a_second, shift, last)
    command = python("bench.support.timed_flights", *given)
    with side(cluster.folder / f"fill-{topic}") as filling:
        filling.start(command)
        filling.finish()
    print(f"{records:,} records in {topic} after {time.monotonic() - begun:.0f} s", flush=True)


@dataclass(frozen=True)
class Written:
    """What a side wrote: how many results, and a digest of them that doesn't depend on their order."""

    results: int
    digest: str


def written(cluster: Cluster, work: str, output: str) -> tuple[int, Written]:
    """The number of committed records, and their content (in running counts, only that of each key's last record)."""
    records = ((message.key() or b"", message.value() or b"") for message in cluster.records(output))
    return summary(work, records)


def summary(work: str, records: Iterable[tuple[bytes, bytes]]) -> tuple[int, Written]:
    """Like :func:`written`, for the given keys and values. The records of a key must be in order."""
    result, count = RESULTS[work], 0
    last: dict[bytes, bytes] = {}
    total = 0
    for key, value in records:
        count += 1
        if work in RUNNING:
            last[key] = value
        else:
            total += xxhash.xxh64_intdigest(result(key, value))
    total += sum(xxhash.xxh64_intdigest(result(key, value)) for key, value in last.items())
    return count, Written(len(last) if work in RUNNING else count, f"{total % 2**64:016x}")


def _fields(*names: str) -> Callable[[bytes, bytes], bytes]:
    def result(key: bytes, value: bytes) -> bytes:
        found = json.loads(value)
        return repr((key.decode(), *(found[name] for name in names))).encode()

    return result


def _window(key: bytes, value: bytes) -> bytes:
    """The result in a common form, because each side writes the start of a window in its own way."""
    found: dict[str, Any] = json.loads(value)
    start = found["window"]["start"] if "window" in found else found.get("start", found.get("window_start"))
    if not isinstance(start, int):
        start = int(datetime.fromisoformat(start).timestamp())
    return repr((key.decode(), start, found["flights"])).encode()


def _raw(key: bytes, value: bytes) -> bytes:
    return key + b"\0" + value


RUNNING = ("count", "function")
"""Workloads in which only the last record of each key counts."""
RESULTS: dict[str, Callable[[bytes, bytes], bytes]] = {
    "filter": _raw,
    "count": _fields("flights", "total"),
    "windows": _window,
    "join": _fields("flight", "dep_delay", "arr_delay"),
    "table": _fields("flight", "dest", "name"),
    "function": _fields("flights", "total"),
    "slow": _raw,
}
"""By workload, the function that returns a record's result in a form that is the same for all sides."""
