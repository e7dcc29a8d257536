"""When a batch is broken off for a change, and how much time is lost. No clock, no Spark."""

from __future__ import annotations

__all__ = ["BROKEN_OFF", "is_worth_it", "likelihood", "mean_loss"]

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


def likelihood(whole: float, spent: float, unsure: float) -> float:
    """The likelihood that a batch is broken off if its lane is told to end.

    Args:
        whole: the seconds that the whole batch takes.
        spent: the seconds since its beginning.
        unsure: by how many seconds ``spent`` and ``whole - spent`` may be wrong. Near the middle of a batch, either may
            happen.
    """
    margin = whole - spent - max(_SHORT, spent)
    return min(1.0, max(0.0, 0.5 + margin / (4 * unsure)))


def mean_loss(whole: float) -> float:
    """The seconds of a batch that bring no output, on average, if its lane is told to end at a random moment.

    Args:
        whole: the seconds that the whole batch takes.
    """
    return whole * _MEAN_LOSS + BROKEN_OFF / 2
