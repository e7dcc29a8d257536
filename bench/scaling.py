"""How long the output of a job stands still while it is scaled, and while its input gets more partitions, beside a
query by hand that is stopped and started.

Records are sent at a steady rate, each with the time of its sending; a consumer of committed records notes when each
comes out. The pause of a change is the longest time in which none came, from its begin to some seconds behind its end.
The query by hand is stopped and started again in its process, with its checkpoint, as often. Sides run in turn.
"""

from __future__ import annotations

import argparse
import itertools
import json
import signal
import statistics
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from confluent_kafka import TopicPartition

from bench.support import cluster as clusters
from bench.support import sides
from bench.support.cluster import PARTITIONS, Cluster, python
from bench.support.processes import Side, explained, interruptible, side
from bench.support.sides import Anabranch, Task

RATE = 5_000
FACTORS = (8, 2, 1)
EXPAND = "expand"
WIDE = 2 * PARTITIONS
WARMING, BETWEEN, BEHIND = 25.0, 30.0, 5.0
GOAL, LATER, OFF = 1.5, 1.5, 0.5
HAND, MINE, PLAIN = "by-hand", "anabranch", "anabranch, at least once"


@dataclass(frozen=True)
class Found:
    """Of a change its name, its pause in seconds and that of its plan, how long it took, and the latency later to that
    before."""

    what: str
    pause: float
    planned: float
    took: float
    later: float


@dataclass
class Seen:
    """What has come out: when (seconds), and how long each record took. Filled by a thread."""

    cluster: Cluster
    topic: str
    came: list[float] = field(default_factory=list)
    took: list[float] = field(default_factory=list)
    keys: dict[bytes, int] = field(default_factory=dict)
    disorder: int = 0
    over: threading.Event = field(default_factory=threading.Event)

    def watch(self) -> None:
        consumer = self.cluster.consumer()
        consumer.assign([TopicPartition(self.topic, number, 0) for number in range(PARTITIONS)])
        while not self.over.is_set():
            for message in consumer.consume(1000, 0.02):
                if message.error() is None:
                    now = time.time()
                    sent, key = json.loads(message.value() or b"")["sent"], message.key() or b""
                    self.disorder += sent <= self.keys.get(key, 0)
                    self.keys[key] = sent
                    self.came.append(now)
                    self.took.append(now - sent / 1e9)
        consumer.close()

    def pause(self, begin: float, end: float) -> float:
        """The longest time without a record."""
        within = [begin, *(at for at in self.came if begin <= at <= end), end]
        return max(after - before for before, after in itertools.pairwise(within))

    def latency(self, begin: float, end: float) -> float:
        """Median seconds from sending a record to its coming out."""
        return statistics.median(took for at, took in zip(self.came, self.took, strict=True) if begin <= at <= end)


def change(verb: str, job: str) -> list[str]:
    """The words of a change: of ``expand``, or to a factor."""
    return [EXPAND, job] if verb == EXPAND else ["scale", job, "--factor", verb]


def done(started: Side, words: list[str]) -> None:
    command = [sides.anabranch(), *words]
    told = subprocess.run(command, cwd=started.folder, capture_output=True, text=True, check=False)
    if told.returncode != 0:
        raise RuntimeError(told.stderr)


def expected(started: Side, words: list[str]) -> float:
    """The pause that ``plan`` shows, in seconds."""
    command = [sides.anabranch(), "plan", *words, "--json"]
    told = subprocess.run(command, cwd=started.folder, capture_output=True, text=True, check=True)
    return float(json.loads(told.stdout)["pause"])


def measured(cluster: Cluster, name: str, rate: int) -> list[Found]:
    """Run a side."""
    number = (HAND, MINE, PLAIN).index(name)
    source, output = f"in-{number}", f"out-{number}"
    for topic in (source, output):
        cluster.create(topic)
    task = Task(cluster, "filter", source, output, quick=True)
    seen, found = Seen(cluster, output), []
    watching = threading.Thread(target=seen.watch, daemon=True)
    with side(cluster.folder / output) as started, side(cluster.folder / source) as sending:
        delivery = "exactly-once" if name == MINE else "at-least-once"
        (sides.by_hand if name == HAND else Anabranch(delivery=delivery))(task, started)
        sending.start(python("bench.support.pacing", cluster.bootstrap_servers, source, rate))
        watching.start()
        _wait(lambda: bool(seen.came), 120, started)
        _wait(lambda: False, WARMING, started)
        for verb in (*map(str, FACTORS), EXPAND):
            if verb == EXPAND:
                cluster.expand(source, WIDE)
            words = change(verb, output)
            planned = 0.0 if name == HAND else expected(started, words)
            begin = time.time()
            before = seen.latency(begin - 10, begin)
            if name == HAND:
                started.signal(signal.SIGUSR1)
            else:
                done(started, words)
            took = time.time() - begin
            _wait(lambda: False, BETWEEN, started)
            pause = seen.pause(begin, begin + took + BEHIND)
            later = seen.latency(time.time() - 5, time.time()) / before
            what = f"to {WIDE} partitions" if verb == EXPAND else f"factor {verb}"
            found.append(Found("stopped and started" if name == HAND else what, pause, planned, took, later))
            print(f"{name}: {found[-1].what}: pause {pause:.2f} s, latency later {later:.2f} of before", flush=True)
        sending.end()
        end = cluster.end(source)
        if name != HAND:
            _wait(lambda: len(seen.came) >= end, 60, started)
    seen.over.set()
    watching.join()
    if name != HAND:
        print(f"{name}: {len(seen.came):,} of {end:,} records came out, {seen.disorder} of them out of order")
    cluster.delete(source, output)
    return found


def _wait(until: Callable[[], bool], seconds: float, started: Side) -> None:
    end = time.monotonic() + seconds
    while not until() and time.monotonic() < end:
        started.check()
        time.sleep(0.1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=int, default=RATE, help=f"records a second (default: {RATE:,})")
    arguments = parser.parse_args()
    interruptible()
    with clusters.fresh() as cluster, explained():
        found = {name: measured(cluster, name, arguments.rate) for name in (HAND, MINE, PLAIN)}
    hand = statistics.median(each.pause for each in found[HAND])
    print(f"\n| {arguments.rate:,} records/s | pause s | to {HAND} | planned s | took s | latency later to before |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for name in (HAND, MINE, PLAIN):
        for each in found[name]:
            planned = "-" if name == HAND else f"{each.planned:.2f}"
            row = (f"{each.pause:.2f}", f"{each.pause / hand:.2f}", planned, f"{each.took:.1f}", f"{each.later:.2f}")
            print(f"| {name}: {each.what} | {' | '.join(row)} |")
    worst = max(each.pause for each in found[MINE]) / hand
    print(f"pause: at most {worst:.2f} of {HAND}'s median, goal {GOAL}: {'met' if worst <= GOAL else 'missed'}")
    off = max(abs(each.pause / each.planned - 1) for each in found[MINE])
    print(f"pause beside the planned one: at most {off:.0%} off, goal {OFF:.0%}: {'met' if off <= OFF else 'missed'}")
    slowest = max(each.later for each in found[MINE])
    print(f"latency {BETWEEN:.0f} s later: {slowest:.2f}, goal {LATER}: {'met' if slowest <= LATER else 'missed'}")


if __name__ == "__main__":
    main()
