"""Folders and files that only their owner can read: anyone who can read a store, a lane's folder or a stream has the
data.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

__all__ = ["copy", "is_shared", "make_file", "make_folder"]

_OTHERS = 0o077


def make_folder(folder: Path) -> None:
    """Create a folder and its parents where they don't exist. Existing folders keep their modes, which may have been
    chosen. Raises OSError if it can't be created.
    """
    try:
        folder.mkdir(0o700, exist_ok=True)
    except FileNotFoundError:
        make_folder(folder.parent)
        folder.mkdir(0o700, exist_ok=True)


def make_file(path: Path) -> None:
    """Create an empty file, if it doesn't exist. Raises OSError if it can't be created."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))


def copy(source: Path, target: Path) -> None:
    """Copy a file's content to a file that doesn't exist. Raises OSError if that fails, and then leaves nothing."""
    with source.open("rb") as of, os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as to:
        try:
            shutil.copyfileobj(of, to, 1 << 20)
        except OSError:
            target.unlink(missing_ok=True)
            raise


def is_shared(folder: Path) -> bool:
    """Whether users other than its owner may read a folder."""
    try:
        return bool(folder.stat().st_mode & _OTHERS)
    except OSError:
        return False
