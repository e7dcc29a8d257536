"""How long a job's output pauses while the job is scaled or its input expanded, compared with restarting a
handwritten query.

Records are sent at a steady rate, each with the time of sending. A consumer of committed records notes when each one
arrives in the output. The pause of a change is the longest time without a record, from the beginning of the change
until some seconds after its end.

The handwritten query is stopped and started again with its checkpoint, in two ways: in the same process, in which Spark
is warm; and in a new process, as after a change to the query's code. The query and a job run at the same time and make
their changes in turn, within two minutes of each other. Only the side whose turn it is gets records. Each change of the
factor is made several times, and medians are compared, because a pause depends on the moment within a batch at which
the change comes. There are two jobs, one with exactly-once and one with at-least-once output; the query is compared
with each of them separately.
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
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from confluent_kafka import TopicPartition
from tests.support.interruption import interruptible

from bench.support import cluster as clusters
from bench.support import sides
from bench.support.cluster import PARTITIONS, Cluster, python
from bench.support.processes import Side, explained, side
from bench.support.sides import Anabranch, Task

RATE = 5_000
FACTORS = (8, 2, 1)
EXPAND = "expand"
WIDE = 2 * PARTITIONS
WARMING, SETTLING, BETWEEN, BEHIND = 15.0, 12.0, 30.0, 5.0
ROUNDS = 5
PATIENCE = 300.0
GOAL, LATER, OFF = 1.5, 1.5, 0.5
HAND, MINE, PLAIN = "by-hand", "anabranch", "anabranch, at least once"
DELIVERIES = {"exactly-once": MINE, "at-least-once": PLAIN}


@dataclass(frozen=True)
class Found:
    """The results of one change.

    Attributes:
        pause: the pause of output, in seconds.
        planned: the pause that the plan predicted, in seconds.
        took: how many seconds the change took.
        later: the ratio of the latency after the change to the latency before.
    """

    pause: float
    planned: float
    took: float
    later: float


@dataclass
class Measures:
    """The results of one job, and of the handwritten query that ran at the same time.

    Attributes:
        changes: the job's results, by change.
        beside: the query's pauses when it was restarted in its process, in seconds.
        restarts: the query's pauses when it was restarted in a new process, in seconds.
    """

    changes: dict[str, list[Found]] = field(default_factory=dict)
    beside: list[float] = field(default_factory=list)
    restarts: list[float] = field(default_factory=list)

    def pause(self, what: str) -> float:
        return statistics.median(each.pause for each in self.changes[what])

    def ratio(self, what: str) -> float:
        """The ratio of a change's pause to the handwritten query's pause at a restart in the same process."""
        return self.pause(what) / statistics.median(self.beside)

    def ratio_of_process(self, what: str) -> float:
        """The ratio of a change's pause to the handwritten query's pause at a restart in a new process."""
        return self.pause(what) / statistics.median(self.restarts)

    def off(self, what: str) -> float:
        """The relative difference between the pause of a change and the planned pause."""
        return abs(self.pause(what) / statistics.median(each.planned for each in self.changes[what]) - 1)

    def later(self, what: str) -> float:
        return statistics.median(each.later for each in self.changes[what])


@dataclass
class Seen:
    """When each record arrived in the output, and its latency, both in seconds. A thread runs :meth:`watch`."""

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
        """The longest time without a record between ``begin`` and ``end``."""
        within = [begin, *(at for at in self.came if begin <= at <= end), end]
        return max(after - before for before, after in itertools.pairwise(within))

    def latency(self, begin: float, end: float) -> float:
        """The median of the seconds from sending a record to its arrival in the output."""
        return statistics.median(took for at, took in zip(self.came, self.took, strict=True) if begin <= at <= end)


@dataclass
class Runs:
    """A running side, its topics, and what was seen of its output."""

    name: str
    source: str
    output: str
    cluster: Cluster
    started: Side
    seen: Seen
    rate: int
    start: Callable[[], None]
    stretches: int = 0

    @contextmanager
    def fed(self, seconds: float) -> Iterator[None]:
        """Send records during the block. The block begins once records have been arriving in the output for
        ``seconds``. Unless the side is the handwritten query, the context ends once all records that were sent have
        arrived.
        """
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
        """Wait for ``seconds``, or until ``until`` returns True. Raises EndedError if the side ends."""
        end = time.monotonic() + seconds
        while not until() and time.monotonic() < end:
            self.started.check()
            time.sleep(0.1)

    def stopped(self) -> float:
        """Stop the handwritten query, and start it again in its process. Returns the pause in seconds."""
        begin = time.time()
        self.started.signal(signal.SIGUSR1)
        self.wait(lambda: False, SETTLING)
        pause = self.seen.pause(begin, begin + SETTLING)
        print(f"{self.name}: stopped and started in its process: pause {pause:.2f} s", flush=True)
        return pause

    def restarted(self) -> float:
        """End the handwritten query's process, and start the query in a new one. Returns the pause in seconds."""
        begin = time.time()
        self.started.signal(signal.SIGTERM)
        self.started.finish()
        had = len(self.seen.came)
        self.start()
        self.wait(lambda: len(self.seen.came) > had, PATIENCE)
        self.wait(lambda: False, SETTLING)
        pause = self.seen.pause(begin, time.time())
        print(f"{self.name}: stopped and started with its process: pause {pause:.2f} s", flush=True)
        return pause

    def changed(self, verb: str) -> Found:
        """Make a change, and measure it."""
        words = change(verb, self.output)
        planned = expected(self.started, words)
        begin = time.time()
        before = self.seen.latency(begin - 10, begin)
        done(self.started, words)
        took = time.time() - begin
        self.wait(lambda: False, BETWEEN)
        pause = self.seen.pause(begin, begin + took + BEHIND)
        later = self.seen.latency(time.time() - 5, time.time()) / before
        print(
            f"{self.name}: {told(verb)}: pause {pause:.2f} s, planned {planned:.2f} s, latency later {later:.2f} of "
            "before",
            flush=True,
        )
        return Found(pause, planned, took, later)


