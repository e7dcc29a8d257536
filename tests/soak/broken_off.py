"""Changes and kills in the middle of batches that take long: what is broken off is done again, and comes out once."""

from __future__ import annotations

import json
import random
import signal
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from anabranch import crash_points
from anabranch.testing import broker
from tests.acceptance.harness import PATIENCE, Process, Workspace, record_batch
from tests.jobs import JOBS

JOB = JOBS / "broken" / "slowly.py"
COUNT, LATER = 6000, 2000
"""Records of 5 ms each in two partitions: a batch of all of them takes a quarter of a minute, and may be broken off at
any time."""
KEYS = 16
TURNS = 5
_FACTORS = (1, 2, 4, 16)
SOON = 30.0
"""Seconds for what takes some 3 s on a machine that nobody else uses."""


def workspace_of(folder: Path, cluster: broker.Cluster | None, patience: float = PATIENCE) -> Workspace:
    """Whose batches take all that there is."""
    return Workspace(folder, cluster, JOB, patience=patience, job__max_rows_per_batch=100_000)


class Slowly:
    """The job, which is slow until :meth:`finish`."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.put = 0
        workspace.system.create("asked", 2)

    def ask(self, count: int) -> None:
        """Add records, numbered on."""
        numbers = range(self.put, self.put + count)
        keys = [f"K{number % KEYS:02}".encode() for number in numbers]
        self.workspace.append("asked", record_batch(keys, [json.dumps({"number": n}).encode() for n in numbers]))
        self.put += count

    def run(self, hold: str = "") -> Process:
        """Start it, and wait until a batch of its first lane is being written, or it holds."""
        process = self.workspace.start("run", JOB.name, hold=hold)
        process.until("it runs", lambda: process.note.exists() or "running: " in process.stderr)
        return process

    def finish(self) -> None:
        """Let it be quick, and come to the end of its input."""
        (self.workspace.folder / "quick").touch()
        self.workspace.finish()

    def check(self) -> None:
        """Each record is there once, in the order of its key: as a row, and counted; or as a dead letter."""
        refused = {n for n in range(self.put) if n % 97 == 96}
        done, counted = defaultdict[bytes | None, list[int]](list), defaultdict[bytes | None, list[list[int]]](list)
        for key, value in self.workspace.contents("done"):
            done[key].append(value["number"])
        for key, value in self.workspace.contents("counted"):
            counted[key].append([value["count"], value["number"]])
        wanted = defaultdict[bytes | None, list[int]](list)
        for number in range(self.put):
            if number not in refused:
                wanted[f"K{number % KEYS:02}".encode()].append(number)
        assert done == wanted
        assert counted == {key: [[n, number] for n, number in enumerate(its, 1)] for key, its in wanted.items()}
        letters = sorted(json.loads(value)["number"] for _, _, value, _ in self.workspace.raw("asked-dead-letters"))
        lanes = 2  # each of which refuses it
        assert letters == sorted([*refused] * lanes)


@contextmanager
def slowly(workspace: Workspace) -> Iterator[Slowly]:
    """The job with some records; in the end all is checked."""
    job = Slowly(workspace)
    job.ask(COUNT)
    yield job
    job.finish()
    job.check()


def broken_off(seed: int, workspace: Workspace) -> str:
    """Changes, stops, signals and kills at moments by chance; for even seeds first a kill at a step of taking a batch
    back. What follows goes on from what that leaves."""
    dice = random.Random(seed)
    told: list[str] = []
    with slowly(workspace) as job:
        factor = 1
        if seed % 2 == 0:
            step = crash_points.OF_BREAKS[seed // 2 % len(crash_points.OF_BREAKS)]
            told.append(f"killed when it was {step}")
            factor = killed_at(job, step)
        process: Process | None = None
        for _ in range(TURNS):
            if process is None:
                process = job.run()
            time.sleep(dice.uniform(0, 3))
            what = dice.choice(["scale", "scale", "stop", "term", "kill", "kill in a change"])
            told.append(what)
            if what.startswith(("scale", "kill in")):
                factor = dice.choice([other for other in _FACTORS if other != factor])
                verb = workspace.start("scale", "slowly", "--factor", str(factor))
                if what == "scale":
                    assert verb.wait() == 0, verb.stderr
                    told[-1] += f" to {factor}"
                    continue
                time.sleep(dice.uniform(0, 3))
                process.kill()
                verb.popen.kill()
            elif what == "stop":
                workspace.call("stop", "slowly")
                assert process.wait() == 0
            elif what == "term":
                process.popen.send_signal(signal.SIGTERM)
                assert process.wait() == 0
            else:
                process.kill()
            process = None
            job.ask(dice.randint(0, LATER))
        if process is not None:
            workspace.call("stop", "slowly")
            assert process.wait() == 0
    return ", ".join(told)


def killed_at(job: Slowly, step: str) -> int:
    """Scale the job in its first batch, and kill it at a step of taking that back; gives the factor."""
    process = job.run(hold=f"0-:{step}:0+")
    time.sleep(2)
    verb = job.workspace.start("scale", "slowly", "--factor", "4", "--detach")
    process.held()
    process.kill()
    verb.wait()
    return 4
