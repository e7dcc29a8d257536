"""The readers of a stream: the jobs that have registered with a file in the stream's ``readers`` folder. The file
contains the positions from which the job still has to read.

A process that applies the stream's retention reads these files while it holds a partition's lock exclusively. To
register, a job makes its file durable, and then takes and releases each partition's lock once. After that, every
deletion that hasn't seen the file has finished. Purges of intermediate streams and deletions with ``past_readers``
don't read the files.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Callable, Mapping

import msgspec

from anabranch.errors import LogError
from anabranch.systems.embedded import disk, layout, partition
from anabranch.systems.readers import Reader

__all__ = ["StreamReaders", "changed_at", "limit"]

_FILE_NAME = re.compile(r"([^.].*)\.json")


class _ReaderFile(msgspec.Struct, frozen=True, kw_only=True):
    version: int = layout.FORMAT_VERSION
    job: str
    revision: str
    positions: dict[int, int] = {}


_DECODER = msgspec.json.Decoder(_ReaderFile)


class StreamReaders:
    """The readers of one stream. Any number of processes can access them at once."""

    def __init__(self, root: str, stream: str, partitions: int) -> None:
        self._root = root
        self._stream = stream
        self._partitions = partitions
        self._folder = layout.readers_folder(root, stream)

    def all(self) -> dict[str, Reader]:
        """The readers by job. Raises LogError for a damaged file, and UnsupportedFormatError for a file with another
        format version; the error names the file."""
        return _read(self._folder)

    def hold_all(self, job: str) -> None:
        """See :meth:`anabranch.systems.readers.Readers.hold_all`."""
        self._hold(job, lambda _: {})

    def hold(self, job: str, positions: Mapping[int, int]) -> None:
        """See :meth:`anabranch.systems.readers.Readers.hold`."""
        self._hold(job, lambda known: _lowered(known, positions))

    def _hold(self, job: str, lower: Callable[[Reader | None], Mapping[int, int] | None]) -> None:
        """Store the job's new positions, and wait until every deletion that might not have seen them has ended.

        ``lower`` gets the job's reader, if any, and returns the new positions, or None to keep the old ones.
        """
        try:
            with disk.exclusive(self._lock):
                os.makedirs(self._folder, exist_ok=True)
                positions = lower(self.all().get(job))
                if positions is not None:
                    self._write(job, uuid.uuid4().hex, positions)
                # The process that wrote the file may have been killed before it made these names durable.
                disk.sync_folder(self._folder)
                disk.sync_folder(os.path.dirname(self._folder))
            for number in range(self._partitions):
                with disk.shared(partition.lock_path(layout.manifest_folder(self._root, self._stream, number))):
                    pass
        except OSError as error:
            raise LogError(
                f"{job} can't be registered as a reader of {self._stream} in {self._folder}: {error.strerror}",
                "let the job's user write to that folder, and make room on its disk: without this, a retention could "
                "delete records that the job must still read",
            ) from error

    def advance(self, job: str, positions: Mapping[int, int], revision: str) -> bool:
        """See :meth:`anabranch.systems.readers.Readers.advance`."""
        with disk.exclusive(self._lock):
            known = self.all().get(job)
            if known is None or known.revision != revision:
                return False
            higher = {**known.positions}
            for number, offset in positions.items():
                higher[number] = max(offset, known.position(number))
            if higher != known.positions:
                self._write(job, revision, higher)
        return True

    def forget(self, job: str, revision: str | None = None) -> None:
        """See :meth:`anabranch.systems.readers.Readers.forget`."""
        with disk.exclusive(self._lock):
            known = self.all().get(job)
            if known is not None and revision in (None, known.revision):
                os.unlink(_path(self._folder, job))
                disk.sync_folder(self._folder)

    @property
    def _lock(self) -> str:
        return f"{self._root}/{self._stream}/.lock"

    def _write(self, job: str, revision: str, positions: Mapping[int, int]) -> None:
        file = _ReaderFile(job=job, revision=revision, positions=dict(sorted(positions.items())))
        disk.replace(_path(self._folder, job), msgspec.json.encode(file) + b"\n")


def limit(folder: str, number: int) -> int | None:
    """The lowest offset of a partition that any job still has to read; None if no job reads the stream."""
    return min((reader.position(number) for reader in _read(folder).values()), default=None)


def changed_at(folder: str, job: str) -> float:
    """When a job's positions were last stored, in seconds since 1970."""
    return os.stat(_path(folder, job)).st_mtime


def _read(folder: str) -> dict[str, Reader]:
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return {}
    found = {}
    for name in names:
        path = f"{folder}/{name}"
        if _FILE_NAME.fullmatch(name) is None:
            continue
        try:
            with open(path, "rb") as file:
                raw = file.read()
        except FileNotFoundError:  # the job was reset meanwhile
            continue
        try:
            reader = layout.decode(raw, _DECODER, path)
        except LogError as error:
            raise LogError(
                error.what,
                f"delete that file, then stop and start job {name.removesuffix('.json')}, which writes it again",
            ) from error
        found[reader.job] = Reader(job=reader.job, revision=reader.revision, positions=reader.positions)
    return found


def _lowered(known: Reader | None, positions: Mapping[int, int]) -> dict[int, int] | None:
    """The positions of the reader ``known``, lowered in partitions for which ``positions`` has a lower one. None if
    nothing changes. If ``known`` is None, the result is ``positions``."""
    if known is None:
        return dict(positions)
    lower = {
        number: min(offset, known.positions[number]) for number, offset in positions.items() if known.position(number)
    }
    return None if lower.items() <= known.positions.items() else {**known.positions, **lower}


def _path(folder: str, job: str) -> str:
    return f"{folder}/{job}.json"
