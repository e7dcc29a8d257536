"""A machine's clock that is set back or ahead, or differs from another's, while durations go by a clock nobody sets."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.jobs.measured_change import MeasuredChange
from anabranch.coordinator.launcher.processes import Processes
from anabranch.coordinator.store import Store
from anabranch.event_time import batch_time
from anabranch.protocol.lane_report import LanePhase, LaneReport
from tests.support.reports import lane_report
from tests.unit.coordinator.coping import decisions, passed, started
from tests.unit.coordinator.helpers import Clock, lane
from tests.unit.coordinator.workers import JOB

HOUR, DAY, YEAR = 3600.0, 86_400.0, 365 * 86_400.0
STEPS = [-HOUR, -DAY, -YEAR, HOUR, YEAR]
NOON = 1_795_694_400.0


class Wall:
    """A machine's clock: it goes with ``clock``, and somebody sets it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.ahead = NOON

    def __call__(self) -> float:
        return self._clock.at + self.ahead


@pytest.mark.parametrize("step", STEPS)
def test_the_autoscaler_waits_for_its_cooldown_whatever_the_machine_says(step: float) -> None:
    clock = Clock()
    wall = Wall(clock)
    coordinator = Coordinator(Store("sqlite://"), clock=clock, now=wall, lease=10, grace=2)
    worker = started(coordinator)
    worker.working = 1.0
    passed(worker, clock, 40)
    assert coordinator.status(JOB).factor == 2
    wall.ahead += step
    passed(worker, clock, 72)
    assert coordinator.status(JOB).factor == 2, "so shortly after a change it is left alone"
    passed(worker, clock, 400)
    assert coordinator.status(JOB).factor == 8
    assert [event.what for event in decisions(coordinator)][-1] == "the factor stays 8, which isn't enough"


@pytest.mark.parametrize("step", STEPS)
def test_a_history_goes_on(step: float) -> None:
    clock = Clock()
    wall = Wall(clock)
    coordinator = Coordinator(Store("sqlite://"), clock=clock, now=wall, lease=10, grace=2)
    worker = started(coordinator)
    for _ in range(5):
        passed(worker, clock, 12)
    wall.ahead += step
    for _ in range(5):
        passed(worker, clock, 12)
    (rows,) = coordinator.history(JOB, "rows", by="job").values["rows"].values()
    assert sum(value is not None for value in rows[-6:]) >= 4, rows[-12:]


def _report(name: str, **fields: Any) -> dict[str, LaneReport]:
    return {name: lane_report(lane=name, phase=LanePhase.RUNNING, **fields)}


@pytest.mark.parametrize(("apart", "measured"), [(0.0, 2.5), (HOUR, 0.0), (-HOUR, 0.0), (1.0, 3.5), (-3.0, 0.0)])
def test_no_pause_is_longer_than_its_change(apart: float, measured: float) -> None:
    """The successor runs on another machine, whose clock is so far apart."""
    watched = MeasuredChange(1.0, frozenset({"0-a"}), at=NOON)
    before, after = lane("0-a"), lane("0-b", predecessors=("0-a",))
    watched.hear([before, after], _report("0-a", last_output=NOON + 1.0))
    watched.hear([before, after], _report("0-b", first_output=NOON + 3.5 + apart))
    found = watched.measured([before, after], since=0.0, whole=4.0)
    assert found is not None
    assert (found.seconds, found.lane) == (measured, "0-b" if measured else "")


def test_logs_of_containers_sort_by_age(tmp_path: Path) -> None:
    now = [NOON]
    processes = Processes(tmp_path, lambda job: [sys.executable, "-c", ""], dict(os.environ), now=lambda: now[0])
    begun = []
    for step in (1.0, 0.0, -HOUR, YEAR, -YEAR, 1.0):
        now[0] += step
        begun.append(processes.start(JOB))
    assert sorted(begun) == begun
    for execution in begun:
        while processes.ended(JOB, execution) is None:
            pass


def test_a_lane_s_time_never_goes_back_and_comes_near_to_the_machine_s_again() -> None:
    assert batch_time.now(1000, elapsed=0, wall=1000) == 1000
    assert batch_time.now(1000, elapsed=500, wall=1500) == 1500
    assert batch_time.now(1000, elapsed=500, wall=9_000_000) == 9_000_000, "ahead, it follows"
    back = batch_time.now(10_000_000, elapsed=1000, wall=10_000_000 - 3_600_000 + 1000)
    assert back == 10_000_900, "back, it goes on"
    assert batch_time.now(10_000_000, elapsed=-5, wall=0) == 10_000_000
    at, wall, seconds = 3_600_000, 0, 0
    while at > wall:
        seconds += 60
        wall += 60_000
        at = batch_time.now(at, 60_000, wall)
    assert seconds == pytest.approx(10 * HOUR, rel=0.01)
