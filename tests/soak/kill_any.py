"""Kills at any moment of a process's life, several in a row on one workspace: then the job runs to its end, and all is
there once. ``python -m tests.soak.kill_any`` says what the kills so far have left."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import socket
import tempfile
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from anabranch.errors import NotFoundError, UnreachableError
from anabranch.testing.broker import Cluster
from tests.acceptance.harness import MIDNIGHT, PATIENCE, ROOT, Process, Workspace, record_batch
from tests.acceptance.processes import command, descendants, start_of
from tests.jobs import JOBS
from tests.soak.kill_any_checks import CHECKS, INPUT, PARTITIONS, key_of
from tests.soak.leftovers import KINDS, leftovers
from tests.support import kafka_peers

NAMES = ("stateless", "windowed", "processed", "parted")

KILLS, PORTION = 24, 120
EARLY = 3.0
"""Seconds: a good share of the kills is in the first ones of a process's life."""
_EARLY_SHARE = 0.5
_FIRST, _UNTIL_FIRST = 10, 0.6
_ENDING_SHARE, _ENDS_WITHIN = 0.2, 3.0
_TAKES_OVER = 12.0
"""Seconds: about how long the former version's lanes take to end, with the start of their container."""

RECORD = ROOT / ".soak" / "kill-any.jsonl"
LENGTHS = ROOT / ".soak" / "kill-any-lengths.json"


@dataclass
class Kill:
    """``after``: seconds of the process's life. ``what``: which process; ``group``: with its process group; ``ending``:
    after it was told to end."""

    what: str
    after: float
    group: bool
    ending: bool
    left: dict[str, int] = field(default_factory=dict)


class Killed:
    """A job that is fed a portion of numbered records before each attempt."""

    def __init__(self, workspace: Workspace, dice: random.Random) -> None:
        self.workspace = workspace
        self.count = 0
        self.kills: list[Kill] = []
        self.outlived = 0
        self._dice = dice
        self._temporary = Path(tempfile.mkdtemp(prefix="kill-any-"))
        self._children: dict[int, str] = {}
        workspace.system.create(INPUT, PARTITIONS)

    def close(self) -> None:
        shutil.rmtree(self._temporary, ignore_errors=True)  # its processes may just be removing what is theirs

    def choice(self, *things: str) -> str:
        return self._dice.choice(things)

    def feed(self) -> None:
        numbers = range(self.count, self.count + PORTION)
        values = [json.dumps({"n": n, "at": (MIDNIGHT + timedelta(seconds=n)).isoformat()}).encode() for n in numbers]
        self.workspace.append(INPUT, record_batch([key_of(n).encode() for n in numbers], values))
        self.count += PORTION

    def start(self, *words: str) -> Process:
        return self.workspace.start(*words, env=dict.fromkeys(("TMPDIR", "SPARK_LOCAL_DIRS"), str(self._temporary)))

    def kill(self, process: Process, what: str, within: float) -> None:
        """Kill it at some moment of the first ``within`` seconds of its life, or at once if it has lived that long,
        alone or with its group; sometimes a moment after it was told to end. The next one may start while some of its
        children still end."""
        early = self._dice.random() < _EARLY_SHARE
        moment = self._dice.uniform(0, EARLY) if early else self._dice.uniform(0, within)
        group, waits = self._dice.random() < 0.5, self._dice.random() < 0.5
        ending = not early and self._dice.random() < _ENDING_SHARE
        _lives_until(process, process.begun + moment)
        if ending and not process.ended:
            process.popen.send_signal(signal.SIGTERM)
            _lives_until(process, time.monotonic() + self._dice.uniform(0, _ENDS_WITHIN))
        if process.ended:
            self.outlived += 1
            if not ending:
                self.check_ended(process, what)
            assert process.wait() in (0, -signal.SIGTERM), process.stderr
            return
        after = time.monotonic() - process.begun
        children = descendants(process.popen.pid)
        (os.killpg if group else os.kill)(process.popen.pid, signal.SIGKILL)
        process.wait()
        self._children |= children
        if waits:
            self.wait_for_children()
        left = leftovers(self.workspace, self._temporary)
        if _living(children):
            left["processes: some live on"] += 1
        self.kills.append(Kill(what, round(after, 3), group, ending, dict(left)))

    def check_ended(self, process: Process, what: str) -> None:
        assert process.wait() == 0, f"{what}, which nobody has killed, ended with {process.wait()}:\n{process.stderr}"

    def wait_for_children(self) -> None:
        """All that the killed ones have started ends by itself."""
        end = time.monotonic() + 60
        while left := _living(self._children):
            assert time.monotonic() < end, f"these live on: {[command(child) for child in left]}"
            time.sleep(0.05)
        self._children.clear()

    def check(self) -> None:
        self.wait_for_children()
        CHECKS[self.workspace.job](self.workspace, self.count)


