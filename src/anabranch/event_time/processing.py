"""Which windows of processing time are closed, as a pure function of the current time and the time of the last record.
All times are Unix ms.
"""

from __future__ import annotations

from anabranch.event_time.windows import Session, Sliding, Tumbling, Window

__all__ = ["closed"]

_TICK = 1_000
_PART = 10
"""How often anabranch checks which sessions have ended: this many times in each session gap, but at most once a
second. The checks are necessary because a session, unlike other windows, can end at any time.
"""


def closed(window: Window, newest: int, now: int) -> int:
    """The time that serves as the watermark: all windows that end by this time can be closed. This time rises only as
    long as there can be open windows. So a lane without new records eventually runs no more batches.

    Args:
        newest: when the last record was read.
        now: the current time, not before ``newest``.
    """
    match window:
        case Tumbling(size):
            return _last_end(size, size, newest, now)
        case Sliding(size, slide):
            return _last_end(size, slide, newest, now)
        case Session(gap):
            step = max(_TICK, gap // _PART)
            over = newest + gap + 1  # a record exactly one gap after the last one still belongs to the session
            return min(now // step, -(-over // step)) * step


def _last_end(size: int, slide: int, newest: int, now: int) -> int:
    of_newest = newest - newest % slide + size
    until = min(now, of_newest) - size
    return until - until % slide + size
