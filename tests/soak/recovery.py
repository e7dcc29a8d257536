"""How soon a job must continue once what it waited for is well again."""

from __future__ import annotations

__all__ = ["within"]

_WITHIN, _LONGEST_PAUSE = 30.0, 15.0


def within(start: float) -> float:
    """The limit in seconds, for a job whose first batch was there ``start`` seconds after its process was started.

    It is 30 s, unless the machine is so busy that the longest pause of a waiting lane and another start take longer.
    """
    return max(_WITHIN, _LONGEST_PAUSE + start)
