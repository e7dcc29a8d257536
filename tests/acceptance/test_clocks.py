"""A machine's clock is really set, by an hour, a day and a year, while a job counts by windows of processing time.

It needs libfaketime (Debian's package ``faketime``): the process and its JVM see the clock that a file says.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.harness import PARTITIONS, Process, Workspace, record_batch

FAKETIME = next(iter(sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))), None)
pytestmark = [pytest.mark.acceptance, pytest.mark.skipif(FAKETIME is None, reason="there is no libfaketime")]

JOB = """
from anabranch import Job

job = Job("counting")
read = job.read("in", key="k string", schema="n int")
read.window("1 second", time="processing").agg(c="count(*)", name="counted").write("out")
"""
RECORDS = 40
WITHIN = 120.0


class Clocked:
    """A job in a process whose clock is that of the machine, and so much ahead or behind."""

    def __init__(self, folder: Path) -> None:
        (folder / "counting.py").write_text(JOB)
        self.workspace = Workspace(folder)
        self.workspace.job = "counting"
        self.workspace.system.create("in", PARTITIONS)
        self._ahead = folder / "ahead"
        self.put_so_far = 0

    def set(self, ahead: str) -> None:
        part = self._ahead.with_suffix(".part")
        part.write_text(ahead)
        part.replace(self._ahead)

    def start(self, **env: str) -> Process:
        given = {
            "LD_PRELOAD": str(FAKETIME),
            "FAKETIME_TIMESTAMP_FILE": str(self._ahead),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",
        }
        return self.workspace.start("run", "counting.py", env={**given, **env})

    def counted(self) -> int:
        if "out" not in self.workspace.system.streams():
            return 0
        return sum(value["c"] for _, value in self.workspace.contents("out"))

    def put(self) -> None:
        """Add some records, and wait until all that there are have come out in windows."""
        values = [b'{"n": 1}'] * RECORDS
        self.workspace.append("in", record_batch([f"k{n}".encode() for n in range(RECORDS)], values))
        self.put_so_far += RECORDS
        end = time.monotonic() + WITHIN
        while self.counted() < self.put_so_far:
            assert time.monotonic() < end, f"{self.counted()} of {self.put_so_far} have come out in {WITHIN:.0f} s"
            time.sleep(0.5)
        assert self.counted() == self.put_so_far


@pytest.fixture
def clocked(tmp_path: Path) -> Iterator[Clocked]:
    made = Clocked(tmp_path)
    try:
        yield made
    finally:
        made.workspace.close()


def test_no_record_is_lost_or_held_up_whatever_the_clock_does(clocked: Clocked) -> None:
    clocked.set("+0")
    # Where clocks are changed twice a year, too: all times are UTC.
    process = clocked.start(TZ="Europe/Berlin")
    for ahead in ("+0", "-1h", "-1d", "+0", "+365d", "+0"):
        clocked.set(ahead)
        clocked.put()
    assert not process.ended, process.stderr
    assert "the clock of this machine is behind" in process.stderr
    process.popen.send_signal(signal.SIGTERM)
    assert process.wait() == 0, process.stderr

    clocked.set("-1h")  # another container takes over, whose clock is an hour behind
    process = clocked.start()
    clocked.put()
    process.popen.send_signal(signal.SIGTERM)
    assert process.wait() == 0, process.stderr
