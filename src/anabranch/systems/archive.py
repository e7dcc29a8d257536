"""How a system's streams are backed up and restored. Only a system whose streams are files can have an archive; the
streams of other systems aren't part of backups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from anabranch.model.document import Document

__all__ = ["Archive", "ArchivedFile", "DeletedError", "Publication", "StreamCut"]


class DeletedError(Exception):
    """After a cut was made, the stream's retention deleted some of the cut's records. The error's text is the path of
    a file that contained some of these records.
    """


class StreamCut(Document, frozen=True, kw_only=True):
    """The part of a stream that belongs to a backup: in each partition, all existing entries up to ``last``.

    Each tuple has one item for each partition, in order. If nothing was deleted, ``starts`` and ``begins`` are empty.

    Attributes:
        id: distinguishes the stream from other streams of the same name.
        last: for each partition, the number of the partition's last entry in the backup.
        ends: for each partition, one past the offset of the last record in the backup.
        starts: for each partition, the offset of the oldest record that wasn't deleted.
        begins: for each partition, the content of the system's file that says where the partition begins.
    """

    id: str
    last: tuple[int, ...]
    ends: tuple[int, ...]
    starts: tuple[int, ...] = ()
    begins: tuple[str, ...] = ()


@dataclass(frozen=True)
class Publication:
    """An entry that was published to a partition.

    Attributes:
        number: the entry's number in the partition.
        end: the offset after the entry's records.
        lane: the lane whose batch the entry contains; '' if none.
        batch: the batch's number; -1 if none.
    """

    number: int
    end: int
    lane: str = ""
    batch: int = -1


@dataclass(frozen=True)
class ArchivedFile:
    """A file of a stream.

    Attributes:
        name: the file's path, relative to :attr:`Archive.folder`.
        size: the number of bytes that were written to the file; None if the stream doesn't record the size.
        partition: the number of the partition to which the file belongs.
        entry: the number of the entry to which the file belongs.
    """

    name: str
    size: int | None
    partition: int
    entry: int


class Archive(Protocol):
    """The files of a system's streams. Entries and their files don't change until they are deleted. So the files can be
    copied while other processes write.
    """

    folder: Path
    """The folder of the streams. File names are relative to this folder."""

    def cut(self, stream: str) -> StreamCut:
        """A cut with everything that a stream contains now."""
        ...

    def batches(self, stream: str, cut: StreamCut) -> Sequence[Mapping[str, int]]:
        """For each partition, the last batch of each lane in the cut, by lane id.

        Raises:
            DeletedError: after the cut was made, some of its entries were deleted.
            LogError: an entry is damaged or missing.
        """
        ...

    def later(self, stream: str, cut: StreamCut) -> Sequence[Sequence[Publication]]:
        """For each partition, the entries after the last one in the cut, in order. Raises LogError if an entry is
        damaged."""
        ...

    def files(self, stream: str, cut: StreamCut) -> Iterator[ArchivedFile]:
        """A cut's files, except for those that :meth:`descriptions` returns. Raises what :meth:`batches` raises."""
        ...

    def is_deleted(self, stream: str, file: ArchivedFile) -> bool:
        """Whether a file's records were deleted, so that the stream now begins after them. If so, the file may be gone
        or incomplete.
        """
        ...

    def descriptions(self, stream: str, cut: StreamCut) -> Mapping[str, str]:
        """The contents of the small files that describe the stream, by file name. :meth:`files` leaves out these
        files.
        """
        ...

    def last_entries(self, stream: str, cut: StreamCut) -> Sequence[str]:
        """For each partition, the name of the file with the cut's last entry."""
        ...

    def is_there(self, stream: str, cut: StreamCut, last_entries: Sequence[bytes]) -> bool:
        """Whether the stream exists. If so, this method also checks that the stream contains each partition's last
        entry in the cut. ``last_entries`` are the contents of the files that :meth:`last_entries` names.

        Raises:
            ConflictError: another stream has that name, or the stream lacks a partition's last entry in the cut.
        """
        ...

    def adopt(self, stream: str, folder: Path) -> None:
        """Turn the restored files in ``folder`` into a stream: completely, or not at all. ``folder`` is next to the
        streams' folders."""
        ...
