"""The coordinator's own autosizer: what it makes of a job's figures, and when it leaves a job alone."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.config import AutoscaleSettings
from anabranch.container.load import Load
from anabranch.coordinator import autosizing
from anabranch.coordinator.service import Coordinator
from anabranch.coordinator.store import Event, Store
from anabranch.messages import ContainerStatus, JobStatus, LaneReport, LaneStatus, Scaling
from anabranch.model.factor import FACTORS
from tests.unit import test_scaling
from tests.unit.coordinator_helpers import FIRST, SECOND, Clock, lane
from tests.unit.test_leaders import PROGRAM
from tests.unit.test_scaling import JOB, Worker

LONG = 1e6
SSP = "embedded/flights/0"
LIMITS = AutoscaleSettings(min=1, max=64, target_busy=0.7)


def report(lane_id: str = FIRST, lag: int = 0, **figures: Any) -> LaneReport:
    known = {"phase": "running", "span": 30.0, "rows_per_second": 100.0}
    return LaneReport(lane=lane_id, ends={SSP: lag}, positions={SSP: 0}, **{**known, **figures})


def status(*reports: LaneReport | None, factor: int = 4, state: str = "running", alive: bool = True) -> JobStatus:
    lanes = (LaneStatus(lane=lane(FIRST if each is None else each.lane), report=each) for each in reports)
    seat = ContainerStatus(container="delays:0:1", seat="0", epoch=1, host="h", pid=1, alive=alive)
    return JobStatus(
        job="delays", deployment=1, generation=1, state=state, factor=factor, lanes=tuple(lanes), containers=(seat,)
    )


def decided(told: JobStatus, limits: AutoscaleSettings = LIMITS, since: float = LONG, undone: bool = False) -> Any:
    return autosizing.decide(limits, told, since, undone)


@pytest.mark.parametrize(
    ("figures", "factor"),
    [
        ({"working": 0.7}, None),
        ({"working": 0.71}, 8),
        ({"working": 1.0}, 8),
        ({"working": 0.29}, None),
        ({"working": 0.27}, 2),
        ({"working": 0.1}, 1),
        ({"working": 0.0}, 1),
        ({"working": 0.5, "busy": 1.0}, None),
        ({"working": 0.5, "busy": 1.0, "lag": 3001}, 8),
        ({"working": 0.5, "busy": 1.0, "lag": 3000}, None),
        ({"working": 0.5, "busy": 0.8, "lag": 3001}, None),
        ({"working": 0.04, "busy": 1.0, "lag": 3001}, 1),
        ({"working": 0.5, "busy": 1.0, "lag": 3001, "arriving": 250.0}, 16),
        ({"working": 0.5, "busy": 1.0, "lag": 3001, "arriving": 9000.0}, 16),
        ({"working": 0.5, "busy": 1.0, "lag": 3001, "rows_per_second": 0.0}, None),
    ],
)
def test_the_factor_follows_how_much_functions_work(figures: dict[str, Any], factor: int | None) -> None:
    assert decided(status(report(**figures))).factor == factor


def test_the_busiest_lane_decides() -> None:
    idle, busy = report(FIRST, working=0.01), report(SECOND, working=0.9)
    found = decided(status(idle, busy))
    assert found.factor == 8
    assert found.why == f"lane {SECOND}: functions work 90% of the time on their busiest bucket; the target is 70%"


def test_it_says_what_made_it_decide() -> None:
    behind = report(lag=5000, working=0.5, busy=1.0, arriving=250.0)
    assert decided(status(behind)).why == (
        f"lane {FIRST}: functions work 50% of the time on their busiest bucket, and it is 5,000 records behind: "
        "250 a second come in and 100 are read; the target is 70%"
    )
    assert decided(status(report(working=0.1))).why.endswith(
        "functions work 10% of the time on their busiest bucket; it would be 40% with factor 1, and the target is 70%"
    )


BUSY = report(working=1.0)


@pytest.mark.parametrize(
    ("told", "since", "undone", "why"),
    [
        (status(BUSY, state="changing"), LONG, False, "the job is changing"),
        (status(BUSY, state="starting"), LONG, False, "the job is starting"),
        (status(BUSY), 119.0, False, "left alone for 120 s"),
        (status(BUSY), -5.0, False, "left alone for 120 s"),
        (status(BUSY), 1199.0, True, "was undone 1199 s ago: it is left alone for 1200 s"),
        (status(None), LONG, False, "isn't heard"),
        (status(BUSY, alive=False), LONG, False, "isn't heard"),
        (status(BUSY, report(SECOND, phase="starting")), LONG, False, f"lane {SECOND} doesn't run"),
        (status(BUSY, report(SECOND, phase="failed")), LONG, False, f"lane {SECOND} doesn't run"),
        (status(BUSY, report(SECOND, span=19.0)), LONG, False, "are of 19 s: too few"),
        (status(), LONG, False, "there are no lanes"),
        (status(BUSY, factor=128), LONG, False, "factor 128 isn't from 1 to 64"),
        (status(BUSY, factor=64), LONG, False, "factor 64 is the largest allowed"),
    ],
)
def test_a_job_is_left_alone(told: JobStatus, since: float, undone: bool, why: str) -> None:
    found = decided(told, since=since, undone=undone)
    assert found.factor is None
    assert why in found.why


def test_after_the_cooldown_it_is_not() -> None:
    assert decided(status(BUSY), since=120.0).factor == 8
    assert decided(status(BUSY), since=1200.0, undone=True).factor == 8
    soon = AutoscaleSettings(max=64, cooldown="5 seconds")
    assert decided(status(BUSY), soon, since=5.0).factor == 8


factors = st.sampled_from(FACTORS)
parts = st.floats(0, 1)
targets = st.floats(0.05, 0.95)


@st.composite
def ranges(draw: st.DrawFn) -> AutoscaleSettings:
    low, high = sorted((draw(factors), draw(factors)))
    return AutoscaleSettings(min=low, max=high, target_busy=draw(targets))


@settings(deadline=None)
@given(ranges(), factors, parts, parts, st.floats(0, 1e9), st.floats(0, 1e9), st.integers(0, 10**12))
def test_it_never_leaves_its_range(
    limits: AutoscaleSettings, factor: int, working: float, busy: float, arriving: float, read: float, lag: int
) -> None:
    told = report(lag=lag, working=working, busy=busy, arriving=arriving, rows_per_second=read)
    found = decided(status(told, factor=factor), limits).factor
    if found is not None:
        assert limits.min <= found <= limits.max
        assert found in FACTORS
        assert found != factor
        assert limits.min <= factor <= limits.max
        assert max(found, factor) <= 4 * min(found, factor)


@settings(deadline=None)
@given(ranges(), factors, st.floats(0, 4096), st.booleans())
def test_it_does_not_waver_under_a_constant_load(
    limits: AutoscaleSettings, first: int, work: float, behind: bool
) -> None:
    """``work``: the buckets that would be kept busy all the time."""
    factor, went = max(limits.min, min(first, limits.max)), []
    for _ in range(30):
        over = behind and work > factor
        told = report(
            lag=10**6 if over else 0,
            working=min(1.0, work / factor),
            busy=1.0 if over else 0.5,
            arriving=100 * work / factor,
        )
        found = decided(status(told, factor=factor), limits).factor
        if found is not None:
            went.append(found > factor)
            factor = found
    assert len(set(went)) <= 1
    assert len(went) <= 10
    if factor < limits.max:
        assert work / factor <= limits.target_busy
    if factor > limits.min:
        assert 2 * work / factor > limits.target_busy * 0.8 * (1 - 1e-9)


def batch(seconds: float, end: int, at: int | None = None) -> LaneReport:
    return LaneReport(lane=FIRST, phase="running", seconds=seconds, ends={SSP: end}, positions={SSP: at or end})


def test_a_lane_that_has_nothing_to_read_becomes_idle() -> None:
    load = Load()
    for at in range(0, 40, 2):
        load.ran(batch(2.0, at), float(at), {(0, 1): 1.5, (0, 2): 0.5})
    assert (load.busy, load.working, load.span) == (1.0, 0.75, 30.0)
    assert not any(load.idled(batch(2.0, 50, at=38), float(at)) for at in range(38, 90)), "it is in a long batch"
    assert load.working == 0.75
    assert load.idled(batch(2.0, 38), 39.0)
    assert not load.idled(batch(2.0, 38), 39.5)
    for at in range(40, 80):
        load.idled(batch(2.0, 38), float(at))
    assert (load.busy, load.working, load.arriving, load.span) == (0, 0, 0, 30.0)


def test_nothing_is_known_before_the_ends_are() -> None:
    load = Load()
    assert not load.idled(LaneReport(lane=FIRST, phase="running"), 1.0)
    assert load.span == 0


class Coping(Worker):
    """A container that says how its functions cope."""

    working = 0.0

    def _do(self, one: Any) -> None:
        super()._do(one)
        told = self.reports[one.lane.id]
        if told.phase == "running":
            self.reports[one.lane.id] = msgspec.structs.replace(told, working=self.working, span=30.0)


@pytest.fixture
def store() -> Store:
    return Store("sqlite://")


@pytest.fixture
def clock() -> Clock:
    return Clock()


def coordinator_of(store: Store, clock: Clock, grace: float | None = 2) -> Coordinator:
    return Coordinator(store, clock=clock, now=lambda: clock.at, lease=10, grace=grace)


def started(coordinator: Coordinator, **settings: Any) -> Coping:
    program = msgspec.structs.replace(PROGRAM, settings={"job": {"autoscale": {"max": 8}, **settings}})
    coordinator.start(msgspec.structs.replace(test_scaling.start(), program=program))
    worker = Coping(coordinator)
    worker.turns()
    assert coordinator.status(JOB).state == "running"
    return worker


def passed(worker: Coping, clock: Clock, seconds: int) -> None:
    """So much time, in which the container beats and its coordinator does what is due."""
    for _ in range(0, seconds, 4):
        clock.at += 4
        worker.turn()
        worker.seat.coordinator.tick()  # type: ignore[union-attr]


def decisions(coordinator: Coordinator) -> list[Event]:
    return [event for event in coordinator.events(JOB) if event.who == "autoscale"]


def test_a_job_is_scaled_by_itself(store: Store, clock: Clock) -> None:
    coordinator = coordinator_of(store, clock)
    worker = started(coordinator)
    worker.working = 1.0
    passed(worker, clock, 116)
    assert decisions(coordinator) == []
    assert "left alone for 120 s" in coordinator.wishes.sizing(JOB).autoscale
    passed(worker, clock, 24)
    assert (coordinator.status(JOB).factor, coordinator.status(JOB).state) == (2, "running")
    (event,) = decisions(coordinator)
    assert event.what == "running → changing, generation 2"
    assert event.why.startswith("factor 1 → 2, containers 1 → 1: lane ")
    assert "functions work 100% of the time" in event.why
    passed(worker, clock, 400)
    assert coordinator.status(JOB).factor == 8
    worker.working = 0.0
    passed(worker, clock, 24)
    assert coordinator.status(JOB).factor == 2
    passed(worker, clock, 140)
    assert coordinator.status(JOB).factor == 1
    assert len(decisions(coordinator)) == 5


def test_it_waits_after_a_user_has_scaled(store: Store, clock: Clock) -> None:
    coordinator = coordinator_of(store, clock)
    worker = started(coordinator)
    worker.working = 0.0
    passed(worker, clock, 500)
    assert decisions(coordinator) == []
    coordinator.wishes.scale(JOB, Scaling(factor=8))
    passed(worker, clock, 112)
    assert (coordinator.status(JOB).factor, decisions(coordinator)) == (8, [])
    passed(worker, clock, 40)
    assert coordinator.status(JOB).factor == 2
    coordinator.wishes.scale(JOB, Scaling(factor=16))
    passed(worker, clock, 500)
    assert coordinator.status(JOB).factor == 16, "beyond the maximum: it was the user's wish"


def test_who_takes_over_waits_as_long(store: Store, clock: Clock) -> None:
    first = coordinator_of(store, clock)
    worker = started(first)
    worker.working = 1.0
    passed(worker, clock, 140)
    assert first.status(JOB).factor == 2
    second = coordinator_of(store, clock)
    assert second.adopt(JOB)
    worker.seat.coordinator = second
    passed(worker, clock, 100)
    assert second.status(JOB).factor == 2
    passed(worker, clock, 16)
    assert second.status(JOB).factor == 4


def test_it_waits_long_after_a_change_that_was_undone(store: Store, clock: Clock) -> None:
    coordinator = coordinator_of(store, clock)
    worker = started(coordinator)
    worker.working = 1.0
    worker.fails = lambda lane: lane.factor == 2 and lane.stateful
    passed(worker, clock, 140)
    assert (coordinator.status(JOB).factor, coordinator.status(JOB).generation) == (1, 3)
    passed(worker, clock, 1100)
    assert len(decisions(coordinator)) == 1
    assert "undone" in coordinator.wishes.sizing(JOB).autoscale
    worker.fails = lambda lane: False
    passed(worker, clock, 120)
    assert coordinator.status(JOB).factor == 2


def test_it_is_off_by_default(store: Store, clock: Clock) -> None:
    coordinator = coordinator_of(store, clock)
    worker = started(coordinator, autoscale=None)
    worker.working = 1.0
    passed(worker, clock, 300)
    assert coordinator.status(JOB).factor == 1
    assert coordinator.wishes.sizing(JOB).autoscale == ""


def test_a_job_that_cannot_be_scaled_is_told_of_once(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    coordinator = coordinator_of(store, clock)
    worker = started(coordinator)
    worker.working = 1.0
    model = coordinator.model(JOB)
    own = tuple(msgspec.structs.replace(stage, grouper="mine:grouper") for stage in model.stages)
    monkeypatch.setattr(store, "model", lambda *_: msgspec.structs.replace(model, stages=own))
    passed(worker, clock, 300)
    (event,) = decisions(coordinator)
    assert event.what == "the factor stays 1, and should be 2"
    assert "grouper of its own" in event.why
    assert coordinator.status(JOB).generation == 1


def test_a_job_in_one_process_is_scaled_at_its_beats(store: Store, clock: Clock) -> None:
    coordinator = coordinator_of(store, clock, grace=None)
    its = {"job": {"autoscale": {"max": 4, "cooldown": "10 seconds"}}}
    coordinator.start(msgspec.structs.replace(test_scaling.start(), program=None, settings=its))
    worker = Coping(coordinator)
    worker.working = 1.0
    worker.turns()
    for _ in range(10):
        clock.at += 4
        worker.turn()
    assert coordinator.status(JOB).factor == 4
