"""When a batch is broken off for a change. No clock, no Spark."""

from __future__ import annotations

__all__ = ["is_worth_it"]

_SHORT = 0.5
"""Seconds. A batch with less than this left is simply awaited."""


def is_worth_it(left: float, spent: float) -> bool:
    """Whether more of a batch is left than would be lost: the seconds until its end, compared with those since its
    beginning.
    """
    return left > max(_SHORT, spent)
