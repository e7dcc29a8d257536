"""A backlog behind a slow function: what ``scale`` and ``autoscale`` do about it, and how long that takes.

What is measured. 60,000 records (``--records``) of which each takes 2 ms (``--wait``) lie in 2 partitions when a job
starts. Three sides do them, in turn: the job that has factor 16 at once; the job that begins with factor 1, and is
scaled to 16 five seconds after its lanes run; and the job that has an autosizer and no user. A side's *clearing* is the
time from when its lanes run until nothing is left; the *switch* is the time from the call of ``scale`` until the new
lanes run, with the verb's own start. What comes out is compared with what went in: each record once, in the order of
its key.

Other sides (``--sides``) run the job with factor 1. ``stop``, ``interrupt`` (Ctrl-C) and ``drain`` are called five
seconds after the lanes run, as ``scale`` is, and measured until the job's processes have ended. ``deploy`` is called
likewise, on a coordinator that starts containers, and measured by how long output stands still. ``watched`` takes all
records in one batch, and measures how soon ``status`` has a figure after the function got its first record, and how old
figures get. ``minute`` prints how many records a second were done in the first minute, and fails if a batch did.

``--work`` says what follows the function: ``map`` nothing; ``process``: it is a processor with state; ``windows``: a
count in windows of event time; ``plain``: an output that is written at least once.
"""

from __future__ import annotations

import argparse
import itertools
import json
import signal
import socket
import statistics
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.interruption import interruptible

from anabranch import config as configuration
from anabranch.cli import connect
from anabranch.config import KafkaSettings, Settings
from anabranch.errors import AnabranchError
from anabranch.protocol.lane_report import LaneReport
from anabranch.protocol.status import JobStatus
from anabranch.systems.contract import System
from anabranch.systems.embedded import EmbeddedSystem
from anabranch.systems.kafka.system import KafkaSystem
from bench.support import cluster as clusters
from bench.support import events, records
from bench.support.cluster import Cluster
from bench.support.processes import EndedError, Side, explained, side
from bench.support.sides import anabranch

RECORDS, WAIT_MS, PARTITIONS = 60_000, 2.0, 2
BEST, BEFORE = 16, 5.0
LOOK = 0.1
PATIENCE = 900.0
ONCE, SCALED, AUTO, WATCHED, MINUTE = "at once", "scaled", "auto", "watched", "minute"
CALLED = ("stop", "interrupt", "drain", "deploy")
SIDES = {
    "once": ONCE,
    "scaled": SCALED,
    "auto": AUTO,
    "watched": WATCHED,
    "minute": MINUTE,
    **{each: each for each in CALLED},
}
SWITCH_GOAL, CLEARING_GOAL, AUTO_GOAL = 3.0, 1.25, 1.6
CALL_GOAL, FIRST_GOAL, AGE_GOAL = 5.0, 3.0, 2.0
WORKS = {
    "map": 'read.map(slow).write("out")',
    "plain": 'read.map(slow).write("out")',
    "process": 'read.process(Slow(), schema="k string, n int").write("out")',
    "windows": 'read.map(slow).window(tumbling("10 seconds")).agg(seen="count(*)", emit="on_close").write("out")',
}
JOB = """\
import time

from anabranch import Job, Processor, ValueState, tumbling


from pathlib import Path

FIRST = Path({first!r})


def slow(message):
    if not FIRST.exists():
        FIRST.touch()
    time.sleep({wait})
    return message


class Slow(Processor):
    seen = ValueState("int")

    def on_message(self, message, timers):
        time.sleep({wait})
        self.seen.set(self.seen.get(0) + 1)
        yield {{"k": message["k"], "n": message["n"]}}


job = Job("{name}")
read = job.read("in", key="k string", schema="n int, at timestamp"{timed})
{work}
"""
TIMED = ', event_time="at", watermark="5 seconds"'
_AT = 1_700_000_000
"""Event time must lie in the past: what is far ahead is a dead letter."""


