"""The kinds of windows that a job file can use. The attributes of the classes are lengths in milliseconds."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from anabranch.errors import GraphError
from anabranch.event_time import durations

__all__ = [
    "START_AND_END",
    "Session",
    "Sliding",
    "Tumbling",
    "Window",
    "of_builtins",
    "session",
    "sliding",
    "to_builtins",
    "tumbling",
]

START_AND_END = ("window_start", "window_end")
"""The columns that identify a row's window. Both are timestamps; the end is exclusive."""


@dataclass(frozen=True)
class Tumbling:
    """Windows of one size, without gaps between them, aligned to 1970-01-01T00:00Z, as returned by :func:`tumbling`.

    Attributes:
        size: the length of a window in milliseconds.
    """

    size: int

    def start_of(self, at: int) -> int:
        """The start of the window that contains the time ``at``. Both times are in milliseconds since 1970.

        Example: ``tumbling("10 minutes").start_of(660_000)`` is ``600_000``.
        """
        return at - at % self.size


@dataclass(frozen=True)
class Sliding:
    """Overlapping windows of one size, aligned to 1970-01-01T00:00Z, as returned by :func:`sliding`.

    Attributes:
        size: the length of a window in milliseconds.
        slide: the time in milliseconds from the start of a window to the start of the next one.
    """

    size: int
    slide: int

    def starts_of(self, at: int) -> list[int]:
        """The starts of the windows that contain the time ``at``, the earliest first. All times are in milliseconds
        since 1970.

        Example: ``sliding("10 minutes", "5 minutes").starts_of(660_000)`` is ``[300_000, 600_000]``.
        """
        last = at - at % self.slide
        return list(range(last, at - self.size, -self.slide))[::-1]


@dataclass(frozen=True)
class Session:
    """Windows of a key, separated by gaps in the key's rows, as returned by :func:`session`.

    A session begins with its first row, and ends one gap after its last row.

    Attributes:
        gap: the time without rows, in milliseconds, after which a session ends.
    """

    gap: int


Window = Tumbling | Sliding | Session

_KINDS: dict[str, type[Window]] = {"tumbling": Tumbling, "sliding": Sliding, "session": Session}


def to_builtins(window: Window) -> dict[str, Any]:
    """The form in which a window is stored in a job's graph."""
    return {"kind": next(kind for kind, of in _KINDS.items() if isinstance(window, of)), **asdict(window)}


def of_builtins(held: dict[str, Any]) -> Window:
    """The inverse of :func:`to_builtins`."""
    of = _KINDS[held["kind"]]
    return of(**{name: held[name] for name in of.__dataclass_fields__})


def tumbling(size: str) -> Tumbling:
    """Windows of one size, without gaps between them, such as ``tumbling("1 hour")``.

    Args:
        size: the length of a window: a number and a unit, or several such pairs, as in ``"1 hour 30 minutes"``. The
            units are weeks, days, hours, minutes, seconds and milliseconds.

    Raises:
        GraphError: ``size`` is not a duration, or is zero.
    """
    return Tumbling(_length(size, 'tumbling("1 hour")'))


def sliding(size: str, slide: str) -> Sliding:
    """Overlapping windows: those of ``sliding("1 hour", "10 minutes")`` are one hour long and begin every ten minutes.

    Args:
        size: the length of a window, as for :func:`tumbling`.
        slide: the time from the start of a window to the start of the next one. It must not be longer than ``size``.

    Raises:
        GraphError: ``size`` or ``slide`` is not a duration or is zero, or ``slide`` is longer than ``size``.
    """
    cure = 'sliding("1 hour", "10 minutes")'
    found = Sliding(_length(size, cure), _length(slide, cure))
    if found.slide > found.size:
        raise GraphError(
            f"sliding: windows of {size!r} that begin every {slide!r} leave out what is between them",
            f"write {cure}: the slide is no longer than the size",
        )
    return found


def session(gap: str) -> Session:
    """Windows that end when a key has had no rows for a while, such as ``session("30 minutes")``.

    Args:
        gap: the time without rows after which a session ends, written as for :func:`tumbling`. A row exactly one gap
            after the last row still belongs to the session.

    Raises:
        GraphError: ``gap`` is not a duration, or is zero.
    """
    return Session(_length(gap, 'session("30 minutes")'))


def _length(text: str, cure: str) -> int:
    kind = cure.partition("(")[0]
    try:
        parsed = durations.parse(text)
    except ValueError as error:
        raise GraphError(f"{kind}: {error}", f"write {cure}") from None
    if not parsed:
        raise GraphError(f"{kind}: a window of {text!r} holds nothing", f"write {cure}")
    return parsed
