"""Compares anabranch with its peers, from Kafka to Kafka, at equal promises, in one table with ratios.

Each side is started on topics that are already full. Every 50 ms, the command looks up how far readers of committed
records can read the side's output topic. A side is measured from the moment when 40 % of the expected output exists
until all of it exists or, for windows, which are written later than their input, until 80 % exists. Its rate is given
in records of the input per second: the rate of the output, times the number of input records, divided by the number of
output records. CPU seconds are those of all processes of the side during the measurement, without the broker. Sides
that promise exactly once commit every second. A micro-batch of anabranch has at most a fifth of the input. In each
round, all sides run, in an order that changes from round to round. Ratios are taken within a round.

After each run, the command reads the whole committed output, and compares it with the output of the first side.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.support.interruption import interruptible

from bench.support import cluster as clusters
from bench.support import sides
from bench.support.cluster import Cluster
from bench.support.java_peers import flink, kafka_streams
from bench.support.processes import EndedError, Side, explained, side
from bench.support.python_peers import PyFlink, Quix, bytewax
from bench.support.rounds import Entry, Goal, Measured, goals, order, table, whole
from bench.support.sides import Anabranch, Task, UnsupportedError
from bench.support.works import WORKS, Filled, Written, written

WARMING = 0.4
"""A side counts as warm once this part of its output exists."""
UNTIL = {"windows": 0.8}
"""For workloads that are not measured until the end: the part of the output at which the measurement ends."""
SLACK = 0.998
"""A tolerance, because the number of records that pass the filter differs a little from batch to batch."""
LOOK_SECONDS = 0.05
STALLED_SECONDS = 300.0

EXACTLY, AT_LEAST = "exactly once", "at least once"
ANABRANCH, REAL, HAND, STREAMS, FLINK = "anabranch", "anabranch in real time", "by hand", "Kafka Streams", "Flink"
QUIX, BYTEWAX, PYFLINK = "Quix Streams", "Bytewax", "PyFlink"
OURS = (ANABRANCH, REAL)
BATCHED = (ANABRANCH, HAND)
"""Sides that write a running SQL aggregate once for each key and batch."""
SIDES: dict[Entry, Callable[[Task, Side], None]] = {
    Entry(EXACTLY, ANABRANCH): Anabranch(delivery="exactly-once"),
    Entry(EXACTLY, STREAMS): kafka_streams("exactly-once"),
    Entry(EXACTLY, FLINK): flink("exactly-once"),
    Entry(EXACTLY, QUIX): Quix("exactly-once"),
    Entry(EXACTLY, PYFLINK): PyFlink("exactly-once"),
    Entry(AT_LEAST, ANABRANCH): Anabranch(),
    Entry(AT_LEAST, REAL): Anabranch(trigger="real-time"),
    Entry(AT_LEAST, HAND): sides.by_hand,
    Entry(AT_LEAST, STREAMS): kafka_streams(),
    Entry(AT_LEAST, FLINK): flink(),
    Entry(AT_LEAST, QUIX): Quix(),
    Entry(AT_LEAST, BYTEWAX): bytewax,
    Entry(AT_LEAST, PYFLINK): PyFlink(),
}
SIDES_OF = {
    "function": (ANABRANCH, QUIX, BYTEWAX, PYFLINK),
    "slow": (ANABRANCH, STREAMS, FLINK, QUIX),
}
"""The sides of each workload that isn't run by exactly the sides in :data:`IN_JVM`."""
IN_JVM = (ANABRANCH, REAL, HAND, STREAMS, FLINK)
NAMES = list(dict.fromkeys(entry.side for entry in SIDES))
PROMISES = list(dict.fromkeys(entry.promise for entry in SIDES))


def _goal(work: str, promise: str, other: str, least: float, mine: str = ANABRANCH) -> Goal:
    return Goal(work, Entry(promise, mine), Entry(promise, other), least)


GOALS = [
    _goal("filter", EXACTLY, STREAMS, 1.2),
    _goal("filter", EXACTLY, FLINK, 0.7),
    _goal("filter", AT_LEAST, STREAMS, 1.0),
    _goal("filter", AT_LEAST, FLINK, 0.9, REAL),
    _goal("count", EXACTLY, FLINK, 0.9),
    _goal("count", EXACTLY, STREAMS, 2.0),
    *(_goal(work, promise, FLINK, 0.8) for work in ("windows", "join", "table") for promise in PROMISES),
    *(_goal("function", promise, QUIX, 3.0) for promise in PROMISES),
    _goal("function", AT_LEAST, BYTEWAX, 3.0),
    *(_goal("function", promise, PYFLINK, 1.0) for promise in PROMISES),
    *(_goal("slow", promise, other, 40.0) for other in (STREAMS, FLINK, QUIX) for promise in PROMISES),
]


