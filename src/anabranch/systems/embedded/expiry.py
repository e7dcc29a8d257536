"""Deletes records that a stream's retention doesn't keep, both while the stream is being written and on request. Also
deletes those records of intermediate streams that no lane will read again."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType

from anabranch import logs
from anabranch.errors import AnabranchError, LogError
from anabranch.systems.embedded import disk, layout, partition, readers, start, trimming
from anabranch.systems.embedded.layout import StreamInfo
from anabranch.systems.embedded.manifest import Tail
from anabranch.systems.embedded.trimming import Due, Partition
from anabranch.systems.readers import ReaderLag
from anabranch.systems.retention import Retention
from anabranch.throttle import LastTold

__all__ = ["Expiry"]

_EVERY = 30.0
"""The shortest time, in seconds, between two checks of a partition by the same process."""
_LOOK_SECONDS = 0.5
_PURGE_SECONDS = 2.0
"""The time limits, in seconds, of :meth:`Expiry.look` and :meth:`Expiry.purge`. The limits are short, because a lane or
the coordinator waits for these methods. Later calls delete the remaining entries."""
_LOCKED_OUT_SECONDS = 30.0
"""How many seconds :meth:`Expiry.expire` waits for a partition's lock before it fails. The processes that add entries
share this lock, and each of them holds it for only milliseconds.
"""
_TURN_SECONDS = 0.01
"""How long a partition stays unlocked between two deletions. During that time, processes that wait to add entries can
try several times to get the lock."""

log = logs.get_logger()


class Expiry:
    """Deletes records of the streams under a root, and finds out how many records the readers of a stream still have to
    read. Thread-safe. ``now`` returns the current time in Unix milliseconds, which is needed to compute the age of
    records.
    """

    def __init__(self, root: str, now: Callable[[], int], monotonic: Callable[[], float] = time.monotonic) -> None:
        self._root = root
        self._now = now
        self._monotonic = monotonic
        self._looked: dict[tuple[str, int], float] = {}
        self._told = LastTold()

    def look(self, info: StreamInfo, number: int, tail: Tail) -> None:
        """Delete a partition's entries that the stream's retention doesn't keep. The last entry and entries that
        jobs still have to read aren't deleted. This method takes about half a second at most. It does nothing if the
        stream has no retention, or if this object has checked the partition in the last 30 seconds.

        This method is called after a write, and must not make the write fail. So errors of the log or the disk are only
        logged.

        Args:
            info: the stream.
            number: the partition.
            tail: the partition's current tail.
        """
        if info.retention == Retention():
            return
        place, at = (info.id, number), self._monotonic()
        if at < self._looked.get(place, float("-inf")) + _EVERY:
            return
        self._looked[place] = at
        try:
            rule, limit = self._expired(info.retention), self._limit(info.name, number)
            self._trim(info.name, number, tail, rule, at + _LOOK_SECONDS, limit)
            self._told.over(place)
        except (AnabranchError, OSError) as error:
            if self._told.is_new(str(error), place):
                log.warning(
                    "records that a stream no longer keeps can't be deleted",
                    stream=info.name,
                    partition=number,
                    error=str(error),
                )

    def expire(self, info: StreamInfo, tails: Mapping[int, Tail], *, past_readers: bool) -> int:
        """Delete the entries whose records a stream's retention doesn't keep. The last entry of each partition isn't
        deleted, and neither are entries that jobs still have to read. Returns the number of deleted records.

        Args:
            info: the stream.
            tails: the partitions in which to delete entries, and the current tail of each of these partitions.
            past_readers: whether to delete even the entries that jobs still have to read.

        Raises:
            LogError: a file is damaged or can't be deleted, or other processes have held a partition's lock for half a
                minute.
        """
        limits = {} if past_readers else {number: self._limit(info.name, number) for number in tails}
        return self._delete(info, tails, lambda _: self._expired(info.retention), math.inf, limits)

    def lags(self, info: StreamInfo, tails: Mapping[int, Tail]) -> list[ReaderLag]:
        """For each reader of a stream, how many records the reader still has to read, and how many records beyond the
        retention are kept for this reader. Raises LogError if a file is damaged.
        """
        folder = layout.readers_folder(self._root, info.name)
        known = readers.StreamReaders(self._root, info.name, lambda: info.partitions).all()
        unread, overdue = dict.fromkeys(known, 0), dict.fromkeys(known, 0)
        for number, tail in tails.items():
            begins = start.read(layout.start_path(self._root, info.name, number)).offset
            due = self._due_entries(info, number, tail) if known else []
            for job, reader in known.items():
                position = reader.position(number)
                unread[job] += max(0, tail.end - max(position, begins))
                overdue[job] += sum(rows for end, rows in due if end > position)
        return [
            ReaderLag(job=job, unread=unread[job], overdue=overdue[job], changed_at=readers.changed_at(folder, job))
            for job in known
        ]

    def purge(self, info: StreamInfo, tails: Mapping[int, Tail], before: Mapping[int, int]) -> int:
        """Delete entries of the partitions in ``before``. An entry is deleted if all of its records come before the
        offset that ``before`` has for the partition. A partition's last entry isn't deleted. This method stops after
        about two seconds, even if more entries could be deleted. Returns the number of deleted records. For the errors,
        see :meth:`expire`.
        """
        until = self._monotonic() + _PURGE_SECONDS
        return self._delete(info, tails, lambda number: lambda _: trimming.before(before[number]), until)

    def _delete(
        self,
        info: StreamInfo,
        tails: Mapping[int, Tail],
        rule: Callable[[int], _Rule],
        until: float,
        limits: Mapping[int, _Limit] = MappingProxyType({}),
    ) -> int:
        try:
            return sum(
                self._trim(info.name, number, tail, rule(number), until, limits.get(number, _no_limit))
                for number, tail in tails.items()
            )
        except OSError as error:
            raise LogError(
                f"records of {info.name}, in {self._root}, can't be deleted: {error.strerror}: {error.filename}",
                "see what is wrong with that disk, or who owns the file; nothing else has changed",
            ) from error

    def _expired(self, retention: Retention) -> _Rule:
        return lambda of: trimming.expired(of, retention, self._now())

    def _limit(self, stream: str, number: int) -> _Limit:
        """A function that returns the lowest offset that readers still have to read. If there are no readers, the
        function returns None. Call the function only while the partition is locked."""
        return lambda: readers.limit(layout.readers_folder(self._root, stream), number)

    def _due_entries(self, info: StreamInfo, number: int, tail: Tail) -> list[tuple[int, int]]:
        """A partition's entries that the retention doesn't keep, oldest first. Each item has the offset after the
        entry, and the entry's number of records. The partition's last entry isn't included.
        """
        of = self._partition(info.name, number, tail)
        due, found = trimming.expired(of, info.retention, self._now()), []
        for sequence in range(start.read(start.of_manifest(of.manifest)).sequence, tail.sequence):
            entry = partition.read(of.manifest, sequence)
            if entry is None or not due(entry):
                break
            found.append((entry.base + entry.rows, entry.rows))
        return found

    def _partition(self, stream: str, number: int, tail: Tail) -> Partition:
        return Partition(
            manifest=layout.manifest_folder(self._root, stream, number),
            segments=layout.segments_folder(self._root, stream, number),
            tail=tail,
        )

    def _trim(self, stream: str, number: int, tail: Tail, rule: _Rule, until: float, limit: _Limit) -> int:
        of = self._partition(stream, number, tail)
        due, records, alone_at = rule(of), 0, self._monotonic()
        while self._monotonic() < until:
            trimmed = trimming.trim(of, due, limit)
            records += trimmed.records
            if trimmed.is_done:
                break
            if trimmed.alone:
                alone_at = self._monotonic()
                time.sleep(_TURN_SECONDS)
            elif self._monotonic() >= alone_at + _LOCKED_OUT_SECONDS:
                what = f"records of {stream}, partition {number}, can't be deleted"
                raise disk.locked_out(partition.lock_path(of.manifest), _LOCKED_OUT_SECONDS, what)
        return records


_Rule = Callable[[Partition], Due]
_Limit = Callable[[], int | None]


def _no_limit() -> None:
    return None
