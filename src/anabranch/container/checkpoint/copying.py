"""Copies checkpoint folders: for the successor of a lane, and as standbys."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from anabranch import crash_points, logs, own_files
from anabranch.container.checkpoint import edits, filesystem
from anabranch.container.checkpoint.edits import NewStream
from anabranch.container.checkpoint.filesystem import File
from anabranch.container.checkpoint.folder import BROKEN, METADATA, OUTPUTS, PROGRESS, STARTING, STREAMS, Folder
from anabranch.errors import ConflictError
from anabranch.spark.internals import checkpoint_layout

__all__ = ["ORDER", "WHOLE", "bare", "clone", "note_used", "refresh", "relocate", "standby", "standbys"]

_STATE = "state"
_STANDBY = "standby"
# Commits are copied before offsets, so a copy that is made while a lane is running never has a commit without offsets.
ORDER = ("commits", "offsets", METADATA, "sources", _STATE, STREAMS, STARTING, OUTPUTS)
WHOLE = (*ORDER, PROGRESS, BROKEN)
"""Everything in a folder that the lane or its successors need, in the order in which it must be copied."""

log = logs.get_logger()

_unused: set[str] = set()
"""The copies that this process has locked and started to make, and that no lane uses yet."""


def clone(
    folder: Folder,
    target: str,
    keeping: Mapping[str, Iterable[int]] | None = None,
    adding: Mapping[str, Mapping[int, int]] | None = None,
    new: Iterable[NewStream] = (),
    again: bool = False,
) -> Folder:
    """Copy a folder. The copy gets a new query id, and is locked for this process.

    If the folder has a usable standby, the standby becomes the copy, and only files that are missing or outdated there
    are copied.

    Args:
        target: the URI of the copy.
        keeping: the partitions of each stream that the copy keeps; None for all.
        adding: partitions that weren't read before: for each stream, their start offsets by partition.
        new: streams that weren't read before.
        again: whether to replace a copy that this process has made before and that no lane uses; see :func:`note_used`.

    Raises:
        ConflictError: the target exists and isn't to be replaced, or another process is making the same copy.
    """
    with _copied(folder, target, ORDER, standbys(folder), again=again) as copy:
        if keeping is not None:
            edits.keep(copy, keeping)
        for stream in new:
            edits.add_stream(copy, stream)
        edits.widen(copy, adding or {})
    return copy


def note_used(copy: Folder) -> None:
    """Record that a lane uses a copy. From then on, the copy is never replaced."""
    _unused.discard(copy.uri)


def bare(folder: Folder, target: str) -> Folder:
    """Copy a folder without its state: only the schemas of the state are copied. Unlike :func:`clone`, this also copies
    the event time with which the lane ended."""
    names = [name for name in (*ORDER, PROGRESS) if name != _STATE]
    with _copied(folder, target, [*names, *_schemas(folder)]) as copy:
        return copy


def standby(folder: Folder, number: int) -> Folder:
    """The folder of the standby with this number: a copy next to the lane's folder, kept up to date while the lane
    runs. Standbys only save time, so the copy may be out of date, incomplete or missing.
    """
    return folder.other(f"{_beside(folder)}{number}")


def standbys(folder: Folder) -> list[Folder]:
    """The existing standbys, sorted by their last committed batches, the latest first."""
    lane, _, prefix = _beside(folder).rpartition("/")
    numbers = [name.rpartition("-")[2] for name in folder.tree.other(lane).matching(f"{prefix}*")]
    there = [standby(folder, int(number)) for number in numbers if number.isdecimal()]
    return sorted(there, key=lambda each: -each.committed()) if len(there) > 1 else there


def _beside(folder: Folder) -> str:
    """The prefix of the names of a folder's standbys."""
    lane, _, epoch = folder.uri.rpartition("/")
    return f"{lane}/{_STANDBY}-{epoch}-"


def refresh(folder: Folder, standby: Folder) -> int:
    """Bring a standby up to date, even while the folder's lane runs. Returns the last committed batch in the standby;
    -1 if the standby has no committed batch.
    """
    filesystem.update(folder.tree, standby.tree, ORDER, lives=True)
    return standby.committed()


@contextmanager
def _copied(
    folder: Folder, target: str, names: Iterable[str], standbys: Iterable[Folder] = (), *, again: bool = False
) -> Iterator[Folder]:
    copy = folder.other(target)
    if copy.tree.local is not None:
        copy.tree.local.parent.mkdir(parents=True, exist_ok=True)
    copy.lock()  # perhaps another process is making the same copy
    if copy.exists():
        if not (again and copy.uri in _unused):
            raise ConflictError(f"{target} exists already", "a lane's folder is made once; choose a higher epoch")
        copy.remove()
    _unused.add(copy.uri)
    begun, names = time.monotonic(), [*names]
    moved = next((files for standby in standbys if (files := _becomes(standby, copy)) is not None), None)
    warm = moved is not None
    copy.make()
    try:
        copied = _fill(folder, copy, names, moved)
        seconds = round(time.monotonic() - begun, 2)
        log.info("a folder was copied", folder=folder.uri, to=target, files=copied, seconds=seconds, warm=warm)
        relocate(copy)
        copy.note_id()
        if copy.tree.local is not None:  # its name, and its lane's, are durable before the store refers to them
            for parent in copy.tree.local.parents[:2]:
                own_files.sync(parent)
        yield copy
    except Exception:
        copy.check_owner()
        copy.remove()  # the next attempt copies everything again
        raise


def _becomes(folder: Folder, copy: Folder) -> dict[str, File] | None:
    """Move a standby to the copy's path. Returns the standby's files as they were before the move; None if the standby
    can't be moved."""
    try:
        files = folder.tree.files("")
        return files if folder.tree.move(copy.tree) else None
    except Exception as error:
        log.warning("a standby can't be used", folder=folder.uri, error=str(error))
        copy.remove()
        return None


def _fill(folder: Folder, copy: Folder, names: Sequence[str], moved: Mapping[str, File] | None) -> int:
    """Copy the files that the copy lacks, and return their number. If a standby has become the copy, ``moved`` contains
    the files of this standby. Otherwise, ``moved`` is None."""
    try:
        if moved is not None:
            crash_points.reach(crash_points.ADOPTED, folder.tree.path.getParent().getName(), folder.committed())
        return filesystem.update(folder.tree, copy.tree, names, lives=False, known=moved)
    except Exception as error:
        if moved is None:
            raise
        log.warning("a standby can't be used, and the whole folder is copied", folder=folder.uri, error=str(error))
        copy.remove()
        copy.make()
        return _fill(folder, copy, names, None)


def _schemas(folder: Folder) -> list[str]:
    found = (folder.tree.matching(f"{_STATE}/{each}") for each in checkpoint_layout.SCHEMAS)
    return [*itertools.chain.from_iterable(found)]


def relocate(folder: Folder) -> None:
    """Make Spark's metadata about the state of a ``process`` refer to this folder's schemas. The metadata contains
    absolute paths into the original folder, which will be deleted.
    """
    whole = folder.tree.fs.makeQualified(folder.tree.at(_STATE)).toString()
    for name in folder.tree.matching(f"{_STATE}/{checkpoint_layout.OPERATORS}"):
        folder.tree.write(name, checkpoint_layout.relocated(folder.tree.read(name), whole))
