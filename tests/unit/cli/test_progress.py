"""What a run says of its lanes at the end."""

from __future__ import annotations

import pytest

from anabranch.cli import progress, tables
from anabranch.model.deployment_state import DeploymentState
from anabranch.protocol.lane_report import LanePhase
from anabranch.protocol.standby import StandbyStatus
from anabranch.protocol.status import JobStatus, LaneStatus
from tests.support.reports import lane_report
from tests.unit.coordinator.helpers import FIRST, lane


@pytest.mark.parametrize(
    ("watermark", "held_by", "said"),
    [
        (None, None, ""),
        (None, "embedded/a/1", "; no watermark: embedded/a/1 has had no event time yet, which keeps every window open"),
        (1_388_546_100_000, "embedded/a/1", "; watermark 2014-01-01 03:15:00, held back by embedded/a/1"),
    ],
)
def test_what_holds_windows_open_is_said(watermark: int | None, held_by: str | None, said: str) -> None:
    report = lane_report(lane="0-1", phase=LanePhase.ENDED, watermark=watermark, held_by=held_by)
    assert progress.event_time(report) == said


@pytest.mark.parametrize(("ends_known", "said"), [(True, "2,340"), (False, "?")])
def test_the_lag_is_said_only_while_it_is_known(ends_known: bool, said: str) -> None:
    told = lane_report(FIRST, LanePhase.RUNNING, positions={"a/b/0": 0}, ends={"a/b/0": 2340}, ends_known=ends_known)
    lanes = (LaneStatus(lane=lane(FIRST), report=told),)
    status = JobStatus(job="j", deployment=1, generation=1, state=DeploymentState.RUNNING, lanes=lanes)
    assert progress.line(status).endswith(f", lag {said}")
    console = tables.wide(record=True)
    console.print(tables.table(status))
    assert f" {said} " in console.export_text()


def test_standbys_are_shown_with_who_keeps_them_and_how_far_behind_they_are() -> None:
    copies = (
        StandbyStatus(lane="0-b", number=0, container="j:1:4", rack="a", batch=7, behind=0),
        StandbyStatus(lane="0-a", number=1, container="", batch=3, behind=2),
        StandbyStatus(lane="0-a", number=0, container="j:1:4", error="No space left on device"),
        StandbyStatus(lane="0-c", number=0, container="j:1:4"),
    )
    status = JobStatus(job="j", deployment=1, generation=1, state=DeploymentState.RUNNING, copies=copies)
    assert progress.standbys(status) == [
        "standby 0 of lane 0-a: kept by j:1:4, error: No space left on device",
        "standby 1 of lane 0-a: kept by a process that stands by, 2 batch(es) behind",
        "standby 0 of lane 0-b: kept by j:1:4 in rack a, up to date",
        "standby 0 of lane 0-c: kept by j:1:4, not complete yet",
    ]


def test_what_a_lane_has_read_is_counted_from_its_last_start(capsys: pytest.CaptureFixture[str]) -> None:
    told = lane_report(FIRST, LanePhase.ENDED, rows=1, number=2, dropped=4)
    lanes = (LaneStatus(lane=lane(FIRST), report=told),)
    status = JobStatus(job="j", deployment=1, generation=1, state=DeploymentState.STOPPED, lanes=lanes)
    progress.summary(status)
    said = "".join(capsys.readouterr())
    assert f"{FIRST} (" in said
    assert "): ended, 1 row read since it last started; rejected: 4 dropped\n" in said
