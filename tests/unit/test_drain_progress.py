"""What a drain has still to do, and who is told when a task has drained."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch import Job
from anabranch.api.hooks import ON_DRAIN, DrainedTask
from anabranch.cli import progress
from anabranch.container.drained import Hook
from anabranch.drain_progress import Left, left
from anabranch.errors import GraphError
from anabranch.metrics import exposition
from anabranch.model.deployment_state import DeploymentState
from anabranch.model.lane import LaneState
from anabranch.protocol.drain import DrainNotification, DrainProgress
from anabranch.protocol.lane_report import LanePhase, LaneReport
from anabranch.protocol.status import JobStatus, LaneStatus
from tests.unit.coordinator_helpers import FLIGHTS, lane

SAID = DrainNotification(uuid="c0ffee00-0000-4000-8000-000000000001", run_id=1)


def told(lane_id: str, at: int, end: int, **fields: Any) -> LaneReport:
    return LaneReport(
        lane=lane_id, phase=LanePhase.RUNNING, positions={str(FLIGHTS): at}, ends={str(FLIGHTS): end}, **fields
    )


def status(drain: DrainProgress | None) -> JobStatus:
    lanes = (
        LaneStatus(lane=lane("0-a", stage="0"), report=told("0-a", 10, 50)),
        LaneStatus(lane=lane("1-b", stage="1"), report=told("1-b", 20, 50, windows=7)),
        LaneStatus(lane=lane("0-c", stage="0", state=LaneState.CLOSED)),
    )
    return JobStatus(job="delays", deployment=1, generation=1, state=DeploymentState.DRAINING, lanes=lanes, drain=drain)


def test_records_are_left_up_to_where_it_stops() -> None:
    drain = DrainProgress(notification=SAID, until={str(FLIGHTS): 30})
    assert left(status(drain)) == Left(stages=2, lanes=2, records=20 + 10, windows=7)
    assert left(status(DrainProgress(notification=SAID))) == Left(stages=2, lanes=2, records=40 + 30, windows=7)
    line = "job delays drains (takes in): 2 stage(s), 2 lane(s), 30 record(s) and 7 window(s) left"
    assert progress.draining(status(drain)) == line


def test_metrics_have_it_while_a_job_drains() -> None:
    text = exposition([status(DrainProgress(notification=SAID, until={str(FLIGHTS): 30}))], 0, True).decode()
    assert 'anabranch_drain_records_left{job="delays"} 30.0' in text
    assert 'anabranch_drain_windows_left{job="delays"} 7.0' in text
    assert "anabranch_drain_lanes_left{" not in exposition([status(None)], 0, True).decode()


def test_a_task_has_drained_when_all_of_its_lanes_have() -> None:
    heard: list[DrainedTask] = []
    both = lane("0-a", tasks=("Partition_0", "Partition_1")), lane("0-b", tasks=("Partition_1",))
    other = lane("1-c", stage="other", tasks=("Partition_1",))
    hook = Hook({ON_DRAIN: heard.append}, lambda: [*both, other])
    hook.drained(both[0])
    assert heard == [DrainedTask("delays", "s", "Partition_0")]
    hook.drained(both[1])
    assert heard[1:] == [DrainedTask("delays", "s", "Partition_1")]


def test_a_job_has_one_function_for_it() -> None:
    job = Job("j")

    @job.on_drain
    def first(task: DrainedTask) -> None:
        pass

    assert job.functions[ON_DRAIN] is first
    with pytest.raises(GraphError, match="the second one"):
        job.on_drain(first)
