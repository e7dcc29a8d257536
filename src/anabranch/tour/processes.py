"""Starts, kills and freezes the processes of the tour's verbs."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

from anabranch.errors import AnabranchError

__all__ = ["Interruptions", "Process", "Processes"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_GONE_WITHIN = 30.0
_LOOK = 0.05


class Interruptions:
    """Inside ``with``, the first SIGINT, SIGTERM or SIGHUP raises KeyboardInterrupt. If the signal arrives in a block
    of :meth:`undisturbed`, the exception is raised at the end of that block. Otherwise, the exception is raised at
    once. Later signals have no effect. If a signal was ignored before, it stays ignored.
    """

    def __init__(self) -> None:
        self._deferring = 0
        self._is_pending = self._has_raised = False
        self._at_end: list[Callable[[], object]] = []
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interruptions:
        for number in _SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._take)
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.close()
        finally:
            self.close()  # the KeyboardInterrupt may come just before this
            while self._at_end:
                self._at_end.pop()()
            for number, handler in self._before.items():
                signal.signal(number, handler)

    def at_end(self, clear_away: Callable[[], object]) -> None:
        """Have ``clear_away`` called at the end of this object's ``with`` block, where signals can't interrupt it. If
        several functions are added, the last one is called first."""
        self._at_end.append(clear_away)

    @contextlib.contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Inside ``with``, signals don't interrupt the code. If a signal arrives during the block, it takes effect at
        the end of the block.
        """
        self._deferring += 1
        try:
            yield
        finally:
            self._deferring -= 1
            if not self._deferring:
                self._heed()

    def close(self) -> None:
        """Ignore all later signals. Call this when only cleanup is left."""
        self._has_raised = True

    def _take(self, _number: int, _frame: FrameType | None) -> None:
        self._is_pending = True
        if not self._deferring:
            self._heed()

    def _heed(self) -> None:
        if self._is_pending and not self._has_raised:
            self._has_raised = True
            raise KeyboardInterrupt


class Process:
    """The process of an ``anabranch`` verb, in a separate process session. So the terminal's Ctrl-C doesn't reach the
    process, and the processes that it starts can be recognized by their session.
    """

    def __init__(self, popen: subprocess.Popen[bytes], name: str, log: Path) -> None:
        self.popen = popen
        self.name = name
        self.log = log

    @property
    def pid(self) -> int:
        return self.popen.pid

    @property
    def code(self) -> int | None:
        """The exit code; None while the process is running."""
        return self.popen.poll()

    @property
    def text(self) -> str:
        """What the process has printed."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def kill(self) -> None:
        """Send SIGKILL to this process only. The processes that it has started are left to end on their own."""
        os.kill(self.pid, signal.SIGKILL)
        self.popen.wait()

    def freeze(self) -> None:
        """Send SIGSTOP to the process and to all processes that it has started."""
        stopped: set[int] = set()
        while new := {self.pid, *_members(self.pid)} - stopped:
            _send(new, signal.SIGSTOP)
            stopped |= new

    def wake(self) -> None:
        """Send SIGCONT to the process and to all processes that it has started."""
        _send({self.pid, *_members(self.pid)}, signal.SIGCONT)


class Processes:
    """Starts verbs in a folder. At the end of the ``with`` block of ``interruptions``, all processes that are still in
    the verbs' sessions are killed.

    Args:
        folder: the working folder of the verbs, where their logs are stored, too.
        temporary: a folder for temporary files of the verbs and the processes that they start.
        environment: environment variables of the verbs, in addition to those of this process.
    """

    def __init__(
        self, folder: Path, temporary: Path, environment: Mapping[str, str], interruptions: Interruptions
    ) -> None:
        self.folder = folder
        self._interruptions = interruptions
        places = {"TMPDIR": str(temporary), "SPARK_LOCAL_DIRS": str(temporary), "PYTHONIOENCODING": "utf-8"}
        self._environment = {**os.environ, **environment, **places}
        self._started: list[Process] = []
        interruptions.at_end(self._end_all)

    def _end_all(self) -> None:
        sessions = {process.pid for process in self._started}
        deadline = time.monotonic() + _GONE_WITHIN
        while left := {pid for session in sessions for pid in _members(session)}:
            _send(left, signal.SIGKILL)
            for process in self._started:
                process.popen.poll()
            if time.monotonic() > deadline:
                raise AnabranchError(f"processes {sorted(left)} outlive SIGKILL", "see what they wait for: ps -l")
            time.sleep(_LOOK)

    def start(self, *words: str) -> Process:
        """Start a verb, and return its process without waiting for its end."""
        name = words[0]
        log = self.folder / f"{len(self._started):02}-{name}.log"
        with self._interruptions.undisturbed(), log.open("wb") as output:
            popen = subprocess.Popen(
                [sys.executable, "-P", "-m", "anabranch", *words],
                cwd=self.folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
            self._started.append(Process(popen, name, log))
        return self._started[-1]

    def run(self, *words: str, meanwhile: Callable[[], object] = lambda: None) -> str:
        """Run a verb to its end, and return its output. ``meanwhile`` is called repeatedly while the verb runs.

        Raises:
            AnabranchError: the verb failed; the message contains the verb's output.
        """
        process = self.start(*words)
        while process.code is None:
            meanwhile()
            time.sleep(_LOOK)
        if process.code:
            raise AnabranchError(f"anabranch {' '.join(words)} ended with {process.code}:\n{process.text}")
        return process.text


def _members(session: int) -> set[int]:
    """The processes of a session, except zombies: ended processes that their parent hasn't waited for yet."""
    members = set()
    for pid in _pids():
        with contextlib.suppress(OSError):
            if os.getsid(pid) == session and not _has_ended(pid):
                members.add(pid)
    return members


def _pids() -> Iterator[int]:
    if Path("/proc/self/stat").exists():
        yield from (int(name) for name in os.listdir("/proc") if name.isdigit())
        return
    listed = subprocess.run(["ps", "-A", "-o", "pid="], capture_output=True, text=True, check=True).stdout
    yield from map(int, listed.split())


def _has_ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2].startswith(b"Z")
    except FileNotFoundError:
        return Path("/proc/self/stat").exists()


def _send(pids: set[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
