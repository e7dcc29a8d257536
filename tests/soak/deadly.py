"""Records that kill their Python worker, in a job that runs as a process: they become dead letters, and it goes on."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Collection
from pathlib import Path

from anabranch.testing.broker import Cluster
from tests.acceptance.harness import PATIENCE, Workspace, record_batch
from tests.jobs import JOBS
from tests.support import cluster, jvm

FILE = JOBS / "deadly.py"
INPUT, OUTPUT = "numbers", "followed"
COUNT, KILLER = 50_000, 17_342
FEW = 6000
MORE = 60.0
"""Seconds that killers may add to a run."""
_PARTITIONS = 2


def workspace_of(folder: Path, broker: Cluster | None, patience: float = PATIENCE) -> Workspace:
    made = Workspace(folder, broker, FILE, patience=patience, job__max_rows_per_batch=1_000_000)
    made.system.create(INPUT, _PARTITIONS)
    (folder / "killers").touch()
    return made


def killed(seed: int, workspace: Workspace) -> str:
    """A run without killers, and one with as many records of which one kills, or three, by seed; every other one is
    there, and it takes less than a minute more."""
    dice = random.Random(seed)
    factor = 8 if seed % 4 >= 2 else 1
    killers = [KILLER] if seed % 2 == 0 else [KILLER, *dice.sample(range(COUNT), 2)]
    workspace.settings["job__factor"] = factor
    without = ran(workspace, 0, COUNT, [])
    taken = ran(workspace, COUNT, COUNT, killers)
    assert taken < without + MORE, f"{taken:.0f} s instead of {without:.0f} s"
    return f"{killers} of {COUNT} at factor {factor}: {taken:.0f} s instead of {without:.0f} s"


def killed_on_cluster(seed: int, workspace: Workspace) -> str:
    """The same on a standalone cluster of two workers, whose executors have of anabranch what was sent to them."""
    dice = random.Random(seed)
    killers = sorted(dice.sample(range(FEW), 3))
    with cluster.started(workspace.folder / "cluster") as spark:
        conf = {"spark.executor.memory": "640m", "spark.executor.extraJavaOptions": jvm.START}
        workspace.settings |= {"spark__master": spark.url, "spark__conf": json.dumps(conf), "spark__memory": "1g"}
        taken = ran(workspace, 0, FEW, killers)
    return f"{killers} of {FEW}: {taken:.0f} s"


def ran(workspace: Workspace, first: int, count: int, killers: Collection[int]) -> float:
    """The seconds that a run over some more records takes, some of which kill (numbers from ``first`` on). All others
    have come out by then, and those are dead letters."""
    (workspace.folder / "killers").write_text(" ".join(str(first + n) for n in killers))
    numbers = range(first, first + count)
    keys = [f"k{n % 97}".encode() for n in numbers]
    workspace.append(INPUT, record_batch(keys, [json.dumps({"n": n}).encode() for n in numbers]))
    begun = time.monotonic()
    workspace.finish()
    taken = time.monotonic() - begun
    out = sorted(value["n"] - 1 for _, value in workspace.contents(OUTPUT))
    assert [n for n in out if n >= first] == [n for n in numbers if n - first not in set(killers)]
    dead = {json.loads(value)["n"]: headers for _, _, value, headers in workspace.raw(f"{INPUT}-dead-letters")}
    assert sorted(n - first for n in dead if n >= first) == sorted(killers)
    for n in killers:
        told = dead[first + n]["anabranch.error"].decode()
        how = ("it ended with exit code 1", "killed by SIGSEGV", "killed by SIGKILL")[(first + n) % 3]
        assert told == f"the worker died on it 3 times: {how}", told
    return taken
