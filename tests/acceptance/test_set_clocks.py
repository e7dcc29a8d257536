"""A machine's clock is set back and ahead, by an hour, a day and a year, under a job that counts by windows of
processing time.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.harness import PARTITIONS, ROOT, Process, Workspace, record_batch

CC = shutil.which("cc")
pytestmark = [
    pytest.mark.acceptance,
    pytest.mark.long,
    pytest.mark.skipif(CC is None, reason="there is no C compiler for a clock that can be set"),
]

JOB = """
from anabranch import Job, tumbling

job = Job("counting")
read = job.read("in", key="k string", schema="n int")
read.window(tumbling("1 second"), time="processing").agg(c="count(*)").write("out")
"""
RECORDS = 40
WITHIN = 180.0
HOUR, DAY = 3600, 86_400


class Clocked:
    """A job in processes whose clock is that of the machine, and so many seconds ahead."""

    def __init__(self, folder: Path) -> None:
        (folder / "counting.py").write_text(JOB)
        self.library = folder / "clock_ahead.so"
        source = ROOT / "tests" / "support" / "clock_ahead.c"
        subprocess.run([str(CC), "-shared", "-fPIC", "-O2", "-o", self.library, source, "-ldl"], check=True)
        self._ahead = folder / "ahead"
        (folder / "work").mkdir()
        self.workspace = Workspace(folder / "work", job=folder / "counting.py")
        self.workspace.system.create("in", PARTITIONS)
        self.put_so_far = 0

    def set(self, ahead: int) -> None:
        part = self._ahead.with_suffix(".part")
        part.write_text(str(ahead))
        part.replace(self._ahead)

    def start(self, **env: str) -> Process:
        given = {"LD_PRELOAD": str(self.library), "CLOCK_AHEAD": str(self._ahead)}
        return self.workspace.start("run", "counting.py", env={**given, **env})

    def counted(self) -> int:
        if "out" not in self.workspace.system.streams():
            return 0
        return sum(value["c"] for _, value in self.workspace.contents("out"))

    def put(self, process: Process) -> None:
        """Add some records, and wait until all that there are have come out in windows."""
        values = [b'{"n": 1}'] * RECORDS
        self.workspace.append("in", record_batch([f"k{n}".encode() for n in range(RECORDS)], values))
        self.put_so_far += RECORDS
        end = time.monotonic() + WITHIN
        while (counted := self.counted()) < self.put_so_far:
            assert not process.ended, process.stderr
            assert time.monotonic() < end, f"{counted} of {self.put_so_far} have come out in {WITHIN:.0f} s"
            time.sleep(0.5)
        assert counted == self.put_so_far


@pytest.fixture
def clocked(tmp_path: Path) -> Iterator[Clocked]:
    made = Clocked(tmp_path)
    try:
        yield made
    finally:
        made.workspace.close()


def ended(process: Process) -> None:
    process.popen.send_signal(signal.SIGTERM)
    assert process.wait() == 0, process.stderr


def test_no_record_is_lost_or_held_up_whatever_the_clock_does(clocked: Clocked) -> None:
    clocked.set(0)
    # Where clocks are changed twice a year, too: all times are UTC.
    process = clocked.start(TZ="Europe/Berlin")
    for ahead in (0, -HOUR, -DAY, 0, 365 * DAY, 0):
        clocked.set(ahead)
        clocked.put(process)
    assert "the clock of this machine is behind" in process.stderr
    ended(process)

    clocked.set(-HOUR)  # a machine whose clock is an hour behind takes over
    process = clocked.start()
    clocked.put(process)
    ended(process)
