"""Creates folders and files that only their owner can read, because they contain jobs' data. Also makes folders and
files durable (:func:`sync`), and lists the files below a folder (:func:`below`).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

__all__ = ["below", "copy", "is_shared", "make_file", "make_folder", "sync"]

_OTHERS = 0o077


def make_folder(folder: Path) -> None:
    """Create a folder and its missing parents, accessible only by this user. Existing folders keep their modes, which
    the user may have chosen. Raises OSError if a folder can't be created.
    """
    try:
        folder.mkdir(0o700, exist_ok=True)
    except FileNotFoundError:
        make_folder(folder.parent)
        folder.mkdir(0o700, exist_ok=True)


def make_file(path: Path) -> None:
    """Create an empty file that only this user can access, unless the file exists. Raises OSError if the file can't be
    created.
    """
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))


def copy(source: Path, target: Path) -> None:
    """Copy a file's content to a new file. If copying fails, the new file is removed. Raises OSError if copying fails,
    or if the target exists.
    """
    with source.open("rb") as of:
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as to:
                shutil.copyfileobj(of, to, 1 << 20)
        except OSError:
            target.unlink(missing_ok=True)
            raise


def below(folder: Path) -> Iterator[str]:
    """The paths of all files below a folder; none if the folder doesn't exist. A folder that disappears meanwhile is
    left out. Raises OSError if a folder can't be listed; by default, ``os.walk`` treats such a folder as empty.
    """
    for place, _, names in os.walk(folder, onerror=_unless_gone):
        yield from (os.path.join(place, name) for name in names)


def is_shared(folder: Path) -> bool:
    """Whether a folder's mode lets users other than the owner access the folder. False if the mode can't be read."""
    try:
        return bool(folder.stat().st_mode & _OTHERS)
    except OSError:
        return False


def _unless_gone(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


def sync(path: Path | str) -> None:
    """Make the content of a file, or the names in a folder, durable. Raises OSError on failure."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
