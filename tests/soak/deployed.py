"""Versions of a job that follow each other while it runs: real processes, of a coordinator with a launcher."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections import Counter
from collections.abc import Callable
from itertools import groupby
from typing import Any

from tests.acceptance.harness import Flight, Process, Workspace, flights
from tests.acceptance.processes import command, start_of
from tests.jobs import JOBS
from tests.soak import served

JOB = "versions"
FILE = JOBS / "versions.py"
_TAGGING = """def tagged(row):
    return {{"tailnum": row["tailnum"], "origin": row["origin"], "version": "{version}"}}
"""
MORE = 'flights.where("dest < \'D15\'").write("nearby")\n'
_BETWEEN = """
from tagging import tagged

from anabranch import Job
from tests.jobs import JOBS

job = Job("versions")

flights = job.read("flights", key="tailnum string", schema="origin string, dest string{more}")
parted = flights.partition_by("dest")
parted.map(tagged, schema="tailnum string, origin string, version string").write("tagged", key="tailnum")
parted.agg(flights="count(*)", name="per-place").write("counts")
"""
_PORTION, _EVERY = 100, 0.5
_LOOK = 1.0
_MOST = 100_000
"""So many records there are, should it take long. Those that weren't put when it ends never are."""


class Deploying:
    """A job under load, whose containers the coordinator starts. ``workspace``: with the job file of version 1.
    ``every``: seconds between two portions of records."""

    def __init__(self, workspace: Workspace, seed: int, by: str = "tailnum", every: float = _EVERY) -> None:
        self.workspace = workspace
        self.by = by
        self._every = every
        workspace.settings |= {**served.SETTINGS, "coordinator__launcher": "local", "job__max_rows_per_batch": 500}
        self.flights: list[Flight] = flights(seed=seed, count=_MOST)
        self.put = 0
        self.feed(_PORTION)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.client = workspace.client(self.url)
        self.coordinator = workspace.start("coordinator", "--port", str(self.port))
        self.coordinator.until("its URL", lambda: self.url in self.coordinator.stderr)

    def version(self, name: str, text: str) -> None:
        """Write the files of a version."""
        (self.workspace.folder / "tagging.py").write_text(_TAGGING.format(version=name))
        (self.workspace.folder / FILE.name).write_text(text)

    def feed(self, count: int) -> None:
        self.workspace.put(self.flights[self.put :][:count])
        self.put = min(len(self.flights), self.put + count)

    def call(self, *words: str, code: int = 0, **settings: Any) -> Process:
        """Run a verb, while records come."""
        process = self.workspace.start(*words, coordinator__url=self.url, **settings)
        self.until(f"{words[0]} has ended", lambda: process.ended)
        assert process.wait() == code, process.stderr
        return process

    def until(self, what: str, condition: Callable[[], bool]) -> None:
        """Wait, while records come."""
        fed = time.monotonic()

        def fed_and_true() -> bool:
            nonlocal fed
            if self.put < len(self.flights) and time.monotonic() > fed + self._every:
                self.feed(_PORTION)
                fed = time.monotonic()
            return condition()

        self.coordinator.until(what, fed_and_true)

    def values(self, stream: str) -> list[Any]:
        return [value for _, value in self.workspace.contents(stream)]

    def until_seen(self, version: str, at_least: int = 1) -> None:
        """Until so many records more have come out of a version."""
        before = self.count(version)
        self.until(f"records of {version}", seldom(lambda: self.count(version) >= before + at_least))

    def count(self, version: str) -> int:
        return sum(value["version"] == version for value in self.values("tagged"))

    def until_all_is_read(self) -> None:
        """Until all was read that was put. Nothing is put meanwhile."""

        def is_done() -> bool:
            lanes = self.client.status(JOB).lanes
            idle = all(each.report is not None and each.report.progress.ends and not each.lag for each in lanes)
            return idle and len(self.values("tagged")) >= self.put and self.counted() >= self.keyed

        self.coordinator.until("all is read", seldom(is_done))

    def finish(self) -> None:
        """Let all be read that was put, and stop."""
        self.flights = self.flights[: self.put]
        self.until_all_is_read()
        self.call("stop", JOB)
        self.coordinator.until("no container lives", lambda: not self.processes())
        self.coordinator.popen.send_signal(signal.SIGTERM)
        assert self.coordinator.wait() == 0, self.coordinator.stderr

    def processes(self) -> set[int]:
        """The containers that live, by the notes of the launcher."""
        notes = (self.workspace.folder / ".anabranch" / "containers" / JOB).glob("*.lock")
        pids = {int(note.read_text().split()[0]) for note in notes}
        return {pid for pid in pids if start_of(pid) is not None and f"container {JOB}" in command(pid)}

    def clear_away(self) -> None:
        for pid in self.processes():
            os.killpg(pid, signal.SIGKILL)

    def check(self, versions: list[str], ordered: bool = True) -> None:
        """Each record came out once, in its key's order, of versions that followed each other; counts are whole."""
        found = list(self.workspace.contents("tagged"))
        seen = Counter(value["origin"] for _, value in found)
        assert seen == Counter(flight["origin"] for flight in self.flights)
        by_key: dict[bytes | None, list[Any]] = {}
        for key, value in found:
            by_key.setdefault(key, []).append(value)
        for key, values in by_key.items():
            if key is not None and ordered:  # behind a partition_by, order is that of the new key
                numbers = [int(value["origin"].split("-")[1]) for value in values]
                assert numbers == sorted(numbers), key
                order = [name for name, _ in groupby(value["version"] for value in values)]
                assert _is_part(order, versions), (key, order)
        assert {value["version"] for _, value in found} == set(versions)
        assert self.counts() == Counter(f[self.by] for f in self.flights if f[self.by] is not None)

    def counts(self) -> dict[str, int]:
        """The last count of each key; each is greater than the one before."""
        counts: dict[str, int] = {}
        for value in self.values("counts"):
            assert counts.get(value[self.by], 0) < value["flights"], value
            counts[value[self.by]] = value["flights"]
        return counts

    def counted(self) -> int:
        return sum(self.counts().values())

    @property
    def keyed(self) -> int:
        """The records that were put and are counted."""
        return sum(flight[self.by] is not None for flight in self.flights[: self.put])


