"""What an autosizer goes by: how the lanes of a job cope."""

from __future__ import annotations

from anabranch.messages import JobStatus, LaneReport, LaneSizing, LaneStatus, Sizing
from anabranch.model.factor import FACTORS
from anabranch.model.lane import LaneState

__all__ = ["of"]


def of(status: JobStatus, scalable: bool, autoscale: str) -> Sizing:
    """The figures of a job. ``scalable``: its graph and grouper allow other factors than 1."""
    lanes = [lane for lane in status.lanes if lane.lane.state is not LaneState.CLOSING]
    return Sizing(
        job=status.job,
        state=status.state,
        generation=status.generation,
        factor=status.factor,
        containers=status.seats,
        allowed=FACTORS if scalable else (1,),
        lanes=tuple(_lane(each, each.report or LaneReport(lane=each.lane.id, phase="")) for each in lanes),
        autoscale=autoscale,
    )


def _lane(status: LaneStatus, report: LaneReport) -> LaneSizing:
    lane = status.lane
    return LaneSizing(
        lane=lane.id,
        stage=lane.stage,
        seat=lane.seat,
        tasks=lane.tasks,
        lag=status.lag,
        lags={ssp: max(0, end - report.positions.get(ssp, 0)) for ssp, end in report.ends.items()},
        arriving=report.arriving,
        rows_per_second=report.rows_per_second,
        busy=report.busy,
        working=report.working,
        batch_seconds=report.seconds,
        slowest=report.slowest,
        slowest_seconds=report.slowest_seconds,
        skew=report.skew,
        batch_progress=report.batch_progress,
        spent=report.spent if report.batch_progress is None else report.batch_progress.spent,
    )
