"""How close the predicted pause of a change is to the measured pause, for changes of all kinds.

A job runs on a coordinator that starts its containers itself. While records arrive at a steady rate, the command
changes the job's factor, number of containers, version, positions and number of partitions, and finally drains the job.
It does so with several jobs: one without state, one with a backlog behind a function that takes 2 ms, and one for
each size of state in ``--state`` (megabytes).

Before each change, the command waits until the container that stands by has warmed up, because warming up takes all
cores of a small machine. Then it asks for the plan of the change. When the change is made, an event predicts the pause
from the batches that are running then. Afterwards, another event says how long output paused. The command compares
this pause with both predictions, and prints the longest gap that a reader of the output has seen.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import socket
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from tests.support.interruption import interruptible

from anabranch import config as configuration
from anabranch import drain_progress
from anabranch.cli import connect
from anabranch.errors import AnabranchError
from anabranch.protocol.status import JobStatus, LaneStatus
from anabranch.systems.embedded import EmbeddedSystem
from anabranch.systems.records import RECORD_SCHEMA
from bench.support import measured_changes
from bench.support.processes import Side, explained, side
from bench.support.sides import anabranch

PARTITIONS, RATE = 4, 400
ROW = 200
"""The approximate number of bytes of a key with its state."""
PATIENCE = 600.0
NEAR, SECONDS = 0.3, 0.5
BATCHES = 3
RESTS = 6.0
"""Seconds without a change before each change."""
JOBS = {
    "plain": 'read.map(same).write("out")',
    "backlog": 'read.map(slow).write("out")',
    "state": 'read.agg(seen="count(*)", last="max(n)").write("out")',
}
JOB = """\
import time

from anabranch import Job


def same(message):
    return message


def slow(message):
    time.sleep(0.002)
    return message


