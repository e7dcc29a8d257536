"""How fast a job is a minute after an outage, compared with before.

A job with factor 4 works on a backlog that lasts for the whole measurement. Once the job's speed is known, an outage of
70 s (``--seconds``) begins. A minute (``--later``) after the outage has ended, the speed is measured again. The goal is
at least 0.95 of the speed before.

``--outages``: ``kill`` ends the broker with SIGKILL, and starts it again on its data; ``freeze`` stops the broker with
SIGSTOP or, on the embedded log, which has no broker, all processes of the job; ``load`` runs four processes that
compute. ``--works``: ``function`` waits 2 ms for each record; ``sql`` computes without a function. With ``--rounds``,
each case is repeated, and the median of its ratios counts.

At the end, the output is compared with the input: it must contain the first records of each key, each of them once and
in order.
"""

from __future__ import annotations

import argparse
import itertools
import os
import signal
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.interruption import interruptible

from anabranch import config as configuration
from anabranch.cli import connect
from anabranch.config import KafkaSettings
from anabranch.errors import AnabranchError
from anabranch.protocol.status import JobStatus
from anabranch.systems.contract import System
from anabranch.systems.embedded import EmbeddedSystem
from anabranch.systems.kafka.system import KafkaSystem
from anabranch.testing import broker
from bench.support import records
from bench.support.cluster import fetched_jars
from bench.support.processes import EndedError, Side, explained, side
from bench.support.sides import anabranch

PARTITIONS = 2
RECORDS = {"function": 1_200_000, "sql": 6_000_000}
WARM, WINDOW = 30.0, 30.0
GOAL = 0.95
LOOK = 0.2
PATIENCE = 300.0
BUSY = 4
WORKS = {
    "function": 'read.map(slow).write("out")',
    "sql": """read.where("aggregate(sequence(1, 6000), 0L, (a, x) -> (a + x * bigint(n)) % 7) >= 0").write("out")""",
}
JOB = """\
import time

from anabranch import Job


def slow(message):
    time.sleep(0.002)
    return message


job = Job("outages")
read = job.read("in", key="k string", schema="n int")
{work}
"""


