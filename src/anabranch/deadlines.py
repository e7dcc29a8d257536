"""Waiting for something that others bring about: one loop, with a deadline."""

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
    """The result of ``look``, once it isn't None. ``look`` is called at least once, and once more after the deadline.

    Args:
        within: seconds.
        late: returns the error to raise after that.
        every: seconds between two calls.
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
