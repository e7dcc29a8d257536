"""Which windows of processing time are closed, as a pure function of the time. All times are Unix ms."""

from __future__ import annotations

from anabranch.event_time.windows import Session, Sliding, Tumbling, Window

__all__ = ["closed"]

_TICK = 1_000
_PART = 10
"""Sessions can end at any time, so they are checked this many times per gap, but at most once per tick."""


def closed(window: Window, newest: int, now: int) -> int:
    """The time before which all windows can be closed, because each has either ended by then or hasn't begun. It rises
    only as long as there may be windows to close, so that a lane without records becomes quiet.

    Args:
        newest: when the last record was read.
        now: the present time, not before ``newest``.
    """
    match window:
        case Tumbling(size):
            return _last_end(size, size, newest, now)
        case Sliding(size, slide):
            return _last_end(size, slide, newest, now)
        case Session(gap):
            step = max(_TICK, gap // _PART)
            over = newest + gap + 1  # a record that comes at the very end goes on with it
            return min(now // step, -(-over // step)) * step


def _last_end(size: int, slide: int, newest: int, now: int) -> int:
    of_newest = newest - newest % slide + size
    until = min(now, of_newest) - size
    return until - until % slide + size
