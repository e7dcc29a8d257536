"""Jobs that the coordinator scales by itself: when it does, how long it waits, and what it says."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.jobs.transitions import Generation
from anabranch.coordinator.sizing import autosizing
from anabranch.coordinator.store import Store
from anabranch.protocol.commands import ScaleRequest
from anabranch.protocol.lane_report import BatchProgress
from tests.unit.coordinator import workers
from tests.unit.coordinator.coping import Coping, decisions, passed, started
from tests.unit.coordinator.helpers import Clock
from tests.unit.coordinator.programs import PROGRAM
from tests.unit.coordinator.workers import JOB


def coordinator_of(store: Store, clock: Clock, grace: float | None = 2) -> Coordinator:
    return Coordinator(store, clock=clock, now=lambda: clock.at, lease=10, grace=grace)


def test_a_job_is_scaled_by_itself(store: Store, clock: Clock) -> None:
    coordinator = coordinator_of(store, clock)
    worker = started(coordinator)
    worker.working = 1.0
    passed(worker, clock, 8)
    assert decisions(coordinator) == []
    sizing = coordinator.sizing(JOB)
    assert "this must be the case for 10 s" in sizing.autoscale
    assert sizing.verdict is not None
    assert (sizing.verdict.factor, sizing.verdict.why) == (None, sizing.autoscale), "it keeps its factor for now"
    passed(worker, clock, 32)
    assert (coordinator.status(JOB).factor, coordinator.status(JOB).state) == (2, "running")
    (event,) = decisions(coordinator)
    assert event.what == "running → changing, generation 2"
    assert event.why.startswith("factor 1 → 2, containers 1 → 1: lane ")
    assert "functions work 100% of the time" in event.why
    passed(worker, clock, 72)
    assert coordinator.status(JOB).factor == 2, "so shortly after a change it is left alone"
    passed(worker, clock, 400)
    assert coordinator.status(JOB).factor == 8
    (_, _, _, said) = decisions(coordinator)
    assert said.what == "the factor stays 8, which isn't enough"
    assert said.why.endswith("factor 8 is the largest allowed")
    worker.working = 0.0
    passed(worker, clock, 140)
    assert coordinator.status(JOB).factor == 2
    passed(worker, clock, 160)
    assert coordinator.status(JOB).factor == 1
    assert len(decisions(coordinator)) == 6


def test_what_each_factor_would_give_is_forecast(store: Store, clock: Clock) -> None:
    coordinator = coordinator_of(store, clock)
    worker = started(coordinator)
    worker.working = 1.0
    passed(worker, clock, 8)
    sizing = coordinator.sizing(JOB)
    forecasts = {each.factor: each for each in sizing.forecasts}
    assert tuple(forecasts) == sizing.allowed
    assert forecasts[1].utilisation == pytest.approx(1.0), "as it is"
    assert sizing.verdict is not None
    assert forecasts[1].lane == sizing.verdict.lane
    used = [each.utilisation for each in sizing.forecasts]
    assert used == sorted(used, reverse=True)
    assert 0.5 <= forecasts[2].utilisation < 0.6
    assert forecasts[1].catch_up == 0.0, "no record waits"


def test_a_forecast_tells_the_backlog_and_the_pause_of_the_change(store: Store, clock: Clock) -> None:
    coordinator = coordinator_of(store, clock)
    coordinator.start(workers.start())
    assert coordinator.sizing(JOB).forecasts == (), "nothing is known of lanes that don't run yet"
    worker = Slow(coordinator)
    worker.turns(8)
    forecasts = {each.factor: each for each in coordinator.sizing(JOB).forecasts}
    lanes = coordinator.sizing(JOB).lanes
    present = forecasts[coordinator.status(JOB).factor]
    assert present.catch_up == pytest.approx(max(lane.catch_up or 0.0 for lane in lanes))
    waits = [each.catch_up for each in forecasts.values()]
    assert None not in waits
    assert waits[0] == max(each for each in waits if each is not None)
    assert waits[3] is not None
    assert waits[0] is not None
    assert waits[3] < 0.5 * waits[0]


def test_a_forecast_has_the_busiest_lane_though_another_one_has_a_record_waiting(store: Store, clock: Clock) -> None:
    coordinator = coordinator_of(store, clock)
    worker = started(coordinator)
    worker.working = 0.95
    passed(worker, clock, 8)
    idle = next(lane.lane.id for lane in coordinator.status(JOB).lanes)
    told = worker.reports[idle]
    ends = {ssp: at + 3 for ssp, at in told.progress.positions.items()}
    worker.reports[idle] = told.changed(ends=ends, working=0.05, busy=0.1, seconds=1.0, rows_per_second=1000.0)
    worker.seat.beat(*worker.reports.values())
    sizing = coordinator.sizing(JOB)
    (present,) = (each for each in sizing.forecasts if each.factor == sizing.factor)
    assert present.utilisation == pytest.approx(0.95)
    assert present.lane != idle
    assert present.catch_up


class Slow(Coping):
    """A container whose functions take 2 ms a record, with so many records of each lane there when it starts."""

    backlog = 30_000

    def do(self, one: Any) -> None:
        super().do(one)
        told = self.reports[one.lane.id]
        if told.phase != "running":
            return
        done = 500 * self.second
        progress = BatchProgress(
            number=8,
            planned=self.backlog,
            done=done,
            phase="functions",
            seconds=float(self.second),
            rows_per_second=500.0,
            spent={"functions": self.second * 0.95},
        )
        ends = dict.fromkeys(told.progress.positions, self.backlog)
        figures: dict[str, Any] = {"ends": ends, "batch_progress": progress, "busy": 1.0, "working": 1.0}
        self.reports[one.lane.id] = told.changed(**figures, rows=0, span=float(self.second))


def test_a_backlog_at_the_start_raises_it_at_once_without_a_batch_having_ended(store: Store, clock: Clock) -> None:
    coordinator = coordinator_of(store, clock)
    limits = {"max": 64, "target_lag_seconds": 10}
    program = msgspec.structs.replace(PROGRAM, settings={"job": {"autoscale": limits}})
    coordinator.start(msgspec.structs.replace(workers.start(), program=program))
    worker = Slow(coordinator)
    worker.turns(3)
    assert coordinator.status(JOB).state == "running"
    worker.second = 0
    begun = clock.at
    while not decisions(coordinator):
        clock.at += 1
        assert clock.at < begun + 6
        worker.turn()
        sizing = coordinator.sizing(JOB)
        coordinator.tick()
    (event,) = decisions(coordinator)
    assert clock.at - begun <= 5
    before, after = (int(word) for word in event.why.split(",")[0].removeprefix("factor ").split(" → "))
    assert (before, after) == (1, sizing.proposed)
    assert after in {16, 32}
    assert "records wait" in event.why
    slow = next(lane for lane in sizing.lanes if lane.lag)
    assert slow.true_rate == pytest.approx(500)
    assert slow.needed_rate == pytest.approx((slow.lag - 500 * worker.second) / 10, rel=0.02)
    assert slow.catch_up is not None
    assert slow.then is not None
    assert slow.then < 10 < slow.catch_up
    assert (sizing.target_lag_seconds, sizing.advice) == (10, ())
    assert sizing.limits is not None
    assert (sizing.limits.min, sizing.limits.max, sizing.limits.cooldown_seconds) == (1, 64, 120)
    assert sizing.verdict is not None
    assert (sizing.verdict.lane, sizing.verdict.why) == (slow.lane, sizing.autoscale)
    assert sizing.verdict.factor == sizing.proposed
    assert sizing.verdict.load == pytest.approx(slow.needed_rate / slow.true_rate)


def test_sizing_says_so_without_an_autosizer_too(store: Store, clock: Clock) -> None:
    coordinator = coordinator_of(store, clock)
    coordinator.start(workers.start())
    worker = Slow(coordinator)
    worker.turns(4)
    sizing = coordinator.sizing(JOB)
    assert (sizing.autoscale, sizing.factor) == ("", 1)
    assert (sizing.limits, sizing.verdict) == (None, None)
    assert sizing.proposed > 1
    assert max(lane.needed_rate for lane in sizing.lanes) > max(lane.true_rate for lane in sizing.lanes) > 0


def test_settings_of_an_older_job_have_no_target_lag(store: Store, clock: Clock) -> None:
    """As they were stored: ``autoscale`` had four fields."""
    limits = autosizing.limits_of(
        {"job": {"autoscale": {"max": 8, "min": 1, "target_busy": 0.7, "cooldown": "2 minutes"}}}
    )
    assert limits is not None
    assert limits.target_lag_seconds == 60


def test_it_waits_after_a_user_has_scaled(store: Store, clock: Clock) -> None:
    coordinator = coordinator_of(store, clock)
    worker = started(coordinator)
    worker.working = 0.0
    passed(worker, clock, 500)
    assert decisions(coordinator) == []
    coordinator.scale(JOB, ScaleRequest(factor=8))
    passed(worker, clock, 112)
    assert (coordinator.status(JOB).factor, decisions(coordinator)) == (8, [])
    passed(worker, clock, 40)
    assert coordinator.status(JOB).factor == 2
    coordinator.scale(JOB, ScaleRequest(factor=16))
    passed(worker, clock, 500)
    assert coordinator.status(JOB).factor == 16, "beyond the maximum: it was the user's wish"


def test_who_takes_over_waits_as_long(store: Store, clock: Clock) -> None:
    first = coordinator_of(store, clock)
    worker = started(first)
    worker.working = 1.0
    passed(worker, clock, 40)
    assert first.status(JOB).factor == 2
    second = coordinator_of(store, clock)
    assert second.adopt(JOB)
    worker.seat.coordinator = second
    passed(worker, clock, 92)
    assert second.status(JOB).factor == 2
    passed(worker, clock, 40)
    assert second.status(JOB).factor == 4


def undone_once(store: Store, clock: Clock) -> tuple[Coordinator, Coping]:
    """A job whose lanes fail with factor 2, and whose rise to it was undone, with its worker."""
    coordinator = coordinator_of(store, clock)
    worker = started(coordinator)
    worker.working = 1.0
    worker.fails = lambda lane: lane.factor == 2 and lane.stateful
    passed(worker, clock, 40)
    assert (coordinator.status(JOB).factor, coordinator.status(JOB).generation) == (1, 3)
    return coordinator, worker


def test_it_waits_long_after_a_change_that_was_undone(store: Store, clock: Clock) -> None:
    coordinator, worker = undone_once(store, clock)
    passed(worker, clock, 1160)
    assert len(decisions(coordinator)) == 1
    assert "undone" in coordinator.sizing(JOB).autoscale
    worker.fails = lambda lane: False
    passed(worker, clock, 120)
    assert coordinator.status(JOB).factor == 2


def test_it_waits_as_long_if_another_change_follows_the_undone_one(store: Store, clock: Clock) -> None:
    coordinator, worker = undone_once(store, clock)
    worker.fails = lambda lane: False
    coordinator.scale(JOB, ScaleRequest(factor=4))
    passed(worker, clock, 600)
    assert (coordinator.status(JOB).state, coordinator.status(JOB).factor) == ("running", 4)
    assert "a change was undone" in coordinator.sizing(JOB).autoscale
    passed(worker, clock, 900)
    assert coordinator.status(JOB).factor == 8


def test_it_is_off_by_default(store: Store, clock: Clock) -> None:
    coordinator = coordinator_of(store, clock)
    worker = started(coordinator, autoscale=None)
    worker.working = 1.0
    passed(worker, clock, 300)
    assert coordinator.status(JOB).factor == 1
    assert coordinator.sizing(JOB).autoscale == ""


def test_a_job_that_cannot_be_scaled_is_told_of_once(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    coordinator = coordinator_of(store, clock)
    worker = started(coordinator)
    worker.working = 1.0
    model = coordinator.model(JOB)
    own = tuple(msgspec.structs.replace(stage, grouper="mine:grouper") for stage in model.stages)
    present = Generation(store.graph(JOB, 1), msgspec.structs.replace(model, stages=own))
    monkeypatch.setattr(coordinator.registry, "present", lambda running_job: present)
    passed(worker, clock, 300)
    (event,) = decisions(coordinator)
    assert event.what == "the factor stays 1, and should be 2"
    assert "custom grouper" in event.why
    assert coordinator.status(JOB).generation == 1


def test_a_job_in_one_process_is_scaled_at_its_beats(store: Store, clock: Clock) -> None:
    coordinator = coordinator_of(store, clock, grace=None)
    its = {"job": {"autoscale": {"max": 4, "cooldown": "10 seconds"}}}
    coordinator.start(msgspec.structs.replace(workers.start(), program=None, settings=its))
    worker = Coping(coordinator)
    worker.working = 1.0
    worker.turns()
    for _ in range(25):
        clock.at += 4
        worker.turn()
    assert coordinator.status(JOB).factor == 4
