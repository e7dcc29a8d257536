"""For systems in which anabranch applies retentions: which jobs read a stream, and what each job still has to read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec

__all__ = ["Reader", "ReaderLag", "Readers"]


class Reader(msgspec.Struct, frozen=True, kw_only=True):
    """What a job still has to read from one stream.

    Attributes:
        revision: an id that changes if a position may have been lowered. The id doesn't change if a position is raised.
        positions: for each partition, the lowest offset that any lane of the job still has to read. If a partition is
            missing, this offset is 0.
    """

    job: str
    revision: str
    positions: dict[int, int] = {}

    def position(self, partition: int) -> int:
        """The lowest offset that the job still has to read in a partition."""
        return self.positions.get(partition, 0)


class ReaderLag(msgspec.Struct, frozen=True, kw_only=True):
    """How far a job lags in a stream, and how many records are kept because of this lag.

    Attributes:
        unread: how many records the job still has to read.
        overdue: how many records are beyond the retention, but are kept because the job still has to read them.
        changed_at: when the job's positions were last stored, in seconds since 1970.
    """

    job: str
    unread: int
    overdue: int
    changed_at: float


class Readers(Protocol):
    """The readers of a system's streams. A retention doesn't delete records at or after a reader's position, unless
    :meth:`System.retain` is called with ``past_readers``.
    """

    def of(self, stream: str, job: str) -> Reader | None:
        """A job as a reader of a stream; None if the job isn't a reader. Raises LogError if the stored data about the
        job is damaged."""
        ...

    def hold_all(self, stream: str, job: str) -> None:
        """Keep all existing records for a job that is about to choose its start offsets. For this purpose, make the job
        a reader with the position 0 in all partitions, under a new revision. The guarantees and errors are the same as
        for :meth:`hold`.
        """
        ...

    def hold(self, stream: str, job: str, positions: Mapping[int, int]) -> None:
        """Make a job a reader of a stream. If the job is a reader already, each partition gets the lower of its old and
        new positions.

        Once this method has returned, the reader is stored durably, and all deletions that didn't consider this reader
        have ended. So all records that still exist at or after the reader's positions are kept.

        Args:
            positions: the positions by partition. If a partition is missing, an existing reader keeps its position in
                the partition, and a new reader gets the position 0.

        If the stored data about the job is damaged, the job's position becomes 0 in all partitions.

        Raises:
            LogError: the reader can't be stored. There is one exception: if the process isn't allowed to store the
                reader, and the stream has no retention, the system may log a warning instead.
        """
        ...

    def advance(self, stream: str, job: str, positions: Mapping[int, int], revision: str) -> bool:
        """Raise a job's positions, because the job won't read earlier records again. Positions that are already higher
        don't change, and neither do positions of partitions that aren't in ``positions``. If the job is no longer a
        reader, or if a position may have been lowered since ``revision``, nothing changes, and the result is False.
        Raises LogError if the positions can't be stored.
        """
        ...

    def forget(self, stream: str, job: str, revision: str | None = None) -> bool:
        """Forget that a job reads a stream. If ``revision`` is given, and a position may have been lowered since this
        revision, do nothing. Returns whether the job was forgotten. Raises LogError if the change can't be stored.
        """
        ...

    def lags(self, stream: str) -> list[ReaderLag]:
        """How far each reader of a stream lags. Raises LogError if a file is damaged."""
        ...
