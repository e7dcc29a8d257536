"""How the lanes of a job cope: what is told of their work, and what a job's sizing makes of it."""

from __future__ import annotations

import pytest

from anabranch.cli import sizing as sizing_verb
from anabranch.container.load import Load
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.sizing import autosizing, figures
from anabranch.coordinator.sizing.autosizing import Assessment
from anabranch.coordinator.sizing.findings import Findings
from anabranch.coordinator.sizing.lane_load import catch_up
from anabranch.coordinator.store import Store
from anabranch.model.lane import Lane
from anabranch.protocol.lane_report import LanePhase, LaneReport
from anabranch.protocol.status import LaneSizing, Sizing
from anabranch.spark.functions import busy_time
from tests.support.reports import lane_report
from tests.unit.coordinator.figures import LIMITS, going_on, report, status
from tests.unit.coordinator.helpers import FIRST
from tests.unit.coordinator.workers import JOB, Worker, start

LANE = Lane(
    id=FIRST,
    job="j",
    deployment=1,
    stage="0",
    group="g",
    seat="0",
    tasks=(),
    ssps=(),
    factor=4,
    numbers={"kafka/in/0": 0, "kafka/in/1": 1},
)


def test_the_slowest_bucket_is_named() -> None:
    found = busy_time.slowest(LANE, {(0, 1): 1.0, (0, 2): 1.0, (1, 3): 10.0, (1, 0): 0.0})
    assert found is not None
    assert (found.ssp, found.seconds, round(found.skew, 3)) == ("kafka/in/1#3", 10.0, 3.333)
    whole = busy_time.slowest(LANE, {(0, -1): 3.0, (1, -1): 1.0})
    assert whole is not None
    assert (whole.ssp, whole.skew) == ("kafka/in/0", 1.5)
    assert busy_time.slowest(LANE, {}) is None


def batch(seconds: float, end: int) -> LaneReport:
    return lane_report(lane=FIRST, phase=LanePhase.RUNNING, seconds=seconds, ends={"kafka/in/0": end})


def test_how_busy_a_lane_is_and_what_comes_in() -> None:
    load = Load()
    for at in range(0, 11, 2):
        load.ran(batch(1.5, at * 100), now=float(at))
    assert (load.busy, load.arriving, load.usual) == (0.75, 100.0, 1.5)
    for at in range(12, 60, 2):
        load.ran(batch(0.2, 1000), now=float(at))
    assert load.busy == pytest.approx(0.1)
    assert load.usual == 0.2
    assert load.arriving == 0


def test_how_much_a_lane_reads_ends_with_its_input() -> None:
    """Its speed in the last batch stays."""
    load = Load()
    for at in range(0, 21, 2):
        load.ran(batch(2.0, 100 * at).changed(rows=100 * at, positions={"kafka/in/0": 100 * at}), now=float(at))
    assert load.throughput == 100.0
    running = batch(2.0, 3000).changed(rows=2000, positions={"kafka/in/0": 2000})
    assert load.runs(running, 24.0, 4.0, {}, done=600)
    assert load.throughput == pytest.approx((2600 - 0) / 24)
    ended = running.changed(rows=3000, positions={"kafka/in/0": 3000})
    load.ran(ended, now=26.0)
    for at in range(27, 60):
        load.idled(ended, now=float(at))
    assert load.throughput == 0.0
    report = ended.changed(throughput=0.0, span=30.0, rows_per_second=250.0)
    assert report.load.reading == 0.0
    assert ended.changed(rows_per_second=250.0).load.reading == 250.0, "as an older container tells it"


def test_a_jobs_sizing() -> None:
    coordinator = Coordinator(Store("sqlite://"))
    coordinator.start(start(factor=2))
    worker = Worker(coordinator)
    worker.turns()
    name, told = next(iter(worker.reports.items()))
    figures = {"busy": 0.5, "arriving": 7.0, "slowest": "embedded/in/1#1", "slowest_seconds": 2.0, "skew": 1.5}
    ends = {"embedded/in/0": 10, "embedded/in/1": 4}
    positions = {"embedded/in/0": 4, "embedded/in/1": 4}
    worker.seat.beat(told.changed(**figures, ends=ends, positions=positions))
    found = coordinator.sizing(JOB)
    assert (found.factor, found.containers, found.allowed[:3], found.allowed[-1]) == (2, 1, (1, 2, 4), 1024)
    lane = next(each for each in found.lanes if each.lane == name)
    assert (lane.lag, lane.lags) == (6, {"embedded/in/0": 6, "embedded/in/1": 0})
    assert (lane.busy, lane.slowest, lane.skew) == (0.5, "embedded/in/1#1", 1.5)
    assert len(lane.tasks) == 4


def test_each_lane_is_foretold_with_the_factor_that_is_proposed_for_the_job() -> None:
    """Also a lane that needs none: it would stand still during the change, too."""
    waits = {"working": 1.0, "seconds": 3.0, "usual_seconds": 3.0, "arriving": 0.0}
    slow, fast = report(FIRST, lag=60_000, **waits), report("other", lag=60_000, **{**waits, "rows_per_second": 5000.0})
    look, findings = Assessment(1), Findings()
    for second in range(40):
        told = going_on(status(slow, fast, factor=1), second)
        look, findings = autosizing.looked(LIMITS, told, 64, 5.0, findings, float(second))
    found = figures.of(told, True, None, look, LIMITS)
    assert found.proposed > 1
    one, other = found.lanes
    assert (one.catch_up or 0.0) > 10 * (other.catch_up or 0.0) > 0.0
    its, seen = look.loads[1], look.seen[1]
    assert other.catch_up == catch_up(its, 1, 0.0, seen)
    assert other.then == catch_up(its, found.proposed, 5.0, seen) != other.catch_up
    assert max(one.then, other.then) == next(e.catch_up for e in found.forecasts if e.factor == found.proposed)


@pytest.mark.parametrize(
    ("proposed", "catch_up", "then", "text"),
    [
        (4, 70.0, 70.0, "it is cleared in 70 s"),
        (16, 70.0, 6.2, "it is cleared in 70 s; with factor 16, it is cleared in 6 s, including the change"),
        (16, None, 12.0, "it is never cleared; with factor 16, it is cleared in 12 s, including the change"),
        (0, None, None, "it is never cleared"),
    ],
)
def test_it_says_when_no_backlog_is_left(proposed: int, catch_up: float | None, then: float | None, text: str) -> None:
    known = {"tasks": (), "lag": 60_000, "lags": {}, "arriving": 5.0, "rows_per_second": 850.0, "batch_seconds": 3.0}
    lane = LaneSizing(
        lane=FIRST,
        stage="0",
        seat="0",
        busy=1.0,
        working=1.0,
        slowest="",
        slowest_seconds=0.0,
        skew=1.0,
        true_rate=850.0,
        needed_rate=6005.0,
        catch_up=catch_up,
        then=then,
        **known,
    )
    job = Sizing(
        job=JOB,
        state="running",
        generation=1,
        factor=4,
        containers=1,
        allowed=(1, 4, 16),
        lanes=(lane,),
        proposed=proposed,
        target_lag_seconds=10.0,
    )
    said = sizing_verb.rates(lane, job)
    assert said.startswith(f"lane {FIRST} does 850 records per second while it is busy, and needs 6,005 to clear")
    assert said.endswith(f"in 10 s: {text}")
