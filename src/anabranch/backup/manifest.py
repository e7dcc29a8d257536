"""The manifest of a backup: what the backup contains, with the checksums of all files. The manifest is written last
and read first."""

from __future__ import annotations

import fcntl
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from anabranch import own_files
from anabranch.backup import parallel
from anabranch.container.checkpoint import leftovers
from anabranch.container.checkpoint.filesystem import Tree
from anabranch.errors import ConflictError, DamagedError, NotFoundError
from anabranch.model.document import Document, decode, encode
from anabranch.systems.archive import StreamCut

__all__ = [
    "LANES",
    "STORE",
    "Attempts",
    "FileSum",
    "LaneFolder",
    "Manifest",
    "StreamFiles",
    "alone",
    "check_begun",
    "check_lanes",
    "finish",
    "of_files",
    "place_of",
    "read",
    "verify",
]

_NAME = "backup.json"
_UNFINISHED = "unfinished.json"
"""The name of a file that exists from the first step until the backup is complete."""
_LOCK = "unfinished.lock"
"""The name of the file that a process locks while it makes a backup on a local disk."""
LANES = "lanes"
STORE = "store.db"


class FileSum(Document, frozen=True, kw_only=True):
    """The size in bytes and the checksum of a file."""

    size: int
    sha256: str


class LaneFolder(Document, frozen=True, kw_only=True):
    """The folder of a lane in a backup."""

    lane: str
    epoch: int
    """The epoch under which the folder was made."""
    planned: int
    """The last planned batch in the folder."""
    is_open: bool
    """Whether the lane continues from this folder."""


class StreamFiles(Document, frozen=True, kw_only=True):
    """A stream that is part of the backup, and where it was cut."""

    system: str
    stream: str
    cut: StreamCut


class Manifest(Document, frozen=True, kw_only=True):
    """The contents of a backup."""

    id: str
    """A random id of the backup."""
    job: str
    made_at: float
    """Seconds since 1970."""
    anabranch: str
    """The version of anabranch that made the backup."""
    lanes: tuple[LaneFolder, ...]
    streams: tuple[StreamFiles, ...]
    elsewhere: tuple[str, ...]
    """The job's inputs and outputs that aren't part of the backup."""
    files: dict[str, FileSum]
    """All files of the backup, by name."""


class _Unfinished(Document, frozen=True, kw_only=True):
    job: str
    at: float
    id: str = ""
    """The random id that the backup will have; '' if an older anabranch wrote the file."""


def place_of(system: str) -> str:
    """The folder in a backup that contains the streams of a system."""
    return f"streams/{system}"


@contextmanager
def alone(tree: Tree) -> Iterator[Attempts]:
    """Inside ``with``, no other process can make a backup in this folder. If the folder isn't on a local disk, or if
    its file system doesn't support locks, this isn't guaranteed, and only :func:`check_begun` detects another process.

    Raises:
        ConflictError: another process is making a backup in this folder; or the folder contains a complete backup, or
            files that don't belong to a backup.
        OSError: the folder can't be created.
    """
    _check_place(tree)
    if tree.local is None:
        yield Attempts(tree)
        return
    own_files.make_folder(tree.local)
    own_files.make_file(tree.local / _LOCK)
    descriptor = os.open(tree.local / _LOCK, os.O_RDWR | os.O_CLOEXEC)
    try:
        _lock(descriptor, tree.local)
        yield Attempts(tree)
    finally:
        os.close(descriptor)


