"""Predicts, from the reports of lanes and from earlier changes, how long the output of lanes pauses while their
successors take over.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from anabranch.coordinator.jobs import batch_loss
from anabranch.coordinator.jobs.batch_loss import BatchLoss
from anabranch.coordinator.jobs.change_kind import Kind
from anabranch.coordinator.jobs.pause_experience import Experience, partitions, usual_overhead
from anabranch.drain_progress import functions_part
from anabranch.model.lane import Lane
from anabranch.pace import stored_sizes
from anabranch.pace.batch_cost import BatchCost
from anabranch.pace.stored_sizes import FIRST_PART
from anabranch.protocol.lane_report import LaneReport

__all__ = ["Prediction", "expected", "predicted"]


@dataclass(frozen=True)
class Prediction:
    """The predicted pause of a change.

    Attributes:
        seconds: the longest expected time between the last rows of a closing lane and the first rows of its successors;
            0.0 if no lane closes.
        lost: the part of ``seconds`` that is lost because a batch is broken off.
        losses: what is lost of the batch of each closing lane, by lane.
    """

    seconds: float = 0.0
    lost: float = 0.0
    losses: Mapping[str, BatchLoss] = field(default_factory=dict)


def expected(
    closing: Iterable[Lane],
    reports: Mapping[str, LaneReport],
    kind: Kind,
    shown: Experience | None = None,
    starting: float = 0.0,
    following: Collection[Lane] = (),
) -> float:
    """The predicted pause in seconds of a change that is only planned; see :func:`predicted`."""
    return predicted(closing, reports, kind, shown, starting, following).seconds


def predicted(
    closing: Iterable[Lane],
    reports: Mapping[str, LaneReport],
    kind: Kind,
    shown: Experience | None = None,
    starting: float = 0.0,
    following: Collection[Lane] = (),
    made_at: float | None = None,
    *,
    hasty: bool = False,
) -> Prediction:
    """Predict the pause of a change.

    Args:
        shown: what was measured during earlier changes.
        starting: the seconds until all successors have a container.
        following: the successors. If they aren't given, their first batches are predicted as for the same factor.
        made_at: the current time, in seconds since 1970, if the change is made now; None if it is only planned. Lanes
            of another version of the job close later: once containers with its code are ready.
        hasty: whether a change that is made now breaks off every running batch, whatever is lost or repeated.
    """
    shown = shown or Experience()
    longest, lost, losses = starting, 0.0, {}
    for lane in closing:
        pause = usual_overhead(kind, lane.stateful) * shown.slowness(kind)
        loss, report = BatchLoss(), reports.get(lane.id)
        if report is not None:
            cost = report.load.cost
            next_lanes = [each for each in following if lane.id in each.predecessors]
            if made_at is None or any(each.deployment != lane.deployment for each in next_lanes):
                loss = BatchLoss(batch_loss.lost(report, cost))
            else:
                loss = batch_loss.lost_now(report, cost, made_at, hasty)
            first = _first_batch(lane, report, cost, next_lanes, shown)
            pause += loss.seconds + first + shown.loading(report)
        losses[lane.id] = loss
        if pause > longest:
            longest, lost = pause, loss.seconds
    return Prediction(longest, lost, losses) if losses else Prediction()


def _first_batch(
    lane: Lane, report: LaneReport, cost: BatchCost | None, following: Collection[Lane], shown: Experience
) -> float:
    """The seconds that the longest of the first batches of a lane's successors takes. For the number of records in a
    first batch, see :mod:`anabranch.pace.stored_sizes`. The time of the job's functions depends on the number of
    records per bucket or, if the functions process one key after another, per partition.
    """
    known = shown.known(lane, report)
    if cost is None or not known or not following:
        functions = functions_part(report)
        return report.load.usual_seconds * (1 - functions + functions / FIRST_PART)
    longest = 0.0
    for each in following:
        share = partitions(each) / partitions(lane)
        buckets = share * (1.0 if report.load.sequential else each.factor / lane.factor)
        records = min(stored_sizes.first(known, each.factor, partitions(each), quick=False), share * _records(report))
        longest = max(longest, cost.seconds(records / buckets))
    return longest


def _records(report: LaneReport) -> float:
    """How many records a lane and its successors still have to read; infinite if none are known."""
    return report.progress.lag or math.inf
