"""How fast this machine is at the moment: budgets in milliseconds are meant for an ordinary one."""

from __future__ import annotations

import time

__all__ = ["slowness"]

_ADDITIONS = 1_000_000
_ORDINARY = 0.05
"""The CPU seconds in which CPython 3.11 on a laptop of 2020 does that many additions in a loop."""
_TRIES = 5


def slowness() -> float:
    """How many times slower this machine is than an ordinary one, in CPU time; below 1 if it is faster."""
    return min(_added() for _ in range(_TRIES)) / _ORDINARY


def _added() -> float:
    begun, total = time.thread_time(), 0
    for number in range(_ADDITIONS):
        total += number
    return time.thread_time() - begun
