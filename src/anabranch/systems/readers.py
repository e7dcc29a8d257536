"""Which jobs read the streams of a system whose retention anabranch applies, and what each job still has to read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec

__all__ = ["Reader", "ReaderLag", "Readers"]


class Reader(msgspec.Struct, frozen=True, kw_only=True):
    """What a job still has to read from one stream.

    Attributes:
        revision: an id that changes when a position may have been lowered, but not when one is raised.
        positions: for each partition, the lowest offset that any lane of the job still has to read; 0 if missing.
    """

    job: str
    revision: str
    positions: dict[int, int] = {}

    def position(self, partition: int) -> int:
        """The lowest offset of a partition that the job still has to read."""
        return self.positions.get(partition, 0)


class ReaderLag(msgspec.Struct, frozen=True, kw_only=True):
    """How far a job lags in a stream, and how many records this keeps from being deleted.

    Attributes:
        unread: how many records the job still has to read.
        overdue: how many records stay because the job still has to read them, although the retention no longer keeps
            them.
        changed_at: when the job's positions were last stored, in seconds since 1970.
    """

    job: str
    unread: int
    overdue: int
    changed_at: float


class Readers(Protocol):
    """The readers of a system's streams. A retention deletes nothing at or after a reader's position, unless
    :meth:`System.retain` is called with ``past_readers``.
    """

    def of(self, stream: str, job: str) -> Reader | None:
        """A job as a reader of a stream; None if it isn't one. Raises LogError if what is stored about the job is
        damaged."""
        ...

    def hold_all(self, stream: str, job: str) -> None:
        """Keep all existing records for a job that is about to choose its start offsets: make the job a reader with the
        position 0 in all partitions, under a new revision. The guarantees and errors are the same as for :meth:`hold`.
        """
        ...

    def hold(self, stream: str, job: str, positions: Mapping[int, int]) -> None:
        """Make a job a reader of a stream. If the job is a reader already, the lower position counts in each partition.

        Once this returns, the reader is stored durably, and all deletions that didn't take it into account have ended.
        So all records that still exist at or after the reader's positions stay.

        Args:
            positions: the positions by partition. For a partition that is missing, a reader keeps its position; the
                position of a new reader is 0.

        If the stored data about the job is damaged, the job's position becomes 0 in all partitions.

        Raises:
            LogError: the reader can't be stored. If the reason is that the process has no right to write there, and the
                stream has no retention, a warning may be logged instead.
        """
        ...

    def advance(self, stream: str, job: str, positions: Mapping[int, int], revision: str) -> bool:
        """Raise a job's positions, because the job won't read earlier records again. Positions that are already higher,
        and positions of other partitions, stay. Returns False and changes nothing if a position may have been lowered
        since ``revision``, or if the job is no longer a reader. Raises LogError if the positions can't be stored.
        """
        ...

    def forget(self, stream: str, job: str, revision: str | None = None) -> bool:
        """Forget that a job reads a stream. With ``revision``, do nothing if a position may have been lowered since
        this revision. Returns whether the job was forgotten. Raises LogError if this can't be stored.
        """
        ...

    def lags(self, stream: str) -> list[ReaderLag]:
        """How far each reader of a stream lags. Raises LogError if a file is damaged."""
        ...
