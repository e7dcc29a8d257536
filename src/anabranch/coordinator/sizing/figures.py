"""Collects the metrics on which an autosizer, built-in or external, can base its decisions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from anabranch.config import AutoscaleSettings
from anabranch.coordinator.sizing import lane_load
from anabranch.coordinator.sizing.autosizing import Assessment, Verdict, cooldown_seconds
from anabranch.coordinator.sizing.lane_load import LaneLoad
from anabranch.coordinator.sizing.scalability import Scalability
from anabranch.model.factor import FACTORS
from anabranch.model.lane import LaneState
from anabranch.protocol.lane_report import LanePhase, LaneReport
from anabranch.protocol.status import (
    AutoscaleLimits,
    AutoscaleVerdict,
    FactorForecast,
    JobStatus,
    LaneSizing,
    LaneStatus,
    Sizing,
)

__all__ = ["of"]


def of(
    status: JobStatus, scalable: bool, verdict: Verdict | None, look: Assessment, limits: AutoscaleSettings
) -> Sizing:
    """The metrics of a job, and the autosizer's conclusions.

    Args:
        scalable: whether the job's graph and grouper allow factors other than 1.
        verdict: the autosizer's verdict; None if the autosizer is off.
    """
    lag = limits.target_lag_seconds
    allowed = FACTORS if scalable else (1,)
    proposed = look.most.factor if look.needs and scalable else 0
    known = zip(look.loads, look.seen, strict=True)
    rates = {load.lane: _rates(load, seen, look, proposed, lag) for load, seen in known}
    lanes = [lane for lane in status.lanes if lane.lane.state is not LaneState.CLOSING]
    return Sizing(
        job=status.job,
        state=status.state,
        generation=status.generation,
        factor=status.factor,
        containers=status.seats,
        allowed=allowed,
        lanes=tuple(
            _lane(
                each,
                each.report or LaneReport(lane=each.lane.id, phase=LanePhase.STARTING),
                rates.get(each.lane.id, {}),
            )
            for each in lanes
        ),
        autoscale="" if verdict is None else verdict.why,
        limits=None if verdict is None else _limits(limits),
        verdict=None if verdict is None else _verdict(verdict, look, lag),
        proposed=proposed,
        target_lag_seconds=lag,
        forecasts=tuple(_forecast(look, factor) for factor in allowed if look.needs),
        advice=look.advice,
    )


def _forecast(look: Assessment, factor: int) -> FactorForecast:
    pause = 0.0 if factor == look.factor else look.pause
    each = list(zip(look.loads, look.seen, strict=True))
    used = [lane_load.utilisation(load, factor, seen) for load, seen in each]
    waits = [lane_load.catch_up(load, factor, pause, seen) for load, seen in each]
    late = any(load.behind for load in look.loads)
    limiting = max(range(len(each)), key=(waits if late else used).__getitem__)
    return FactorForecast(
        factor=factor, lane=look.loads[limiting].lane, utilisation=max(used), catch_up=_finite(max(waits))
    )


def _rates(load: LaneLoad, seen: Scalability, look: Assessment, proposed: int, lag: float) -> dict[str, Any]:
    """The fields of :class:`LaneSizing` that are known once a lane's speed is known."""
    now = lane_load.catch_up(load, load.factor, 0.0, seen)
    changes = proposed not in (0, load.factor)
    then = lane_load.catch_up(load, proposed, look.pause, seen) if changes else now
    return {
        "true_rate": load.rate,
        "needed_rate": _needed(load, lag),
        "catch_up": _finite(now),
        "then": _finite(then),
    }


def _lane(status: LaneStatus, report: LaneReport, rates: Mapping[str, Any]) -> LaneSizing:
    lane = status.lane
    return LaneSizing(
        lane=lane.id,
        stage=lane.stage,
        seat=lane.seat,
        tasks=lane.tasks,
        lag=status.lag,
        lags=report.progress.lags,
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


def _limits(given: AutoscaleSettings) -> AutoscaleLimits:
    return AutoscaleLimits(
        min=given.min,
        max=given.max,
        target_busy=given.target_busy,
        target_lag_seconds=given.target_lag_seconds,
        cooldown_seconds=cooldown_seconds(given),
    )


def _verdict(verdict: Verdict, look: Assessment, lag: float) -> AutoscaleVerdict:
    if not look.needs:
        return AutoscaleVerdict(factor=verdict.factor, why=verdict.why)
    load = look.load_with(verdict.need or look.most)
    times = _needed(load, lag) / load.rate if load.rate else 0.0
    return AutoscaleVerdict(factor=verdict.factor, why=verdict.why, lane=load.lane, load=times)


def _needed(load: LaneLoad, lag: float) -> float:
    return load.arriving + load.backlog / lag


def _finite(seconds: float) -> float | None:
    return None if math.isinf(seconds) else seconds
