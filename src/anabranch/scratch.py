"""Temporary files of this process and its JVM, in one folder. What a killed process has left, the next one removes.

A process holds a lock of its folder for as long as it lives. The system gives the lock back however the process ends,
so that it is known for certain whose folders are nobody's. It is a lock of the folder itself: systemd-tmpfiles, which
removes what is old from /tmp, leaves alone what is in a locked folder.
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
"""By process: one that was forked makes a folder of its own."""


def folder(name: str) -> Path:
    """A new folder for temporary files, whose name begins so. It is removed when this process ends, or after that."""
    with _making:
        process = os.getpid()
        if process not in _mine:
            place = Path(tempfile.gettempdir())
            _mine[process] = _made(place)
            atexit.register(_end, _mine[process], process)
            sweep(place)
        return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=_mine[process]))


def sweep(place: Path) -> list[Path]:
    """Remove the folders there that are of this user, and whose processes have ended; gives them."""
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
    """A folder that this process has the lock of, from when it has a name that others look for."""
    made = Path(tempfile.mkdtemp(prefix="anabranch-new-", dir=place))
    _locked(made)  # until the process ends
    return made.rename(made.with_name(f"{_prefix()}{made.name.removeprefix('anabranch-new-')}"))


def _locked(folder: Path) -> int:
    """Take the lock of a folder. OSError if a process has it, or it isn't this user's."""
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise
    return lock


def _end(made: Path, process: int) -> None:
    if os.getpid() == process:  # not a fork of it
        shutil.rmtree(made, ignore_errors=True)
