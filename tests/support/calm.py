"""When a job that runs has nothing left to do."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from anabranch.coordinator.api.client import Client
from anabranch.protocol.lane_report import LaneReport
from anabranch.protocol.status import JobStatus

Until = Callable[[str, Callable[[], bool]], None]

_CALM = 6.0


def until_calm(client: Client, job: str, ends: Mapping[str, int], until: Until) -> None:
    """Wait until these SSPs are read up to these ends, and no lane commits a batch any more.

    A lane that has just begun tells no position: then nothing is known to be read. The batches that emit what a
    watermark has passed come after the last record: calm is three times the longest last batch, six seconds at least.
    """
    until("all is read", lambda: _are_read(client.status(job), ends))
    held: list[tuple[float, Any]] = []

    def calm() -> bool:
        reports = _reports(client.status(job))
        now = [(report.progress.batch, report.event_time.watermark) for report in reports]
        if not held or held[-1][1] != now:
            held.append((time.monotonic(), now))
        longest = max((report.load.seconds for report in reports), default=0.0)
        return time.monotonic() > held[-1][0] + max(_CALM, 3 * longest)

    until("it is calm", calm)


def _are_read(status: JobStatus, ends: Mapping[str, int]) -> bool:
    reports = _reports(status)
    if len(reports) < len(status.lanes) or any(lane.lag for lane in status.lanes):
        return False
    told = {ssp for report in reports for ssp in report.progress.positions}
    behind = (ssp for report in reports for ssp, at in report.progress.positions.items() if at < ends.get(ssp, 0))
    return told >= set(ends) and not any(behind)


def _reports(status: JobStatus) -> list[LaneReport]:
    return [lane.report for lane in status.lanes if lane.report is not None]
