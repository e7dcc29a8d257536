"""Folders and files that only their owner can read: whoever reads a store, a lane's folder or a stream has the data."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["is_shared", "make_file", "make_folder"]

_OTHERS = 0o077


def make_folder(folder: Path) -> None:
    """Make a folder and its parents, where they aren't there. Those that are there keep their modes, which may have
    been chosen. OSError if it can't be made."""
    try:
        folder.mkdir(0o700, exist_ok=True)
    except FileNotFoundError:
        make_folder(folder.parent)
        folder.mkdir(0o700, exist_ok=True)


def make_file(path: Path) -> None:
    """Make an empty file, if there is none. OSError if it can't be made."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))


def is_shared(folder: Path) -> bool:
    """Whether others than its owner may look into a folder."""
    try:
        return bool(folder.stat().st_mode & _OTHERS)
    except OSError:
        return False
