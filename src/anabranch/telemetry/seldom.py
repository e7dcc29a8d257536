"""Limits how often a warning is printed if its cause occurs at every attempt."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["Seldom"]

_QUIET_FOR = 600.0


class Seldom:
    """Prints a line, and then ignores all lines for ten minutes. Not thread-safe."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._quiet_until = 0.0

    def __call__(self, line: str) -> None:
        if time.monotonic() >= self._quiet_until:
            self._quiet_until = time.monotonic() + _QUIET_FOR
            self._say(line)
