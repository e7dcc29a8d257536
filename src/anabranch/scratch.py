"""Temporary files of this process and its JVM, in one folder. When a process creates such a folder, it also removes the
folders that killed processes of the same user have left behind.

A process locks its folder. When the process and its forks have ended, in whatever way, the operating system releases
the lock, so an unlocked folder belongs to no running process. The lock is on the folder itself, rather than on a
file in it, because only then does systemd-tmpfiles keep old files in the folder.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import shutil
import tempfile
import threading
from pathlib import Path

from anabranch import logs

__all__ = ["folder", "sweep"]

log = logs.get_logger()
_making = threading.Lock()
_mine: dict[int, Path] = {}
"""The folder of each process, by process id. (A forked process gets a copy of this dict, but needs a folder of its
own.)"""


def folder(name: str) -> Path:
    """Make a folder for temporary files, and return the folder's path. The folder's name begins with ``name``. This
    process removes the folder when the process ends. If the process is killed, a later process removes the folder."""
    with _making:
        process = os.getpid()
        if process not in _mine:
            place = Path(tempfile.gettempdir())
            _mine[process] = _made(place)
            atexit.register(_end, _mine[process], process)
            sweep(place)
        return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=_mine[process]))


def sweep(place: Path) -> list[Path]:
    """Remove the folders in ``place`` that this user's processes have left behind, and return the removed folders."""
    removed = []
    for each in place.glob(f"{_prefix()}*"):
        with contextlib.suppress(OSError):
            lock = _locked(each)
            try:
                shutil.rmtree(each)
                removed.append(each)
            finally:
                os.close(lock)
    if removed:
        log.info("temporary files of processes that were killed were removed", folders=len(removed), place=str(place))
    return removed


def _prefix() -> str:
    return f"anabranch-{os.getuid()}-"


def _made(place: Path) -> Path:
    """Create a folder, lock it, and only then give it a name that :func:`sweep` looks for."""
    made = Path(tempfile.mkdtemp(prefix="anabranch-new-", dir=place))
    with contextlib.ExitStack() as undo:
        undo.callback(made.rmdir)
        undo.callback(os.close, _locked(made))  # if all goes well, it stays locked until the process ends
        named = made.rename(made.with_name(f"{_prefix()}{made.name.removeprefix('anabranch-new-')}"))
        undo.pop_all()
    return named


def _locked(folder: Path) -> int:
    """Lock a folder, and return the file descriptor that holds the lock. Raises OSError if this fails, for example
    because the folder is locked already, or belongs to another user."""
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise
    return lock


def _end(made: Path, process: int) -> None:
    if os.getpid() == process:  # not a fork of that process
        shutil.rmtree(made, ignore_errors=True)
