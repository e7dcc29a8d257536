"""Computes a lane's processing time, which never goes back, from the lane's last time and two clocks. A pure function.
All times are in ms.
"""

from __future__ import annotations

__all__ = ["PACE", "now"]

PACE = 0.9
"""The speed of a lane's time while it is ahead of the machine's clock."""


def now(reached: int, elapsed: float, wall: int) -> int:
    """A lane's processing time in Unix ms. Normally, this is the time on the machine's clock. But if the lane's time is
    ahead of this clock, the lane's time passes more slowly, at ``PACE``, until the clock has caught up.

    The lane's time can be ahead because the clock was set back, or because the lane ran on another machine. The
    lane's time never goes back, so closed windows stay closed, and no open window closes early.

    Args:
        reached: the lane's last time, in Unix ms.
        elapsed: the ms since then, on a clock that can't be set.
        wall: the time on the machine's clock, in Unix ms.
    """
    return max(wall, reached + int(PACE * max(0.0, elapsed)))
