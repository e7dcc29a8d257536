"""Runs containers as processes on this machine. The containers keep running if the process that started them ends."""

from __future__ import annotations

import calendar
import contextlib
import fcntl
import os
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from anabranch import logs, own_files
from anabranch.coordinator.launcher.launch_policy import ProcessEnd
from anabranch.errors import UsageError
from anabranch.model.naming import check_name

__all__ = ["LOG_BYTES", "Processes", "last_said"]

_KEPT = 20
LOG_BYTES = 64_000_000
"""The size of a log, in bytes, above which its contents are moved to ``.log.1``."""
_MADE, _NONE = "%Y%m%dT%H%M%S", "19700101T000000"
_STAMP = "[0-9]" * 8 + "T" + "[0-9]" * 6
_TAIL_BYTES, _TAIL_LINES, _TAIL_CHARACTERS = 4096, 3, 300

log = logs.get_logger()


@dataclass
class Processes:
    """The container processes on this machine, and their files.

    For each process, ``folder`` contains two files. ``JOB/EXECUTION.log`` contains the process's output; older output
    may be in ``JOB/EXECUTION.log.1``. ``JOB/EXECUTION.lock`` is a lock that the process inherits and holds while it
    lives. The locks show which processes are alive; process ids alone don't, because they can be reused.

    Args:
        command: returns the command that runs a container of a job.
        environment: the environment of the command, without EXECUTION_ENV_CONTAINER_ID.
        now: returns the seconds since 1970, for names that sort by age.
    """

    folder: Path
    command: Callable[[str], Sequence[str]]
    environment: Mapping[str, str]
    now: Callable[[], float] = time.time
    _children: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _broken: dict[str, str] = field(default_factory=dict)
    _untrimmed: dict[Path, int] = field(default_factory=dict)
    """The sizes that logs had when they couldn't be trimmed."""

    def found(self) -> dict[str, dict[str, bool]]:
        """For each job, all processes that have files here, and whether each of them is alive."""
        jobs: dict[str, dict[str, bool]] = {}
        for lock in sorted(self.folder.glob("*/*.lock")):
            try:
                job = check_name("job", lock.parent.name)
            except UsageError:
                continue  # not a folder of this class
            jobs.setdefault(job, {})[lock.stem] = self.ended(job, lock.stem) is None
        return jobs

    def start(self, job: str) -> str:
        """Start a process, and return its EXECUTION_ENV_CONTAINER_ID. If the process can't be started, :meth:`ended`
        returns the reason.
        """
        made = time.strftime(_MADE, time.gmtime(max(self.now(), self._newest(job) + 1)))
        execution = f"{made}-{uuid.uuid4().hex[:12]}"
        try:
            self._start(job, execution)
        except OSError as error:
            self._broken[execution] = f"it can't be started: {error}"
        return execution

    def _newest(self, job: str) -> float:
        """When the job's newest process was started, in seconds since 1970, according to the process's name. 0.0 if the
        job has no process. The name of the next process must contain a later time, so that names sort by age even if
        the clock was set back.
        """
        stamps = (path.stem.partition("-")[0] for path in (self.folder / job).glob(f"{_STAMP}-*.log"))
        return float(calendar.timegm(time.strptime(max(stamps, default=_NONE), _MADE)))

    def log_of(self, job: str, execution: str) -> Path:
        return self.folder / job / f"{execution}.log"

    def ended(self, job: str, execution: str) -> ProcessEnd | None:
        """How a process ended; None while it is alive. Only the object that started the process knows the exit
        code, and it returns this code only at the first call after the process has ended.
        """
        if execution in self._broken:
            return ProcessEnd(None, self._broken.pop(execution))
        child = self._children.get(execution)
        if child is None:
            return None if self.lives(job, execution) else ProcessEnd(None, last_said(self.log_of(job, execution)))
        if (code := child.poll()) is None:
            return None
        del self._children[execution]
        return ProcessEnd(code, last_said(self.log_of(job, execution)))

    def end(self, job: str, execution: str) -> None:
        """Tell a process to end at a batch boundary. Does nothing if the process has ended, if its id isn't recorded,
        or if it is on another machine. Raises OSError if the signal can't be sent.
        """
        self._signal(job, execution, lambda pid: os.kill(pid, signal.SIGTERM))

    def kill(self, job: str, execution: str) -> None:
        """Immediately kill a process and its JVM, which form a process group. See :meth:`end`."""
        self._signal(job, execution, lambda pid: os.killpg(pid, signal.SIGKILL))

    def _start(self, job: str, execution: str) -> None:
        path = self.log_of(job, execution)
        own_files.make_folder(self.folder)
        own_files.make_folder(path.parent)
        self._forget(path.parent)
        lock = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        output = None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            output = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
            child = subprocess.Popen(
                list(self.command(job)),
                env={**self.environment, "EXECUTION_ENV_CONTAINER_ID": execution},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                pass_fds=(lock,),
            )
            self._children[execution] = child
            with contextlib.suppress(OSError):  # on a full disk, the lock alone still shows that the process lives
                os.pwrite(lock, f"{child.pid} {socket.gethostname()}\n".encode(), 0)
        finally:
            os.close(lock)
            if output is not None:
                os.close(output)

    def _signal(self, job: str, execution: str, send: Callable[[int], None]) -> None:
        child = self._children.get(execution)
        if child is None and not self.lives(job, execution):
            return
        pid = self._recorded(job, execution) if child is None else child.pid
        with contextlib.suppress(ProcessLookupError):
            if pid is not None:
                send(pid)

    def lives(self, job: str, execution: str) -> bool:
        """Whether a process is alive. A process is alive if its lock is held and, where the process id is known, a
        process with this id exists. Where possible, the id is checked too, because a child of the process may have
        inherited the lock by accident.
        """
        try:
            lock = os.open(self.log_of(job, execution).with_suffix(".lock"), os.O_RDONLY)
        except (FileNotFoundError, PermissionError):
            return False  # a lock of another user belongs to another launcher
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = self.pid(job, execution)
            return pid is None or _exists(pid)
        finally:
            os.close(lock)
        return False

    def pid(self, job: str, execution: str) -> int | None:
        """The process id; None if it isn't recorded or can't be read, or if the process is on another machine."""
        try:
            return self._recorded(job, execution)
        except OSError:
            return None

    def _recorded(self, job: str, execution: str) -> int | None:
        """Like :meth:`pid`, but raises OSError if the file can't be read."""
        try:
            pid, host = self.log_of(job, execution).with_suffix(".lock").read_text().split()
        except (FileNotFoundError, ValueError):
            return None
        return int(pid) if host == socket.gethostname() and pid.isdecimal() and int(pid) > 1 else None

    def trim(self, job: str, execution: str) -> None:
        """If a process's log is larger than ``LOG_BYTES``, move its contents to ``.log.1``, replacing the contents of
        that file.

        The process keeps its log open, so the log is copied and then emptied. Output that the process writes between
        the copy and the emptying is lost. After a failed attempt, the log isn't touched until it has become smaller, or
        has grown by another tenth of ``LOG_BYTES``.
        """
        path, size = self.log_of(job, execution), 0
        before = self._untrimmed.pop(path, 0)
        try:
            size = path.stat().st_size
            if size <= LOG_BYTES:
                return
            if before <= size <= before + LOG_BYTES // 10:
                self._untrimmed[path] = before
                return
            older = _older(path)
            older.unlink(missing_ok=True)
            own_files.copy(path, older)
            os.truncate(path, 0)
        except FileNotFoundError:
            return
        except OSError as error:
            self._untrimmed[path] = size
            log.warning("a container's log can't be cut", file=str(path), error=str(error))

    def _forget(self, folder: Path) -> None:
        """Remove the files of processes that have ended, except those of the newest processes."""
        for path in sorted(folder.glob("*.log"))[: -_KEPT + 1]:
            if not self.lives(folder.name, path.stem):
                path.with_suffix(".lock").unlink(missing_ok=True)
                path.unlink(missing_ok=True)
                _older(path).unlink(missing_ok=True)


def last_said(log: Path) -> str:
    """The last error near the end of a process's log, joined into one line. If there is no error there, the log's last
    lines are returned instead. If the log can't be read, the result is empty.
    """
    try:
        with open(log, "rb") as said:
            said.seek(max(0, said.seek(0, os.SEEK_END) - _TAIL_BYTES))
            lines = said.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    lines = [line.strip() for line in lines if line.strip()]
    errors = [at for at, line in enumerate(lines) if line.startswith("error: ")]
    last = lines[errors[-1] :][:_TAIL_LINES] if errors else lines[-_TAIL_LINES:]
    return " | ".join(last).removeprefix("error: ")[:_TAIL_CHARACTERS]


def _older(path: Path) -> Path:
    return path.with_suffix(".log.1")


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
