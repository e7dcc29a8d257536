"""When a batch is broken off for a change, and how much time is lost. No clock, no Spark."""

from __future__ import annotations

__all__ = ["BROKEN_OFF", "expected_loss", "is_worth_it", "mean_loss"]

_SHORT = 0.5
"""In seconds. A batch with less time left than this isn't broken off."""
BROKEN_OFF = 0.5
"""The seconds that it takes to break off a batch, with its transactions."""
_MEAN_LOSS = 1 / 8
"""The share of a batch that is lost on average if a change is made at a random moment. If less than half of the batch
is done, that part is lost, which is a quarter of the batch on average; otherwise nothing is.
"""


def is_worth_it(left: float, spent: float) -> bool:
    """Whether finishing a batch takes longer than repeating it: its remaining seconds are compared with those since its
    beginning.
    """
    return left > max(_SHORT, spent)


def expected_loss(whole: float, spent: float, unsure: float) -> float:
    """The seconds of a batch that bring no output if its lane is told to end.

    Args:
        whole: the seconds that the whole batch takes.
        spent: the seconds since its beginning.
        unsure: by how many seconds ``spent`` and ``whole - spent`` may be wrong. If the batch is so near its middle
            that either may happen, the result lies in between.
    """
    margin = whole - spent - max(_SHORT, spent)
    likely = min(1.0, max(0.0, 0.5 + margin / (4 * unsure)))
    return likely * (spent + BROKEN_OFF)


def mean_loss(whole: float) -> float:
    """The mean of :func:`expected_loss` if the lane is told to end at a random moment of a batch that takes this many
    seconds.
    """
    return whole * _MEAN_LOSS + BROKEN_OFF / 2
