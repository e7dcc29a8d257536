"""The embedded log's part of a backup: the entries of each manifest up to the cut, their segments, ``stream.json``, and
the ``start.json`` of each partition that has one."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from anabranch.errors import ConflictError, LogError
from anabranch.systems.archive import ArchivedFile, DeletedError, Publication, StreamCut
from anabranch.systems.embedded import disk, layout, partition, start
from anabranch.systems.embedded.layout import StreamInfo
from anabranch.systems.embedded.log import Log
from anabranch.systems.embedded.manifest import Entry
from anabranch.systems.embedded.start import Start

__all__ = ["EmbeddedArchive"]


class EmbeddedArchive:
    """The archive of one log; see :class:`anabranch.systems.archive.Archive`."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self.folder = Path(log.root)

    def cut(self, stream: str) -> StreamCut:
        # The starts are read before the ends, so that no partition begins after its end.
        id, starts, tails = self._log.describe(stream).id, self._log.starts(stream), self._log.ends(stream)
        begins = [starts.get(number, start.ALL) for number in sorted(tails)]
        ordered = [tails[number] for number in sorted(tails)]
        is_whole = all(each == start.ALL for each in begins)
        return StreamCut(
            id=id,
            last=tuple(tail.sequence for tail in ordered),
            ends=tuple(tail.end for tail in ordered),
            starts=() if is_whole else tuple(each.offset for each in begins),
            begins=() if is_whole else tuple(start.encode(each).decode() for each in begins),
        )

    def batches(self, stream: str, cut: StreamCut) -> Sequence[Mapping[str, int]]:
        entries = (self._entry(stream, number, last) for number, last in enumerate(cut.last))
        return [{lane: mark.batch for lane, mark in entry.writers.items()} for entry in entries]

    def later(self, stream: str, cut: StreamCut) -> Sequence[Sequence[Publication]]:
        return [[*self._after(stream, number, last)] for number, last in enumerate(cut.last)]

    def files(self, stream: str, cut: StreamCut) -> Iterator[ArchivedFile]:
        for number, last in enumerate(cut.last):
            manifest, segments = layout.manifest_folder("", stream, number), layout.segments_folder("", stream, number)
            for sequence in range(_begins(cut, number).sequence, last + 1):
                yield ArchivedFile(partition.path_of(manifest, sequence).lstrip("/"), None, number, sequence)
                for segment in self._entry(stream, number, sequence).segments:
                    yield ArchivedFile(f"{segments}/{segment.file}".lstrip("/"), segment.bytes, number, sequence)

    def is_deleted(self, stream: str, file: ArchivedFile) -> bool:
        return self._begins_after(stream, file.partition, file.entry)

    def descriptions(self, stream: str, cut: StreamCut) -> Mapping[str, str]:
        retention = self._log.describe(stream).retention
        info = StreamInfo(id=cut.id, name=stream, partitions=len(cut.last), retention=retention)
        found = {
            layout.start_path("", stream, number): text
            for number, text in enumerate(cut.begins)
            if _begins(cut, number) != start.ALL
        }
        found[layout.info_path("", stream)] = layout.encode_info(info).decode()
        return {path.lstrip("/"): text for path, text in found.items()}

    def last_entries(self, stream: str, cut: StreamCut) -> Sequence[str]:
        folders = (layout.manifest_folder("", stream, number) for number in range(len(cut.last)))
        return [partition.path_of(folder, last).lstrip("/") for folder, last in zip(folders, cut.last, strict=True)]

    def is_there(self, stream: str, cut: StreamCut, last_entries: Sequence[bytes]) -> bool:
        if stream not in self._log.streams():
            return False
        where = f"there is a stream {stream!r} in {self.folder} already"
        cure = "restore into another [systems.embedded] root, or move that stream away first; nothing was changed"
        if self._log.describe(stream).id != cut.id:
            raise ConflictError(f"{where}, and it isn't the one that was backed up", cure)
        for name, content in zip(self.last_entries(stream, cut), last_entries, strict=True):
            path = self.folder / name
            if not path.exists() or path.read_bytes() != content:
                raise ConflictError(f"{where}, and it lacks records that the backup has, from {path} on", cure)
        return True

    def adopt(self, stream: str, folder: Path) -> None:
        for number in layout.partition_folders(str(folder), stream):
            os.makedirs(layout.segments_folder(str(folder), stream, number), exist_ok=True)
        os.rename(folder / stream, self.folder / stream)
        disk.sync_folder(str(self.folder))

    def _entry(self, stream: str, number: int, sequence: int) -> Entry:
        path = partition.path_of(layout.manifest_folder(str(self.folder), stream, number), sequence)
        try:
            entry = self._log.entry(stream, number, sequence)
            if entry is None:
                raise LogError(f"{path} is missing", "restore the file from a backup")
        except LogError as error:
            if self._begins_after(stream, number, sequence):
                raise DeletedError(path) from error
            raise
        return entry

    def _begins_after(self, stream: str, number: int, sequence: int) -> bool:
        return self._log.starts(stream, [number])[number].sequence > sequence

    def _after(self, stream: str, number: int, last: int) -> Iterator[Publication]:
        while (entry := self._log.entry(stream, number, last + 1)) is not None:
            last = entry.sequence
            is_batch = entry.kind == "data"
            yield Publication(
                number=last,
                end=entry.base + entry.rows,
                lane=entry.lane if is_batch else "",
                batch=entry.batch if is_batch else -1,
            )


def _begins(cut: StreamCut, number: int) -> Start:
    return start.decode(cut.begins[number].encode(), "the cut of a stream") if cut.begins else start.ALL
