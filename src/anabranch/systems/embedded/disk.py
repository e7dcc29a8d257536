"""The file operations on which the log is built: making files durable, creating and replacing them atomically, and
locking them."""

from __future__ import annotations

import fcntl
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from anabranch import own_files
from anabranch.errors import ConfigError, LogError

__all__ = [
    "LOCKED_OUT_SECONDS",
    "check_link",
    "exclusive",
    "link_new",
    "locked_out",
    "remove_temporary",
    "replace",
    "shared",
    "sync_file",
    "sync_folder",
    "try_exclusive",
]

LOCKED_OUT_SECONDS = 60.0
"""How many seconds :func:`exclusive` and :func:`shared` wait for a lock before they fail. Processes normally hold a
lock for well under a second, or for some seconds on a slow disk. Only two kinds of processes hold a lock for longer: a
frozen process, and a process that creates or expands a stream with thousands of partitions.
"""

_TEMPORARY = ".tmp"
_POLL = 0.002


def sync_file(path: str) -> None:
    """Make a file's content durable. To make the file's name durable, call :func:`sync_folder`."""
    own_files.sync(path)


def sync_folder(path: str) -> None:
    """Make the names in a folder durable."""
    own_files.sync(path)


def link_new(path: str, content: bytes) -> bool:
    """Create a file completely and durably, or not at all. Returns False if the file exists already.

    After an error, the file may or may not exist: find out before the next attempt.
    """
    temporary = _write_beside(path, content)
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        os.unlink(temporary)
    sync_folder(os.path.dirname(path))
    return True


def replace(path: str, content: bytes) -> None:
    """Write a file completely and durably, replacing any existing one. The caller must exclude other writers."""
    temporary = _write_beside(path, content)
    with _removed_if_failed(temporary):
        os.rename(temporary, path)
    sync_folder(os.path.dirname(path))


def remove_temporary(folder: str) -> None:
    """Remove unfinished files left in a folder by processes that were killed. The caller must exclude writers."""
    for name in os.listdir(folder):
        if name.startswith(".") and name.endswith(_TEMPORARY):
            os.unlink(os.path.join(folder, name))


def check_link(folder: str) -> None:
    """Check that a folder's file system supports hard links, which publishing needs. If not, raise ConfigError."""
    first = _write_beside(os.path.join(folder, "link"), b"")
    second = f"{first}.linked"
    try:
        os.link(first, second)
        os.unlink(second)
    except OSError as error:
        raise ConfigError(
            f"{folder} can't hold the embedded log: its file system has no hard links ({error.strerror})",
            "set [systems.embedded] root to a folder on a local disk (ext4, xfs, btrfs, apfs)",
        ) from error
    finally:
        os.unlink(first)


@contextmanager
def exclusive(path: str, what: str) -> Iterator[None]:
    """Hold an exclusive lock on the file ``path`` inside ``with``. Waits until all other processes have released their
    locks on the file. When a process dies, the operating system releases the process's lock.

    Args:
        what: the beginning of the error's text, which says what can't be done without the lock.

    Raises:
        LogError: other processes have held the lock for ``LOCKED_OUT_SECONDS``.
    """
    with _opened(path) as descriptor:
        if not _acquired(descriptor, fcntl.LOCK_EX, LOCKED_OUT_SECONDS):
            raise locked_out(path, LOCKED_OUT_SECONDS, what)
        yield


@contextmanager
def shared(path: str, what: str) -> Iterator[None]:
    """Hold a shared lock on the file ``path`` inside ``with``. Other processes can hold shared locks on the file at the
    same time. Waits until no process holds an exclusive lock on the file. For ``what`` and errors, see
    :func:`exclusive`.
    """
    with _opened(path) as descriptor:
        if not _acquired(descriptor, fcntl.LOCK_SH, LOCKED_OUT_SECONDS):
            raise locked_out(path, LOCKED_OUT_SECONDS, what)
        yield


@contextmanager
def try_exclusive(path: str, seconds: float) -> Iterator[bool]:
    """Try for ``seconds`` to get an exclusive lock on the file ``path``. Yields True if the lock is held inside
    ``with``, and False if this process didn't get the lock.
    """
    with _opened(path) as descriptor:
        yield _acquired(descriptor, fcntl.LOCK_EX, seconds)


def locked_out(path: str, seconds: float, what: str) -> LogError:
    """The error if other processes have held a lock for ``seconds``. For ``what``, see :func:`exclusive`."""
    return LogError(
        f"{what}: other processes have held the lock {path} for {seconds:.0f} s",
        f"find them with `fuser {path}`: if one is frozen, let it go on, or end it; if it creates or expands a stream "
        "with thousands of partitions, wait; then try again",
    )


def _acquired(descriptor: int, kind: int, seconds: float) -> bool:
    """Try for ``seconds`` to get a lock of the given kind. Returns whether this process has the lock. The last attempt
    always comes after ``seconds`` have passed, even if this process was suspended during that time.
    """
    until = time.monotonic() + seconds
    while True:
        last = time.monotonic() >= until
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if last:
                return False
            time.sleep(_POLL)
        else:
            return True


@contextmanager
def _opened(path: str) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _write_beside(path: str, content: bytes) -> str:
    """Write a durable file with a unique name next to ``path``, and return its path. Readers ignore this file,
    because its name begins with a dot."""
    temporary = os.path.join(os.path.dirname(path), f".{uuid.uuid4().hex}{_TEMPORARY}")
    with _removed_if_failed(temporary), open(temporary, "xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    return temporary


@contextmanager
def _removed_if_failed(temporary: str) -> Iterator[None]:
    try:
        yield
    except OSError:
        with suppress(OSError):
            os.unlink(temporary)
        raise