@dataclass(frozen=True)
class Backlog:
    """What lies there, and what is done with it."""

    work: str
    records: int
    wait: float
    containers: int
    target: float

    def rows(self) -> Iterator[tuple[bytes, bytes]]:
        """Keys and values, in order."""
        for number in range(self.records):
            value = {"n": number, "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(_AT + number // 1000))}
            yield records.key_of(number), json.dumps(value).encode()

    def job(self, name: str, first: Path) -> str:
        """Its file. ``first`` is touched when the function gets its first record."""
        timed = TIMED if self.work == "windows" else ""
        return JOB.format(name=name, wait=self.wait / 1000, work=WORKS[self.work], timed=timed, first=str(first))

    def fill(self, system: System) -> None:
        system.create("in", PARTITIONS)
        system.create("out", PARTITIONS)
        records.append(system, "in", self.rows())

    def check(self, system: System) -> None:
        """Raises SystemExit if what came out isn't what must come of what went in."""
        found: dict[bytes | None, list[int]] = defaultdict(list)
        windowed = self.work == "windows"
        for key, row in records.read(system, "out"):
            found[row["k"].encode() if windowed else key].append(row["seen" if windowed else "n"])
        wanted: dict[bytes, list[int]] = defaultdict(list)
        for number, (key, _) in enumerate(self.rows()):
            wanted[key].append(number)
        twice = 0
        for key, numbers in wanted.items():
            its = found.pop(key, [])
            if self.work == "windows":
                wrong = sum(its) != len(numbers)
            else:
                once = [*dict.fromkeys(its)] if self.work == "plain" else its
                twice += len(its) - len(once)
                wrong = once != numbers
            if wrong:
                raise SystemExit(f"key {key!r}: {len(its)} came out of {len(numbers)}: {its[:20]} of {numbers[:20]}")
        if found:
            raise SystemExit(f"{len(found)} keys came out that nobody has put in, such as {[*found][:3]}")
        if twice:
            print(f"  {twice:,} records came out twice, as they may at least once", flush=True)


@dataclass
class Found:
    """Of one run, in seconds. ``began``: from the start of its process until its lanes ran; ``clearing``: from then on;
    ``since``: from the call of ``scale``. ``first``: from when lanes ran to the first figure of a batch that wasn't
    zero. ``factors``: at which second which factor was wanted. ``called``: from the call of a verb until its promise
    held, or how long output stood still; ``whole``: from the call in any case. ``figure``: from the function's first
    record to the first figure; ``age``: the longest time between two figures of a batch.
    """

    began: float = 0.0
    clearing: float = 0.0
    switch: float = 0.0
    planned: float = 0.0
    since: float = 0.0
    first: float = 0.0
    called: float = 0.0
    whole: float = 0.0
    figure: float = 0.0
    age: float = 0.0
    factors: list[tuple[float, int]] = field(default_factory=list)


@dataclass(frozen=True)
class Run:
    """A job that runs for one measurement, in processes of its own."""

    backlog: Backlog
    started: Side
    system: System
    kafka: KafkaSettings | None
    port: int

    @property
    def name(self) -> str:
        """That of the job: on a cluster, each has its own."""
        return self.started.folder.name

    @property
    def first(self) -> Path:
        """Is there once the function has got a record."""
        return self.started.folder / "first"

    def begin(self, kind: str) -> None:
        (self.started.folder / "job.py").write_text(self.backlog.job(self.name, self.first))
        (self.started.folder / configuration.FILE_NAME).write_text(self._settings(kind))
        if not self._has_coordinator(kind):
            self.started.start([anabranch(), "run", "job.py"])
            return
        self.started.start([anabranch(), "coordinator", "--launcher", "local"])
        url = self._coordinator()
        self.verb("start", "job.py", "--coordinator", url)

    def _has_coordinator(self, kind: str) -> bool:
        """Whether the job runs on one, and isn't a process of its own."""
        return self.backlog.containers > 1 or kind == "deploy"

    def _coordinator(self) -> str:
        url = f"http://127.0.0.1:{self.port}"
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            self.started.check()
            done = subprocess.run(
                [anabranch(), "jobs", "--json"], cwd=self.started.folder, capture_output=True, check=False
            )
            if done.returncode == 0:
                return url
            time.sleep(LOOK)
        raise SystemExit(f"the coordinator doesn't answer:\n{self.started.said()}")

    def _settings(self, kind: str) -> str:
        factor = BEST if kind == ONCE else 1
        auto = f"autoscale = {{ max = 64, target_lag_seconds = {self.backlog.target:g} }}\n" if kind == AUTO else ""
        auto += "target_batch_seconds = 0\n" if kind == WATCHED else ""
        lines = [
            f'[job]\nfactor = {factor}\ncontainers = {self.backlog.containers}\nexpansion_check = "1 hour"\n{auto}'
        ]
        if self._has_coordinator(kind):
            lines.append(f'[coordinator]\nurl = "http://127.0.0.1:{self.port}"\n')
        if self.kafka is not None:
            lines.append(
                '[systems]\ndefault = "kafka"\n\n[systems.kafka]\n'
                f'bootstrap_servers = "{self.kafka.bootstrap_servers}"\n'
            )
            if self.backlog.work == "plain":
                lines.append('[streams.out]\ndelivery = "at-least-once"\n')
        lines.append('[spark]\nmemory = "1g"\n')
        return "\n".join(lines)

    def verb(self, *words: str) -> str:
        done = subprocess.run(
            [anabranch(), *words], cwd=self.started.folder, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise SystemExit(f"anabranch {' '.join(words)} ended with {done.returncode}:\n{done.stderr}")
        return done.stdout

    def measured(self, kind: str) -> Found:
        found, begun = Found(), time.monotonic()
        self.begin(kind)
        settings = configuration.load(self.started.folder / configuration.FILE_NAME)
        self._until(settings, "its lanes run", _runs)
        ran = time.monotonic()
        found.began = ran - begun
        called = 0.0

        def cleared(status: JobStatus) -> bool:
            now = time.monotonic() - ran
            if not found.first and any(each.report and _figure(each.report) for each in status.lanes):
                found.first = now
            if not found.factors or found.factors[-1][1] != status.factor:
                found.factors.append((now, status.factor))
            return _is_cleared(status, self.backlog.records)

        if kind == WATCHED:
            self._watch(settings, found)
            return found
        if kind == MINUTE:
            self._first_minute(settings, ran)
            self.verb("stop", self.name)
            return found
        if kind in CALLED:
            self._until(settings, "5 s", lambda _: time.monotonic() > ran + BEFORE)
            called = time.monotonic()
            held_up = self._deploy() if kind == "deploy" else self._end(kind)
            found.whole = time.monotonic() - called
            found.called = found.whole if held_up is None else held_up
            if kind == "deploy":
                self.verb("stop", self.name)  # its containers outlive the coordinator
            return found
        if kind == SCALED:
            self._until(settings, "5 s", lambda status: cleared(status) or time.monotonic() > ran + BEFORE)
            found.planned = float(
                json.loads(self.verb("plan", "scale", self.name, "--factor", str(BEST), "--json"))["pause"]
            )
            called = time.monotonic()
            self.verb("scale", self.name, "--factor", str(BEST))
            found.switch = time.monotonic() - called
        self._until(settings, "it is cleared", cleared)
        found.clearing = time.monotonic() - ran
        found.since = time.monotonic() - called if called else 0.0
        self.verb("drain" if self.backlog.work == "windows" else "stop", self.name)
        self.backlog.check(self.system)
        return found

    def _deploy(self) -> float:
        """The seconds for which output stood still: containers with the new code start while the former lanes run."""
        file = self.started.folder / "job.py"
        file.write_text(file.read_text().replace("return message", "return dict(message)"))
        self.verb("deploy", "job.py")
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            measured = events.pause(json.loads(self.verb("events", self.name, "--json", "--last", "1000")))
            if measured is not None:
                return measured
            time.sleep(LOOK)
        raise SystemExit(f"no event says how long output stood still:\n{self.started.said()}")

    def _end(self, kind: str) -> None:
        """Returns when the job's processes have ended."""
        if kind == "interrupt":
            self.started.signal(signal.SIGINT)
        else:
            self.verb(kind, self.name)
        self.started.wait()

    def _watch(self, settings: Settings, found: Found) -> None:
        """How soon figures are there, and how old they get, in a batch that has all records."""
        first: float | None = None
        looked: list[tuple[float, int]] = []

        def ended(status: JobStatus) -> bool:
            nonlocal first
            now = time.monotonic()
            if first is None and self.first.exists():
                first = now - (time.time() - self.first.stat().st_mtime)
            reports = [each.report for each in status.lanes if each.report is not None]
            progresses = [each.progress.batch_progress for each in reports]
            done = sum(each.done for each in progresses if each is not None)
            if done and (not looked or looked[-1][1] != done):
                looked.append((now, done))
            return _is_cleared(status, self.backlog.records)

        self._until(settings, "it is cleared", ended)
        assert first is not None, "the function has got no record"
        found.figure = looked[0][0] - first
        found.age = max(after - before for (before, _), (after, _) in itertools.pairwise(looked))

    def _first_minute(self, settings: Settings, ran: float) -> None:
        """Prints what was done in each ten seconds."""
        before = 0
        for second in range(10, 61, 10):
            status = self._until(settings, "10 s", lambda _, until=second: time.monotonic() > ran + until)
            reports = [each.report for each in status.lanes if each.report is not None]
            if again := [each.attempt.trouble for each in reports if each.attempt.number > 1]:
                raise SystemExit(f"a lane was begun again: {again[0]}")
            done = sum(map(_done, reports))
            print(f"  {(done - before) / 10:,.0f} records a second up to second {second}", flush=True)
            before = done

    def _until(self, settings: Settings, what: str, holds: Callable[[JobStatus], bool]) -> JobStatus:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            self.started.check()
            try:
                with connect.client(settings.coordinator, self.name) as client:
                    while time.monotonic() < deadline:
                        status = client.status(self.name)
                        if holds(status):
                            return status
                        time.sleep(LOOK)
            except AnabranchError:
                time.sleep(LOOK)
        raise SystemExit(f"not within {PATIENCE:.0f} s: {what}\n{self.started.said()}")


def _done(report: LaneReport) -> int:
    """How many records a lane has done, those of the present batch among them."""
    committed = sum(offset for ssp, offset in report.progress.positions.items() if "/in/" in ssp)
    return committed + (0 if report.progress.batch_progress is None else report.progress.batch_progress.done)


def _figure(report: LaneReport) -> bool:
    """Whether it says that anything was done."""
    its = report.progress
    return bool(its.rows or (its.batch_progress is not None and its.batch_progress.done))


def _runs(status: JobStatus) -> bool:
    live = [each for each in status.lanes if each.report is not None]
    return (
        bool(live) and status.state == "running" and all(each.report.phase == "running" for each in live if each.report)
    )


def _is_cleared(status: JobStatus, records: int) -> bool:
    """Whether all was read and committed. Lanes that have just begun know of no ends yet."""
    if status.state != "running":
        return False
    reports = [each.report for each in status.lanes if each.report is not None]
    first = [r for r in reports if any("/in/" in ssp for ssp in r.progress.positions)]
    at: dict[str, int] = {}
    for report in first:
        for ssp, offset in report.progress.positions.items():
            if "/in/" in ssp:
                at[ssp] = min(offset, at.get(ssp, offset))
    whole = sum(at.values()) >= records and len(at) == PARTITIONS
    return whole and all(
        each.lag == 0 and each.report is not None and each.report.progress.ends for each in status.lanes
    )


@contextmanager
def _running(backlog: Backlog, folder: Path, cluster: Cluster | None) -> Iterator[Run]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with side(folder) as started:
        if cluster is None:
            yield Run(backlog, started, EmbeddedSystem(folder / ".anabranch" / "streams"), None, port)
        else:
            kafka = KafkaSettings(bootstrap_servers=cluster.bootstrap_servers)
            yield Run(backlog, started, KafkaSystem(kafka), kafka, port)


def measured(backlog: Backlog, kind: str, folder: Path, cluster: Cluster | None) -> Found:
    with _running(backlog, folder, cluster) as run:
        if cluster is not None:
            for stream in run.system.streams():
                if stream in ("in", "out"):
                    cluster.delete(stream)
        deadline = time.monotonic() + 60
        while cluster is not None and {"in", "out"} & set(run.system.streams()) and time.monotonic() < deadline:
            time.sleep(LOOK)
        backlog.fill(run.system)
        found = run.measured(kind)
    if kind in CALLED:
        whole = f", {found.whole:.1f} s in all" if kind == "deploy" else ""
        print(f"{kind}: {found.called:.2f} s{whole}", flush=True)
        return found
    if kind == MINUTE:
        return found
    if kind == WATCHED:
        print(f"{kind}: first figure after {found.figure:.2f} s, never older than {found.age:.2f} s", flush=True)
        return found
    extra = f", switch {found.switch:.2f} s (planned pause {found.planned:.2f})" if kind == SCALED else ""
    since = f", {found.since:.1f} s since the call" if kind == SCALED else ""
    history = ", ".join(f"{factor} at {at:.1f} s" for at, factor in found.factors)
    print(
        f"{kind}: began {found.began:.1f} s, first figure after {found.first:.1f} s, cleared in "
        f"{found.clearing:.1f} s{since}{extra}; factors: {history}",
        flush=True,
    )
    return found


def judge(what: str, value: float, goal: float) -> None:
    print(f"{what}: {value:.2f}, goal {goal:g}: {'met' if value <= goal else 'missed'}", flush=True)


def summary(name: str, found: dict[str, list[Found]]) -> None:
    def median(kind: str, of: Callable[[Found], float]) -> float:
        return statistics.median(map(of, found[kind]))

    for kind in CALLED:
        if kind in found:
            judge(f"{name}: seconds from {kind} until its promise holds", median(kind, lambda e: e.called), CALL_GOAL)
    if WATCHED in found:
        figure, age = median(WATCHED, lambda each: each.figure), median(WATCHED, lambda each: each.age)
        judge(f"{name}: seconds from the first record to the first figure", figure, FIRST_GOAL)
        judge(f"{name}: seconds that figures are old at most", age, AGE_GOAL)
    for kind, several in found.items():
        if kind in (*CALLED, WATCHED, MINUTE):
            continue
        began = median(kind, lambda each: each.began)
        print(
            f"{name}, {kind}: cleared in {median(kind, lambda each: each.clearing):.1f} s, median of {len(several)}; "
            f"{began:.1f} s before its lanes ran"
        )
    if SCALED in found:
        judge(f"{name}: seconds from the call until the new lanes run", median(SCALED, lambda e: e.switch), SWITCH_GOAL)
    if ONCE not in found:
        return
    if SCALED in found:
        whole = median(SCALED, lambda e: e.began + e.clearing) / median(ONCE, lambda e: e.began + e.clearing)
        judge(f"{name}: scaled to at once, from the start of the process", whole, CLEARING_GOAL)
        since = median(SCALED, lambda e: e.since) / median(ONCE, lambda e: e.clearing)
        print(f"{name}: scaled, from the call, to at once, from when its lanes ran: {since:.2f}")
    if AUTO in found:
        whole = median(AUTO, lambda e: e.began + e.clearing) / median(ONCE, lambda e: e.began + e.clearing)
        judge(f"{name}: auto to at once, from the start of the process", whole, AUTO_GOAL)
        since = median(AUTO, lambda e: e.clearing) / median(ONCE, lambda e: e.clearing)
        print(f"{name}: the same, from when lanes ran: {since:.2f}")


def compared(
    backlog: Backlog, kinds: Iterable[str], rounds: int, folder: Path, cluster: Cluster | None
) -> dict[str, list[Found]]:
    found: dict[str, list[Found]] = {kind: [] for kind in kinds}
    for number in range(rounds):
        for kind in found if number % 2 == 0 else reversed(found):
            place = folder / f"{kind.replace(' ', '-')}-{number}"
            try:
                found[kind].append(measured(backlog, kind, place, cluster))
            except EndedError as error:
                raise SystemExit(str(error)) from None
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", choices=[*WORKS], default="map", help="what is done (default: map)")
    parser.add_argument("--systems", default="embedded,kafka", help="default: embedded,kafka")
    parser.add_argument("--sides", default="once,scaled,auto", help=f"of {', '.join(SIDES)}; default: once,scaled,auto")
    parser.add_argument("--rounds", type=int, default=5, help="how often each side runs (default: 5)")
    parser.add_argument("--records", type=int, default=RECORDS, help=f"default: {RECORDS:,}")
    parser.add_argument("--wait", type=float, default=WAIT_MS, help=f"ms that a record takes (default: {WAIT_MS:g})")
    parser.add_argument("--containers", type=int, default=1, help="above 1: on a coordinator (default: 1)")
    parser.add_argument("--target", type=float, default=10, help="target_lag_seconds of the autosizer (default: 10)")
    given = parser.parse_args()
    interruptible()
    unknown = [each for each in given.sides.split(",") if each not in SIDES]
    if unknown:
        parser.error(f"there is no side {', '.join(unknown)}: choose of {', '.join(SIDES)}")
    kinds = [SIDES[each] for each in given.sides.split(",")]
    backlog = Backlog(given.work, given.records, given.wait, given.containers, given.target)
    systems = ["kafka"] if given.work == "plain" else given.systems.split(",")
    with clusters.fresh() as cluster, explained():
        found = {
            system: compared(
                backlog, kinds, given.rounds, cluster.folder / system, cluster if system == "kafka" else None
            )
            for system in systems
        }
    for system, its in found.items():
        summary(f"{given.work}, {system}", its)


if __name__ == "__main__":
    main()
