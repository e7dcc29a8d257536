"""Predicts how many seconds a change loses by breaking off the batch that a lane is running. If the batch is broken
off, the lane writes nothing from the beginning of this batch to the end of the pause.
"""

from __future__ import annotations

from dataclasses import dataclass

from anabranch.batch_times import REPORTED_EVERY, next_batch, present_batch, unreported, waiting
from anabranch.pace import break_off_cost
from anabranch.pace.break_off_cost import BROKEN_OFF
from anabranch.protocol.container import BatchDecision
from anabranch.protocol.lane_report import LaneReport

__all__ = ["BatchLoss", "lost", "lost_now", "without_output"]

_SHORT, _LONG = 1.0, 10.0
"""Durations of batches, in seconds. The prediction assumes that a batch that takes less than ``_SHORT`` isn't broken
off. If batches take less than ``_LONG``, the current batch's progress isn't used, because another batch may be running
by the time a plan is carried out.
"""
_NOTICED, _TAKEN = 0.2, 1.0
"""The assumed seconds from a change until lanes are told to end. ``_TAKEN`` applies if the lanes' successors first take
over slots. Otherwise, ``_NOTICED`` applies. A batch that begins within these seconds is assumed to be brief.
"""
_BETWEEN = 1.0
"""The assumed maximum time, in seconds, between two batches while records wait."""
_UNSURE = 0.2
"""The assumed uncertainty, in seconds, of a batch's age at the time when its lane notices a change."""


@dataclass(frozen=True)
class BatchLoss:
    """How much longer a change's pause is expected to be because a lane's running batch is broken off.

    Attributes:
        seconds: the expected seconds from the lane's last output until the batch has been broken off; 0.0 if no batch
            is expected to be broken off. If the time of the change is unknown, the value is a mean.
        decision: the batch, and whether it is expected to be broken off. None if there is no such prediction, for
            example because the batch is short, or because it will probably end before the lane is told to end.
        delay: the seconds from the change until the batch would be broken off; 0.0 without a ``decision``.
    """

    seconds: float = 0.0
    decision: BatchDecision | None = None
    delay: float = 0.0


def lost(report: LaneReport) -> float:
    """How many seconds a change at an unknown time is expected to lose by breaking off a lane's batch."""
    spent, whole = present_batch(report)
    if report.load.repeats or whole < _SHORT or spent > whole:
        return 0.0
    if whole < _LONG:
        return break_off_cost.mean_loss(whole, _noticed_after(report), gradual=report.load.gradual)
    return break_off_cost.likelihood(whole, spent, _UNSURE, gradual=report.load.gradual) * (spent + BROKEN_OFF)


def lost_now(report: LaneReport, now: float, hasty: bool) -> BatchLoss:
    """The expected loss from a lane's running batch if a change is made at ``now`` (in seconds since 1970). A ``hasty``
    change always breaks off the batch, however little of it is left.
    """
    spent, whole = present_batch(report)
    is_late = spent > whole
    if whole < _SHORT or (not hasty and (report.load.repeats or is_late)):
        return BatchLoss()
    since = without_output(report, now)
    delay = _noticed_after(report)
    spent += unreported(report, now) + delay
    if spent > whole and not is_late:  # by then, another batch may have begun; it is assumed to be brief
        return BatchLoss(spent - whole + BROKEN_OFF if hasty and next_batch(report) else 0.0)
    at = report.progress.batch_progress
    broken = hasty or break_off_cost.is_worth_it(whole - spent, spent, gradual=report.load.gradual)
    decision = BatchDecision(batch=report.progress.batch + 1 if at is None else at.number, break_off=broken)
    return BatchLoss(since + delay + BROKEN_OFF if broken else 0.0, decision, delay + BROKEN_OFF)


def _noticed_after(report: LaneReport) -> float:
    """The seconds from a change until the lane is told to end."""
    return _TAKEN if report.load.slots else _NOTICED


def without_output(report: LaneReport, now: float) -> float:
    """For how many seconds, up to ``now``, a lane has written nothing although there were records to read; 0.0 if no
    batch is running and no records wait. ``now`` is in seconds since 1970. The clocks of machines can differ. For this
    reason, the result is never less than the age of the running batch in the report, and never more than this age plus
    two seconds. If no batch is running, the age counts as 0.0.
    """
    at = report.progress.batch_progress
    if at is None and not waiting(report):
        return 0.0
    spent, last = 0.0 if at is None else at.seconds, report.progress.last_output or now
    return min(max(now - last, spent), spent + REPORTED_EVERY + _BETWEEN)