job = Job("pauses")
read = job.read("in", key="k string", schema="n long")
{work}
"""


@dataclass
class Found:
    """The pauses of one change, in seconds.

    Attributes:
        planned: the pause in the plan.
        foretold: the pause that was predicted when the change was made.
        measured: the measured pause.
        seen: the longest gap in the output.
    """

    what: str
    planned: float
    foretold: float
    measured: float
    seen: float

    @property
    def is_near(self) -> bool:
        return is_near(self.foretold, self.measured)

    @property
    def was_planned_near(self) -> bool:
        return is_near(self.planned, self.measured)


def _reads(lane: LaneStatus, behind: float) -> bool:
    """Whether a lane has committed a few batches, and is less than ``behind`` records behind."""
    return lane.report is not None and lane.report.progress.batch >= BATCHES and lane.lag < behind


def _stands_by(status: JobStatus) -> bool:
    return status.standing_by > 0 and not status.warming_up


def is_near(foretold: float, measured: float) -> bool:
    return abs(foretold - measured) <= max(SECONDS, NEAR * measured)


@dataclass
class Watching:
    """Notes when the output grows. A thread runs :meth:`watch`."""

    system: EmbeddedSystem
    at: list[float] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    def watch(self) -> None:
        last = 0
        while not self.over.wait(0.02):
            end = sum(self.system.ends("out").values())
            if end > last:
                last = end
                self.at.append(time.time())

    def gap(self, since: float, until: float) -> float:
        before = max((at for at in self.at if at <= since), default=since)
        within = [before, *(at for at in self.at if since < at <= until)]
        return max((b - a for a, b in itertools.pairwise(within)), default=0.0)


@dataclass
class Run:
    """A job that is changed. ``records`` is the number of records that are in its input when it starts."""

    started: Side
    work: str
    records: int
    port: int
    found: list[Found] = field(default_factory=list)

    @property
    def system(self) -> EmbeddedSystem:
        return EmbeddedSystem(self.started.folder / ".anabranch" / "streams")

    def append(self, first: int, rows: int) -> None:
        appender = self.system.appender("in")
        for at in range(first, first + rows, 50_000):
            numbers = range(at, min(at + 50_000, first + rows))
            keys = [b"%0100d" % (n % max(1, self.records)) for n in numbers]
            values = [b'{"n": %d}' % n for n in numbers]
            nothing = pa.nulls(len(keys), RECORD_SCHEMA[2].type)
            stamps = pa.array([0] * len(keys), RECORD_SCHEMA[3].type)
            appender.append(pa.record_batch([pa.array(keys), pa.array(values), nothing, stamps], schema=RECORD_SCHEMA))
        appender.close()

    def begin(self, text: str = "") -> None:
        folder = self.started.folder
        (folder / "job.py").write_text(JOB.format(work=JOBS[self.work]) + text)
        (folder / configuration.FILE_NAME).write_text(
            f'[job]\nexpansion_check = "1 hour"\nwarm_containers = 1\n\n'
            f'[coordinator]\nurl = "http://127.0.0.1:{self.port}"\nlauncher = "local"\n\n[spark]\nmemory = "2g"\n'
        )
        self.system.create("in", PARTITIONS)
        self.system.create("out", PARTITIONS)
        self.append(0, self.records)
        self.started.start([anabranch(), "coordinator", "--launcher", "local", "--port", str(self.port)])
        self.until("the coordinator answers", lambda: self.verb("jobs", fails=True) is not None)
        self.verb("start", "job.py")
        self.until("it runs", lambda: self.status().state == "running")

    def settle(self) -> None:
        """Wait until the job runs steadily: each lane has committed a few batches and, unless the job has a backlog,
        has read the records that were in its input at the start.
        """
        behind = math.inf if self.work == "backlog" else 2 * RATE
        self.until("it has read what lay there", lambda: all(_reads(each, behind) for each in self.status().lanes))

    def status(self) -> JobStatus:
        settings = configuration.load(self.started.folder / configuration.FILE_NAME)
        with connect.client(settings.coordinator, "pauses") as client:
            return client.status("pauses")

    def verb(self, *words: str, fails: bool = False) -> str | None:
        command = [anabranch(), *words]
        done = subprocess.run(command, cwd=self.started.folder, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return done.stdout
        if fails:
            return None
        raise SystemExit(f"anabranch {' '.join(words)} ended with {done.returncode}:\n{done.stderr}")

    def until(self, what: str, holds: Callable[[], bool], seconds: float = PATIENCE) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.started.check()
            try:
                if holds():
                    return
            except AnabranchError:
                pass
            time.sleep(0.2)
        events = self.verb("events", "pauses", "--last", "30", fails=True)
        status = self.verb("status", "pauses", fails=True)
        raise SystemExit(f"not within {seconds:.0f} s: {what}\n{events}\n{status}\n{self.started.said()}")

    def events(self, word: str, since: float) -> list[dict[str, str]]:
        told = json.loads(self.verb("events", "pauses", "--json", "--last", "1000") or "[]")
        return [each for each in told if word in each["what"] and float(each["at"]) >= since]

    def back(self) -> str:
        """Write a file with positions about a second of input before the current ones. Returns the file's name."""
        at: dict[str, int] = {}
        for each in self.status().lanes:
            for ssp, offset in each.report.progress.positions.items() if each.report is not None else ():
                at[ssp] = max(0, min(offset - RATE // PARTITIONS, at.get(ssp, offset)))
        file = self.started.folder / "positions.json"
        file.write_text(json.dumps(at))
        return str(file)

    def rest(self) -> None:
        """Wait until a container stands by and has warmed up, and then for some batches that nothing slows down."""
        self.until("a container stands by", lambda: _stands_by(self.status()))
        time.sleep(RESTS)

    def change(self, what: str, watching: Watching, *words: str) -> None:
        """Make a change, and compare its pause with the predictions. ``words`` are the arguments of the verb and of its
        plan.
        """
        self.rest()
        plan = json.loads(self.verb("plan", *words, "--json") or "{}")
        begun = time.time()
        self.verb(*words)
        measured: list[Mapping[str, Any]] = []

        def is_measured() -> bool:
            told = json.loads(self.verb("show", "changes", "pauses", "--json") or "[]")
            found = measured_changes.first(told, begun)
            measured.extend([] if found is None else [found])
            return bool(measured)

        self.until(f"{what} is measured", is_measured, 120)
        pauses = (float(plan["pause"]), measured[0]["predictedPause"], measured[0]["measuredPause"])
        self.told(Found(what, *pauses, watching.gap(begun - 5, time.time())))

    def drain(self, what: str) -> None:
        """Drain the job, and compare the time that this takes with the predictions, including the time left that is
        shown meanwhile.
        """
        self.rest()
        plan = json.loads(self.verb("plan", "drain", "pauses", "--json") or "{}")
        shown: list[tuple[float, float]] = []

        def drained() -> bool:
            status = self.status()
            if status.drain is not None:
                shown.append((time.monotonic(), drain_progress.seconds_left(status, time.time())))
            return status.state == "drained"

        begun = time.time()
        self.verb("drain", "pauses", "--detach")
        self.until("it has drained", drained)
        ended = time.monotonic()
        (event, *_) = self.events("→ drained", begun)
        took = float(event["why"].partition("it took ")[2].split()[0])
        expected = float(event["why"].rpartition(", and ")[2].split()[0])
        self.told(Found(what, float(plan["seconds"]), expected, took, took))
        near = sum(is_near(left, ended - at) for at, left in shown)
        first = f"{shown[0][1]:.1f} s at first, when it was {ended - shown[0][0]:.1f} s" if shown else "never"
        print(f"{what}: time left was shown {len(shown)} times, near in {near}: {first}", flush=True)

    def told(self, found: Found) -> None:
        self.found.append(found)
        near = "near" if found.is_near else "OFF"
        print(
            f"{found.what}: planned {found.planned:.1f} s, foretold {found.foretold:.1f} s, "
            f"measured {found.measured:.1f} s, greatest gap {found.seen:.1f} s: {near}",
            flush=True,
        )


@contextmanager
def running(folder: Path, work: str, records: int) -> Iterator[tuple[Run, Watching]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    over = threading.Event()
    with side(folder) as started:
        run = Run(started, work, records, port)
        run.begin()
        watching = Watching(run.system, over=over)
        threads = [threading.Thread(target=watching.watch, daemon=True)]
        if work != "backlog":
            threads.append(threading.Thread(target=_feed, args=(run, over), daemon=True))
        for thread in threads:
            thread.start()
        try:
            run.settle()
            yield run, watching
        finally:
            over.set()
            for thread in threads:
                thread.join()


def _feed(run: Run, over: threading.Event) -> None:
    at = run.records
    while not over.wait(0.25):
        run.append(at, RATE // 4)
        at += RATE // 4


def changes(run: Run, watching: Watching, name: str) -> None:
    run.change(f"{name}: factor 4", watching, "scale", "pauses", "--factor", "4")
    run.change(f"{name}: factor 1", watching, "scale", "pauses", "--factor", "1")
    run.change(f"{name}: 2 containers", watching, "scale", "pauses", "--containers", "2")
    run.change(f"{name}: 1 container", watching, "scale", "pauses", "--containers", "1")
    (run.started.folder / "job.py").write_text(JOB.format(work=JOBS[run.work]) + "\n# another version\n")
    run.change(f"{name}: deploy", watching, "deploy", "job.py")
    state = ["--state", "keep"] if run.work == "state" else []
    run.change(f"{name}: rewind", watching, "rewind", "pauses", "--to", run.back(), *state)
    run.system.expand("in", 2 * PARTITIONS)
    run.change(f"{name}: expand", watching, "expand", "pauses")
    run.drain(f"{name}: drain")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--state", default="1,100,1000", help="megabytes of state (default: 1,100,1000; none: '')")
    parser.add_argument("--only", choices=["plain", "backlog", "state"], help="one part (default: all)")
    given = parser.parse_args()
    interruptible()
    sizes = [int(each) for each in given.state.split(",") if each]
    parts: Sequence[tuple[str, str, int]] = [
        ("no state", "plain", 1000),
        ("backlog", "backlog", 400_000),
        *((f"{size} MB", "state", size * 1_000_000 // ROW) for size in sizes),
    ]
    found: list[Found] = []
    with tempfile.TemporaryDirectory(prefix="anabranch-bench-", ignore_cleanup_errors=True) as name, explained():
        for number, (what, work, records) in enumerate(parts):
            if given.only in (None, work):
                with running(Path(name) / f"part-{number}", work, records) as (run, watching):
                    changes(run, watching, what)
                found += run.found
    near = sum(each.is_near for each in found)
    off = statistics.median(abs(each.foretold / max(0.1, each.measured) - 1) for each in found)
    planned = sum(each.was_planned_near for each in found)
    print(f"\nwithin {NEAR:.0%} or {SECONDS} s: {near} of {len(found)}; median off by {off:.0%}")
    print(f"the plans before them, with changes made a second or two later: {planned} of {len(found)}")


if __name__ == "__main__":
    main()