@dataclass
class Comparison:
    """The runs of one workload on one broker."""

    cluster: Cluster
    filled: Filled
    patience: float = STALLED_SECONDS
    results: dict[Entry, list[Measured]] = field(default_factory=dict)
    _first: tuple[Entry, Written] | None = None

    def rounds(self, entries: Sequence[Entry], count: int) -> None:
        """Run all sides ``count`` times. A side that this version doesn't support is left out."""
        left = list(entries)
        for number in range(count):
            for entry in order(left, number):
                try:
                    ran = self._run(entry, number)
                except UnsupportedError as error:
                    print(f"{self.filled.work}, {entry}: not supported by this version: {error}", flush=True)
                    left.remove(entry)
                    continue
                self.results.setdefault(entry, []).append(ran)
                said = f"{ran.rate:,.0f} records/s, {ran.cpu:.2f} CPU s/M"
                print(f"{self.filled.work}, {entry}, round {number + 1}: {said}", flush=True)

    def _run(self, entry: Entry, number: int) -> Measured:
        filled = self.filled
        output = f"{filled.work}-{entry.promise}-{entry.side}-{number}".replace(" ", "-").lower()
        self.cluster.create(output)
        task = Task(
            self.cluster, filled.work, filled.input, output, filled.batch, other=filled.other, table=filled.table
        )
        expected = filled.batched if entry.side in BATCHED else filled.expected
        with side(self.cluster.folder / output) as started:
            SIDES[entry](task, started)
            ran = self._watched(started, output, expected)
            self._compare(entry, started, output, expected)
        self.cluster.delete(output)
        return ran

    def _watched(self, started: Side, output: str, expected: int) -> Measured:
        begun: tuple[float, int, float] | None = None
        goal = round(expected * UNTIL.get(self.filled.work, 1.0))
        seen, since = 0, time.monotonic()
        while True:
            now, end = time.monotonic(), self.cluster.end(output)
            if begun is None and end >= expected * WARMING * SLACK:
                begun = now, end, started.cpu_seconds()
            if begun is not None and end >= goal and now > begun[0]:
                break
            if end != seen:
                seen, since = end, now
            if now - since > self.patience:
                raise EndedError(f"{end:,} of {expected:,} records, then nothing for a while:\n{started.said()}")
            started.check()
            time.sleep(LOOK_SECONDS)
        records = (end - begun[1]) / expected * self.filled.records
        if records <= 0:
            raise EndedError(f"all {end:,} records of {output} came at once: take more --records")
        return Measured(records / (now - begun[0]), (started.cpu_seconds() - begun[2]) / records * 1e6)

    def _compare(self, entry: Entry, started: Side, output: str, expected: int) -> None:
        """Wait until the output is complete, and compare it with the first side's. End offsets alone don't show that
        all records are there, because the ends of transactions have offsets, too.
        """
        deadline = time.monotonic() + self.patience
        while True:
            count, found = written(self.cluster, self.filled.work, output)
            if count >= expected:
                break
            if time.monotonic() > deadline:
                raise EndedError(f"{output} has {count:,} of {expected:,} records:\n{started.said()}")
            started.check()
            time.sleep(1)
        if count > expected:
            raise EndedError(f"{output} has {count:,} records, {expected:,} were to come: some came twice")
        if self._first is None:
            self._first = entry, found
        if found != self._first[1]:
            raise EndedError(f"{self.filled.work}: {entry} wrote {found}, {self._first[0]} {self._first[1]}")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.peers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--works", default=",".join(WORKS), help=f"of {','.join(WORKS)} (default: all)")
    parser.add_argument("--sides", default=",".join(NAMES), help=f"of {','.join(NAMES)} (default: all)")
    parser.add_argument("--promises", default=",".join(PROMISES), help=f"of {','.join(PROMISES)} (default: both)")
    parser.add_argument("--rounds", type=int, default=5, help="of which the medians are told (default: 5)")
    parser.add_argument("--records", type=int, default=6_000_000, help="in the largest input (default: 6,000,000)")
    parser.add_argument(
        "--patience", type=float, default=STALLED_SECONDS, help="seconds without new output that end it (default: 300)"
    )
    arguments = parser.parse_args()
    works, names, promises = (each.split(",") for each in (arguments.works, arguments.sides, arguments.promises))
    if not set(works) <= set(WORKS) or not set(names) <= set(NAMES) or not set(promises) <= set(PROMISES):
        parser.error(f"works are {', '.join(WORKS)}; sides {', '.join(NAMES)}; promises {', '.join(PROMISES)}")
    if arguments.rounds < 1 or arguments.records < 20_000 or arguments.records % 4_000:
        parser.error("--rounds is at least 1, --records at least 20,000 and a multiple of 4,000")
    entries = [entry for entry in SIDES if entry.side in names and entry.promise in promises]
    interruptible()
    results: dict[str, dict[Entry, list[Measured]]] = {}
    try:
        with clusters.fresh() as cluster, explained():
            for work in works:
                share, fill = WORKS[work]
                filled = fill(cluster, int(arguments.records * share))
                comparison = Comparison(cluster, filled, arguments.patience)
                results[work] = comparison.results
                taking_part = SIDES_OF.get(work, IN_JVM)
                comparison.rounds([each for each in entries if each.side in taking_part], arguments.rounds)
                cluster.delete(*filter(None, (filled.input, filled.other)))
    finally:  # if a side fails, print what was measured until then
        ran = {work: whole(measured) for work, measured in results.items()}
        print("\n".join(["", *table(ran, OURS), "", *goals(ran, GOALS)]), flush=True)


if __name__ == "__main__":
    main()
