"""Checks whether this process can use a folder."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from anabranch import own_files
from anabranch.errors import AnabranchError

__all__ = ["can_be_written", "writable"]


def writable(folder: Path, what: str) -> None:
    """Create the folder if necessary, and check that it can be written; otherwise raise AnabranchError. ``what`` is the
    folder's kind, for the message.
    """
    try:
        own_files.make_folder(folder)
        probe = folder / ".anabranch-writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise AnabranchError(
            f"the {what} {folder} can't be written: {error.strerror or error}",
            "choose another folder in anabranch.toml, or change its owner or mode",
        ) from error


def can_be_written(folder: Path, what: str) -> None:
    """Check as :func:`writable` does, but then remove the folders that the check has created."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    writable(folder, what)
    for each in missing:
        with suppress(OSError):  # another process may use it by now
            each.rmdir()
