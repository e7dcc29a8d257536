"""Figures that containers report, as tests make them up."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from anabranch.config import AutoscaleSettings
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.sizing import autosizing
from anabranch.coordinator.sizing.autosizing import Verdict
from anabranch.coordinator.sizing.findings import Findings
from anabranch.protocol.lane_report import LaneReport
from anabranch.protocol.status import ContainerStatus, JobStatus, LaneStatus
from tests.support.reports import lane_report
from tests.unit.coordinator.helpers import FIRST, lane
from tests.unit.coordinator.workers import Worker, running


def with_figures(coordinator: Coordinator, **given: int) -> Worker:
    worker = running(coordinator, **given)
    name, found = next(iter(worker.reports.items()))
    ends = {ssp: at + 10 * (place + 1) for place, (ssp, at) in enumerate(found.progress.positions.items())}
    figures = {"rows_per_second": 30.0, "arriving": 20.0, "held_by": next(iter(ends)), "watermark": 7}
    worker.reports[name] = found.changed(ends=ends, **figures)
    worker.turn()
    return worker


LONG = 1e6


SSP = "embedded/flights/0"


LIMITS = AutoscaleSettings(min=1, max=64, target_busy=0.7, target_lag_seconds=60)


BEHIND = {"busy": 1.0, "working": 1.0, "seconds": 3.0, "usual_seconds": 3.0, "rows_per_second": 100.0}


def report(lane_id: str = FIRST, lag: int = 0, **figures: Any) -> LaneReport:
    """Without a lag, so much arrives as is done."""
    known = {"phase": "running", "span": 30.0, "rows_per_second": 100.0, "seconds": 1.0, "busy": 1.0}
    done = 0.0 if lag else figures.get("rows_per_second", 100.0) * figures.get("busy", 1.0)
    return lane_report(lane=lane_id, ends={SSP: lag}, positions={SSP: 0}, **{**known, "arriving": done, **figures})


def status(
    *reports: LaneReport | None, factor: int = 4, state: str = "running", alive: bool = True, generation: int = 1
) -> JobStatus:
    lanes = (LaneStatus(lane=lane(FIRST if each is None else each.lane), report=each) for each in reports)
    seat = ContainerStatus(container="delays:0:1", seat="0", epoch=1, host="h", pid=1, alive=alive)
    return JobStatus(
        job="delays",
        deployment=1,
        generation=generation,
        state=state,
        factor=factor,
        lanes=tuple(lanes),
        containers=(seat,),
    )


def going_on(told: JobStatus, second: int) -> JobStatus:
    """Records are done meanwhile, so that the figures are new each second."""
    lanes = []
    for each in told.lanes:
        its = each.report
        if its is not None:
            its = its.changed(rows=its.progress.rows + int(second * its.load.rows_per_second * its.load.busy))
        lanes.append(msgspec.structs.replace(each, report=its))
    return msgspec.structs.replace(told, lanes=tuple(lanes))


def decided(
    told: JobStatus,
    limits: AutoscaleSettings = LIMITS,
    since: float = LONG,
    undone: bool = False,
    seconds: int = 130,
    pause: float = 1.0,
    threads: int = 64,
) -> Verdict:
    """The first change that comes of so many seconds of such figures, else what is said at last."""
    findings, verdict = Findings(), Verdict(None, "")
    undone_since = since if undone else math.inf
    for second in range(seconds):
        told_now = going_on(told, second)
        look, findings = autosizing.looked(limits, told_now, threads, pause, findings, float(second))
        verdict = autosizing.decide(limits, told_now, since, undone_since, look, findings, float(second))
        if verdict.factor is not None:
            return verdict
    return verdict
