"""When a batch is broken off for a change. No clock, no Spark."""

from __future__ import annotations

__all__ = ["is_worth_it"]

_SHORT = 0.5
"""In seconds. A batch with less time left than this isn't broken off."""


def is_worth_it(left: float, spent: float) -> bool:
    """Whether finishing a batch takes longer than repeating it: its remaining seconds are compared with those since its
    beginning.
    """
    return left > max(_SHORT, spent)
