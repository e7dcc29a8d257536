"""Syncs a lane's checkpoint to the disk before any part of a batch becomes visible, because Spark itself doesn't sync
the checkpoint's files.

If the checkpoint weren't synced, a power cut could leave the offset log's last entries empty, although outputs already
contain records of the batches that these entries describe.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

from anabranch.config.storage import local_folder

__all__ = ["CheckpointSync"]

_LOGS = ("offsets", "commits")
_BRANCHES = (*_LOGS, "state")
_AT_ONCE = 8
"""How many files are synced at the same time. (A disk takes hardly longer for several files than for one.)"""
_POOL = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="syncs")
_RECENT = 600.0
"""When a query starts, a file isn't synced if it is older than the newest file by more than this number of seconds. The
operating system wrote such a file to the disk long ago. The last files of each log are always synced.
"""


class CheckpointSync:
    """Syncs the checkpoint folder of one query if the folder is on a local disk. Not thread-safe."""

    def __init__(self, uri: str) -> None:
        self._folder = local_folder(uri)
        self._synced: dict[str, set[str]] | None = None

    def sync(self) -> int:
        """Sync all files that were added to the logs and to the state since the last call, and return their number; 0
        if the folder isn't on a local disk. The first call leaves out old files; see :data:`_RECENT`.

        Raises:
            OSError: the files can't be synced.
        """
        if self._folder is None:
            return 0
        before = self._synced or {}
        present = {place: files for branch in _BRANCHES for place, files in _files(str(self._folder / branch))}
        new = {place: files - before.get(place, set()) for place, files in present.items()}
        due = [path for files in new.values() for path in files]
        if self._synced is None:
            due = _recent(due, _last_of_logs(present))
        folders = sorted({os.path.dirname(path) for path in due})
        if due:
            list(_POOL.map(_sync, due))
            list(_POOL.map(_sync, folders))  # after the files, so a name never refers to an incomplete file
        if self._synced is None:
            _sync(str(self._folder))
        self._synced = present
        return len(due)


def _last_of_logs(files: Mapping[str, set[str]]) -> set[str]:
    """For each log, the paths of the last batch's file and of this file's checksum file. ``files`` are the checkpoint's
    files by folder.
    """
    last: set[str] = set()
    for folder, paths in files.items():
        numbers = [int(name) for name in map(os.path.basename, paths) if name.isdecimal()]
        if numbers and os.path.basename(folder) in _LOGS:
            last |= {f"{folder}/{max(numbers)}", f"{folder}/.{max(numbers)}.crc"}
    return last


def _files(folder: str) -> Iterator[tuple[str, set[str]]]:
    """A folder and all folders below it, each with the paths of its files. Temporary files are left out, because they
    may be incomplete.
    """
    try:
        entries = list(os.scandir(folder))
    except FileNotFoundError:
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _files(entry.path)
    yield folder, {entry.path for entry in entries if entry.is_file(follow_symlinks=False) and ".tmp" not in entry.name}


def _recent(paths: list[str], always: set[str]) -> list[str]:
    """The files that were written no more than :data:`_RECENT` seconds before the newest file, and the files in
    ``always``. If the newest file seems to be from the future, because the clock was set back, the present time counts
    instead of the file's.
    """
    times = {path: at for path in paths if (at := _written_at(path)) is not None}
    newest = min(max(times.values(), default=0.0), time.time())
    return [path for path, at in times.items() if at >= newest - _RECENT or path in always]


def _written_at(path: str) -> float | None:
    try:
        return os.stat(path).st_mtime
    except FileNotFoundError:
        return None


def _sync(path: str) -> None:
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return  # Spark has just deleted it
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
