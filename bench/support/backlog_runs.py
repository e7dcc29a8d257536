"""Runs of a job that works on a backlog: what is done with the job, and what is measured meanwhile."""

from __future__ import annotations

import itertools
import json
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from anabranch import config as configuration
from anabranch import drain_progress
from anabranch.cli import connect
from anabranch.config import KafkaSettings, Settings
from anabranch.errors import AnabranchError
from anabranch.protocol.lane_report import LaneReport
from anabranch.protocol.status import JobStatus
from anabranch.systems.contract import System
from anabranch.systems.embedded import EmbeddedSystem
from anabranch.systems.kafka.system import KafkaSystem
from bench.support import measured_changes
from bench.support.backlogs import PARTITIONS, Backlog
from bench.support.cluster import Cluster
from bench.support.processes import Side, side
from bench.support.sides import anabranch

PATIENCE = 900.0
BEST, BEFORE, PLANNED = 16, 5.0, 3.0
"""The factor to which a job is scaled; when it is scaled; and when the plan of this scale is requested. Both times are
in seconds after the job's lanes have begun to run. Planning takes up to a second.
"""
LOOK = 0.1
ONCE, SCALED, AUTO, WATCHED, MINUTE = "at once", "scaled", "auto", "watched", "minute"
CALLED = ("stop", "interrupt", "drain", "deploy")
REMAINING = "remaining"
LONG_BATCH, WELL_INTO = 30, 25.0
"""``target_batch_seconds`` of a job whose drain should take long, and the number of seconds after which the drain is
requested.
"""


@dataclass
class Found:
    """The results of one run. All times are in seconds.

    Attributes:
        began: from the start of the job's process until its lanes were running.
        clearing: from when the lanes were running until the backlog was cleared.
        switch: from the call of ``scale`` until it returned.
        planned: the pause that ``plan scale`` predicted.
        since: from the call of ``scale`` until the backlog was cleared.
        first: from when the lanes were running until the first figure that wasn't zero.
        called: how long the verb took or, for a deploy, how long output paused.
        whole: how long the verb took.
        figure: from the function's first record to the first figure of a running batch.
        age: the longest time between two different figures of a running batch.
        factors: the factors that the job had, each with the second from which it had the factor.
        remaining: for each time that the status was read, how long the drain was then predicted to take, and how long
            it actually still took.
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
    remaining: list[tuple[float, float]] = field(default_factory=list)


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
        """The name of the job. On a Kafka cluster, each job needs a name of its own."""
        return self.started.folder.name

    @property
    def first(self) -> Path:
        """A file that exists once the function has got a record."""
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
        """Whether the job runs on a coordinator in another process."""
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
        auto += f"target_batch_seconds = {LONG_BATCH}\n" if kind.startswith(REMAINING) else ""
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
        if kind.startswith(REMAINING):
            self._until(settings, "a long batch runs", lambda _: time.monotonic() > ran + WELL_INTO)
            self._remain(settings, found, kind.removeprefix(f"{REMAINING} "))
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
            self._until(settings, "3 s", lambda status: cleared(status) or time.monotonic() > ran + PLANNED)
            found.planned = float(
                json.loads(self.verb("plan", "scale", self.name, "--factor", str(BEST), "--json"))["pause"]
            )
            self._until(settings, "5 s", lambda status: cleared(status) or time.monotonic() > ran + BEFORE)
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
        """Deploy another version. Returns the seconds for which output paused. Containers with the new code start while
        the former lanes are still running.
        """
        file = self.started.folder / "job.py"
        file.write_text(file.read_text().replace("return message", "return dict(message)"))
        self.verb("deploy", "job.py")
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            measured = measured_changes.first(json.loads(self.verb("show", "changes", self.name, "--json")))
            if measured is not None:
                return float(measured["measuredPause"])
            time.sleep(LOOK)
        raise SystemExit(f"the pause of the change was never measured:\n{self.started.said()}")

    def _end(self, kind: str) -> None:
        """End the job in the given way, and wait until the job's processes have ended."""
        if kind == "interrupt":
            self.started.signal(signal.SIGINT)
        else:
            self.verb(kind, self.name)
        self.started.wait()

    def _watch(self, settings: Settings, found: Found) -> None:
        """Measure how soon figures of a batch that has all records are available, and how old the figures get."""
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

    def _remain(self, settings: Settings, found: Found, up_to: str) -> None:
        """Drain the job. Until ``drain`` has returned, note how much time the drain is predicted to need."""
        said: list[tuple[float, float]] = []
        begun = time.monotonic()
        draining = subprocess.Popen(
            [anabranch(), "drain", self.name, "--up-to", up_to, "--timeout", f"{PATIENCE:g}"],
            cwd=self.started.folder,
            stderr=subprocess.DEVNULL,
        )
        try:
            while draining.poll() is None and time.monotonic() - begun < PATIENCE:
                with suppress(AnabranchError), connect.client(settings.coordinator, self.name) as client:
                    while draining.poll() is None:
                        status = client.status(self.name)
                        if status.drain is not None:
                            said.append((time.monotonic(), drain_progress.seconds_left(status, time.time())))
                        time.sleep(LOOK)
        finally:
            draining.kill()
        ended = time.monotonic()
        if draining.wait() != 0:
            raise SystemExit(f"drain ended with {draining.returncode}:\n{self.started.said()}")
        found.whole = ended - begun
        found.remaining = [(expected, ended - at) for at, expected in said]

    def _first_minute(self, settings: Settings, ran: float) -> None:
        """Print the records per second for every ten seconds of the first minute."""
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


@contextmanager
def running(backlog: Backlog, folder: Path, cluster: Cluster | None) -> Iterator[Run]:
    """A run in ``folder``, on a Kafka cluster or on the embedded log. Its processes end with the block."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with side(folder) as started:
        if cluster is None:
            yield Run(backlog, started, EmbeddedSystem(folder / ".anabranch" / "streams"), None, port)
        else:
            kafka = KafkaSettings(bootstrap_servers=cluster.bootstrap_servers)
            yield Run(backlog, started, KafkaSystem(kafka), kafka, port)


def _done(report: LaneReport) -> int:
    """How many records a lane has processed, including those of the running batch."""
    committed = sum(offset for ssp, offset in report.progress.positions.items() if "/in/" in ssp)
    return committed + (0 if report.progress.batch_progress is None else report.progress.batch_progress.done)


def _figure(report: LaneReport) -> bool:
    """Whether the report shows that any record has been processed."""
    its = report.progress
    return bool(its.rows or (its.batch_progress is not None and its.batch_progress.done))


def _runs(status: JobStatus) -> bool:
    live = [each for each in status.lanes if each.report is not None]
    return (
        bool(live) and status.state == "running" and all(each.report.phase == "running" for each in live if each.report)
    )


def _is_cleared(status: JobStatus, records: int) -> bool:
    """Whether all records were read and committed. Lanes that have just started don't know the end offsets yet."""
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
