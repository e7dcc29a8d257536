"""What a user reads of failures of different kinds: ``python -m tests.errors_shown`` prints the texts."""

from __future__ import annotations

import argparse
import json
import re
import tempfile
from pathlib import Path

from anabranch.cli import replacing
from anabranch.container.restarts import MOST, Restarts
from tests.acceptance.harness import Process, Workspace, record_batch
from tests.failing.jobs import FAILING, Failing

SPENT = {replacing.VARIABLE: Restarts(MOST, why="a test").to_text()}
"""The environment of a process that may not be replaced any more: what fails in it, fails for good."""


def failing_workspace(folder: Path, failing: Failing) -> Workspace:
    """A workspace with a job that fails, and 40 records to read."""
    (folder / "failing.py").write_text(failing.job)
    for name, text in failing.besides.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    kept = folder / "kept"
    kept.mkdir()
    (folder / "failing.py").rename(kept / "failing.py")
    workspace = Workspace(folder, job=kept / "failing.py", job__attempts=1, **failing.settings)
    workspace.system.create("in", 1)
    values = [json.dumps({"n": n, "text": "x"}).encode() for n in range(40)]
    workspace.append("in", record_batch([None] * len(values), values))
    return workspace


def error_of(process: Process) -> str:
    """What the process has told last, from ``error:`` on."""
    return process.stderr[process.stderr.index("error: ") :].strip()


def shown(kind: str, folder: Path) -> str:
    """Run the job of that kind to its failure, and give what a user has read of it, in all places the same."""
    failing = FAILING[kind]
    workspace = failing_workspace(folder, failing)
    try:
        process = workspace.start("run", "failing.py", "--available-now", env=SPENT)
        ended = process.wait()
        error = error_of(process)
        assert ended == failing.code, f"{kind}: ended with {ended}:\n{process.stderr}"
        at = 0
        for pattern in failing.reads:
            found = re.compile(pattern).search(error, at)
            assert found is not None, f"{kind}: no {pattern!r} after character {at} of\n{error}"
            at = found.start()
        wrong = [each for each in failing.never if each in error]
        assert not wrong, f"{kind}: {wrong} in\n{process.stderr}"
        _everywhere(kind, workspace, error)
    finally:
        workspace.close()
    return error


def _everywhere(kind: str, workspace: Workspace, error: str) -> None:
    first = error.splitlines()[0].removeprefix("error: ").removeprefix("job failing failed: ")
    if "Java process" in first or FAILING[kind].code == 2:  # nobody could write it down any more, or no lane has failed
        return
    status, events = workspace.call("status", "failing").stdout, workspace.call("events", "failing").stdout
    for name, text in (("status", status), ("events", events)):
        assert _squeezed(first)[:60] in _squeezed(text), f"{kind}: {name} doesn't say {first!r}:\n{text}"
    log = (workspace.folder / ".anabranch" / "run" / "failing.spark.log").read_text()
    assert "Traceback (most recent call last)" in log, f"{kind}: the log has no trace"


def _squeezed(text: str) -> str:
    return re.sub(r"\s+", "", text)


def scenario(seed: int, workspace: Workspace) -> str:
    """One kind of failure a seed."""
    kind = list(FAILING)[seed % len(FAILING)]
    folder = workspace.folder / "failing"
    folder.mkdir()
    return f"{kind}: {shown(kind, folder).splitlines()[0]}"


def main() -> None:
    words = argparse.ArgumentParser(prog="python -m tests.errors_shown", description=__doc__)
    words.add_argument("kinds", nargs="*", help=f"of {', '.join(FAILING)} (default: all)")
    for kind in words.parse_args().kinds or FAILING:
        with tempfile.TemporaryDirectory(prefix="failing-") as folder:
            try:
                print(f"== {kind}\n{shown(kind, Path(folder))}\n", flush=True)
            except AssertionError as error:
                print(f"== {kind}: WRONG\n{error}\n", flush=True)


if __name__ == "__main__":
    main()
