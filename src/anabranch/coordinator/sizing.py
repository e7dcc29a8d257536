"""What an autosizer needs: how well the lanes of a job keep up."""

from __future__ import annotations

import math
from typing import Any

from anabranch.coordinator.autosizing import Assessment
from anabranch.coordinator.lane_load import LaneLoad
from anabranch.coordinator.needed_factor import FactorNeed
from anabranch.model.factor import FACTORS
from anabranch.model.lane import LaneState
from anabranch.protocol.lane_report import LanePhase, LaneReport
from anabranch.protocol.status import JobStatus, LaneSizing, LaneStatus, Sizing

__all__ = ["of"]


def of(status: JobStatus, scalable: bool, autoscale: str, look: Assessment, lag: float) -> Sizing:
    """The figures of a job, and the autosizer's findings, for a target ``lag`` in seconds. ``scalable``: its graph and
    grouper allow factors other than 1.
    """
    needs = {load.lane: (load, need) for load, need in zip(look.loads, look.needs, strict=True)}
    lanes = [lane for lane in status.lanes if lane.lane.state is not LaneState.CLOSING]
    return Sizing(
        job=status.job,
        state=status.state,
        generation=status.generation,
        factor=status.factor,
        containers=status.seats,
        allowed=FACTORS if scalable else (1,),
        lanes=tuple(
            _lane(
                each,
                each.report or LaneReport(lane=each.lane.id, phase=LanePhase.STARTING),
                needs.get(each.lane.id),
                lag,
            )
            for each in lanes
        ),
        autoscale=autoscale,
        proposed=look.most.factor if look.needs and scalable else 0,
        target_lag_seconds=lag,
        advice=look.advice,
    )


def _lane(status: LaneStatus, report: LaneReport, known: tuple[LaneLoad, FactorNeed] | None, lag: float) -> LaneSizing:
    lane = status.lane
    rates: dict[str, Any] = {}
    if known is not None:
        load, need = known
        rates = {
            "true_rate": load.rate,
            "needed_rate": load.arriving + load.backlog / lag,
            "catch_up": _finite(need.now),
            "then": _finite(need.then),
        }
    return LaneSizing(
        lane=lane.id,
        stage=lane.stage,
        seat=lane.seat,
        tasks=lane.tasks,
        lag=status.lag,
        lags={ssp: max(0, end - report.progress.positions.get(ssp, 0)) for ssp, end in report.progress.ends.items()},
        arriving=report.load.arriving,
        rows_per_second=report.load.rows_per_second,
        busy=report.load.busy,
        working=report.load.working,
        batch_seconds=report.load.seconds,
        slowest=report.load.slowest,
        slowest_seconds=report.load.slowest_seconds,
        skew=report.load.skew,
        **rates,
        batch_progress=report.progress.batch_progress,
        spent=report.load.spent if report.progress.batch_progress is None else report.progress.batch_progress.spent,
    )


def _finite(seconds: float) -> float | None:
    return None if math.isinf(seconds) else seconds
