"""The notes and locks of processes that serve jobs from a store in a file. Such a process holds a lock for each of its
jobs. For each job, the process also leaves a note, which tells other processes on this machine the job's URL.
"""

from __future__ import annotations

import fcntl
import os
import time
import uuid
import weakref
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from anabranch.coordinator.store import address
from anabranch.errors import ConfigError, ConflictError, UnsupportedFormatError, UsageError
from anabranch.httpx_alone import httpx
from anabranch.model.document import Document, decode, encode
from anabranch.model.naming import check_name
from anabranch.protocol.errors import SERVICE

__all__ = ["RunLock", "find", "remove", "run_folder", "write"]

_ANSWERS_WITHIN = 2.0
_TRIES, _PAUSE = 3, 0.02
"""How many times a process tries to take a lock, and how many seconds the process waits between two attempts."""
_held: weakref.WeakSet[RunLock] = weakref.WeakSet()


class Note(Document, frozen=True, kw_only=True):
    """A note of a process that serves a job."""

    url: str
    pid: int
    started: float
    """When the note was written, in seconds since 1970."""


def run_folder(store_url: str) -> Path:
    """The folder for notes and locks, next to the store's file. If the store's file is a symbolic link, the folder is
    next to the file to which the link leads. So all names of a store lead to the same folder. Raises ConfigError if the
    store isn't in a file.
    """
    path = address.path_of(store_url)
    if address.is_on_server(store_url):
        raise ConfigError(
            f"anabranch run keeps its store in SQLite, and [coordinator] store is {address.shown(store_url)}",
            "a store in PostgreSQL is for a coordinator: anabranch coordinator",
        )
    if path is None:
        raise ConfigError("a store in memory has no place for notes", "name a file in [coordinator] store")
    return Path(os.path.realpath(path)).parent / "run"


def write(store_url: str, job: str, url: str) -> None:
    """Write a note that this process serves a job at a URL. Raises ConfigError if the note can't be written."""
    folder = run_folder(store_url)
    address.make_folder(folder)
    temporary = folder / f".{uuid.uuid4().hex}.tmp"
    try:
        temporary.write_bytes(encode(Note(url=url, pid=os.getpid(), started=time.time())))
        temporary.replace(_path(store_url, job))
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise ConfigError(
            f"the folder {folder} can't be written: {error.strerror}",
            "let [coordinator] store be in one that can",
        ) from error


def remove(store_url: str, job: str) -> None:
    """Remove the note of a job, if there is one."""
    _path(store_url, job).unlink(missing_ok=True)


def find(store_url: str) -> dict[str, str]:
    """The URLs at which jobs are served, by job. A note is ignored if its process has died, or if something other than
    anabranch answers at its URL. A note is also ignored if nothing answers and no process holds the job's lock. A
    process that holds the lock but doesn't answer still serves the job: it may be suspended or busy.
    """
    folder = run_folder(store_url)
    served: dict[str, str] = {}
    for path in sorted(folder.glob("*.json")) if folder.is_dir() else ():
        try:
            job, note = check_name("job", path.stem), decode(path.read_bytes(), Note)
        except (FileNotFoundError, UnsupportedFormatError, UsageError):
            continue  # removed meanwhile, or not a note
        if _lives(note.pid):
            answers = _answers(note.url)
            if answers or (answers is None and RunLock(store_url, job).is_held()):
                served[job] = note.url
    return served


class RunLock:
    """The lock of a job, held inside ``with``, or from ``acquire`` to ``release``. Child processes don't inherit the
    lock.
    """

    def __init__(self, store_url: str, job: str) -> None:
        self._job = check_name("job", job)
        self._path = run_folder(store_url) / f"{job}.lock"
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Take the lock.

        Raises:
            ConflictError: another process, or another RunLock of this process, holds the lock.
            ConfigError: the folder for the lock can't be made, or the lock's file can't be opened or locked.
        """
        address.make_folder(self._path.parent)
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                self._lock(descriptor)
            except BaseException:
                os.close(descriptor)
                raise
        except OSError as error:
            raise ConfigError(
                f"the lock {self._path} can't be made: {error.strerror}",
                "let [coordinator] store be in a folder that can be written",
            ) from error
        self._descriptor = descriptor
        _held.add(self)
        with suppress(OSError):  # on a full disk, for example: the process id is only for messages
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)

    def _lock(self, descriptor: int) -> None:
        try:
            _flock(descriptor)
        except BlockingIOError as error:
            holder = _noted_pid(descriptor)
            process = f" (pid {holder})" if holder else ""
            raise ConflictError(
                f"job {self._job} is already running here{process}", f"anabranch stop {self._job}"
            ) from error

    def release(self) -> None:
        """Release the lock."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
            _held.discard(self)

    def is_held(self) -> bool:
        """Whether a process holds the lock."""
        return self.holder() is not None

    def holder(self) -> int | None:
        """The id of the process that holds the lock: None if no process holds it, and 0 if the id isn't known. To find
        out, this method briefly takes the lock in shared mode. Several processes can hold the lock in shared mode at
        the same time. :meth:`acquire` waits a moment for such processes.
        """
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError:
            return 0  # another user's lock, which can't be looked at
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _noted_pid(descriptor)
        finally:
            os.close(descriptor)
        return None

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def _path(store_url: str, job: str) -> Path:
    return run_folder(store_url) / f"{check_name('job', job)}.json"


def _lives(pid: int) -> bool:
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _noted_pid(descriptor: int) -> int:
    """The process id in a lock's file; 0 if there is none."""
    text = os.pread(descriptor, 20, 0).decode(errors="replace").strip()
    return int(text) if text.isdecimal() else 0


def _flock(descriptor: int) -> None:
    """Lock a file for this process alone. Tries several times, because :meth:`RunLock.holder` in another process may
    hold the lock for a moment. Raises BlockingIOError if the lock isn't free in any of these attempts.
    """
    for _ in range(_TRIES - 1):
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        time.sleep(_PAUSE)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _answers(url: str) -> bool | None:
    """Whether a process of anabranch answers at a URL; None if nothing answers in time."""
    try:
        secured = not url.startswith("http://")
        body = httpx.get(f"{url}/healthz", timeout=_ANSWERS_WITHIN, trust_env=False, verify=secured).json()
    except httpx.UnsupportedProtocol:
        return False
    except httpx.HTTPError:
        return None
    except (httpx.InvalidURL, ValueError):
        return False
    return isinstance(body, dict) and body.get("service") == SERVICE


def _release_in_child() -> None:
    for lock in list(_held):
        lock.release()


os.register_at_fork(after_in_child=_release_in_child)
