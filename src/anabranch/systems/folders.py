"""Checks whether this process can use a folder."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from anabranch import own_files
from anabranch.errors import AnabranchError

__all__ = ["can_be_written", "writable"]


def writable(folder: Path, what: str) -> None:
    """Create the folder if it doesn't exist, and check that it can be written to. Raises AnabranchError if it can't.
    ``what`` is the folder's kind, for the message.
    """
    with _explained(folder, what):
        own_files.make_folder(folder)
        _probe(folder)


def can_be_written(folder: Path, what: str) -> None:
    """Check that a folder can be written to, as :func:`writable` does, but don't create it. If it doesn't exist, check
    the nearest parent that exists.
    """
    with _explained(folder, what):
        _probe(next(each for each in (folder, *folder.parents) if os.path.lexists(each)))


def _probe(folder: Path) -> None:
    """Create a file in a folder, and remove it. The file has no name or a unique name, because other processes may
    check the folder at the same time.
    """
    tempfile.TemporaryFile(dir=folder).close()


@contextmanager
def _explained(folder: Path, what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise AnabranchError(
            f"the {what} {folder} can't be written: {error.strerror or error}",
            "choose another folder in anabranch.toml, or change its owner or mode",
        ) from error
