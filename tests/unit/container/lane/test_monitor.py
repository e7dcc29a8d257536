"""Which positions tools that show lag see."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from anabranch.container.lane import monitor
from anabranch.container.lane.attempt import Counts
from anabranch.container.lane.monitor import Monitor
from anabranch.container.lane.reporting import Reporter
from anabranch.spark.query import history
from anabranch.spark.query.history import CompletedBatch
from tests.unit.coordinator.helpers import FIRST, FLIGHTS, lane


class Outputs:
    def __init__(self, *_: object) -> None:
        pass

    def note(self, folder: object, batch: int) -> None:
        pass


class Running:
    """A lane whose batches end when the test says so."""

    def __init__(self, clocks: Path) -> None:
        self.now = 100.0
        self.batch = -1
        self.away = False
        self.told: list[int] = []
        attempt: Any = SimpleNamespace(
            lane=lane(FIRST),
            lane_folders=SimpleNamespace(spark=None, systems=None),
            inputs=SimpleNamespace(ends=dict, tell=self.tell),
            until=None,
            reporter=Reporter(lane(FIRST), lambda: None),
            clock=clocks / "none",
            counts=Counts(),
            query=None,
            current=SimpleNamespace(workers=SimpleNamespace(take_busy=dict)),
            folder=None,
            positions=lambda: {FLIGHTS: 10 * (self.batch + 1)},
        )
        self.monitor = Monitor(attempt)

    def tell(self, positions: Any) -> bool:
        self.told.append(positions[FLIGHTS])
        return not self.away

    def look(self, seconds: float) -> None:
        """Look at the query after some seconds."""
        self.now += seconds
        query: Any = None
        self.monitor.take_progress(query)
        self.monitor.positions.finish()

    def ended(self, after: int) -> list[CompletedBatch]:
        return [CompletedBatch(number, 10, 1.0, 0) for number in range(after + 1, self.batch + 1)]


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Running:
    monkeypatch.setattr(monitor, "Outputs", Outputs)
    its = Running(tmp_path)
    monkeypatch.setattr(monitor, "monotonic", lambda: its.now)
    monkeypatch.setattr(history, "newest", lambda *_: "" if its.batch < 0 else str(its.batch))
    monkeypatch.setattr(history, "since", lambda spark, query, after: its.ended(after))
    return its


def test_the_position_of_the_last_batch_is_told_though_the_lane_is_idle_afterwards(running: Running) -> None:
    running.look(0.1)
    assert running.told == [], "no batch has ended"
    running.batch = 0
    running.look(0.1)
    assert running.told == [10]
    running.batch = 1
    running.look(0.1)
    assert running.told == [10], "not so soon again"
    for _ in range(600):
        running.look(0.1)
    assert running.told == [10, 20]


def test_a_position_that_could_not_be_told_is_told_again_but_less_and_less_often(running: Running) -> None:
    running.away, running.batch = True, 0
    for _ in range(600):
        running.look(0.1)
    assert 4 <= len(running.told) <= 7
    running.away = False
    for _ in range(700):
        running.look(0.1)
    assert set(running.told) == {10}
    told = len(running.told)
    running.look(10)
    assert len(running.told) == told, "once it is known, it isn't told again"
    running.batch = 1
    running.look(0.1)
    assert running.told[-1] == 20
