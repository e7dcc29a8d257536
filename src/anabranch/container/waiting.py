"""How long a lane waits before a retry when its surroundings have failed. No clock, no threads, no randomness."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["Wait", "begun_or_continued", "pause"]

_FIRST, _LONGEST = 1.0, 15.0
"""In seconds. A recovery is noticed within the longest pause plus a fifth of it."""
_JITTER = 0.2
_MOST_DOUBLINGS = 10


@dataclass(frozen=True)
class Wait:
    """What a lane waits for, since when (in seconds on any clock), and how many times it has failed since."""

    awaited: str
    since: float
    attempts: int = 1


def begun_or_continued(wait: Wait | None, awaited: str, now: float) -> Wait:
    """The wait after another failure. What the lane waits for may have changed meanwhile, because it hasn't made
    progress since.
    """
    return Wait(awaited, now) if wait is None else Wait(awaited, wait.since, wait.attempts + 1)


def pause(wait: Wait, now: float, longest: float, chance: float) -> float | None:
    """The number of seconds after which to retry; None: the lane has waited long enough, and has failed.

    Args:
        longest: the most seconds that a lane may wait.
        chance: from 0 to 1, so that lanes that wait for the same thing don't all retry at once.
    """
    left = longest - max(0.0, now - wait.since)
    if left <= 0 and not math.isinf(longest):
        return None
    doubled = _FIRST * 2.0 ** min(wait.attempts - 1, _MOST_DOUBLINGS)
    return min(float(min(_LONGEST, doubled) * (1 - _JITTER + 2 * _JITTER * chance)), left)
