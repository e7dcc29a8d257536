"""Decides whether a batch is broken off for a change, and estimates how much time this costs. No clock, no Spark."""

from __future__ import annotations

__all__ = ["BROKEN_OFF", "is_worth_it", "likelihood", "mean_loss"]

_SHORT = 0.5
"""In seconds. A batch with no more than this time left isn't broken off."""
BROKEN_OFF = 0.5
"""The seconds that it takes to break off a batch and its transactions."""
_MEAN_LOSS = 1 / 8
"""The share of a batch that is lost on average if a change is made at a random moment. In half of the cases, less than
half of the batch is done at that moment, and the finished part is lost: a quarter of the batch, on average. In the
other half of the cases, nothing is lost.
"""


def is_worth_it(left: float, spent: float) -> bool:
    """Whether breaking a batch off saves enough time: whether the remaining seconds (``left``) exceed half a second and
    the seconds since the batch began (``spent``), which are lost.
    """
    return left > max(_SHORT, spent)


def likelihood(whole: float, spent: float, unsure: float) -> float:
    """The likelihood that a batch is broken off if its lane is told to end.

    Args:
        whole: the seconds that the whole batch takes.
        spent: the seconds since the batch began.
        unsure: the seconds by which ``spent`` and ``whole - spent`` may be wrong. Because of this uncertainty, the
            likelihood is between 0 and 1 near the middle of a batch.
    """
    margin = whole - spent - max(_SHORT, spent)
    return min(1.0, max(0.0, 0.5 + margin / (4 * unsure)))


def mean_loss(whole: float) -> float:
    """The seconds that are lost on average if a lane is told to end at a random moment of a batch.

    Args:
        whole: the seconds that the whole batch takes.
    """
    return whole * _MEAN_LOSS + BROKEN_OFF / 2