def upgraded(seed: int, workspace: Workspace) -> str:
    """Version 2 follows version 1 under load, and is rolled back: nothing is lost or doubled, no order broken."""
    job = Deploying(workspace, seed)
    try:
        job.version("v1", FILE.read_text())
        job.call("start", FILE.name)
        job.until_seen("v1")
        job.version("v2", FILE.read_text() + MORE)
        job.call("deploy", FILE.name)
        job.until_seen("v2", 200)
        assert job.client.status(JOB).deployment == 2
        job.call("rollback", JOB)
        job.until_seen("v1", 200)
        model = job.client.model(JOB)
        assert (model.run_id, model.replaces, model.again) == (3, 2, 1)
        job.finish()
        job.check(["v1", "v2", "v1"])
        _check_more(job)
    finally:
        job.clear_away()
    return f"{job.put} records, {len(job.values('nearby'))} of an output that only version 2 has"


def upgraded_by_drain(seed: int, workspace: Workspace) -> str:
    """What lies between the stages changes: version 2 is refused, and follows after a drain, while records come."""
    job = Deploying(workspace, seed, by="dest")
    try:
        job.version("v1", _BETWEEN.format(more=""))
        job.call("start", FILE.name)
        job.until_seen("v1", 200)
        job.version("v2", _BETWEEN.format(more=", dep_delay int"))
        refused = job.call("deploy", FILE.name, code=4)
        assert "partition_by 'by-dest'" in refused.stderr, refused.stderr
        assert "dep_delay none → integer" in refused.stderr, refused.stderr
        assert "--drain" in refused.stderr, refused.stderr
        assert (job.client.status(JOB).state, job.client.status(JOB).deployment) == ("running", 1)
        put = job.put
        job.call("deploy", FILE.name, "--drain")
        assert job.put > put, "no records came"
        job.until_seen("v2", 200)
        assert job.client.status(JOB).deployment == 2
        job.finish()
        job.check(["v1", "v2"], ordered=False)
    finally:
        job.clear_away()
    return f"{job.put} records, {job.count('v2')} of version 2"


def _check_more(job: Deploying) -> None:
    """The output that only version 2 has begins where that does, and ends there."""
    of_version = {value["origin"] for value in job.values("tagged") if value["version"] == "v2"}
    near = [value["origin"] for value in job.values("nearby")]
    dests = {flight["origin"]: flight["dest"] for flight in job.flights}
    assert Counter(near) == Counter(origin for origin in of_version if dests[origin] < "D15")


def seldom(condition: Callable[[], bool]) -> Callable[[], bool]:
    """A condition that takes long: looked at once a second."""
    due = 0.0

    def looked() -> bool:
        nonlocal due
        if time.monotonic() < due:
            return False
        due = time.monotonic() + _LOOK
        return condition()

    return looked


def _is_part(order: list[str], whole: list[str]) -> bool:
    rest = iter(whole)
    return all(any(name == each for each in rest) for name in order)


def events(job: Deploying) -> str:
    """For whom a test fails."""
    return "\n".join(json.dumps(event.to_builtins()) for event in job.client.events(JOB))
