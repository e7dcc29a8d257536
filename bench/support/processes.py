"""The processes of one side of a benchmark, which are started, watched, measured and ended together. Linux only
(/proc).
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
PATIENCE = 30.0
"""How many seconds processes are given to end before they are killed."""


class EndedError(Exception):
    """A process that should have continued has ended. The message includes the end of its output."""


@dataclass
class Side:
    """Some commands, each in a session of its own.

    The processes that the commands start are recognized by their session, or by the folder in which they work, even
    after their parent is gone. ``folder`` contains their log and their temporary files.
    """

    folder: Path
    _leaders: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _finished: int = 0

    @property
    def log(self) -> Path:
        """The file with the output of the processes."""
        return self.folder / "log"

    def start(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        temporary = self.folder / "tmp"
        temporary.mkdir(parents=True, exist_ok=True)
        places = {"TMPDIR": str(temporary), "SPARK_LOCAL_DIRS": str(temporary)}
        with self.log.open("ab") as log:
            self._leaders.append(
                subprocess.Popen(
                    command,
                    cwd=self.folder,
                    env={**os.environ, **places, **(environment or {})},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            )

    def signal(self, number: int) -> None:
        """Send a signal to the commands."""
        for leader in self._leaders:
            leader.send_signal(number)

    def check(self) -> None:
        """Raises EndedError if a command has ended, unless :meth:`finish` or :meth:`wait` has waited for it."""
        for leader in self._leaders[self._finished :]:
            if leader.poll() is not None:
                raise EndedError(f"a process ended with {leader.returncode}:\n{self.said()}")

    def finish(self) -> None:
        """Wait for all commands. Raises EndedError if one fails."""
        for leader in self._leaders:
            if leader.wait() != 0:
                raise EndedError(f"a process ended with {leader.returncode}:\n{self.said()}")
        self._finished = len(self._leaders)

    def wait(self) -> None:
        """Wait for all commands, however they end."""
        for leader in self._leaders:
            leader.wait()
        self._finished = len(self._leaders)

    def said(self) -> str:
        """The end of the log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-25:])

    def cpu_seconds(self) -> float:
        """User and system time of all processes so far, including children that have ended and were waited for."""
        return sum(sum(map(int, fields[11:15])) for _, fields in self._processes()) / TICKS

    def resident_mb(self) -> int:
        """The memory of all processes."""
        return sum(int(fields[21]) for _, fields in self._processes()) * os.sysconf("SC_PAGE_SIZE") // 1_000_000

    def pids(self) -> list[int]:
        """The ids of all processes."""
        return [pid for pid, _ in self._processes()]

    def end(self) -> None:
        """Send SIGTERM to the commands, and then SIGKILL to all processes that are still alive."""
        deadline = time.monotonic() + PATIENCE
        try:
            for leader in self._leaders:
                leader.terminate()
            while any(True for _ in self._processes()) and time.monotonic() < deadline:
                time.sleep(0.1)
        finally:
            for pid, _ in self._processes():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for leader in self._leaders:
                leader.wait()

    def _processes(self) -> Iterator[tuple[int, list[str]]]:
        """The process ids, with the fields of ``/proc/PID/stat`` from the third on. These are the processes in the
        commands' sessions, and those that work in the folder: a coordinator's containers have sessions of their own,
        and outlive the coordinator.
        """
        sessions, folder = {str(leader.pid) for leader in self._leaders}, self.folder.resolve()
        for leader in self._leaders:
            leader.poll()
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal():
                with suppress(OSError):
                    fields = (entry / "stat").read_text().rpartition(")")[2].split()
                    its = fields[3] in sessions or (entry / "cwd").readlink().is_relative_to(folder)
                    if its and fields[0] != "Z":
                        yield int(entry.name), fields


def tree_seconds(*roots: int) -> float:
    """User and system time so far of this process, and of ``roots`` with all their descendants."""
    ticks: dict[int, int] = {}
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                ticks[int(entry.name)] = sum(map(int, fields[11:15]))
                children.setdefault(int(fields[1]), []).append(int(entry.name))
    found, queue = set[int](), list(roots)
    while queue:
        current = queue.pop()
        found.add(current)
        queue += children.get(current, [])
    own = os.times()
    return sum(ticks.get(pid, 0) for pid in found) / TICKS + own.user + own.system


@contextmanager
def side(folder: Path) -> Iterator[Side]:
    """A side whose processes are ended with the block, even if the block fails."""
    folder.mkdir(parents=True)
    started = Side(folder)
    try:
        yield started
    finally:
        started.end()


@contextmanager
def explained() -> Iterator[None]:
    """If a side fails, end the command with the side's last output. On Ctrl-C, end the command, too. No stack trace is
    printed in either case.
    """
    try:
        yield
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except EndedError as error:
        raise SystemExit(str(error)) from None