def killed(seed: int, workspace: Workspace) -> str:
    """One job, in one process or under a coordinator; 24 kills, then it runs to its end."""
    served = bool(seed // len(NAMES) % 2)
    length = _length(seed, workspace, served)
    begun = time.monotonic()
    with closing(Killed(workspace, random.Random(seed))) as job:
        (_kill_served if served else _kill_run)(job, length, KILLS)
        seconds = time.monotonic() - begun
        job.check()
    _note(seed, workspace, served, job, length)
    early = sum(kill.after < EARLY for kill in job.kills)
    return (
        f"{workspace.job}, {'served' if served else 'run'}: {len(job.kills)} kills, {early} of them in the first "
        f"{EARLY:.0f} s, {job.outlived} came too late; {job.count} records, {seconds:.0f} s, a run takes {length:.0f} s"
    )


def once(workspace: Workspace, seed: int, kills: int, within: float) -> list[Kill]:
    """The same in one process, each time within so many seconds: for the suite."""
    with closing(Killed(workspace, random.Random(seed))) as job:
        _kill_run(job, within, kills)
        job.check()
    return job.kills


def changed(seed: int, workspace: Workspace) -> str:
    """One job in one process, of which each start is another version: 24 kills, then it runs to its end."""
    length = _length(seed, workspace, served=False) + _TAKES_OVER
    begun = time.monotonic()
    with closing(Killed(workspace, random.Random(seed))) as job:
        _kill_run(job, length, KILLS, changing=True)
        job.check()
    early = sum(kill.after < EARLY for kill in job.kills)
    deployments = workspace.status()["deployment"]
    return (
        f"{workspace.job}: {len(job.kills)} kills, {early} of them in the first {EARLY:.0f} s, {job.outlived} came too "
        f"late; {deployments} deployments, {job.count} records, {time.monotonic() - begun:.0f} s"
    )


def _kill_run(job: Killed, length: float, kills: int, changing: bool = False) -> None:
    words = "run", f"{job.workspace.job}.py", "--available-now"
    for number in range(kills):
        job.feed()
        if changing:
            _change(job.workspace, number)
        job.kill(job.start(*words), "run", _within(number, length))
    job.feed()
    if changing:
        _change(job.workspace, kills)
    job.check_ended(job.start(*words), "the last run")


def _change(workspace: Workspace, number: int) -> None:
    """Give the job another version, whose new condition holds for all records."""
    file = workspace.folder / f"{workspace.job}.py"
    text, found = re.subn(
        r"^(numbers = job\.read\(.*?\))(\.where\(.*\))?$", rf'\1.where("n >= -{number}")', file.read_text(), flags=re.M
    )
    assert found == 1, file
    file.write_text(text)


def _within(number: int, length: float) -> float:
    """The first kills come until the first batch is committed: so many of them find a job that has none."""
    return length * _UNTIL_FIRST if number < _FIRST else length


def _kill_served(job: Killed, length: float, kills: int) -> None:
    """The container or the coordinator, or both; what was killed is started again at once. A coordinator has done all
    that it does soon after its start: it is killed while it does that."""
    served = _Served(job)
    for number in range(kills):
        job.feed()
        served.want()
        which = job.choice("container", "container", "coordinator", "both")
        if served.container is None or served.container.ended:
            served.container = served.contain()
        if which != "coordinator":
            job.kill(served.container, "container", _within(number, length))
        if which != "container":
            if time.monotonic() > served.coordinator.begun + EARLY:
                job.kill(served.coordinator, "coordinator", 0.0)
                served.lead()
            job.kill(served.coordinator, "coordinator", 2 * EARLY)
            served.lead()
    job.feed()
    served.end()


class _Served:
    def __init__(self, job: Killed) -> None:
        self._job = job
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}"
        self.container: Process | None = None
        self._client = job.workspace.client(self.url)
        self.lead()

    def lead(self) -> Process:
        self.coordinator = self._job.start("coordinator", "--port", str(self._port))
        return self.coordinator

    def contain(self) -> Process:
        return self._job.start("container", self._job.workspace.job, "--coordinator", self.url)

    def want(self) -> None:
        """Start the job, if it doesn't run."""
        self.coordinator.until("its URL", lambda: self.url in self.coordinator.stderr)
        name = self._job.workspace.job
        self.coordinator.until("the job stops, or not", lambda: self._state != "stopping")
        if self._state in ("planned", "starting", "running"):
            return
        words = "start", f"{name}.py", "--available-now", "--detach", "--coordinator", self.url
        asked = self._job.start(*words)
        assert asked.wait() == 0, asked.stderr

    @property
    def _state(self) -> str:
        """That of the job; empty if there is none, or if the coordinator is away."""
        try:
            return self._client.status(self._job.workspace.job).state
        except (NotFoundError, UnreachableError):
            return ""

    def end(self) -> None:
        """Until the job has read what was there at its last start, and once more for what came later."""
        for _ in range(2):
            self.want()
            if self.container is None or self.container.ended:
                self.container = self.contain()
            self._job.check_ended(self.container, "the last container")
        self.coordinator.popen.send_signal(signal.SIGTERM)
        self._job.check_ended(self.coordinator, "the coordinator")


