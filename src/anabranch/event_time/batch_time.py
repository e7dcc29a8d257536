"""The processing time of a lane, which never goes back: a pure function of two clocks. All times are in ms."""

from __future__ import annotations

__all__ = ["PACE", "now"]

PACE = 0.9
"""How fast a lane's time goes while it is ahead of the machine's: so an hour is made good in ten."""


def now(reached: int, elapsed: float, wall: int) -> int:
    """The time of a lane, Unix ms. Where the machine's clock was set back, or the lane has come from a machine whose
    clock is ahead, it goes on from where it was, somewhat slower, until the machine's clock has caught up.

    Windows that were closed stay closed, then, and those that are open close after their size.

    Args:
        reached: where the lane was, Unix ms.
        elapsed: since then, by a clock that nobody sets.
        wall: by the machine's clock, Unix ms.
    """
    return max(wall, reached + int(PACE * max(0.0, elapsed)))
