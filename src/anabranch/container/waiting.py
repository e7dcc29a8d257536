"""Computes how long a lane whose surroundings have failed waits before the next attempt. No clock, no threads, no
randomness."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["Wait", "begun_or_continued", "pause"]

_FIRST, _LONGEST = 1.0, 15.0
"""The first and the longest pause, in seconds. A recovery is noticed within 1.2 times the longest pause."""
_JITTER = 0.2
_MOST_DOUBLINGS = 10


@dataclass(frozen=True)
class Wait:
    """What a lane waits for, since when (in seconds on any clock), and how many times the lane has failed since
    then."""

    awaited: str
    since: float
    attempts: int = 1


def begun_or_continued(wait: Wait | None, awaited: str, now: float) -> Wait:
    """The wait after a failure. If ``wait`` is None, a new wait begins. Otherwise, ``wait`` continues with one more
    failure, even if the lane now waits for something else."""
    return Wait(awaited, now) if wait is None else Wait(awaited, wait.since, wait.attempts + 1)


def pause(wait: Wait, now: float, longest: float, chance: float) -> float | None:
    """The seconds before the next attempt; None if the lane has waited too long, and counts as failed.

    Args:
        longest: the seconds after which a waiting lane counts as failed.
        chance: a random number from 0 to 1 that varies the result. If the result didn't vary, all lanes that wait for
            the same thing would try again at the same time.
    """
    left = longest - max(0.0, now - wait.since)
    if left <= 0 and not math.isinf(longest):
        return None
    doubled = _FIRST * 2.0 ** min(wait.attempts - 1, _MOST_DOUBLINGS)
    return min(float(min(_LONGEST, doubled) * (1 - _JITTER + 2 * _JITTER * chance)), left)
