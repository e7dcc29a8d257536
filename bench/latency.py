"""How long a record takes from Kafka to Kafka through a filter: anabranch, a handwritten query, Kafka Streams, Flink.

500 records a second (or ``--rate``) are sent, each with the time of sending. A consumer notes the time at which it
receives each record of the output. Records that were sent in the first 20 s after the first arrival aren't
counted. Sides run one after another on one broker.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import TopicPartition
from tests.support.interruption import interruptible

from bench.support import cluster as clusters
from bench.support import java_peers, sides
from bench.support.cluster import PARTITIONS, Cluster, python
from bench.support.processes import EndedError, Side, explained, side
from bench.support.sides import Anabranch, Task, UnsupportedError

WARMING_SECONDS = 20.0
SILENT_SECONDS = 300.0

HAND, MICRO, EXACT, REAL, STREAMS, FLINK = "by-hand", "micro-batch", "exactly-once", "real-time", "streams", "flink"
EXACT_STREAMS, EXACT_FLINK = f"{STREAMS}-{EXACT}", f"{FLINK}-{EXACT}"
SIDES: dict[str, Callable[[Task, Side], None]] = {
    HAND: sides.by_hand,
    MICRO: Anabranch(),
    EXACT: Anabranch(delivery="exactly-once"),
    REAL: Anabranch(trigger="real-time"),
    STREAMS: java_peers.kafka_streams(),
    FLINK: java_peers.flink(),
    EXACT_STREAMS: java_peers.kafka_streams("exactly-once"),
    EXACT_FLINK: java_peers.flink("exactly-once"),
}
GOALS = (
    ("p50", REAL, STREAMS, 1.2),
    ("p99", REAL, STREAMS, 2.0),
    ("p50", REAL, FLINK, 1.0),
    ("p99", REAL, FLINK, 1.0),
    ("p50", EXACT, EXACT_FLINK, 1.0),
)


@dataclass(frozen=True)
class Latency:
    """Latencies in milliseconds, and the number of ``records`` that were measured."""

    p50: float
    p99: float
    p999: float
    worst: float
    records: int

    @classmethod
    def of(cls, milliseconds: list[float]) -> Latency:
        cuts = statistics.quantiles(milliseconds, n=1000, method="inclusive")
        return cls(cuts[499], cuts[989], cuts[998], max(milliseconds), len(milliseconds))

    @classmethod
    def median(cls, several: list[Latency]) -> Latency:
        """The median of each figure, and the sum of the records."""

        def figure(name: str) -> float:
            return float(statistics.median(getattr(each, name) for each in several))

        records = sum(each.records for each in several)
        return cls(figure("p50"), figure("p99"), figure("p999"), figure("worst"), records)


def measured(cluster: Cluster, name: str, number: int, seconds: int, rate: int) -> Latency:
    """Run a side in round ``number``. Each round uses another job, with topics of its own."""
    source, output = f"in-{name}-{number}", f"out-{name}-{number}"
    for topic in (source, output):
        cluster.create(topic)
    with side(cluster.folder / output) as started, side(cluster.folder / source) as sending:
        SIDES[name](Task(cluster, "filter", source, output, quick=True), started)
        sending.start(python("bench.support.pacing", cluster.bootstrap_servers, source, rate))
        found = arrived(cluster, output, seconds, rate, [started, sending])
    cluster.delete(source, output)
    return Latency.of(found)


def arrived(cluster: Cluster, output: str, seconds: int, rate: int, running: list[Side]) -> list[float]:
    """The latencies, in milliseconds, of all records that were sent during ``seconds`` seconds. Raises EndedError if
    some of them are missing.
    """
    consumer = cluster.consumer()
    consumer.assign([TopicPartition(output, number, 0) for number in range(PARTITIONS)])
    found: list[float] = []
    begin = end = 0
    ended: set[int] = set()
    last = time.monotonic()
    try:
        while len(ended) < PARTITIONS:  # each partition has its records in order, so one that was sent later ends it
            message = consumer.poll(0.1)
            now = time.time_ns()
            if message is None or message.error() is not None:
                for each in running:
                    each.check()
                if time.monotonic() - last > SILENT_SECONDS:
                    raise EndedError(f"nothing comes any more:\n{running[0].said()}")
                continue
            last = time.monotonic()
            sent = json.loads(message.value() or b"")["sent"]
            if not begin:
                begin = now + int(WARMING_SECONDS * 1e9)
                end = begin + seconds * 10**9
            if begin <= sent < end:
                found.append((now - sent) / 1e6)
            elif sent >= end:
                ended.add(message.partition() or 0)
    finally:
        consumer.close()
    if abs(len(found) - seconds * rate) > rate:
        raise EndedError(f"{len(found):,} records came of {seconds * rate:,} that were to be sent")
    return found


def in_rounds(names: list[str], given: argparse.Namespace) -> dict[str, list[Latency]]:
    """The results of each side that this version supports, round by round. Every other round runs in the opposite
    order.
    """
    found: dict[str, list[Latency]] = {name: [] for name in names}
    with clusters.fresh() as cluster, explained():
        for number in range(given.rounds):
            for name in names if number % 2 == 0 else reversed(names):
                try:
                    found[name].append(ran := measured(cluster, name, number, given.seconds, given.rate))
                except UnsupportedError as error:
                    print(f"{name}: not supported by this version: {error}", flush=True)
                    continue
                print(f"{name}: p50 {ran.p50:.1f} ms, p99 {ran.p99:.1f} ms, {ran.records:,} records", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=120, help="that are measured (default: 120)")
    parser.add_argument("--rate", type=int, default=500, help="records that are sent a second (default: 500)")
    parser.add_argument("--rounds", type=int, default=1, help="how often each side runs (default: 1)")
    parser.add_argument("--against", type=Path, help="a checkout of another commit, whose sides run as SIDE-before")
    parser.add_argument("--only", help=f"of {','.join(SIDES)} (default: all)")
    arguments = parser.parse_args()
    if arguments.against is not None:
        SIDES.update(sides.before(arguments.against, SIDES))
    names = (arguments.only or ",".join(SIDES)).split(",")
    if not set(names) <= set(SIDES):
        parser.error(f"sides are {', '.join(SIDES)}")
    interruptible()
    ran = in_rounds(names, arguments)
    found = {name: Latency.median(several) for name, several in ran.items() if several}
    others = [name for name in (STREAMS, FLINK) if name in found]
    heads = "".join(f" p50 to {name} | p99 to {name} |" for name in others)
    print(f"\n| {arguments.rate} records/s | p50 ms | p99 ms | p99.9 ms | longest ms |{heads}")
    print(f"| --- | ---: | ---: | ---: | ---: |{' ---: | ---: |' * len(others)}")
    for name, its in found.items():
        ratios = "".join(f" {its.p50 / found[o].p50:.2f} | {its.p99 / found[o].p99:.2f} |" for o in others)
        print(f"| {name} | {its.p50:.1f} | {its.p99:.1f} | {its.p999:.1f} | {its.worst:.1f} |{ratios}")
    for name, before in ((name, f"{name}-before") for name in names):
        if name in found and before in found:
            pairs = zip(ran[name], ran[before], strict=True)
            each = ", ".join(f"{now.p50 / then.p50:.2f}" for now, then in pairs)
            print(f"p50: {name} / {before} {found[name].p50 / found[before].p50:.2f} (by round: {each})")
    for what, mine, other, goal in GOALS:
        if mine in found and other in found:
            ratio = getattr(found[mine], what) / getattr(found[other], what)
            print(f"{what}: {mine} / {other} {ratio:.2f}, goal {goal}: {'met' if ratio <= goal else 'missed'}")


if __name__ == "__main__":
    main()
