"""The timers of a key. When the clock of the operator has passed the time of a timer, ``on_timer`` is called once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Protocol

from anabranch.api.journal import Journal
from anabranch.errors import UsageError

__all__ = ["EVENT_TIME", "INFINITY", "PROCESSING_TIME", "StoredTimers", "Timers", "moment"]

EVENT_TIME, PROCESSING_TIME = "event_time", "processing_time"
INFINITY = 253402300799000
"""The last full second that Spark can represent, in ms since 1970. The last batch of a drain has this time as its
watermark and its processing time."""
_LAST = INFINITY - 1
"""The latest time that a timer can have. It is before ``INFINITY``, so the last batch of a drain fires all timers."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)


class StoredTimers(Protocol):
    """Stores the timers of the current key, as times in ms since 1970."""

    def all(self) -> Iterable[int]: ...
    def register(self, at: int) -> None: ...
    def delete(self, at: int) -> None: ...


class Timers:
    """The timers of the current key. ``on_message`` and ``on_timer`` get this object as an argument.

    Times have millisecond precision. A key has at most one timer per millisecond, so a second registration for the same
    time changes nothing."""

    def __init__(self, stored: StoredTimers | None, clock: str | None, journal: Journal) -> None:
        """``stored`` gives access to the timers in Spark's state store, and ``clock`` is :data:`EVENT_TIME` or
        :data:`PROCESSING_TIME`; both are None if the operator has no timers. Changes are recorded in ``journal``.
        """
        self._stored = stored
        self._clock = clock
        self._journal = journal
        self._changed: dict[int, bool] = {}
        self._now = 0

    @property
    def now(self) -> datetime | None:
        """The current time on the operator's clock: the watermark, or the time at which the batch was planned. None if
        there is no watermark yet, if the watermark isn't after the beginning of 1970, or if the operator has no timers.
        In the last batch of a drain, this is a time in the year 9999 (see :attr:`draining`).
        """
        if self.draining:
            return _END
        return moment(self._now) if self._now > 0 else None

    @property
    def draining(self) -> bool:
        """Whether this is the last batch of a drain; always False if the operator has no timers. In the last batch,
        every timer fires, and new timers are discarded.

        In this batch, ``now`` is in the last second of the year 9999, the last year that a datetime can represent.
        If the sum of ``now`` and a duration would be in a later year, the sum is ``now`` itself. If a later year has
        already begun in the time zone ``tz``, ``now.astimezone(tz)`` returns ``now`` in UTC.
        """
        return self._now >= INFINITY

    def register(self, at: datetime) -> None:
        """Register a timer, so that ``on_timer`` is called in the first batch in which ``now`` is later than ``at``.
        Does nothing in the last batch of a drain.

        Args:
            at: a datetime with a time zone, rounded up to a millisecond. If ``at`` is before ``now``, the timer fires
                in the same batch if ``on_message`` registers it, and in the next batch if ``on_timer`` does.

        Raises:
            UsageError: ``at`` has no time zone (not checked in the last batch of a drain), or the operator has no
                timers (``process(..., timers=...)``).
        """
        if not self.draining:
            self._become(_ms(at), True)

    def delete(self, at: datetime) -> None:
        """Remove a timer, if there is one at this time.

        Raises:
            UsageError: ``at`` has no time zone, or the operator has no timers.
        """
        self._become(_ms(at), False)

    def registered(self) -> list[datetime]:
        """The times of the key's timers, in UTC, the earliest first. In ``on_timer``, the result includes the time of
        the timer that is firing.

        Raises:
            UsageError: the operator has no timers.
        """
        its = set(self._kept.all())
        its = (its | {at for at, there in self._changed.items() if there}) - {
            at for at, there in self._changed.items() if not there
        }
        return [moment(at) for at in sorted(its)]

    def begin(self, now: int) -> None:
        """Begin a turn. ``now`` is the time on the operator's clock, in ms since 1970; 0 if there are no timers."""
        self._now = now
        self._changed = {}

    def flush(self) -> dict[int, bool]:
        """Write the turn's changes. Returns a dict that maps the time of each changed timer, in ms since 1970, to True
        if the timer was registered, or to False if it was deleted.
        """
        for at, there in self._changed.items():
            act: Callable[[int], None] = self._kept.register if there else self._kept.delete
            act(at)
        return self._changed

    @property
    def _kept(self) -> StoredTimers:
        if self._stored is None:
            raise UsageError(
                "the operator has no timers, because process(...) names no clock for them",
                'write process(..., timers="event_time") or timers="processing_time", and define on_timer in the '
                "processor",
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


class _End(datetime):
    """The value of ``now`` in a drain's last batch. If a sum, a difference or a conversion to another time zone would
    be outside the range of a datetime, the result is this value itself. So processors that compute times from ``now``
    don't fail.
    """

    def __add__(self, other: timedelta) -> _End:
        try:
            return super().__add__(other)
        except OverflowError:
            return self

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        try:
            return super().__sub__(other)
        except OverflowError:
            return self

    def astimezone(self, tz: tzinfo | None = None) -> Any:
        try:
            return super().astimezone(tz)
        except OverflowError:
            return self


def moment(ms: int) -> datetime:
    """A time in ms since 1970, as a datetime in UTC."""
    return _EPOCH + timedelta(milliseconds=ms)


_END = _End.fromisoformat(moment(INFINITY).isoformat())


def _ms(at: datetime) -> int:
    if not isinstance(at, datetime) or at.tzinfo is None:
        raise UsageError(f"a timer was given {at!r}, not a time with a zone", "pass a datetime with tzinfo, as UTC")
    return min(-((_EPOCH - at) // _MS), _LAST)