def _length(seed: int, workspace: Workspace, served: bool) -> float:
    """How long an unkilled process lives, measured once for each job and way to run it, in a workspace of its own."""
    known = json.loads(LENGTHS.read_text()) if LENGTHS.exists() else {}
    name = f"{workspace.job}, {'served' if served else 'run'}, {workspace.system.name}"
    if name not in known:
        folder = workspace.folder / "measured"
        folder.mkdir()
        measured = workspace_of(seed, folder, workspace.cluster, workspace.patience)
        try:
            with closing(Killed(measured, random.Random(0))) as job:
                known[name] = round(_measured(job, served), 1)
        finally:
            measured.close()
            shutil.rmtree(folder)
        if workspace.cluster is not None:
            kafka_peers.clear(workspace.cluster.bootstrap_servers)
        LENGTHS.write_text(json.dumps(known, indent=1) + "\n")
    return float(known[name])


def _measured(job: Killed, served: bool) -> float:
    job.feed()
    if served:
        its = _Served(job)
        its.want()
        process = its.contain()
    else:
        process = job.start("run", f"{job.workspace.job}.py", "--available-now")
    job.check_ended(process, "the unkilled process")
    return time.monotonic() - process.begun


def _note(seed: int, workspace: Workspace, served: bool, job: Killed, length: float) -> None:
    told = {
        "seed": seed,
        "job": workspace.job,
        "system": workspace.system.name,
        "served": served,
        "length": length,
        "outlived": job.outlived,
        "kills": [vars(kill) for kill in job.kills],
    }
    with RECORD.open("a") as file:
        file.write(json.dumps(told) + "\n")


def workspace_of(seed: int, folder: Path, cluster: Cluster | None, patience: float = PATIENCE) -> Workspace:
    """One with the job of a seed."""
    settings: dict[str, Any] = {
        "job__max_rows_per_batch": PORTION // 3,
        "job__on_error": "fail",
        "coordinator__lease": "3 seconds",
        "coordinator__grace": "1 second",
        "coordinator__period": "1 second",
    }
    return Workspace(folder, cluster, JOBS / "killed" / f"{NAMES[seed % len(NAMES)]}.py", patience=patience, **settings)


def _lives_until(process: Process, moment: float) -> None:
    """Wait until then, or until it has ended."""
    while time.monotonic() < moment and not process.ended:
        time.sleep(0.002)


def _living(children: dict[int, str]) -> list[int]:
    return [child for child, started in children.items() if started == start_of(child)]


def main() -> None:
    seeds = [json.loads(line) for line in RECORD.read_text().splitlines()]
    kills = [kill for seed in seeds for kill in seed["kills"]]
    early = sum(kill["after"] < EARLY for kill in kills)
    print(f"{len(seeds)} seeds, {len(kills)} kills, {early} in the first {EARLY:.0f} s of a process's life")
    for title, key in (("job", "job"), ("system", "system"), ("served", "served")):
        print(f"  by {title}:", dict(Counter(str(seed[key]) for seed in seeds for _ in seed["kills"])))
    print("  after the process was told to end:", sum(kill.get("ending", False) for kill in kills))
    print("  by process:", dict(Counter(kill["what"] + (" and group" if kill["group"] else "") for kill in kills)))
    left = Counter(kind for kill in kills for kind in kill["left"])
    for kind in KINDS:
        print(f"{left[kind]:6} {kind}")


if __name__ == "__main__":
    main()
