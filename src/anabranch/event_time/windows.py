"""Windows of event time, as a job file names them."""

from __future__ import annotations

from dataclasses import dataclass

from anabranch.errors import GraphError
from anabranch.event_time import durations

__all__ = ["START_AND_END", "Tumbling", "tumbling"]

START_AND_END = ("window_start", "window_end")
"""The columns that say which window a row is of. Both are timestamps; the end isn't in the window."""


@dataclass(frozen=True)
class Tumbling:
    """Windows of one size, side by side, from 1970-01-01T00:00:00Z on."""

    size: int

    def start_of(self, at: int) -> int:
        """The start of the window that holds an event time. All in milliseconds since 1970."""
        return at - at % self.size


def tumbling(size: str) -> Tumbling:
    """Windows side by side, as ``tumbling("1 hour")``.

    Raises:
        GraphError: not a duration, or an empty one.
    """
    try:
        parsed = durations.parse(size)
    except ValueError as error:
        raise GraphError(f"tumbling: {error}", 'write tumbling("1 hour")') from None
    if not parsed:
        raise GraphError(f"tumbling: a window of {size!r} holds nothing", 'write tumbling("1 hour")')
    return Tumbling(parsed)
