"""What a user reads of failures of different kinds: ``python -m tests.soak.errors_shown`` prints the texts."""

from __future__ import annotations

import argparse
import json
import re
import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path

from anabranch.cli import replacing
from anabranch.container.restarts import MOST, Restarts
from tests.acceptance.harness import Process, Workspace, record_batch
from tests.jobs.failing.jobs import FAILING, Failing
from tests.support import kafka_peers
from tests.support.disks import mounted
from tests.support.interruption import interruptible

SPENT = {replacing.VARIABLE: Restarts(MOST, why="a test").to_text()}
"""The environment of a process that may not be replaced any more: what fails in it, fails for good."""

IMPATIENT = json.dumps({"default.api.timeout.ms": "8000", "request.timeout.ms": "4000"})


def failing_workspace(folder: Path, failing: Failing, stack: ExitStack) -> Workspace:
    """A workspace with a job that fails, and 40 records to read."""
    kept = folder / "kept"
    kept.mkdir()
    (kept / "failing.py").write_text(failing.job)
    cluster, settings = None, {"job__attempts": 1, "job__max_wait": "1 second", **failing.settings}
    if failing.place == "broker":
        cluster = stack.enter_context(kafka_peers.start(folder / "cluster"))
        settings["systems__kafka__spark"] = IMPATIENT
    if failing.place == "full disk":
        disk = stack.enter_context(mounted(folder / "disk", 1))
        assert disk is not None, "a disk can be mounted by root only"
        disk.fill(leave=8192)
        settings["storage__root"] = folder / "disk" / "lanes"
    workspace = Workspace(folder, cluster, kept / "failing.py", **settings)
    stack.callback(workspace.close)
    workspace.system.create("in", 1)
    values = [json.dumps({"n": n, "text": "x"}).encode() for n in range(40)]
    workspace.append("in", record_batch([None] * len(values), values))
    return workspace


def error_of(process: Process) -> str:
    """What the process has told last, from ``error:`` on."""
    return process.stderr[process.stderr.index("error: ") :].strip()


def shown(kind: str, folder: Path, traces: Path | None = None) -> str:
    """Run the job of that kind to its failure, and give what a user has read of it, in all places the same.

    ``traces``: a folder that gets the whole trace.
    """
    failing = FAILING[kind]
    with ExitStack() as stack:
        workspace = failing_workspace(folder, failing, stack)
        process = workspace.start("run", "failing.py", env=SPENT)
        if failing.place == "broker":
            process.until("a batch", lambda: workspace.committed("0-") >= 0)
            assert workspace.cluster is not None
            workspace.cluster.kill()
        ended = process.wait()
        log = workspace.folder / ".anabranch" / "run" / "failing.spark.log"
        if traces is not None and log.exists():
            shutil.copy(log, traces / f"{kind.replace(' ', '_').replace(':', '')}.txt")
        error = error_of(process)
        assert ended == failing.code, f"{kind}: ended with {ended}:\n{process.stderr}"
        at = 0
        for pattern in failing.reads:
            found = re.compile(pattern).search(error, at)
            assert found is not None, f"{kind}: no {pattern!r} after character {at} of\n{error}"
            at = found.start()
        wrong = [each for each in failing.never if each in error]
        assert not wrong, f"{kind}: {wrong} in\n{error}"
        if failing.by_lane:
            _check_everywhere(kind, workspace, error, log)
    return error


def _check_everywhere(kind: str, workspace: Workspace, error: str, log: Path) -> None:
    first = error.splitlines()[0].removeprefix("error: ").removeprefix("job failing failed: ")
    status, events = workspace.call("status", "failing").stdout, workspace.call("events", "failing").stdout
    for name, text in (("status", status), ("events", events)):
        assert _squeezed(first)[:60] in _squeezed(text), f"{kind}: {name} doesn't say {first!r}:\n{text}"
    assert "Traceback (most recent call last)" in log.read_text(), f"{kind}: the log has no trace"


def _squeezed(text: str) -> str:
    return re.sub(r"\s+", "", text)


def scenario(seed: int, workspace: Workspace) -> str:
    """One kind of failure a seed."""
    kind = list(FAILING)[seed % len(FAILING)]
    folder = workspace.folder / "failing"
    folder.mkdir()
    return f"{kind}: {shown(kind, folder).splitlines()[0]}"


def main() -> None:
    interruptible()
    words = argparse.ArgumentParser(prog="python -m tests.soak.errors_shown", description=__doc__)
    words.add_argument("kinds", nargs="*", help=f"of {', '.join(FAILING)} (default: all)")
    words.add_argument("--traces", type=Path, help="a folder for the whole traces")
    given = words.parse_args()
    for kind in given.kinds or FAILING:
        with tempfile.TemporaryDirectory(prefix="failing-") as folder:
            try:
                print(f"== {kind}\n{shown(kind, Path(folder), given.traces)}\n", flush=True)
            except AssertionError as error:
                print(f"== {kind}: WRONG\n{error}\n", flush=True)


if __name__ == "__main__":
    main()
