"""Limits how often messages with a recurring cause are shown."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

__all__ = ["LastTold", "Throttled"]


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


@dataclass
class LastTold:
    """Remembers the last text that was shown about each thing. So if an attempt keeps failing for the same reason, the
    reason is reported only once. Thread-safe.
    """

    _texts: dict[Hashable, str] = field(default_factory=dict)

    def is_new(self, text: str, about: Hashable = None) -> bool:
        """Whether ``text`` differs from the text of the last call for the same thing."""
        before, self._texts[about] = self._texts.get(about), text
        return text != before

    def over(self, about: Hashable = None) -> None:
        """Forget the last text about a thing, because the problem is over. The next text about it counts as new."""
        self._texts.pop(about, None)

    def keep(self, those: Callable[[Any], bool]) -> None:
        """Keep only the things for which ``those`` returns True, and forget the others."""
        self._texts = {about: text for about, text in list(self._texts.items()) if those(about)}
