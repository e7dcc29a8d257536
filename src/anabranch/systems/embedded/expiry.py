"""Deletes records that streams no longer keep, while they are written and on request."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping

from anabranch import logs
from anabranch.errors import LogError
from anabranch.systems.embedded import layout, trimming
from anabranch.systems.embedded.layout import StreamInfo
from anabranch.systems.embedded.manifest import Tail
from anabranch.systems.embedded.trimming import Due, Partition
from anabranch.systems.retention import Retention

__all__ = ["Expiry"]

_EVERY = 30.0
"""The seconds between two checks of a partition by one writer."""
_LOOK_SECONDS = 0.5
_PURGE_SECONDS = 2.0
"""The limit for deleting records at once, while a lane or a container waits; the rest is deleted later."""

log = logs.get_logger()


class Expiry:
    """Applies the retention of the streams under a root. Threads may share it.

    ``now`` returns Unix milliseconds; ``monotonic`` returns seconds, to know how long ago a partition was checked.
    """

    def __init__(self, root: str, now: Callable[[], int], monotonic: Callable[[], float] = time.monotonic) -> None:
        self._root = root
        self._now = now
        self._monotonic = monotonic
        self._looked: dict[tuple[str, int], float] = {}

    def look(self, info: StreamInfo, number: int, tail: Tail) -> None:
        """If it is time, delete some of the records that a partition no longer keeps; ``tail``: the partition's present
        tail. If something can't be deleted now, that is tried again later, so that no batch fails because of it.
        """
        if info.retention == Retention():
            return
        place, at = (info.id, number), self._monotonic()
        if at < self._looked.get(place, float("-inf")) + _EVERY:
            return
        self._looked[place] = at
        try:
            self._trim(info.name, number, tail, self._expired(info.retention), at + _LOOK_SECONDS)
        except (LogError, OSError) as error:
            log.warning(
                "records that a stream no longer keeps can't be deleted",
                stream=info.name,
                partition=number,
                error=str(error),
            )

    def expire(self, info: StreamInfo, tails: Mapping[int, Tail]) -> int:
        """Delete all records that a stream no longer keeps. Returns the number of records.

        Raises:
            LogError: a file is damaged, or can't be deleted.
        """
        return self._delete(info, tails, lambda _: self._expired(info.retention), math.inf)

    def purge(self, info: StreamInfo, tails: Mapping[int, Tail], before: Mapping[int, int]) -> int:
        """Delete entries all of whose records come before these offsets, some of them at once. Raises the same errors
        as :meth:`expire`."""
        until = self._monotonic() + _PURGE_SECONDS
        return self._delete(info, tails, lambda number: lambda _: trimming.before(before[number]), until)

    def _delete(self, info: StreamInfo, tails: Mapping[int, Tail], rule: Callable[[int], _Rule], until: float) -> int:
        try:
            return sum(self._trim(info.name, number, tail, rule(number), until) for number, tail in tails.items())
        except OSError as error:
            raise LogError(
                f"records of {info.name}, in {self._root}, can't be deleted: {error.strerror}: {error.filename}",
                "see what is wrong with that disk, or who owns the file; nothing else has changed",
            ) from error

    def _expired(self, retention: Retention) -> _Rule:
        return lambda of: trimming.expired(of, retention, self._now())

    def _trim(self, stream: str, number: int, tail: Tail, rule: _Rule, until: float) -> int:
        of = Partition(
            manifest=layout.manifest_folder(self._root, stream, number),
            segments=layout.segments_folder(self._root, stream, number),
            tail=tail,
        )
        due, records = rule(of), 0
        while self._monotonic() < until:
            trimmed = trimming.trim(of, due)
            records += trimmed.records
            if trimmed.is_done:
                break
        return records


_Rule = Callable[[Partition], Due]
