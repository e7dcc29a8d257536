"""Limits how often messages with a recurring cause are shown."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

__all__ = ["Throttled"]


@dataclass
class Throttled:
    """Passes a message on to ``tell``, and then drops further messages for ``every`` seconds. An empty message, which
    says that the cause is gone, is always passed on. Not thread-safe.
    """

    tell: Callable[[str], object]
    every: float = 600.0
    clock: Callable[[], float] = monotonic
    _quiet_until: float = -math.inf

    def __call__(self, text: str) -> None:
        now = self.clock()
        if not text:
            self.tell(text)
        elif now >= self._quiet_until:
            self._quiet_until = now + self.every
            self.tell(text)
