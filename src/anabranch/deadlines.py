"""Waits, with a deadline, for a condition that other threads or processes bring about."""

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
    """Call ``look`` until its result isn't None, and return the result.

    ``look`` is called once more after the deadline, before the error is raised.

    Args:
        within: the seconds until the deadline.
        late: returns the error to raise after the deadline.
        every: the seconds between two calls of ``look``; the last pause before the deadline can be shorter.
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
