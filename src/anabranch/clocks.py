"""A clock that can't be set, for measuring leases and the processing time of lanes."""

from __future__ import annotations

import time

__all__ = ["boottime"]


def boottime() -> float:
    """The time in seconds on a clock that keeps running while the machine sleeps or, if the operating system has no
    such clock, on its monotonic clock.
    """
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
