"""Records per second from Kafka to Kafka: anabranch, a handwritten query, Kafka Streams and quixstreams on one broker.

Each side is started on a topic that is already full. Every 50 ms, the command looks up how far readers of committed
records can read the side's output topic. A side is measured from the moment when 40 % of the expected output exists
until all of it exists. Its rate is given in records of the input per second: the rate of the output, times the number
of input records, divided by the number of output records. The number of output records is known: a filter passes on a
known part of its input, and a running count writes a record for each message or, in batches, for each key and batch
(every key occurs in every batch). The output of an exactly-once batch becomes visible when the batch's transactions are
committed, so 40 % is reached exactly at the end of a batch. CPU seconds are those of all processes of the side during
the measurement, without the broker.

The workloads: ``filter`` looks at one field of the JSON and passes values on unchanged; ``rewrite`` reads all fields of
a flight and writes them as new JSON; ``count`` keeps a count and a sum for each of 20,000 keys.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from tests.support.interruption import interruptible

from bench.support import cluster as clusters
from bench.support import java_peers, python_peers, sides
from bench.support.cluster import Cluster
from bench.support.processes import EndedError, Side, explained, side
from bench.support.sides import Anabranch, Task, UnsupportedError

INPUT = "flights"
WARMING = 0.4
"""A side counts as warm once this part of its output exists."""
KEYS = 20_000
A_KEY = 50
"""The minimum average number of records per key in a batch. With so many, no key is missing from a batch."""
BATCHES = 5
LOOK_SECONDS = 0.05
STALLED_SECONDS = 300.0
SLACK = 0.998
"""A tolerance, because the number of records that pass the filter differs a little from batch to batch."""

HAND, ONCE, EXACT, REAL, STREAMS, QUIX = "by-hand", "at-least-once", "exactly-once", "real-time", "streams", "quix"
SIDES: dict[str, Callable[[Task, Side], None]] = {
    HAND: sides.by_hand,
    ONCE: Anabranch(),
    EXACT: Anabranch(delivery="exactly-once"),
    REAL: Anabranch(trigger="real-time"),
    STREAMS: java_peers.kafka_streams(),
    QUIX: python_peers.Quix(),
}
BEFORE, TO_BEFORE = "-before", 0.97
BY_MESSAGE = {REAL, STREAMS, QUIX}
WORKS = ("filter", "rewrite", "count")
GOALS = {
    "filter": [(ONCE, HAND, 1.4), (EXACT, HAND, 1.0), (REAL, HAND, 1.9), (REAL, STREAMS, 0.9)],
    "rewrite": [],
    "count": [(each, other, goal) for each in (ONCE, EXACT) for other, goal in ((HAND, 0.97), (STREAMS, 1.1))],
}


@dataclass(frozen=True)
class Measured:
    """The result of one run: records of the input per second, CPU seconds per million of these records, and output."""

    rate: float
    cpu: float
    written: object


@dataclass(frozen=True)
class Bench:
    """One run of the command.

    Attributes:
        late: how many records of the input pass the filter.
        even: whether all of anabranch's batches have the same size, so that only the speed per record is compared.
    """

    cluster: Cluster
    records: int
    late: int = 0
    even: bool = False

    @property
    def keys(self) -> int:
        return min(KEYS, self.records // BATCHES // A_KEY)

    def expected(self, name: str, work: str) -> int:
        """How many records a side writes in all."""
        if work != "count":
            return self.late
        return self.records if name.removesuffix(BEFORE) in BY_MESSAGE else BATCHES * self.keys

    def measured(self, name: str, work: str, number: int) -> Measured:
        """Run a side, and measure it."""
        output = f"{work}-{name}-{number}"
        self.cluster.create(output)
        batch = self.records // BATCHES + 100  # a little more, because Spark rounds down for each partition
        task = Task(self.cluster, work, INPUT, output, batch, even=self.even)
        with side(self.cluster.folder / output) as started:
            SIDES[name](task, started)
            rate, cpu = self._watched(started, output, self.expected(name, work))
        written = counts(self.cluster, output) if work == "count" else sum(1 for _ in self.cluster.records(output))
        self.cluster.delete(output)
        return Measured(rate, cpu, written)

    def _watched(self, started: Side, output: str, expected: int) -> tuple[float, float]:
        begun: tuple[float, int, float] | None = None
        seen, since = 0, time.monotonic()
        while True:
            now, end = time.monotonic(), self.cluster.end(output)
            if begun is None and end >= expected * WARMING * SLACK:
                begun = now, end, started.cpu_seconds()
            if end >= expected:
                break
            if end != seen:
                seen, since = end, now
            if now - since > STALLED_SECONDS:
                raise EndedError(f"{end:,} of {expected:,} records, then nothing for a while:\n{started.said()}")
            started.check()
            time.sleep(LOOK_SECONDS)
        assert begun is not None
        records = (end - begun[1]) / expected * self.records
        return records / (now - begun[0]), (started.cpu_seconds() - begun[2]) / records * 1e6


def counts(cluster: Cluster, output: str) -> dict[str, object]:
    """A summary of the last counts in the output, with which the outputs of two sides can be compared."""
    last: dict[bytes, bytes] = {}
    for message in cluster.records(output):
        last[message.key() or b""] = message.value() or b""
    found = sorted((key.decode(), (c := json.loads(value))["flights"], c["total"]) for key, value in last.items())
    return {
        "keys": len(found),
        "records": sum(flights for _, flights, _ in found),
        "digest": hashlib.sha256(json.dumps(found).encode()).hexdigest()[:12],
    }


def rounds(bench: Bench, work: str, names: list[str], count: int) -> dict[str, list[Measured]]:
    """Run all sides ``count`` times, every other time in the opposite order."""
    found: dict[str, list[Measured]] = {}
    for number in range(1, count + 1):
        for name in names if number % 2 else names[::-1]:
            try:
                ran = bench.measured(name, work, number)
            except UnsupportedError as error:
                print(f"{work}, {name}: not supported by this version: {error}", flush=True)
                continue
            found.setdefault(name, []).append(ran)
            print(f"{work}, {name}, round {number}: {ran.rate:,.0f} records/s, {ran.cpu:.2f} CPU s/M", flush=True)
            first = next(iter(found.values()))[0]
            if ran.written != first.written:
                raise SystemExit(f"{work}: {name} wrote {ran.written}, and another side {first.written}")
    return found


def told(work: str, found: dict[str, list[Measured]]) -> Iterator[str]:
    """The table of a workload, and whether its goals were met."""

    def ratio(mine: str, other: str) -> float:
        return statistics.median(a.rate / b.rate for a, b in zip(found[mine], found[other], strict=True))

    yield f"\n| {work} | records/s | to by-hand | CPU s per million |"
    yield "| --- | ---: | ---: | ---: |"
    for name, runs in found.items():
        rate, cpu = (statistics.median(getattr(run, what) for run in runs) for what in ("rate", "cpu"))
        against = f"{ratio(name, HAND):.2f}" if HAND in found else "-"
        yield f"| {name} | {rate:,.0f} | {against} | {cpu:.2f} |"
    compared = [(name.removesuffix(BEFORE), name, TO_BEFORE) for name in found if name.endswith(BEFORE)]
    for mine, other, goal in [*GOALS[work], *compared]:
        if mine in found and other in found:
            reached = ratio(mine, other)
            yield f"{work}: {mine} / {other} {reached:.2f}, goal {goal}: {'met' if reached >= goal else 'missed'}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, help="a checkout of another commit, whose sides run as SIDE-before")
    parser.add_argument("--records", type=int, default=5_000_000, help="in the input topic (default: 5,000,000)")
    parser.add_argument("--only", help=f"of {','.join(SIDES)} (default: all)")
    parser.add_argument("--works", default=",".join(WORKS), help=f"of {','.join(WORKS)}")
    parser.add_argument("--pairs", type=int, default=1, help="rounds, of which the medians are told")
    arguments = parser.parse_args()
    if arguments.against is not None:
        SIDES.update(sides.before(arguments.against, SIDES))
    names, works = (arguments.only or ",".join(SIDES)).split(","), arguments.works.split(",")
    if not set(names) <= set(SIDES) or not set(works) <= set(WORKS) or arguments.records % BATCHES:
        parser.error(f"sides are {', '.join(SIDES)}; works {', '.join(WORKS)}; records go in {BATCHES} batches")
    interruptible()
    with clusters.fresh() as cluster, explained():
        bench = Bench(cluster, arguments.records, even=arguments.against is not None)
        bench = replace(bench, late=cluster.fill(INPUT, bench.records, bench.keys))
        for work in works:
            print("\n".join(told(work, rounds(bench, work, names, arguments.pairs))), flush=True)


if __name__ == "__main__":
    main()
