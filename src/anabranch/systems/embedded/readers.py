"""The readers of a stream: the jobs that have a file in the stream's ``readers`` folder. A job's file contains the
positions from which the job still has to read.

A process that applies the stream's retention reads these files while it holds a partition's lock exclusively. To
register, a job makes its file durable, and then takes and releases each partition's lock once. After that, all
deletions that began without reading the file have finished. Purges of intermediate streams and deletions with
``past_readers`` don't read the files.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import msgspec

from anabranch.errors import LogError
from anabranch.model.naming import check_name
from anabranch.systems.embedded import disk, layout, partition
from anabranch.systems.readers import Reader

__all__ = ["StreamReaders", "changed_at", "limit"]

_FILE_NAME = re.compile(r"[^.].*\.json")
_LET_READ = "let the user of this process read that folder"
_LET_WRITE = (
    "let the job's user write to that folder, and make room on its disk: without this, a retention could delete "
    "records that the job must still read"
)
_LET_FORGET = "run the command as a user who may write there: until then, the stream keeps records for the job"


class _ReaderFile(msgspec.Struct, frozen=True, kw_only=True):
    version: int = layout.FORMAT_VERSION
    job: str
    revision: str
    positions: dict[int, int] = {}


_DECODER = msgspec.json.Decoder(_ReaderFile)


class StreamReaders:
    """The readers of one stream. Any number of processes can access them at once. ``partitions`` returns the stream's
    partition count; only :meth:`hold` and :meth:`hold_all` call it."""

    def __init__(self, root: str, stream: str, partitions: Callable[[], int]) -> None:
        self._root = root
        self._stream = stream
        self._partitions = partitions
        self._folder = layout.readers_folder(root, stream)

    def all(self) -> dict[str, Reader]:
        """The readers by job. If a file is damaged, raises LogError. If a file has another format version, raises
        UnsupportedFormatError. The error names the file."""
        return _read(self._folder)

    def of(self, job: str) -> Reader | None:
        """The job as a reader; None if the job isn't a reader. Only the job's own file is read. If the file can't be
        read, raises LogError. If the file is damaged or has another format version, raises the same errors as
        :meth:`all`.
        """
        with self._failing(f"whether {job} is a reader of {self._stream} can't be seen", _LET_READ):
            return _decoded(_path(self._folder, job))

    def hold_all(self, job: str) -> None:
        """See :meth:`anabranch.systems.readers.Readers.hold_all`."""
        self._hold(job, lambda _: {})

    def hold(self, job: str, positions: Mapping[int, int]) -> None:
        """See :meth:`anabranch.systems.readers.Readers.hold`."""
        self._hold(job, lambda known: _lowered(known, positions))

    def _hold(self, job: str, lower: Callable[[Reader | None], Mapping[int, int] | None]) -> None:
        """Store the job's new positions, and wait until all deletions that may still use the old positions have ended.

        ``lower`` gets the job's reader, if any, and returns the new positions, or None to keep the old positions. If
        the job's file is damaged, a new file replaces it, with the position 0 in all partitions. The damaged file isn't
        deleted first, because a job without a file isn't a reader.
        """
        partitions = self._partitions()
        what = f"{job} can't be registered as a reader of {self._stream}"
        with self._failing(what, _LET_WRITE):
            with disk.exclusive(self._lock, what):
                os.makedirs(self._folder, exist_ok=True)
                try:
                    positions = lower(_decoded(_path(self._folder, job)))
                except LogError:
                    positions = {}
                if positions is not None:
                    self._write(job, uuid.uuid4().hex, positions)
                # The process that wrote the file may have been killed before it made these names durable.
                disk.sync_folder(self._folder)
                disk.sync_folder(os.path.dirname(self._folder))
            for number in range(partitions):
                lock = partition.lock_path(layout.manifest_folder(self._root, self._stream, number))
                with disk.shared(lock, what):
                    pass

    def advance(self, job: str, positions: Mapping[int, int], revision: str) -> bool:
        """See :meth:`anabranch.systems.readers.Readers.advance`."""
        what = f"what {job} has read of {self._stream} can't be stored"
        with self._failing(what, _LET_WRITE), disk.exclusive(self._lock, what):
            known = _decoded(_path(self._folder, job))
            if known is None or known.revision != revision:
                return False
            higher = {**known.positions}
            for number, offset in positions.items():
                higher[number] = max(offset, known.position(number))
            if higher != known.positions:
                self._write(job, revision, higher)
        return True

    def forget(self, job: str, revision: str | None = None) -> bool:
        """See :meth:`anabranch.systems.readers.Readers.forget`. If the job isn't a reader, this method takes no lock
        and writes nothing."""
        path, what = _path(self._folder, job), f"{job} can't be removed from the readers of {self._stream}"
        with self._failing(what, _LET_FORGET):
            try:
                os.stat(path)
                with disk.exclusive(self._lock, what):
                    known = None if revision is None else _decoded(path)
                    if revision is not None and (known is None or known.revision != revision):
                        return False
                    os.unlink(path)
                    disk.sync_folder(self._folder)
            except FileNotFoundError:
                return False
        return True

    @contextmanager
    def _failing(self, what: str, cure: str) -> Iterator[None]:
        """Turns disk errors inside ``with`` into LogErrors."""
        try:
            yield
        except OSError as error:
            raise LogError(f"{what} in {self._folder}: {error.strerror}", cure) from error

    @property
    def _lock(self) -> str:
        return f"{self._root}/{self._stream}/.lock"

    def _write(self, job: str, revision: str, positions: Mapping[int, int]) -> None:
        file = _ReaderFile(job=job, revision=revision, positions=dict(sorted(positions.items())))
        disk.replace(_path(self._folder, job), msgspec.json.encode(file) + b"\n")


def limit(folder: str, number: int) -> int | None:
    """The lowest offset that any job still has to read in a partition; None if no job reads the stream."""
    return min((reader.position(number) for reader in _read(folder).values()), default=None)


def changed_at(folder: str, job: str) -> float:
    """When a job's positions were last stored, in seconds since 1970."""
    return os.stat(_path(folder, job)).st_mtime


