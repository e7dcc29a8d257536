"""Temporary files of this process and its JVM, in one folder. What a killed process has left, the next one removes.

A process holds a lock in its folder for as long as it lives. The system gives the lock back however the process ends,
so that it is known for certain whose folders are nobody's.
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

_LOCK = "lock"

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
        with contextlib.suppress(OSError), (each / _LOCK).open("r+b") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _empty(each)
            removed.append(each)
    if removed:
        log.info("temporary files of processes that were killed were removed", folders=len(removed), place=str(place))
    return removed


def _prefix() -> str:
    return f"anabranch-{os.getuid()}-"


def _made(place: Path) -> Path:
    """A folder that this process has the lock of, from when anybody can take it for one."""
    made = Path(tempfile.mkdtemp(prefix=_prefix(), dir=place))
    lock = os.open(made / f"{_LOCK}.part", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)  # open until the process ends
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    (made / f"{_LOCK}.part").rename(made / _LOCK)
    return made


def _end(made: Path, process: int) -> None:
    if os.getpid() == process:  # not a fork of it
        _empty(made)


def _empty(made: Path) -> None:
    """Remove a folder; the lock goes last, so that what can't be removed now is another time."""
    for each in made.iterdir():
        if each.name == _LOCK:
            continue
        if each.is_dir() and not each.is_symlink():
            shutil.rmtree(each, ignore_errors=True)
        else:
            each.unlink(missing_ok=True)
    if [each.name for each in made.iterdir()] == [_LOCK]:
        (made / _LOCK).unlink()
        with contextlib.suppress(OSError):  # a JVM that is just ending has made something there
            made.rmdir()
