"""Which jobs read the streams of a system that deletes old records itself, and what each of them has still to read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec

__all__ = ["Reader", "ReaderLag", "Readers"]


class Reader(msgspec.Struct, frozen=True, kw_only=True):
    """What a job has still to read of one stream.

    ``positions``: partition → the lowest offset that any lane of the job has still to read. A partition that isn't in
    it counts as 0. ``revision`` changes whenever a position may become lower, but not when one is raised.
    """

    job: str
    revision: str
    positions: dict[int, int] = {}

    def position(self, partition: int) -> int:
        """The lowest offset of a partition that the job has still to read."""
        return self.positions.get(partition, 0)


class ReaderLag(msgspec.Struct, frozen=True, kw_only=True):
    """What a job keeps a stream from deleting.

    ``unread``: how many records the job has still to read. ``overdue``: how many records the retention would delete if
    this job didn't have to read them. ``changed_at``: when the job's positions were last stored, in seconds since 1970.
    """

    job: str
    unread: int
    overdue: int
    changed_at: float


class Readers(Protocol):
    """The readers of a system's streams. A retention deletes nothing at or after a reader's position."""

    def of(self, stream: str) -> Mapping[str, Reader]:
        """The readers of a stream, by job. Raises LogError if a file that says so is damaged."""
        ...

    def hold_all(self, stream: str, job: str) -> None:
        """Keep all that exists for a job that is about to choose where it begins: make it a reader with the position 0
        in all partitions, under a new revision. Durable and ordered like :meth:`hold`, with the same errors.
        """
        ...

    def hold(self, stream: str, job: str, positions: Mapping[int, int]) -> None:
        """Make a job a reader of a stream, with these positions or lower ones. Once this returns, that is durable, and
        no deletion that began earlier is still going on: what exists then at these positions stays.

        Raises:
            LogError: it can't be stored.
        """
        ...

    def advance(self, stream: str, job: str, positions: Mapping[int, int], revision: str) -> bool:
        """Raise a job's positions, because it won't read earlier records again. Positions of other partitions, and
        higher ones, stay. Returns False, without a change, if a position was lowered since ``revision``, or if the job
        isn't a reader any more.
        """
        ...

    def forget(self, stream: str, job: str, revision: str | None = None) -> None:
        """Forget that a job reads a stream; with a ``revision``, unless a position was lowered since. Idempotent."""
        ...

    def lags(self, stream: str) -> list[ReaderLag]:
        """What the readers of a stream keep from being deleted, by job. Raises LogError."""
        ...
