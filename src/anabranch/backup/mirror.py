"""Maintains a copy of a folder to which a lane may be writing. After a refresh, the copy is at least as new as the
folder was when the refresh began.
"""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.backup import parallel
from anabranch.container.checkpoint import leftovers
from anabranch.container.checkpoint.filesystem import File, Tree

__all__ = ["Mirror", "copy_all"]


class Mirror:
    """Keeps a copy of some files and folders up to date. Each :meth:`refresh` copies the files that are new, or whose
    size or modification time (by the source's clock) has changed, and removes files that are gone from the source.

    Args:
        names: the files and folders, relative to ``source`` and ``target``, in the order in which they are copied. If a
            file refers to other files, the file must come before these other files. As a result, after a refresh, the
            copy contains every file to which one of its files refers.
    """

    def __init__(self, source: Tree, target: Tree, names: Sequence[str]) -> None:
        self._source = source
        self._target = target
        self._names = names
        self._has: dict[str, File] = {}
        self._is_one_storage = (source.local is None) == (target.local is None)

    def refresh(self) -> None:
        for name in self._names:
            there = {each: file for each, file in self._source.files(name).items() if self._belongs(each)}
            due = [each for each, file in there.items() if self._has.get(each) != file]
            copy_all(self._source, self._target, due, lives=True)
            for each in [has for has in self._has if has not in there and _is_below(has, name)]:
                self._target.remove(each)
                del self._has[each]
            self._has |= {each: there[each] for each in due}

    def _belongs(self, name: str) -> bool:
        """Whether a file must be copied. Temporary files aren't copied. Hadoop's checksum files aren't copied between a
        local disk and other storage, because Hadoop makes new ones whenever it copies to a local disk.
        """
        file = name.rpartition("/")[2]
        is_checksum = file.startswith(".") and file.endswith(".crc")
        return not leftovers.is_temporary(name) and (self._is_one_storage or not is_checksum)


def copy_all(source: Tree, target: Tree, names: Sequence[str], *, lives: bool = False) -> None:
    """Copy files to the same names in another tree; see :meth:`Tree.copy`."""
    parallel.mapped(lambda name: source.copy(name, target, lives=lives), names)


def _is_below(name: str, folder: str) -> bool:
    return name == folder or name.startswith(f"{folder}/")
