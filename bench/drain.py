"""How long a drain takes: with very many open windows; and with little in flight, compared with stopping a handwritten
query.

Both sides read one Kafka topic and count by key in windows of ten seconds. The handwritten query is stopped in two
ways: by ``query.stop()`` at once, which breaks off the running batch, so Spark repeats this batch at the next start; or
by ``query.stop()`` after the running batch has been committed (a drain waits for this, too). In both cases, open
windows stay in the query's state, whereas ``anabranch drain`` emits all windows in another batch.

A side is measured from the moment when it gets its order (by a signal, or when the coordinator accepts a verb's
request) until its process has ended, including Java. A second ratio also includes the start of the verb, which is a
process of its own. Sides run in alternating order.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from confluent_kafka import Producer
from tests.support.interruption import interruptible

from bench.support import cluster as clusters
from bench.support import sides
from bench.support.cluster import Cluster, python
from bench.support.processes import Side, explained, side
from bench.support.sides import Anabranch, Task

RATE = 100
WARMING = 30.0
GOAL = 2.0
HAND, WHOLE, DRAIN, STOP = "by-hand", "by-hand-whole", "drain", "stop"
_SIGNALS = {HAND: signal.SIGTERM, WHOLE: signal.SIGUSR2}
PATIENCE = 600.0
_AT = 1_700_000_000
_STEPS = {
    DRAIN: ("running → draining", "everything is taken in: event time ends", "draining → drained"),
    STOP: ("running → stopping",),
}
"""The events of a job that mark the steps of a verb. The first event says that the coordinator has accepted the
request.
"""


@dataclass(frozen=True)
class Found:
    """The times of one run, in seconds.

    Attributes:
        whole: until the process had ended.
        call: until ``query.stop()``, or the verb, had returned.
        parts: until the request was accepted and, for a drain, until lanes had halted, and until all lanes had drained.
    """

    whole: float
    call: float
    parts: tuple[float, ...] = ()

    @property
    def told(self) -> float:
        """Seconds from when the side got its order until its process had ended."""
        return self.whole - (self.parts[0] if self.parts else 0.0)


def ended(cluster: Cluster, number: int, name: str) -> Found:
    """Let a side run for a while, then end it. Returns how long it took to end."""
    output = f"{name}-{number}"
    cluster.create(output)
    task = Task(cluster, "windows", "in", output, quick=True)
    with side(cluster.folder / output) as started:
        (sides.by_hand if name in _SIGNALS else Anabranch(delivery="exactly-once"))(task, started)
        _wait(lambda: cluster.end(output) > 0, started)
        time.sleep(WARMING)
        begun, at = time.monotonic(), time.time()
        if name in _SIGNALS:
            started.signal(_SIGNALS[name])
        else:
            _verb(started, name, output)
        call = time.monotonic() - begun
        started.finish()
        whole = time.monotonic() - begun
        told = re.findall(r"^stopped in ([0-9.]+) s$", started.log.read_text(), re.MULTILINE)
        parts = tuple(found - at for found in _steps(started, output, _STEPS.get(name, ())))
    return Found(whole, float(told[-1]) if name in _SIGNALS else call, parts)


def _steps(started: Side, job: str, names: Sequence[str]) -> list[float]:
    """The times, in Unix seconds, at which the given events of a job were stored."""
    if not names:
        return []
    command = [sides.anabranch(), "events", job, "--json"]
    told = subprocess.run(command, cwd=started.folder, capture_output=True, text=True, check=True)
    at = {event["what"]: float(event["at"]) for event in json.loads(told.stdout)}
    return [at[what] for what in names]


def many(cluster: Cluster, windows: int) -> None:
    """Drain a job that has ``windows`` open windows."""
    cluster.create("many-in")
    cluster.create("many")
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 20, "partitioner": "murmur2_random"}
    )
    for number in range(windows):
        while True:
            try:
                producer.produce("many-in", b'{"at":%d}' % _AT, b"N%07d" % number)
                break
            except BufferError:
                producer.poll(0.05)
    producer.flush()
    with side(cluster.folder / "many") as started:
        Anabranch(delivery="exactly-once")(Task(cluster, "windows", "many-in", "many"), started)
        _wait(lambda: _windows(started) >= windows, started, 3.0)
        before, most, over = started.resident_mb(), [0], threading.Event()

        def watch() -> None:
            while not over.wait(0.2):
                most.append(started.resident_mb())

        watching = threading.Thread(target=watch, daemon=True)
        watching.start()
        begun = time.monotonic()
        _verb(started, DRAIN, "many")
        took = time.monotonic() - begun
        over.set()
        watching.join()
        started.finish()
    came = sum(1 for _ in cluster.records("many"))
    if came != windows:
        raise SystemExit(f"{came:,} windows came out of {windows:,}")
    print(
        f"{windows:,} open windows: drained in {took:.1f} s, {windows / took:,.0f} a second; memory of all processes "
        f"at most {max(most):,} MB, before it {before:,} MB",
        flush=True,
    )


def _windows(started: Side) -> int:
    command = [sides.anabranch(), "plan", "drain", "many"]
    told = subprocess.run(command, cwd=started.folder, capture_output=True, text=True, check=False)
    return sum(int(n.replace(",", "")) for n in re.findall(r"([0-9,]+) rows of state are emitted", told.stdout))


def _verb(started: Side, verb: str, job: str) -> None:
    command = [sides.anabranch(), verb, job, *(["--timeout", str(PATIENCE)] if verb == DRAIN else [])]
    done = subprocess.run(command, cwd=started.folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{done.stderr}\n{started.said()}")


def _wait(until: Callable[[], bool], started: Side, every: float = 0.2) -> None:
    end = time.monotonic() + PATIENCE
    while not until():
        started.check()
        if time.monotonic() > end:
            raise SystemExit(f"it took longer than {PATIENCE:.0f} s\n{started.said()}")
        time.sleep(every)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=5, help="how often each side runs (default: 5)")
    parser.add_argument("--windows", type=int, default=1_000_000, help="open windows (default: 1,000,000; 0: none)")
    arguments = parser.parse_args()
    interruptible()
    with clusters.fresh() as cluster, explained():
        if arguments.windows:
            many(cluster, arguments.windows)
        if not arguments.pairs:
            return
        cluster.create("in")
        found: dict[str, list[Found]] = {HAND: [], WHOLE: [], DRAIN: [], STOP: []}
        with side(cluster.folder / "in") as sending:
            sending.start(python("bench.support.pacing", cluster.bootstrap_servers, "in", RATE))
            for number in range(arguments.pairs):
                for name in found if number % 2 else reversed(found):
                    each = ended(cluster, number, name)
                    found[name].append(each)
                    steps = "".join(f", {at:.2f}" for at in each.parts)
                    print(
                        f"{number + 1}: {name}: {each.whole:.2f} s, {each.call:.2f} s of it the call{steps}", flush=True
                    )
        for name, its in found.items():
            whole, call, told = (statistics.median(getattr(e, part) for e in its) for part in ("whole", "call", "told"))
            of = "the query" if name in _SIGNALS else f"the verb; {told:.2f} s from when it was told"
            print(f"{name}: {whole:.2f} s, {call:.2f} s of it {of}")
        accepted, halted, drained = (statistics.median(e.parts[n] for e in found[DRAIN]) for n in range(3))
        print(f"drain: accepted after {accepted:.2f} s, lanes halted after {halted:.2f}, drained after {drained:.2f}")
        for what, hand in ((STOP, HAND), (STOP, WHOLE), (DRAIN, HAND), (DRAIN, WHOLE)):
            pairs = [*zip(found[what], found[hand], strict=True)]
            ratio = statistics.median(its.told / theirs.told for its, theirs in pairs)
            whole = statistics.median(its.whole / theirs.whole for its, theirs in pairs)
            goal = f", goal {GOAL:g}: {'met' if ratio <= GOAL else 'missed'}" if what == DRAIN else ""
            print(f"{what} / {hand}, median of {arguments.pairs} pairs: {ratio:.2f}{goal}; {whole:.2f} with the verb")


if __name__ == "__main__":
    main()
