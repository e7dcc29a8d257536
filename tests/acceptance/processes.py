"""The command line as processes, and what each of them has started."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from anabranch import crash_points


@dataclass
class Process:
    """A verb that runs. Its output goes to files, so that it never waits for a reader."""

    popen: subprocess.Popen[bytes]
    out: Path
    err: Path
    note: Path
    patience: float
    begun: float = field(default_factory=time.monotonic)

    @property
    def stdout(self) -> str:
        return self.out.read_text()

    @property
    def stderr(self) -> str:
        return self.err.read_text()

    @property
    def ended(self) -> bool:
        return self.popen.poll() is not None

    def wait(self) -> int:
        """Its exit code."""
        return self.popen.wait(self.patience)

    def until(self, what: str, condition: Callable[[], bool]) -> None:
        """Wait for a condition that comes true while it runs."""
        end = time.monotonic() + self.patience
        while not condition():
            assert not self.ended, f"it ended with {self.popen.returncode} before {what}:\n{self.stderr}"
            assert time.monotonic() < end, f"no {what} within {self.patience:g} s:\n{self.stderr}"
            time.sleep(0.02)

    def held(self) -> str:
        """Wait until it holds at the step that was asked for: the lane's id."""
        said: list[str] = []  # several workers may write it

        def noted() -> bool:
            said.append(self.note.read_text() if self.note.exists() else "")
            return said[-1].endswith("\n")

        self.until("its note", noted)
        return said[-1].split()[0]

    def kill(self) -> None:
        """SIGKILL to the process alone; all that it has started must end by itself."""
        children = descendants(self.popen.pid)
        os.kill(self.popen.pid, signal.SIGKILL)
        assert self.wait() == -signal.SIGKILL
        end = time.monotonic() + 60
        while left := {child: started for child, started in children.items() if started == start_of(child)}:
            assert time.monotonic() < end, f"these outlived the process by 60 s: {[command(child) for child in left]}"
            time.sleep(0.05)

    def freeze(self) -> None:
        """SIGSTOP to it and to all that it has started: the JVM, and the workers, which are in groups of their own."""
        stopped: set[int] = set()
        while left := {self.popen.pid, *descendants(self.popen.pid)} - stopped:
            for each in left:
                os.kill(each, signal.SIGSTOP)
            stopped |= left

    def wake(self) -> None:
        """SIGCONT to all that was frozen."""
        for each in (*descendants(self.popen.pid), self.popen.pid):
            os.kill(each, signal.SIGCONT)

    def release(self) -> None:
        """Let all of it go on from the step where it holds, and hold no more."""
        Path(f"{self.note}{crash_points.RELEASED}").touch()

    def clear_away(self) -> None:
        """End it with its whole session, after a test that failed."""
        for child in descendants(self.popen.pid) if not self.ended else ():
            os.kill(child, signal.SIGKILL)
        self.popen.kill()
        self.popen.wait()


def descendants(pid: int) -> dict[int, str]:
    """All processes below one, with what tells each from a later one of its number."""
    parents: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (stat := _stat(int(name))) is not None:
            parents[int(name)] = int(stat[1])
    found: dict[int, str] = {}
    queue = [pid]
    while queue:
        parent = queue.pop()
        for child in (child for child, its in parents.items() if its == parent):
            if (started := start_of(child)) is not None:
                found[child] = started
                queue.append(child)
    return found


def start_of(pid: int) -> str | None:
    """When a process started; None when it isn't there, or only as a zombie."""
    stat = _stat(pid)
    return None if stat is None or stat[0] == "Z" else stat[19]


def command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()[:200]
    except OSError:
        return f"process {pid}"


def _stat(pid: int) -> list[str] | None:
    """The fields of ``/proc/PID/stat`` from the state on."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return None
