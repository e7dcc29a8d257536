"""Soak and benchmarks end by SIGTERM as by Ctrl-C: nothing that they have started is left."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.paths import ROOT

PROGRAM = """
import subprocess
import time
from contextlib import ExitStack

from tests.support.interruption import interruptible

interruptible()
with ExitStack() as stack:
    stack.callback(print, "cleared away", flush=True)
    stack.callback(time.sleep, 0.5)
    process = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    stack.callback(process.wait)
    stack.callback(process.kill)
    print(process.pid, flush=True)
    time.sleep(1000)
"""
PURE = {"kill_any": "it reads a file", "unmended": "the command line, which heeds signals itself"}
"""Commands that start nothing, or see to it otherwise."""
COMMANDS = [
    path
    for folder in ("bench", "tests/soak", "tests/dashboard")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if re.search(r'^if __name__ == "__main__":', path.read_text(), re.MULTILINE)
    and path.stem not in PURE
    and path.parent.name not in ("peers", "support")  # those are started by others
]


@pytest.mark.parametrize("times", [1, 2])
def test_sigterm_ends_what_was_started(times: int) -> None:
    command = [sys.executable, "-c", PROGRAM]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        started = int(process.stdout.readline())
        for _ in range(times):
            process.send_signal(signal.SIGTERM)
            time.sleep(0.1)
        said, error = process.communicate(timeout=60)
    assert said == "cleared away\n", error
    assert not Path(f"/proc/{started}").exists(), "it has outlived the command"


@pytest.mark.parametrize("path", COMMANDS, ids=lambda path: str(path.relative_to(ROOT)))
def test_each_command_can_be_interrupted(path: Path) -> None:
    assert "    interruptible()\n" in path.read_text(), "its main() must call tests.support.interruption.interruptible"