@dataclass
class Place:
    """Where a job runs, and how to disturb it."""

    system: System
    settings: str
    brokers: broker.Cluster | None

    def fill(self, count: int) -> None:
        self.system.create("in", PARTITIONS)
        self.system.create("out", PARTITIONS)
        records.append(self.system, "in", ((records.key_of(n), b'{"n": %d}' % n) for n in range(count)))

    @contextmanager
    def disturbed(self, outage: str, started: Side) -> Iterator[None]:
        """Cause an outage for the duration of the block."""
        if outage == "load":
            with ExitStack() as stack:
                for _ in range(BUSY):
                    busy = stack.enter_context(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
                    stack.callback(busy.kill)
                yield
        elif outage == "kill":
            assert self.brokers is not None
            self.brokers.kill()
            yield
            self.brokers.start_again()
        else:
            frozen = [*started.pids()] if self.brokers is None else [self.brokers.pid()]
            for pid in frozen:
                os.kill(pid, signal.SIGSTOP)
            try:
                yield
            finally:
                for pid in frozen:
                    os.kill(pid, signal.SIGCONT)

    def check(self, count: int) -> int:
        """Count the records in the output. Raises SystemExit unless they are each key's first records, each of them
        once and in order.
        """
        found: dict[bytes | None, list[int]] = defaultdict(list)
        for key, row in records.read(self.system, "out"):
            found[key].append(row["n"])
        wanted: dict[bytes, list[int]] = defaultdict(list)
        for number in range(count):
            wanted[records.key_of(number)].append(number)
        for key, numbers in found.items():
            if key is None or numbers != wanted[key][: len(numbers)]:
                raise SystemExit(f"key {key!r}: {numbers[:20]} came out of {wanted.get(key or b'', [])[:20]}")
        return sum(map(len, found.values()))


@contextmanager
def _embedded(folder: Path) -> Iterator[Place]:
    yield Place(EmbeddedSystem(folder / "job" / ".anabranch" / "streams"), "", None)


@contextmanager
def _kafka(folder: Path) -> Iterator[Place]:
    with broker.start(folder / "broker", fetched_jars()[0]) as brokers:
        settings = (
            f'[systems]\ndefault = "kafka"\n\n[systems.kafka]\nbootstrap_servers = "{brokers.bootstrap_servers}"\n'
        )
        yield Place(KafkaSystem(KafkaSettings(bootstrap_servers=brokers.bootstrap_servers)), settings, brokers)


def _done(status: JobStatus) -> int:
    """How many records were read and committed."""
    reports = [each.report for each in status.lanes if each.report is not None]
    return sum(offset for report in reports for ssp, offset in report.progress.positions.items() if "/in/" in ssp)


@dataclass(frozen=True)
class Speed:
    """What was measured from the end of one batch to the end of another.

    Attributes:
        rate: records per second.
        batches: how many seconds each batch took.
        phases: the seconds of each phase, averaged over the batches.
    """

    rate: float
    batches: Sequence[float]
    phases: Mapping[str, float]

    def __str__(self) -> str:
        phases = ", ".join(f"{name} {seconds:.1f}" for name, seconds in sorted(self.phases.items()))
        return (
            f"batches of {statistics.median(self.batches):.1f} s, {max(self.batches):.1f} s at most ({phases or '-'})"
        )


def speed(config: Path, started: Side, seconds: float) -> Speed:
    """Measure the speed for at least ``seconds``."""
    settings = configuration.load(config)
    ends: list[tuple[float, int]] = []
    phases: list[Mapping[str, float]] = []
    deadline = time.monotonic() + seconds + PATIENCE
    while len(ends) < 3 or ends[-1][0] - ends[1][0] < seconds:
        if time.monotonic() > deadline:
            raise SystemExit(f"no batch ended for {PATIENCE:.0f} s:\n{started.said()}")
        started.check()
        try:
            with connect.client(settings.coordinator, "outages") as client:
                status = client.status("outages")
        except AnabranchError:
            time.sleep(LOOK)
            continue
        done = _done(status)
        if done and (not ends or done != ends[-1][1]):
            ends.append((time.monotonic(), done))
            phases += [each.report.load.spent for each in status.lanes if each.report is not None]
        time.sleep(LOOK)
    (began, before), (ended, after) = ends[1], ends[-1]  # the first was seen in the middle of a batch
    names = {name for each in phases[2:] for name in each}
    return Speed(
        (after - before) / (ended - began),
        [later - earlier for (earlier, _), (later, _) in itertools.pairwise(ends[1:])],
        {name: statistics.fmean(each.get(name, 0.0) for each in phases[2:]) for name in names},
    )


def measured(system: str, work: str, outage: str, seconds: float, later: float, folder: Path) -> float:
    """The ratio of the speed after the outage to the speed before."""
    with (_kafka if system == "kafka" else _embedded)(folder) as place, side(folder / "job") as started:
        place.fill(RECORDS[work])
        (started.folder / "job.py").write_text(JOB.format(work=WORKS[work]))
        config = started.folder / configuration.FILE_NAME
        config.write_text(f'[job]\nfactor = 4\nexpansion_check = "1 hour"\n{place.settings}[spark]\nmemory = "1g"\n')
        started.start([anabranch(), "run", "job.py"])
        speed(config, started, WARM)
        before = speed(config, started, WINDOW)
        with place.disturbed(outage, started):
            time.sleep(seconds)
        time.sleep(later)
        after = speed(config, started, WINDOW)
        stopped = subprocess.run(
            [anabranch(), "stop", "outages"], cwd=started.folder, capture_output=True, text=True, check=False
        )
        if stopped.returncode != 0:
            raise SystemExit(f"stop ended with {stopped.returncode}: {stopped.stderr}")
        came = place.check(RECORDS[work])
    print(
        f"{system}, {work}, {outage}: {before.rate:,.0f} records a second before, {after.rate:,.0f} after: "
        f"{after.rate / before.rate:.2f}; before: {before}; after: {after}; {came:,} came out right",
        flush=True,
    )
    return after.rate / before.rate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--systems", default="embedded,kafka", help="default: embedded,kafka")
    parser.add_argument("--works", default="function,sql", help="default: function,sql")
    parser.add_argument("--outages", default="kill,freeze,load", help="default: kill,freeze,load")
    parser.add_argument("--rounds", type=int, default=1, help="how often each case is run (default: 1)")
    parser.add_argument("--seconds", type=float, default=70, help="how long an outage is (default: 70)")
    parser.add_argument("--later", type=float, default=60, help="seconds from its end to the measurement (default: 60)")
    given = parser.parse_args()
    interruptible()
    cases = itertools.product(given.systems.split(","), given.works.split(","), given.outages.split(","))
    with TemporaryDirectory(prefix="anabranch-bench-", ignore_cleanup_errors=True) as name, explained():
        for number, (system, work, outage) in enumerate(cases):
            if system == "embedded" and outage == "kill":
                continue  # no broker to kill
            try:
                ratios = [
                    measured(system, work, outage, given.seconds, given.later, Path(name) / f"{number}-{turn}")
                    for turn in range(given.rounds)
                ]
            except EndedError as error:
                raise SystemExit(str(error)) from None
            ratio = statistics.median(ratios)
            print(
                f"{system}, {work}, {outage}: {ratio:.2f} of the speed before, goal {GOAL}: "
                f"{'met' if ratio >= GOAL else 'missed'}",
                flush=True,
            )


if __name__ == "__main__":
    main()
