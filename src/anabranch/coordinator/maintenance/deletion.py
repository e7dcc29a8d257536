"""Deletes folders of lanes on a local disk."""

from __future__ import annotations

import os
from pathlib import Path

from anabranch.errors import AnabranchError

__all__ = ["delete"]


def delete(folder: Path, so_far: str, cure: str, *, levels: int = 0) -> None:
    """Delete a folder, if it exists. If ``folder`` is a link, for example to another disk, empty the folder to which
    the link leads, and remove the link.

    Args:
        so_far: the beginning of the error's message, which says what has already been done.
        cure: the command that the error's message suggests, to be run once the cause is gone.
        levels: the number of levels below ``folder`` on which links to other folders are followed. If a link is
            followed, the folder to which it leads is emptied, too. Links on deeper levels are only removed.

    Raises:
        AnabranchError: something can't be deleted. Part of the contents may already have been deleted.
    """
    try:
        if folder.is_dir():
            _empty(folder, levels)
        _remove(folder)
    except OSError as error:
        raise AnabranchError(
            f"{so_far}{error.filename or folder} can't be deleted: {error.strerror or error}",
            f"see that this user can delete it, or delete it yourself; then run {cure}",
        ) from error


def _empty(folder: Path, levels: int) -> None:
    for each in [*os.scandir(folder)]:
        path = Path(each.path)
        if each.is_dir(follow_symlinks=levels > 0):
            _empty(path, levels - 1)
        _remove(path)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    else:
        path.unlink(missing_ok=True)
