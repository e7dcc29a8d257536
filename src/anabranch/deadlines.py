"""Waits, with a deadline, for a condition that other threads or processes bring about, or for a server's answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from typing import Any, TypeVar

__all__ = ["answered_within", "wait_until"]

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
        every: the seconds between two calls to ``look``; the last pause before the deadline can be shorter.
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


def answered_within(
    gen: Generator[Any, Any, T],
    limit: float,
    late: Callable[[], BaseException],
    *,
    clock: Callable[[], float] = time.monotonic,
) -> Generator[Any, Any, T]:
    """A generator for psycopg's ``Connection.wait`` that does what ``gen`` does, but raises ``late()`` if the server
    hasn't answered within ``limit`` seconds. To let the generator check this, psycopg sends it a false value whenever
    nothing has arrived for a moment.
    """
    end = clock() + limit
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            if not ready and clock() > end:
                raise late()
            wanted = gen.send(ready)
    except StopIteration as done:
        value: T = done.value
        return value
