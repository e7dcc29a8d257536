"""Predicts, from the reports of lanes and from earlier changes, how long the output of lanes pauses while their
successors take over.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from anabranch.batch_times import functions_part
from anabranch.coordinator.jobs import batch_loss
from anabranch.coordinator.jobs.batch_loss import BatchLoss
from anabranch.coordinator.jobs.change_kind import Kind, kind_of
from anabranch.coordinator.jobs.pause_experience import Experience, partitions, usual_overhead
from anabranch.model.lane import Lane
from anabranch.pace import stored_sizes
from anabranch.pace.stored_sizes import FIRST_PART
from anabranch.protocol.lane_report import LaneReport

__all__ = ["Prediction", "predicted"]


@dataclass(frozen=True)
class Prediction:
    """The predicted pause of a change.

    Attributes:
        seconds: the longest expected time between the last rows of a closing lane and the first rows of its successors;
            0.0 if no lane closes.
        lost: the part of ``seconds`` that is lost because a batch is broken off.
        losses: the expected loss from each closing lane's batch, by lane id.
        kind: the kind of the change.
    """

    seconds: float = 0.0
    lost: float = 0.0
    losses: Mapping[str, BatchLoss] = field(default_factory=dict)
    kind: Kind = Kind.SAME


def predicted(
    closing: Collection[Lane],
    following: Collection[Lane],
    reports: Mapping[str, LaneReport],
    shown: Experience | None = None,
    *,
    kind: Kind | None = None,
    present: Iterable[Lane] = (),
    starting: float = 0.0,
    made_at: float | None = None,
    hasty: bool = False,
) -> Prediction:
    """Predict the pause of a change.

    Args:
        closing: the lanes that close.
        following: their successors. If there are none yet, the same lanes are assumed to start again.
        shown: what was measured during earlier changes.
        kind: the kind of the change; by default, it is determined from the lanes.
        present: all lanes before the change, including those that stay.
        starting: the seconds until all successors have a container.
        made_at: the current time, in seconds since 1970, if the change is made now; None if it is only planned. The
            time isn't used for a change to another version of the job, because lanes then close later, once containers
            with the new version's code are ready.
        hasty: whether a change that is made now breaks off every running batch, no matter how much work is lost or
            repeated.
    """
    shown, its = shown or Experience(), {lane.id: lane for lane in closing}
    successors = following or [msgspec.structs.replace(lane, predecessors=(lane.id,)) for lane in closing]
    kind = kind or kind_of(closing, successors, present)
    losses = {name: BatchLoss() for name in its}
    for name in losses.keys() & reports.keys():
        report = reports[name]
        if made_at is None or kind is Kind.VERSION:
            losses[name] = BatchLoss(batch_loss.lost(report))
        else:
            losses[name] = batch_loss.lost_now(report, made_at, hasty)
    longest, lost = starting, 0.0
    for each in successors:
        predecessors = [its[name] for name in each.predecessors if name in its]
        if not predecessors:
            continue
        # The pause begins with the last output of any predecessor, so only the least loss counts.
        least = min(losses[lane.id].seconds for lane in predecessors)
        overhead = usual_overhead(kind, any(lane.stateful for lane in predecessors)) * shown.slowness(kind)
        pause = least + overhead + _beginning(each, predecessors, reports, shown)
        if pause > longest:
            longest, lost = pause, least
    return Prediction(longest, lost, losses, kind) if losses else Prediction()


def _beginning(
    following: Lane, predecessors: Sequence[Lane], reports: Mapping[str, LaneReport], shown: Experience
) -> float:
    """How many seconds a lane is expected to need to load its state and run its first batch."""
    known = [(lane, reports[lane.id]) for lane in predecessors if lane.id in reports]
    first = max((_first_batch(following, lane, report, shown) for lane, report in known), default=0.0)
    return first + max((shown.loading(report) for _, report in known), default=0.0)


def _first_batch(following: Lane, lane: Lane, report: LaneReport, shown: Experience) -> float:
    """The seconds that the first batch of a lane is expected to take, according to a predecessor's report. For the
    number of records in a first batch, see :mod:`anabranch.pace.stored_sizes`.
    """
    known, cost = shown.known(lane, report), report.load.cost
    if cost is None or not known:
        functions = functions_part(report)
        return report.load.usual_seconds * (1 - functions + functions / FIRST_PART)
    share = partitions(following) / partitions(lane)
    size = stored_sizes.first(known, following.factor, partitions(following), quick=False)
    faster = _at_once(following, report) / _at_once(lane, report)
    return cost.seconds(min(size, share * _records(report)) / faster)


def _at_once(lane: Lane, report: LaneReport) -> int:
    """The maximum number of records that functions can process at the same time:

    - If functions process one key after another: the number of partitions, whatever the factor.
    - Otherwise, at a factor above 1: the number of buckets.
    - Otherwise: the number of partitions, or the number of Spark tasks that run at once if that is lower.
    """
    several, times = partitions(lane), report.load.batch_times
    if report.load.sequential:
        return several
    if lane.factor > 1:
        return several * lane.factor
    return min(several, times.tasks if times is not None and times.tasks else several)


def _records(report: LaneReport) -> float:
    """How many records a lane and its successors still have to read, according to the lane's lag. If the lag is 0, the
    result is infinity."""
    return report.progress.lag or math.inf
