"""Estimates what it costs to break off a batch for a change, and whether this saves time."""

from __future__ import annotations

__all__ = ["BROKEN_OFF", "is_worth_it", "likelihood", "mean_loss"]

BROKEN_OFF = 0.5
"""The seconds that breaking off a batch and its transactions takes."""
_GAIN = 1.5
"""The seconds that breaking off a batch must save. If part of the batch turns out to be visible, which is known only
once its query has been stopped, another query must finish the batch, which takes one to four seconds.
"""


def is_worth_it(left: float, spent: float) -> bool:
    """Whether breaking a batch off saves more than ``_GAIN`` seconds, compared with waiting for the seconds that are
    ``left`` of the batch. Breaking off costs ``BROKEN_OFF`` seconds, and the seconds since the batch began (``spent``),
    which are lost.
    """
    return left > spent + BROKEN_OFF + _GAIN


def likelihood(whole: float, spent: float, unsure: float) -> float:
    """The likelihood that a batch is broken off if its lane is told to end.

    Args:
        whole: the seconds that the whole batch takes.
        spent: the seconds since the batch began.
        unsure: the seconds by which ``spent`` and ``whole - spent`` may be wrong. Because of this, the likelihood is
            neither 0 nor 1 near the middle of a batch.
    """
    margin = whole - spent - (spent + BROKEN_OFF + _GAIN)
    return min(1.0, max(0.0, 0.5 + margin / (4 * unsure)))


def mean_loss(whole: float) -> float:
    """The seconds that are lost on average if a lane is told to end at a random moment of a batch. In the batch's first
    part, breaking off loses the seconds since the batch began, and ``BROKEN_OFF`` seconds. Later, the batch isn't
    broken off, and nothing is lost.

    Args:
        whole: the seconds that the whole batch takes.
    """
    first = (whole - BROKEN_OFF - _GAIN) / 2
    return first * (first / 2 + BROKEN_OFF) / whole if first > 0 else 0.0
