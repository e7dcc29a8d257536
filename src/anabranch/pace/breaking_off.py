"""When a batch is broken off for a change. No clock, no Spark."""

from __future__ import annotations

__all__ = ["is_worth_it"]

_SHORT = 0.5
"""Seconds. A batch with so little left is simply awaited."""


def is_worth_it(left: float, spent: float) -> bool:
    """Whether more of a batch is left than would be lost: seconds until its end, and since its begin."""
    return left > max(_SHORT, spent)
