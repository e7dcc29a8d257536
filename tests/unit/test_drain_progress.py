"""What a drain has still to do, and who is told when a task has drained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from anabranch import Job
from anabranch.api.hooks import ON_DRAIN, DrainedTask
from anabranch.cli import progress
from anabranch.container.drain_hook import DrainHook
from anabranch.drain_progress import DrainRemainder, foretold, left, seconds_left
from anabranch.errors import GraphError, OperatorError
from anabranch.metrics import exposition
from anabranch.model.deployment_state import DeploymentState
from anabranch.model.lane import LaneState
from anabranch.protocol.drain import DrainNotification, DrainProgress
from anabranch.protocol.lane_report import BatchProgress, BatchTimes, LanePhase, LaneReport
from anabranch.protocol.status import JobStatus, LaneStatus
from tests.support.reports import lane_report
from tests.unit.coordinator.helpers import FLIGHTS, lane

SAID = DrainNotification(uuid="c0ffee00-0000-4000-8000-000000000001", run_id=1)


def told(lane_id: str, at: int, end: int, **fields: Any) -> LaneReport:
    return lane_report(
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
    assert left(status(drain)) == DrainRemainder(stages=2, lanes=2, records=20 + 10, windows=7)
    assert left(status(DrainProgress(notification=SAID))) == DrainRemainder(
        stages=2, lanes=2, records=40 + 30, windows=7
    )
    latest = DrainProgress(notification=SAID, ends={str(FLIGHTS): 40})
    assert left(status(latest)).records == 30 + 20
    line = "job delays drains (takes in): 2 stage(s), 2 lane(s), 30 record(s) and 7 window(s) left, about 1 s"
    assert progress.draining(status(drain)) == line


def test_it_takes_what_is_left_of_the_present_batch_and_each_stage_with_its_windows() -> None:
    progress_ = BatchProgress(number=3, planned=100, seconds=1.0, left=4.0)
    reports = {
        "0-a": told("0-a", 0, 0, usual_seconds=1.0, batch_progress=progress_, state_bytes=1000),
        "1-b": told("1-b", 0, 0, usual_seconds=0.4, windows=120_000),
    }
    both = foretold({"0": ("0-a",), "1": ("1-b",)}, reports)
    assert both - foretold({}, {}) == pytest.approx(4.0 + (0.6 + 0.35) + (0.6 + 0.14 + 2.0))


def test_the_last_batch_of_a_lane_has_nothing_for_its_functions_to_do() -> None:
    slow, quick = (
        told("0-a", 0, 0, usual_seconds=4.0, spent={what: 4.0}, watermark=5) for what in ("functions", "reading")
    )
    stages = {"0": ("0-a",)}
    assert foretold(stages, {"0-a": quick}) - foretold(stages, {"0-a": slow}) == pytest.approx(0.35 * 4.0)


def test_a_lane_without_state_and_event_time_has_no_last_batch() -> None:
    reports = {"0-a": told("0-a", 0, 0, usual_seconds=4.0, spent={"reading": 4.0})}
    assert foretold({"0": ("0-a",)}, reports) == foretold({}, {})


def test_what_is_to_be_taken_in_beyond_the_present_batch_counts() -> None:
    at = BatchProgress(number=3, planned=100, seconds=1.0, left=4.0)
    busy = {"0-a": told("0-a", 1000, 5000, rows_per_second=50.0, batch_progress=at)}
    stages, until = {"0": ("0-a",)}, {str(FLIGHTS): 1600}
    assert foretold(stages, busy, until) - foretold(stages, busy) == pytest.approx(500 / 50)


def test_once_all_lanes_have_halted_that_takes_no_time() -> None:
    halting, halted = DrainProgress(notification=SAID), DrainProgress(notification=SAID, until={str(FLIGHTS): 10})
    assert seconds_left(status(halting)) - seconds_left(status(halted)) == pytest.approx(0.5)


def test_metrics_have_it_while_a_job_drains() -> None:
    text = exposition([status(DrainProgress(notification=SAID, until={str(FLIGHTS): 30}))], 0, True).decode()
    assert 'anabranch_drain_records_left{job="delays"} 30.0' in text
    assert 'anabranch_drain_windows_left{job="delays"} 7.0' in text
    assert "anabranch_drain_lanes_left{" not in exposition([status(None)], 0, True).decode()


def test_a_task_has_drained_when_all_of_its_lanes_have() -> None:
    heard: list[DrainedTask] = []
    both = lane("0-a", tasks=("Partition_0", "Partition_1")), lane("0-b", tasks=("Partition_1",))
    other = lane("1-c", stage="other", tasks=("Partition_1",))
    hook = DrainHook({ON_DRAIN: heard.append}, lambda: [*both, other], "/jobs/delays")
    hook.drained(both[0])
    assert heard == [DrainedTask("delays", "s", "Partition_0")]
    hook.drained(both[1])
    assert heard[1:] == [DrainedTask("delays", "s", "Partition_1")]


@pytest.mark.parametrize("kind", [ValueError, SystemExit])
def test_a_function_that_fails_is_told_and_called_again(kind: type[BaseException]) -> None:
    """SystemExit would end the thread of the lane without a report."""
    called: list[DrainedTask] = []

    def flush(task: DrainedTask) -> None:
        called.append(task)
        if len(called) == 1:
            raise kind("flush failed")

    drains = lane("0-a", tasks=("Partition_0",))
    hook = DrainHook({ON_DRAIN: flush}, lambda: [drains], str(Path(__file__).parent))
    with pytest.raises(OperatorError, match=f"on_drain raised {kind.__name__}: flush failed at test_drain_progress.py"):
        hook.drained(drains)
    hook.drained(drains)
    assert [task.name for task in called] == ["Partition_0", "Partition_0"]


def test_a_job_has_one_function_for_it() -> None:
    job = Job("j")

    @job.on_drain
    def first(task: DrainedTask) -> None:
        pass

    assert job.functions[ON_DRAIN] is first
    with pytest.raises(GraphError, match="the second one"):
        job.on_drain(first)


def test_a_batch_that_does_not_tell_what_is_left_takes_as_long_as_its_records() -> None:
    at = BatchProgress(number=3, planned=2000, seconds=1.0)
    times = BatchTimes(fixed=0.5, per_record=0.002)
    reports = {"0-a": told("0-a", 0, 0, usual_seconds=2.0, batch_progress=at, batch_times=times)}
    assert foretold({"0": ("0-a",)}, reports) - foretold({}, {}) == pytest.approx(4.5 - 1.0)
    unknown = {"0-a": told("0-a", 0, 0, usual_seconds=2.0, batch_progress=at)}
    assert foretold({"0": ("0-a",)}, unknown) - foretold({}, {}) == pytest.approx(2.0 - 1.0)


@pytest.mark.parametrize(
    ("last_output", "seconds", "since"),
    [
        (5000.0, 3.0, 0.0),
        (4996.5, 3.0, 0.3),  # 3.5 s ago; a batch begins 0.2 s after an output
        (4990.0, 3.0, 1.0),  # a clock is wrong: reports are no older
        (5003.0, 3.0, 0.0),
        (0.0, 3.0, 0.0),  # nothing has come out yet
    ],
)
def test_a_batch_goes_on_after_its_lane_has_reported_it(last_output: float, seconds: float, since: float) -> None:
    at = BatchProgress(number=7, planned=100, done=60, seconds=seconds, left=2.0)
    reports = {"0-a": lane_report(lane="0-a", phase=LanePhase.RUNNING, batch_progress=at, last_output=last_output)}
    stages = {"0": ("0-a",)}
    assert foretold(stages, reports, now=5000.0) == pytest.approx(foretold(stages, reports) - since)
    nearly = {"0-a": reports["0-a"].changed(batch_progress=msgspec.structs.replace(at, left=0.1))}
    assert foretold(stages, nearly, now=5000.0) >= foretold({}, {})


@pytest.mark.parametrize(
    ("behind", "until", "last_output", "seconds"),
    [
        (1000, {}, 4999.9, 4.0),  # a batch of 1,000 takes 4 s: it begins, or has begun, before lanes halt
        (9000, {}, 4999.5, 4.0 - 0.3),
        (100, {}, 4999.9, 0.0),  # a brief batch
        (0, {}, 4999.9, 0.0),
        (1000, {str(FLIGHTS): 10}, 4999.9, 0.0),  # it has halted
    ],
)
def test_between_two_batches_the_next_one_counts(
    behind: int, until: dict[str, int], last_output: float, seconds: float
) -> None:
    times = BatchTimes(fixed=0.0, per_record=0.004)
    report = told("0-a", 10, 10 + behind, limit=1000, batch_times=times, last_output=last_output)
    found = foretold({"0": ("0-a",)}, {"0-a": report}, until, now=5000.0)
    assert found - foretold({}, {}) == pytest.approx(seconds)