def _lock(descriptor: int, folder: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise ConflictError(
            f"another process is making a backup in {folder}",
            "wait until it has ended, or name another place; nothing was changed",
        ) from error
    except OSError:
        return  # the file system has no locks


class Attempts:
    """The attempts of one process to make a backup in a folder."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._id = ""

    def begin(self, job: str, at: float) -> str:
        """Begin an attempt: mark the folder as the place of an unfinished backup, and remove what an earlier attempt,
        or an interrupted backup, has left there. Returns the random id that the backup's manifest must have.

        Args:
            at: the time of the backup, in seconds since 1970.

        Raises:
            ConflictError: the folder contains a complete backup, or files that don't belong to a backup; or another
                process has begun a backup there since this process's previous attempt.
        """
        _check_place(self._tree)
        if self._id:
            check_begun(self._tree, self._id)
        self._id = uuid.uuid4().hex
        self._tree.write(_UNFINISHED, encode(_Unfinished(job=job, at=at, id=self._id)).decode())
        for name in (LANES, "streams", STORE):
            self._tree.clear(name)
        return self._id


def _check_place(tree: Tree) -> None:
    if tree.has(_NAME):
        raise ConflictError(
            f"{tree.path.toString()} holds a backup already",
            "name another place for this one, such as a folder with today's date: a backup is never overwritten",
        )
    others = [name for name in tree.files("") if name != _LOCK and not leftovers.is_temporary(name)]
    if others and not tree.has(_UNFINISHED):
        raise ConflictError(
            f"{tree.path.toString()} isn't empty, and holds no backup that was interrupted",
            "name a place that is empty or isn't there yet; nothing was changed",
        )


def check_begun(tree: Tree, id: str) -> None:
    """Check that the unfinished backup in a folder is still the one with this ``id``. Otherwise, another process has
    removed the files of this backup and begun another backup in the folder, and ConflictError is raised.
    """
    if not tree.has(_UNFINISHED) or decode(tree.read_bytes(_UNFINISHED), _Unfinished).id != id:
        raise _disturbed(tree)


def finish(tree: Tree, manifest: Manifest) -> None:
    """Mark the backup as complete. Raises what :func:`check_begun` raises."""
    check_begun(tree, manifest.id)
    tree.write(_NAME, encode(manifest).decode(), new=True)
    tree.remove(_UNFINISHED)
    if tree.local is not None:
        tree.remove(_LOCK)


def check_lanes(tree: Tree, lanes: Sequence[LaneFolder], files: Mapping[str, FileSum]) -> None:
    """Check that ``files`` contain the last planned batch of each lane's folder. If that batch's file is missing,
    another process must have removed it, and ConflictError is raised."""
    for lane in lanes:
        if lane.planned >= 0 and f"{LANES}/{lane.lane}/{lane.epoch}/offsets/{lane.planned}" not in files:
            raise _disturbed(tree)


def _disturbed(tree: Tree) -> ConflictError:
    return ConflictError(
        f"another process has changed the backup in {tree.path.toString()} while it was being made",
        "back up the job again, to another place: each backup needs a folder of its own",
    )


def read(tree: Tree) -> Manifest:
    """The manifest of a complete backup.

    Raises:
        NotFoundError: there is no backup, or the backup was interrupted.
        UnsupportedFormatError: the manifest was written by a newer anabranch, or is damaged.
    """
    where = tree.path.toString()
    if tree.has(_NAME):
        return decode(tree.read_bytes(_NAME), Manifest)
    if tree.has(_UNFINISHED):
        unfinished = decode(tree.read_bytes(_UNFINISHED), _Unfinished)
        raise NotFoundError(
            f"the backup of job {unfinished.job!r} at {where} was interrupted and is incomplete",
            f"run it again: anabranch backup {unfinished.job} {where}; or restore an older one",
        )
    raise NotFoundError(f"there is no backup at {where}", "name the place that was given to `anabranch backup`")


def of_files(tree: Tree) -> dict[str, FileSum]:
    """Make all files of an unfinished backup durable, and return their sizes and checksums."""
    files = {name: file.size for name, file in tree.files("").items() if name not in (_NAME, _UNFINISHED, _LOCK)}
    files = {name: size for name, size in files.items() if not _is_checksum_of(name, files, (_NAME, _UNFINISHED))}
    sums = parallel.mapped(lambda name: tree.sha256(name, durable=True), files)
    return {name: FileSum(size=size, sha256=each) for (name, size), each in zip(files.items(), sums, strict=True)}


def verify(tree: Tree, manifest: Manifest) -> None:
    """Check that all files of a backup are as they were written.

    Raises:
        DamagedError: a file is missing or differs.
    """
    there = tree.files("")
    gone = [name for name in manifest.files if name not in there]
    cut = [name for name, file in manifest.files.items() if name in there and there[name].size != file.size]
    if gone or cut:
        raise _damaged(tree, (gone + cut)[0], "is missing" if gone else "has another size than when it was written")
    for name, sha256 in zip(manifest.files, parallel.mapped(tree.sha256, manifest.files), strict=True):
        if sha256 != manifest.files[name].sha256:
            raise _damaged(tree, name, "isn't what was written: its SHA-256 is another one")


def _is_checksum_of(name: str, files: Iterable[str], of: Iterable[str]) -> bool:
    """Whether ``name``, a file in the backup's top folder, is Hadoop's checksum file for one of the files in ``of``."""
    return name in {f".{each}.crc" for each in of} and "/" not in name


def _damaged(tree: Tree, name: str, problem: str) -> DamagedError:
    return DamagedError(
        f"{tree.path.toString()}/{name} {problem}",
        "restore that file of the backup, or take another backup; nothing was changed",
    )
