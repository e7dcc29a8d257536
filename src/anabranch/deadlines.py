"""Waits for a condition until a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

__all__ = ["wait_until"]

T = TypeVar("T")


def wait_until(
    look: Callable[[], T | None],
    within: float,
    late: Callable[[], BaseException],
    every: float,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
) -> T:
    """Call ``look`` until it returns something other than None, and return that. It is called at least once, and once
    more after the deadline.

    Args:
        look: checks the condition.
        within: the time until the deadline, in seconds.
        late: returns the error to raise if the condition isn't met by then.
        every: the time between two calls, in seconds.
        clock: returns seconds.
        sleep: waits for a number of seconds.
    """
    deadline = clock() + within
    while True:
        over = clock() >= deadline
        result = look()
        if result is not None:
            return result
        if over:
            raise late()
        sleep(min(every, max(0.0, deadline - clock())))
