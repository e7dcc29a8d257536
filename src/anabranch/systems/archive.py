"""How streams of a system become part of a job's backup, and how they are restored. Only a system whose streams are
files has an archive; the streams of other systems stay where they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from anabranch.model.document import Document

__all__ = ["Archive", "Publication", "StreamCut"]


class StreamCut(Document, frozen=True, kw_only=True):
    """The part of a stream that belongs to a backup: for each partition, all entries that it has, up to a certain one.

    ``id`` distinguishes the stream from another one of its name. ``last``: the number of each partition's last entry.
    ``ends``: the offset after that entry. ``starts``: the offset of its first record. ``begins``: where it begins, in
    the form in which the system stores it. All are in the order of the partitions; the last two are empty in backups of
    streams from which nothing was deleted.
    """

    id: str
    last: tuple[int, ...]
    ends: tuple[int, ...]
    starts: tuple[int, ...] = ()
    begins: tuple[str, ...] = ()


@dataclass(frozen=True)
class Publication:
    """An entry of a partition. ``number``: its number. ``end``: the offset after its records. ``lane`` and ``batch``:
    who published it; '' if it isn't a lane's batch."""

    number: int
    end: int
    lane: str = ""
    batch: int = -1


class Archive(Protocol):
    """The files of a system's streams. Entries, and the files that they name, never change, so they can be copied while
    the stream is being written."""

    folder: Path
    """The folder of the streams, to which names of files are relative."""

    def cut(self, stream: str) -> StreamCut:
        """Everything that a stream contains now."""
        ...

    def batches(self, stream: str, cut: StreamCut) -> Sequence[Mapping[str, int]]:
        """For each partition, the last batch that each lane has published within a cut."""
        ...

    def later(self, stream: str, cut: StreamCut) -> Sequence[Sequence[Publication]]:
        """For each partition, what was published after a cut, up to now, in order."""
        ...

    def files(self, stream: str, cut: StreamCut) -> Iterator[str]:
        """The names of the files of a cut, except for those that :meth:`descriptions` has."""
        ...

    def descriptions(self, stream: str, cut: StreamCut) -> Mapping[str, str]:
        """The files that turn the other files into a stream: their texts by their names."""
        ...

    def last_entries(self, stream: str, cut: StreamCut) -> Sequence[str]:
        """The names of the files of a cut's last entries, by partition."""
        ...

    def is_there(self, stream: str, cut: StreamCut, last_entries: Sequence[bytes]) -> bool:
        """Whether the stream exists and contains all of a cut. ``last_entries``: the content of those files.

        Raises:
            ConflictError: there is another stream of that name, or an older copy of this one.
        """
        ...

    def adopt(self, stream: str, folder: Path) -> None:
        """Turn the files that were copied to ``folder``, beside the streams, into a stream: completely, or not at
        all."""
        ...