def told(verb: str) -> str:
    return f"to {WIDE} partitions" if verb == EXPAND else f"factor {verb}"


def change(verb: str, job: str) -> list[str]:
    """The command-line arguments of a change: ``expand``, or ``scale`` to a factor."""
    return [EXPAND, job] if verb == EXPAND else ["scale", job, "--factor", verb]


def done(started: Side, words: Sequence[str]) -> None:
    command = [sides.anabranch(), *words]
    ran = subprocess.run(command, cwd=started.folder, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise RuntimeError(ran.stderr)


def expected(started: Side, words: Sequence[str]) -> float:
    """The pause that ``plan`` shows, in seconds."""
    command = [sides.anabranch(), "plan", *words, "--json"]
    ran = subprocess.run(command, cwd=started.folder, capture_output=True, text=True, check=True)
    return float(json.loads(ran.stdout)["pause"])


@contextmanager
def running(cluster: Cluster, name: str, beside: str, rate: int) -> Iterator[Runs]:
    """A side that runs during the block, and has been running for a while when the block begins. ``beside`` is the name
    of the job in this comparison.
    """
    number = f"{(HAND, MINE, PLAIN).index(name)}-{(MINE, PLAIN).index(beside)}"
    source, output = f"in-{number}", f"out-{number}"
    for topic in (source, output):
        cluster.create(topic)
    task = Task(cluster, "filter", source, output, quick=True)
    seen = Seen(cluster, output)
    watching = threading.Thread(target=seen.watch, daemon=True)
    with side(cluster.folder / output) as started:
        delivery = next((each for each, its in DELIVERIES.items() if its == name), None)
        begin = partial(sides.by_hand if delivery is None else Anabranch(delivery=delivery), task, started)
        begin()
        watching.start()
        runs = Runs(name, source, output, cluster, started, seen, rate, begin)
        with runs.fed(WARMING):
            pass
        try:
            yield runs
        finally:
            seen.over.set()
            watching.join()


def measured(cluster: Cluster, name: str, rate: int, rounds: int) -> Measures:
    """Let a job make each change of the factor ``rounds`` times, and restart the handwritten query before each change.
    Then expand the job's input, once.
    """
    found = Measures()

    def compare(verb: str, stops: int = 1) -> None:
        with by_hand.fed(SETTLING):
            found.beside.extend(by_hand.stopped() for _ in range(stops))
        with runs.fed(SETTLING):
            found.changes.setdefault(told(verb), []).append(runs.changed(verb))

    with running(cluster, HAND, name, rate) as by_hand, running(cluster, name, name, rate) as runs:
        for _ in range(rounds):
            for factor in FACTORS:
                compare(str(factor))
            with by_hand.fed(SETTLING):
                found.restarts.append(by_hand.restarted())
        cluster.expand(runs.source, WIDE)
        compare(EXPAND, rounds)
        end, came = cluster.end(runs.source), len(runs.seen.came)
        print(f"{name}: {came:,} of {end:,} records came out, {runs.seen.disorder} of them out of order")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=int, default=RATE, help=f"records a second (default: {RATE:,})")
    parser.add_argument("--only", choices=[*DELIVERIES], help="the job with these outputs (default: both)")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"of the changes (default: {ROUNDS})")
    arguments = parser.parse_args()
    interruptible()
    names = [name for delivery, name in DELIVERIES.items() if arguments.only in (None, delivery)]
    with clusters.fresh() as cluster, explained():
        measures = {name: measured(cluster, name, arguments.rate, arguments.rounds) for name in names}
    print(f"\nMedians of {arguments.rounds}, {arguments.rate:,} records/s\n")
    print("| | pause s | ratio to by hand | ratio to its process | planned s | took s | latency later to before |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name, its in measures.items():
        for what, changes in its.changes.items():
            planned, took = (statistics.median(getattr(each, of) for each in changes) for of in ("planned", "took"))
            ratios = f"{its.ratio(what):.2f} | {its.ratio_of_process(what):.2f}"
            print(
                f"| {name}: {what} | {its.pause(what):.2f} | {ratios} | {planned:.2f} | {took:.1f} | "
                f"{its.later(what):.2f} |"
            )
    print()
    for name, its in measures.items():
        process, beside = statistics.median(its.restarts), statistics.median(its.beside)
        for label, of, goal in (
            (f"pause to {HAND}'s in its process ({beside:.2f} s), which is warm", its.ratio, GOAL),
            (f"pause to {HAND}'s with its process ({process:.1f} s)", its.ratio_of_process, GOAL),
            ("pause off the planned one", its.off, OFF),
            (f"latency {BETWEEN:.0f} s later to before", its.later, LATER),
        ):
            for kind, several in (("factor", [*map(told, map(str, FACTORS))]), ("expansion, once", [told(EXPAND)])):
                judge(f"{name}: {kind}: {label}", map(of, several), goal)


def judge(what: str, ratios: Iterable[float], goal: float) -> None:
    several = [*ratios]
    verdict = "met" if max(several) <= goal else "missed"
    print(f"{what}: {statistics.median(several):.2f}, at most {max(several):.2f}, goal {goal}: {verdict}")


if __name__ == "__main__":
    main()
