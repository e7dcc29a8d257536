"""Creates, expands, lists and finds the streams of a log."""

from __future__ import annotations

import difflib
import os
import uuid
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec

from anabranch import own_files
from anabranch.errors import ConflictError, LogError, NotFoundError, UsageError
from anabranch.systems.embedded import disk, layout, manifest, partition
from anabranch.systems.embedded.layout import StreamInfo
from anabranch.systems.embedded.manifest import Entry, Tail
from anabranch.systems.retention import Retention

__all__ = ["Streams"]


class Streams:
    """The streams under a root. Each ``stream.json`` is cached until the file changes."""

    def __init__(self, root: str, now: Callable[[], int]) -> None:
        self._root = root
        self._now = now
        self._known: dict[str, tuple[tuple[int, int, int], StreamInfo]] = {}

    def names(self) -> list[str]:
        """The names of all streams, sorted; empty if the root doesn't exist yet."""
        if not os.path.isdir(self._root):
            return []
        names = [name for name in os.listdir(self._root) if not name.startswith(".")]
        return sorted(name for name in names if os.path.exists(layout.info_path(self._root, name)))

    def describe(self, stream: str) -> StreamInfo:
        """See :meth:`anabranch.systems.embedded.log.Log.describe`."""
        path = layout.info_path(self._root, layout.check_name(stream))
        try:
            found = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            self._check_lost(stream)
            raise self._unknown(stream) from None
        version = (found.st_ino, found.st_mtime_ns, found.st_size)
        known = self._known.get(stream)
        if known is None or known[0] != version:
            known = (version, layout.decode_info(Path(path).read_bytes(), path))
            self._known[stream] = known
        return known[1]

    def create(self, stream: str, partitions: int) -> StreamInfo:
        layout.check_name(stream)
        if partitions < 1:
            raise UsageError(f"{stream} can't have {partitions} partitions", "it needs one or more")
        try:
            own_files.make_folder(Path(self._root))
            os.makedirs(f"{self._root}/{stream}", exist_ok=True)
        except OSError as error:
            raise LogError(
                f"the embedded root {self._root} can't be written: {error.strerror}",
                "choose another folder in [systems.embedded] root, or change its owner or mode",
            ) from error
        disk.check_link(self._root)
        disk.sync_folder(self._root)
        with self._locked(stream, "created"):
            if os.path.exists(layout.info_path(self._root, stream)):
                return self._same(stream, partitions)
            self._check_lost(stream)
            info = StreamInfo(id=uuid.uuid4().hex, name=stream, partitions=partitions)
            self._prepare(info, range(partitions), ())
            disk.replace(layout.info_path(self._root, stream), layout.encode_info(info))
        return info

    def expand(self, stream: str, partitions: int) -> StreamInfo:
        self.describe(stream)
        with self._locked(stream, "expanded"):
            info = self.describe(stream)
            if partitions == info.partitions:
                return info
            if partitions < info.partitions or partitions % info.partitions:
                raise UsageError(
                    f"{stream} has {info.partitions} partitions and can't have {partitions}",
                    f"use a multiple, so that keys stay together: {info.partitions * 2}, {info.partitions * 3}, …",
                )
            wider = msgspec.structs.replace(info, partitions=partitions)
            self._prepare(wider, range(info.partitions, partitions), range(info.partitions))
            disk.replace(layout.info_path(self._root, stream), layout.encode_info(wider))
        return wider

    def retain(self, stream: str, retention: Retention) -> StreamInfo:
        self.describe(stream)
        with self._locked(stream, "changed"):
            info = msgspec.structs.replace(self.describe(stream), retention=retention)
            disk.replace(layout.info_path(self._root, stream), layout.encode_info(info))
        return info

    def tail(self, info: StreamInfo, number: int) -> Tail:
        """A partition's tail, found by listing its folder. Raises LogError if entries are missing."""
        folder = layout.manifest_folder(self._root, info.name, number)
        tail = partition.look(folder, info.id)
        if tail.sequence < 0:
            raise LogError(f"{folder} has no entries, not even its first", "restore the stream's folder from a backup")
        return tail

    def _locked(self, stream: str, done: str) -> AbstractContextManager[None]:
        return disk.exclusive(f"{self._root}/{stream}/.lock", f"stream {stream} can't be {done}")

    def _prepare(self, info: StreamInfo, added: Iterable[int], existing: Iterable[int]) -> None:
        """Create the new partitions ``added``. First, create the partitions' folders. Then, write the partitions' first
        entries, which copy the fences of the ``existing`` partitions. The caller changes ``stream.json`` afterwards.

        The tails of the existing partitions are read after the folders are created, so that no fence is missed. If a
        fence was written before a tail was read, the tail contains the fence. If a fence is written later, it also goes
        to the new partitions, because a fence is written to every partition folder that exists.
        """
        for number in added:
            os.makedirs(layout.segments_folder(self._root, info.name, number), exist_ok=True)
            os.makedirs(layout.manifest_folder(self._root, info.name, number), exist_ok=True)
            disk.sync_folder(f"{self._root}/{info.name}/{number}")
        disk.sync_folder(f"{self._root}/{info.name}")
        tails = [self.tail(info, number) for number in existing]

        def first(tail: Tail) -> Entry | None:
            entry = manifest.merge(tail, tails, at=self._now())
            said = tail.sequence >= 0 and (entry.writers, entry.floors) == (tail.writers, tail.floors)
            return None if said else entry

        for number in added:
            partition.extend(layout.manifest_folder(self._root, info.name, number), Tail(stream=info.id), first)

    def _same(self, stream: str, partitions: int) -> StreamInfo:
        info = self.describe(stream)
        if info.partitions != partitions:
            raise ConflictError(
                f"{stream} already exists, with {info.partitions} partitions instead of {partitions}",
                f"choose another name, or look at it with `anabranch stream describe {stream}`",
            )
        return info

    def _check_lost(self, stream: str) -> None:
        """Raise LogError if a stream without ``stream.json`` has been written to. A partition with one entry doesn't
        count: if a process is killed while it creates a stream, it leaves partitions with at most one entry."""
        try:
            numbers = layout.partition_folders(self._root, stream)
        except (FileNotFoundError, NotADirectoryError):
            return
        info = layout.info_path(self._root, stream)
        for number in numbers:
            written = max(partition.sequences(layout.manifest_folder(self._root, stream, number)), default=0) > 0
            written = written or os.path.exists(layout.start_path(self._root, stream, number))
            if written and not os.path.exists(info):  # it may have been created meanwhile
                raise LogError(
                    f"{info} is missing, but partition {number} of the stream has been written to",
                    f"restore the file from a backup; or, to do without these records, remove {self._root}/{stream}",
                )

    def _unknown(self, stream: str) -> NotFoundError:
        near = difflib.get_close_matches(stream, self.names(), n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        return NotFoundError(
            f"there is no stream {stream} under {self._root}{hint}", "see all with `anabranch stream list`"
        )
