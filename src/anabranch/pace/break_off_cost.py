"""Estimates what it costs to break off a batch for a change, and whether breaking off saves time.

A batch is *gradual* if an output has several slots, which become visible one after another while the batch is still
running. If a slot becomes visible after the decision to break the batch off, another query must finish the batch, which
takes one to four seconds. Other batches become visible only at their end.
"""

from __future__ import annotations

__all__ = ["BROKEN_OFF", "is_worth_it", "likelihood", "mean_loss"]

BROKEN_OFF = 0.3
"""How many seconds it takes to break off a batch and its transactions."""
_GAIN, _GRADUAL_GAIN = 0.5, 1.5
"""The seconds that breaking off a batch must save. ``_GRADUAL_GAIN`` is for gradual batches, and ``_GAIN`` for all
others."""
_CLOSE = 1.0
"""How many seconds the other choice must save before an earlier decision changes. Two estimates of the gain can differ
by this much."""


def is_worth_it(left: float, spent: float, *, gradual: bool, decided: bool | None = None) -> bool:
    """Whether breaking a batch off saves enough time: more than 0.5 seconds or, if the batch is gradual, more than 1.5
    seconds.

    Waiting for the batch's end takes ``left`` seconds. Breaking off takes ``BROKEN_OFF`` seconds, and loses the
    ``spent`` seconds since the batch began.

    Args:
        gradual: whether the batch is gradual; see the beginning of this module.
        decided: whether an earlier decision was to break this batch off; None if there is no earlier decision. The
            decision changes only if the other choice has become better by more than one second, because ``left`` is an
            estimate.
    """
    gain = left - spent - _least(gradual)
    return gain > (0.0 if decided is None else -_CLOSE if decided else _CLOSE)


def likelihood(whole: float, spent: float, unsure: float, *, gradual: bool) -> float:
    """The likelihood that a batch is broken off if its lane is told to end.

    Args:
        whole: the seconds that the whole batch takes.
        spent: the seconds since the batch began.
        unsure: the seconds by which ``spent`` and ``whole - spent`` can be wrong. Because of this uncertainty, the
            likelihood is neither 0 nor 1 near the middle of a batch.
    """
    margin = whole - spent - (spent + _least(gradual))
    return min(1.0, max(0.0, 0.5 + margin / (4 * unsure)))


def mean_loss(whole: float, delay: float, *, gradual: bool) -> float:
    """The seconds that are lost on average if a change is made at a random moment during a batch.

    In the first part of a batch, while breaking off is worthwhile, the batch is broken off. This loses the seconds
    since the batch began, and ``BROKEN_OFF`` seconds. Later, the batch is finished, and nothing is lost.

    Args:
        whole: the seconds that the whole batch takes.
        delay: the seconds from the change until the lane is told to end. During this time, the batch continues. If the
            batch ends during this time, nothing is lost.
    """
    last = (whole - _least(gradual)) / 2
    return (last - delay) * ((last + delay) / 2 + BROKEN_OFF) / whole if last > delay else 0.0


def _least(gradual: bool) -> float:
    """Breaking off a batch is worthwhile only if the rest of the batch takes at least this many seconds longer than
    the time already spent on the batch.
    """
    return BROKEN_OFF + (_GRADUAL_GAIN if gradual else _GAIN)
