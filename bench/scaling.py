"""How long the output of a job stands still while it is scaled, and while its input gets more partitions, beside a
query by hand that is stopped and started.

Records are sent at a steady rate, each with the time of its sending; a consumer of committed records notes when each
comes out. The pause of a change is the longest time in which none came, from its begin to some seconds behind its end.
The query by hand is stopped and started again in its process, with its checkpoint. It and a job run at the same time
and make a change in turn, within two minutes: only the one whose turn it is gets records. Then it and another job do.
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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
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
WARMING, SETTLING, BETWEEN, BEHIND = 15.0, 12.0, 30.0, 5.0
STOPS = 3
"""How often the query by hand is stopped and started beside each change: where in a batch it is, is chance."""
PATIENCE = 300.0
GOAL, LATER, OFF = 1.5, 1.5, 0.5
HAND, MINE, PLAIN = "by-hand", "anabranch", "anabranch, at least once"
DELIVERIES = {"exactly-once": MINE, "at-least-once": PLAIN}


@dataclass(frozen=True)
class Found:
    """Of a change its name, its pause in seconds, the pause to that of the query by hand beside it and to that of its
    plan, how long it took, and the latency later to that before."""

    what: str
    pause: float
    ratio: float
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


@dataclass
class Runs:
    """A side that runs, with its topics, and what was seen of it."""

    name: str
    source: str
    output: str
    cluster: Cluster
    started: Side
    seen: Seen
    rate: int
    stretches: int = 0

    @contextmanager
    def fed(self, seconds: float) -> Iterator[None]:
        """Send records meanwhile; begins when some have come out for so long. What was sent has come out then."""
        self.stretches += 1
        had, folder = len(self.seen.came), self.cluster.folder / f"{self.source}-{self.stretches}"
        with side(folder) as sending:
            sending.start(python("bench.support.pacing", self.cluster.bootstrap_servers, self.source, self.rate))
            self.wait(lambda: len(self.seen.came) > had, PATIENCE)
            self.wait(lambda: False, seconds)
            yield
        if self.name != HAND:
            end = self.cluster.end(self.source)
            self.wait(lambda: len(self.seen.came) >= end, 60)

    def wait(self, until: Callable[[], bool], seconds: float) -> None:
        """So long, or until then. Raises EndedError if the side ends."""
        end = time.monotonic() + seconds
        while not until() and time.monotonic() < end:
            self.started.check()
            time.sleep(0.1)

    def stopped(self) -> float:
        """Stop and start the query by hand some times; gives the median pause in seconds."""
        found = []
        for _ in range(STOPS):
            begin = time.time()
            self.started.signal(signal.SIGUSR1)
            self.wait(lambda: False, SETTLING)
            found.append(self.seen.pause(begin, begin + SETTLING))
        print(f"{self.name}: stopped and started: pauses {', '.join(f'{each:.2f}' for each in found)} s", flush=True)
        return statistics.median(found)

    def changed(self, verb: str, beside: float) -> Found:
        """Make a change; ``beside``: the pause of the query by hand."""
        words = change(verb, self.output)
        planned = expected(self.started, words)
        begin = time.time()
        before = self.seen.latency(begin - 10, begin)
        done(self.started, words)
        took = time.time() - begin
        self.wait(lambda: False, BETWEEN)
        pause = self.seen.pause(begin, begin + took + BEHIND)
        later = self.seen.latency(time.time() - 5, time.time()) / before
        what = f"to {WIDE} partitions" if verb == EXPAND else f"factor {verb}"
        found = Found(what, pause, pause / beside, planned, took, later)
        print(
            f"{self.name}: {what}: pause {pause:.2f} s, {found.ratio:.2f} of {HAND}'s, latency later {later:.2f} of "
            "before",
            flush=True,
        )
        return found


def change(verb: str, job: str) -> list[str]:
    """The words of a change: of ``expand``, or to a factor."""
    return [EXPAND, job] if verb == EXPAND else ["scale", job, "--factor", verb]


def done(started: Side, words: Sequence[str]) -> None:
    command = [sides.anabranch(), *words]
    told = subprocess.run(command, cwd=started.folder, capture_output=True, text=True, check=False)
    if told.returncode != 0:
        raise RuntimeError(told.stderr)


def expected(started: Side, words: Sequence[str]) -> float:
    """The pause that ``plan`` shows, in seconds."""
    command = [sides.anabranch(), "plan", *words, "--json"]
    told = subprocess.run(command, cwd=started.folder, capture_output=True, text=True, check=True)
    return float(json.loads(told.stdout)["pause"])


@contextmanager
def running(cluster: Cluster, name: str, beside: str, rate: int) -> Iterator[Runs]:
    """A side that runs meanwhile, and has run for a while. ``beside``: the job of this comparison."""
    number = f"{(HAND, MINE, PLAIN).index(name)}-{(MINE, PLAIN).index(beside)}"
    source, output = f"in-{number}", f"out-{number}"
    for topic in (source, output):
        cluster.create(topic)
    task = Task(cluster, "filter", source, output, quick=True)
    seen = Seen(cluster, output)
    watching = threading.Thread(target=seen.watch, daemon=True)
    with side(cluster.folder / output) as started:
        delivery = next((each for each, its in DELIVERIES.items() if its == name), None)
        (sides.by_hand if delivery is None else Anabranch(delivery=delivery))(task, started)
        watching.start()
        runs = Runs(name, source, output, cluster, started, seen, rate)
        with runs.fed(WARMING):
            pass
        try:
            yield runs
        finally:
            seen.over.set()
            watching.join()


def measured(cluster: Cluster, name: str, rate: int) -> tuple[list[float], list[Found]]:
    """Let a job make each change, and before each the query by hand stop and start. Gives the pauses of that, in
    seconds, and what was found of the job."""
    pauses, found = [], []
    with running(cluster, HAND, name, rate) as by_hand, running(cluster, name, name, rate) as runs:
        for verb in (*map(str, FACTORS), EXPAND):
            with by_hand.fed(SETTLING):
                pauses.append(by_hand.stopped())
            if verb == EXPAND:
                cluster.expand(runs.source, WIDE)
            with runs.fed(SETTLING):
                found.append(runs.changed(verb, pauses[-1]))
        end, came = cluster.end(runs.source), len(runs.seen.came)
        print(f"{name}: {came:,} of {end:,} records came out, {runs.seen.disorder} of them out of order")
    return pauses, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=int, default=RATE, help=f"records a second (default: {RATE:,})")
    parser.add_argument("--only", choices=[*DELIVERIES], help="the job with these outputs (default: both)")
    arguments = parser.parse_args()
    interruptible()
    names = [name for delivery, name in DELIVERIES.items() if arguments.only in (None, delivery)]
    with clusters.fresh() as cluster, explained():
        measures = {name: measured(cluster, name, arguments.rate) for name in names}
    print(f"\n| {arguments.rate:,} records/s | pause s | to {HAND} | planned s | took s | latency later to before |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for name, (pauses, found) in measures.items():
        print(f"| {HAND}, medians of {STOPS}: {', '.join(f'{pause:.2f}' for pause in pauses)} | | | | | |")
        for each in found:
            row = (f"{each.pause:.2f}", f"{each.ratio:.2f}", f"{each.planned:.2f}", f"{each.took:.1f}")
            print(f"| {name}: {each.what} | {' | '.join(row)} | {each.later:.2f} |")
    for name, (_, found) in measures.items():
        worst, middle = (of(each.ratio for each in found) for of in (max, statistics.median))
        print(
            f"{name}: pause {middle:.2f} of {HAND}'s, at most {worst:.2f}, goal {GOAL}: "
            f"{'met' if worst <= GOAL else 'missed'}"
        )
    mine = [each for name in names for each in measures[name][1]]
    off = max(abs(each.pause / each.planned - 1) for each in mine)
    print(f"pause beside the planned one: at most {off:.0%} off, goal {OFF:.0%}: {'met' if off <= OFF else 'missed'}")
    slowest = max(each.later for each in mine)
    print(f"latency {BETWEEN:.0f} s later: {slowest:.2f}, goal {LATER}: {'met' if slowest <= LATER else 'missed'}")


if __name__ == "__main__":
    main()
