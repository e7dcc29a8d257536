"""A batch that goes on for long is told of, in events and to who looks."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from anabranch.cli import progress, tables
from anabranch.config import AutoscaleSettings
from anabranch.coordinator.api import listening
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.jobs.long_batches import LongBatches
from anabranch.coordinator.sizing import figures
from anabranch.coordinator.sizing.autosizing import Assessment
from anabranch.coordinator.store import Store
from anabranch.model.deployment_state import DeploymentState
from anabranch.protocol.lane_report import BatchProgress, LanePhase, LaneReport
from anabranch.protocol.status import JobStatus, LaneSizing, LaneStatus
from tests.support.reports import lane_report
from tests.unit.coordinator.helpers import FIRST, Clock, Seat, lane, plan, report

LANE = "0-3fa85b12"


def at(seconds: float, number: int = 4, **fields: Any) -> BatchProgress:
    given = {"planned": 60_000, "done": 1_200, "phase": "functions", "rows_per_second": 40.0, "left": 1470.0}
    return BatchProgress(number=number, seconds=seconds, **{**given, **fields})


def running(seconds: float, **fields: Any) -> LaneReport:
    return report(LANE, "running", batch=3, batch_progress=at(seconds, **fields))


def test_it_is_told_at_half_a_minute_and_then_each_time_twice_as_late() -> None:
    batches = LongBatches()
    told = [seconds for seconds in range(1, 500) if batches.take(running(seconds))]
    assert told == [30, 60, 120, 240, 480]


def test_each_batch_begins_anew() -> None:
    batches = LongBatches()
    assert batches.take(running(200))
    assert not batches.is_due(running(20, number=5))
    assert batches.take(running(31, number=5))
    assert not batches.take(report(LANE, "running"))


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator(Store("sqlite://"), Clock(), now=lambda: 7.0)


@pytest.mark.parametrize("expels", [False, True])
def test_there_is_an_event_of_it(expels: bool) -> None:
    """Whether beats that bring figures only are heard aside or not."""
    grace = {"grace": 5.0} if expels else {}
    coordinator = Coordinator(Store("sqlite://"), Clock(), now=lambda: 7.0, **grace)
    coordinator.start(plan())
    seat = Seat(coordinator)
    for seconds in range(1, 70):
        progress_ = at(seconds, number=0, spent={"functions": seconds - 2.0, "reading": 2.0})
        seat.beat(report(FIRST, "running", batch=-1, batch_progress=progress_))
    told = [event for event in coordinator.events("delays", 50) if "continues" in event.what]
    assert [event.what for event in told] == [f"lane {FIRST} continues with batch 0"] * 2
    assert told[0].why == (
        "1,200 of 60,000 records in 30 s, 1470 s left; it waits for functions (functions 28 s, reading 2 s)"
    )


def sized(coordinator: Coordinator) -> LaneSizing:
    limits = AutoscaleSettings(max=4)
    found = figures.of(coordinator.status("delays"), scalable=True, verdict=None, look=Assessment(4), limits=limits)
    return found.lanes[0]


def test_who_looks_sees_it_in_status_sizing_and_metrics(coordinator: Coordinator) -> None:
    coordinator.start(plan())
    seat = Seat(coordinator)
    seat.beat(
        report(FIRST, "running", batch=3, batch_progress=at(12.0, spent={"functions": 12.0}), spent={"state": 1.0})
    )
    (first, _) = coordinator.status("delays").lanes
    assert first.report is not None
    assert first.report.progress.batch_progress == at(12.0, spent={"functions": 12.0})
    found = sized(coordinator)
    assert found.batch_progress == at(12.0, spent={"functions": 12.0})
    assert found.spent == {"functions": 12.0}
    server = listening.serve(coordinator)
    try:
        scraped = httpx.get(f"{server.url}/metrics", trust_env=False).text
    finally:
        server.close()
    for name, value in (("planned_records", "60000.0"), ("done_records", "1200.0"), ("seconds", "12.0")):
        assert any(
            line.startswith(f"anabranch_lane_running_batch_{name}{{")
            and f'lane="{FIRST}"' in line
            and line.endswith(value)
            for line in scraped.splitlines()
        ), name
    seat.beat(report(FIRST, "running", batch=4, spent={"functions": 20.0}))
    assert sized(coordinator).spent == {"functions": 20.0}


def shown(progress_: BatchProgress, batch: int = 11) -> JobStatus:
    its = lane_report(lane=LANE, phase=LanePhase.RUNNING, batch=batch, batch_progress=progress_)
    lanes = (LaneStatus(lane=lane(LANE), report=its),)
    return JobStatus(job="j", deployment=1, generation=1, state=DeploymentState.RUNNING, lanes=lanes)


@pytest.mark.parametrize(
    ("progress_", "line"),
    [
        (at(12.0, number=12), f"lane {LANE}: batch 12: 1,200 of 60,000 (2%), 40/s, 24 min left; functions"),
        (at(1.0, done=0, left=None, phase="reading"), f"lane {LANE}: batch 4: 0 of 60,000 (0%); reading"),
        (at(1.0, planned=0, done=0, left=None, phase="state"), f"lane {LANE}: batch 4: 0 of 0; state"),
        (at(1.0, left=7900.0), f"lane {LANE}: batch 4: 1,200 of 60,000 (2%), 40/s, 2 h 11 min left; functions"),
        (at(1.0, left=3.2), f"lane {LANE}: batch 4: 1,200 of 60,000 (2%), 40/s, 3 s left; functions"),
    ],
)
def test_it_is_one_line_of_80_columns(progress_: BatchProgress, line: str) -> None:
    status = shown(progress_)
    assert progress.batches(status) == [line]
    assert len(line) <= 80
    assert line.partition(": ")[2].partition(": ")[2] in progress.line(status)


def test_a_lane_that_has_not_finished_a_batch_shows_no_number() -> None:
    status = shown(at(1.0, number=0), batch=-1)
    console = tables.wide(record=True)
    console.print(tables.lanes(status))
    assert ", no batch yet, rows " in progress.line(status)
    assert "-1" not in progress.line(status) + console.export_text()


def test_watched_it_stands_below_the_table() -> None:
    console = tables.wide(record=True)
    console.print(tables.lanes(shown(at(12.0))))
    assert "1,200 of 60,000" in console.export_text()


def test_where_time_goes_is_told_in_parts() -> None:
    assert progress.spent({"reading": 1.0, "functions": 8.5, "publishing": 0.5, "state": 0.01}) == (
        "of 10 s: functions 85%, reading 10%, publishing 5%"
    )
    assert progress.spent({}) == ""