def _read(folder: str) -> dict[str, Reader]:
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return {}
    read = (_decoded(f"{folder}/{name}") for name in names if _FILE_NAME.fullmatch(name) is not None)
    return {reader.job: reader for reader in read if reader is not None}  # None: the job was reset meanwhile


def _decoded(path: str) -> Reader | None:
    """The reader in a file; None if there is no file. Raises what :meth:`StreamReaders.all` raises."""
    try:
        with open(path, "rb") as file:
            raw = file.read()
    except FileNotFoundError:
        return None
    try:
        found = layout.decode(raw, _DECODER, path)
    except LogError as error:
        job = os.path.basename(path).removesuffix(".json")
        stream = os.path.basename(os.path.dirname(os.path.dirname(path)))
        raise LogError(
            error.what,
            f"stop and start job {job}, which writes the file again; or, if that job no longer exists: "
            f"anabranch stream retain {stream} --forget-reader {job}",
        ) from error
    return Reader(job=found.job, revision=found.revision, positions=found.positions)


def _lowered(known: Reader | None, positions: Mapping[int, int]) -> dict[int, int] | None:
    """The new positions of the reader ``known``. If ``positions`` has a lower position for a partition, the result has
    this lower position. If no position changes, the result is None. If ``known`` is None, there is no reader yet, and
    the result is ``positions``.
    """
    if known is None:
        return dict(positions)
    lower = {
        number: min(offset, known.positions[number]) for number, offset in positions.items() if known.position(number)
    }
    return None if lower.items() <= known.positions.items() else {**known.positions, **lower}


def _path(folder: str, job: str) -> str:
    return f"{folder}/{check_name('job', job)}.json"
