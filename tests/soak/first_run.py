"""The first run of all: two lanes that start at once in a cold JVM, on a machine that is busy.

``python -m tests.soak.first_run --times 20`` counts how many come through without a failure, and ``--unmended`` does
so with sources registered as Spark does it by itself. ``--queries 12``: not the job, but so many bare queries at once.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyspark

from tests.acceptance.harness import Workspace, flights
from tests.support.interruption import interruptible

COUNT = 300
UNMENDED = Path(__file__).with_name("unmended.py")


def first_run(seed: int, workspace: Workspace) -> str:
    """The job of the example, once, with nothing that an earlier run has left in a cache: no lane may fail once."""
    several = flights(seed, COUNT)
    workspace.put(several)
    loops = random.Random(seed).choice((0, 1, os.cpu_count() or 2))
    with _busy(loops):
        ended = workspace.call("run", "delays.py", "--available-now", env=cold(workspace.folder))
    workspace.check_outputs(several)
    assert "failed" not in ended.stderr, ended.stderr
    return f"{loops} busy loops"


def bare(several: int, unmended: bool) -> str:
    """So many queries of one source at once, in a cold process and JVM; says what came of it."""
    words = [sys.executable, "-m", "tests.soak.at_once", str(several), *(["unmended"] if unmended else [])]
    with tempfile.TemporaryDirectory(prefix="first-run-") as folder:
        env = {**os.environ, **cold(Path(folder))}
        ran = subprocess.run(words, capture_output=True, text=True, env=env, check=False)
    return ran.stdout.strip().rpartition("\n")[2] or f"failed: {ran.stderr[-300:]}"


def cold(folder: Path) -> Mapping[str, str]:
    """The environment of a process that finds neither bytecode nor classes ready; of Spark's jars, the pages that
    nobody uses are dropped."""
    for jar in (Path(pyspark.__file__).parent / "jars").glob("*.jar"):
        with jar.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    bytecode = tempfile.mkdtemp(prefix="bytecode-", dir=folder)
    return {"PYTHONPYCACHEPREFIX": bytecode, "SPARK_SUBMIT_OPTS": ""}


@contextmanager
def _busy(loops: int) -> Iterator[None]:
    """Processes that use a core each."""
    several = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(loops)]
    try:
        yield
    finally:
        for each in several:
            each.kill()
            each.wait()


def main() -> None:
    interruptible()
    words = argparse.ArgumentParser(prog="python -m tests.soak.first_run", description=__doc__)
    words.add_argument("--times", type=int, default=10)
    words.add_argument("--from", type=int, default=0, dest="first", help="the first seed (default: 0)")
    words.add_argument("--unmended", action="store_true", help="sources are registered as Spark does it by itself")
    words.add_argument("--queries", type=int, help="not the job, but so many bare queries at once")
    given = words.parse_args()
    counted: Counter[str] = Counter()
    for seed in range(given.first, given.first + given.times):
        if given.queries:
            how = bare(given.queries, given.unmended)
            counted[how.partition(":")[0]] += 1
            print(f"{seed}: {how}", flush=True)
            continue
        with tempfile.TemporaryDirectory(prefix="first-run-") as folder:
            workspace = Workspace(Path(folder), program=[sys.executable, str(UNMENDED)] if given.unmended else None)
            try:
                how = f"right, {first_run(seed, workspace)}"
            except AssertionError as error:
                how = f"failed: {str(error)[:1500]}"
            finally:
                workspace.close()
        counted[how.partition(":")[0].partition(",")[0]] += 1
        print(f"{seed}: {how}", flush=True)
    print(", ".join(f"{count} {how}" for how, count in sorted(counted.items())))


if __name__ == "__main__":
    main()
