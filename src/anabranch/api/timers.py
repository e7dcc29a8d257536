"""The timers of a key: each is a moment, and goes off once, when the clock of its operator has come there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Protocol

from anabranch.api.journal import Journal
from anabranch.errors import UsageError

__all__ = ["EVENT_TIME", "INFINITY", "PROCESSING_TIME", "StoredTimers", "Timers", "moment"]

EVENT_TIME, PROCESSING_TIME = "event_time", "processing_time"
INFINITY = 253402300799000
"""The watermark of a batch that drains, and its time, in ms since 1970: the last second that Spark can write."""
_LAST = INFINITY - 1
"""Of all timers: a batch that drains comes after it."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)


class StoredTimers(Protocol):
    """Where the timers of the present key are kept, in ms since 1970."""

    def all(self) -> Iterable[int]: ...
    def register(self, at: int) -> None: ...
    def delete(self, at: int) -> None: ...


class Timers:
    """The timers of the present key.

    A key has at most one timer for each millisecond: to register one again changes nothing.
    """

    def __init__(self, stored: StoredTimers | None, clock: str | None, journal: Journal) -> None:
        """``clock``: what they go by; ``stored`` None: the operator has none."""
        self._stored = stored
        self._clock = clock
        self._journal = journal
        self._changed: dict[int, bool] = {}
        self._now = 0

    @property
    def now(self) -> datetime | None:
        """With event time the watermark, None before there is one; with processing time when the batch began."""
        return moment(self._now) if self._now > 0 else None

    @property
    def draining(self) -> bool:
        """Whether the job drains: ``now`` is at its end, each timer goes off, and none is registered any more."""
        return self._now >= INFINITY

    def register(self, at: datetime) -> None:
        """Let ``on_timer`` be called at this time, rounded up to a millisecond; at once, if it is past.

        While the job drains nothing happens.
        """
        if not self.draining:
            self._become(_ms(at), True)

    def delete(self, at: datetime) -> None:
        """Take a timer away. Nothing happens if there is none."""
        self._become(_ms(at), False)

    def registered(self) -> list[datetime]:
        """Those that haven't gone off yet, the earliest first."""
        its = set(self._kept.all())
        its = (its | {at for at, there in self._changed.items() if there}) - {
            at for at, there in self._changed.items() if not there
        }
        return [moment(at) for at in sorted(its)]

    def begin(self, now: int) -> None:
        """Another key has its turn, at a time in ms since 1970."""
        self._now = now
        self._changed = {}

    def flush(self) -> dict[int, bool]:
        """Hand on what was changed: the key's turn ends. Gives it: whether there is a timer, by its time."""
        for at, there in self._changed.items():
            act: Callable[[int], None] = self._kept.register if there else self._kept.delete
            act(at)
        return self._changed

    @property
    def _kept(self) -> StoredTimers:
        if self._stored is None:
            raise UsageError(
                "the operator has no timers: nothing says which clock they go by",
                'write process(..., timers="event_time"), or "processing_time", and give the processor an on_timer',
            )
        return self._stored

    def _become(self, at: int, there: bool) -> None:
        self._kept  # noqa: B018
        changed, had = self._changed, self._changed.get(at)

        def undo() -> None:
            if had is None:
                changed.pop(at, None)
            else:
                changed[at] = had

        self._journal.note(undo)
        changed[at] = there


def moment(ms: int) -> datetime:
    """A time in ms since 1970."""
    return _EPOCH + timedelta(milliseconds=ms)


def _ms(at: datetime) -> int:
    if not isinstance(at, datetime) or at.tzinfo is None:
        raise UsageError(f"a timer was given {at!r}, not a time with a zone", "pass a datetime with tzinfo, as UTC")
    return min(-((_EPOCH - at) // _MS), _LAST)
