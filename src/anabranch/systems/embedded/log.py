"""The embedded log as a whole: manages streams, adds entries, applies retentions, and finds ends and records."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from anabranch.errors import LogError, NotFoundError
from anabranch.systems.embedded import layout, partition, start
from anabranch.systems.embedded.expiry import Expiry
from anabranch.systems.embedded.index import PartitionIndex
from anabranch.systems.embedded.layout import StreamInfo
from anabranch.systems.embedded.manifest import Entry, Tail
from anabranch.systems.embedded.readers import StreamReaders
from anabranch.systems.embedded.segments import Slice
from anabranch.systems.embedded.start import Start
from anabranch.systems.embedded.streams import Streams
from anabranch.systems.readers import ReaderLag
from anabranch.systems.retention import Retention

__all__ = ["Log"]


def unix_ms() -> int:
    return time.time_ns() // 1_000_000


class Log:
    """The embedded log under ``root``, a folder that any number of processes may use at once.

    Thread-safe. Caches the offsets and files of entries, which never change. ``now`` returns Unix milliseconds.
    """

    def __init__(self, root: Path | str, now: Callable[[], int] = unix_ms) -> None:
        self.root = Path(root)
        self.now = now
        self._root = str(root)
        self._streams = Streams(self._root, now)
        self._expiry = Expiry(self._root, now)
        self._indexes: dict[tuple[str, int], PartitionIndex] = {}

    def create(self, stream: str, partitions: int) -> StreamInfo:
        """Create a stream, or return the existing one. If the process is killed during this call, the stream either
        is complete or doesn't exist.

        Raises:
            ConflictError: the stream exists with another number of partitions.
            UsageError: the name isn't allowed, or ``partitions`` is less than 1.
            ConfigError: the root's file system isn't suitable for the log.
            LogError: the root can't be written to; or ``stream.json`` is missing, but the stream has been written to.
        """
        return self._streams.create(stream, partitions)

    def expand(self, stream: str, partitions: int) -> StreamInfo:
        """Raise a stream's partition count, and return the stream's new description. Other processes see either all new
        partitions or none of them. If a lane is fenced or closed in the old partitions, it is also fenced or closed in
        the new partitions. Raises UsageError if the new count isn't a multiple of the current count.
        """
        return self._streams.expand(stream, partitions)

    def retain(self, stream: str, retention: Retention) -> StreamInfo:
        """Set a stream's retention. From then on, the stream's writers delete records that the retention doesn't keep,
        unless a reader still has to read them.
        """
        return self._streams.retain(stream, retention)

    def expire(self, stream: str, *, past_readers: bool = False) -> int:
        """Apply a stream's retention, and return the number of deleted records; see :meth:`Expiry.expire`."""
        return self._expiry.expire(self.describe(stream), self.ends(stream), past_readers=past_readers)

    def readers(self, stream: str) -> StreamReaders:
        """The jobs that read a stream."""
        return StreamReaders(self._root, layout.check_name(stream), lambda: self.describe(stream).partitions)

    def lags(self, stream: str) -> list[ReaderLag]:
        """How far each reader of a stream lags; see :meth:`Expiry.lags`."""
        return self._expiry.lags(self.describe(stream), self.ends(stream))

    def purge(self, stream: str, before: Mapping[int, int]) -> int:
        """Delete the entries whose records all come before the offset that ``before`` has for the entry's partition.
        Returns the number of deleted records. See :meth:`Expiry.purge`.
        """
        return self._expiry.purge(self.describe(stream), self.ends(stream, before), before)

    def streams(self) -> list[str]:
        """The names of all streams, sorted."""
        return self._streams.names()

    def describe(self, stream: str) -> StreamInfo:
        """The current content of ``stream.json``. If the file hasn't changed since the last call, the call costs one
        ``stat``.

        Raises:
            NotFoundError: there is no such stream. If a stream has a similar name, the error suggests it.
            LogError: the file is missing, but the stream has been written to.
        """
        return self._streams.describe(stream)

    def starts(self, stream: str, partitions: Iterable[int] | None = None) -> dict[int, Start]:
        """Where partitions of a stream begin. If ``partitions`` is None, the result has all partitions. For the errors,
        see :func:`start.read`."""
        numbers = range(self.describe(stream).partitions) if partitions is None else partitions
        return {number: start.read(layout.start_path(self._root, stream, number)) for number in numbers}

    def ends(
        self, stream: str, partitions: Iterable[int] | None = None, known: Mapping[int, Tail] | None = None
    ) -> dict[int, Tail]:
        """The current tails of a stream's partitions, by partition. The tails are durable: a power cut can't undo them.

        Args:
            stream: the stream's name.
            partitions: the partitions to look up; all by default.
            known: earlier tails of some partitions. For these partitions, only later entries are looked up. If a
                partition has no later entries, this takes two ``stat`` calls. For all other partitions, the manifest
                folder is listed.

        Raises:
            LogError: a ``known`` tail belongs to an earlier stream of the same name; or a manifest is missing, is
                empty, or has a hole.
        """
        info = self.describe(stream)
        tails: dict[int, Tail] = {}
        for number in range(info.partitions) if partitions is None else partitions:
            tail = known.get(number) if known else None
            if tail is None:
                tails[number] = self._streams.tail(info, self._checked(info, number))
            else:
                check_same(info, tail)
                tails[number] = partition.forward(layout.manifest_folder(self._root, stream, number), tail)
        return tails

    def entry(self, stream: str, number: int, sequence: int) -> Entry | None:
        """The entry with the number ``sequence`` in a partition's manifest; None if there is no such entry."""
        return partition.read(layout.manifest_folder(self._root, stream, number), sequence)

    def controls(self, stream: str, number: int, cursor: int, position: int) -> tuple[list[dict[str, Any]], int]:
        """See :meth:`anabranch.systems.contract.System.controls`. ``cursor`` is the number of an entry. If entries
        after this entry have been deleted, the result begins with each lane's last control record in the deleted
        entries, leaving out control records up to ``cursor``: the reader knows them, and may have forgotten since that
        their lanes no longer count.
        """
        info = self.describe(stream)
        folder = layout.manifest_folder(self._root, stream, self._checked(info, number))
        while True:
            found, reached = [], cursor
            begins = start.read(start.of_manifest(folder))
            if reached + 1 < begins.sequence:
                found = [control for entry, control in begins.numbered_controls if entry > cursor]
                reached = begins.sequence - 1
            while (entry := partition.read(folder, reached + 1)) is not None and entry.base <= position:
                if entry.control is not None:
                    found.append(entry.control)
                reached += 1
            if start.read(start.of_manifest(folder)).sequence <= reached + 1:
                return found, reached

    def slices(self, stream: str, number: int, first: int, end: int) -> list[Slice]:
        """The pieces of segments with the records ``first`` to ``end - 1`` of a partition, in order. Raises LogError if
        some of these records don't exist, or have been deleted."""
        info = self.describe(stream)
        key = (info.id, self._checked(info, number))
        if key not in self._indexes:
            self._indexes[key] = PartitionIndex(self._root, stream, number)
        return self._indexes[key].slices(first, end)

    def extend(
        self, stream: str, number: int, tail: Tail | None, decide: Callable[[Tail], Entry | None]
    ) -> tuple[Tail, bool]:
        """Add an entry to a partition, as :func:`partition.extend` does. If an entry was added, delete records that the
        retention doesn't keep, as :meth:`Expiry.look` does. If ``tail`` is None, first look up the current tail."""
        info = self.describe(stream)
        if tail is None:
            tail = self._streams.tail(info, self._checked(info, number))
        check_same(info, tail)
        tail, published = partition.extend(layout.manifest_folder(self._root, stream, number), tail, decide)
        if published:
            self._expiry.look(info, number, tail)
        return tail, published

    @staticmethod
    def _checked(info: StreamInfo, number: int) -> int:
        if not 0 <= number < info.partitions:
            raise NotFoundError(
                f"{info.name} has no partition {number}", f"its partitions are 0 to {info.partitions - 1}"
            )
        return number


def check_same(info: StreamInfo, tail: Tail) -> None:
    """Raise LogError if the tail belongs to an earlier stream of the same name."""
    if tail.stream != info.id:
        raise LogError(
            f"the stream {info.name} was deleted and created again while it was in use",
            "positions in the old stream mean nothing in the new one: start the job that uses it as a new job",
        )
