"""How long a change is expected to hold up output."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.coordinator import pausing
from anabranch.coordinator.service import Coordinator
from anabranch.coordinator.store import Store
from anabranch.messages import LaneReport, Scaling
from tests.unit.coordinator_helpers import lane
from tests.unit.test_scaling import JOB, Worker, start


def told(name: str, **fields: Any) -> dict[str, LaneReport]:
    return {name: LaneReport(lane=name, phase="running", **fields)}


@pytest.mark.parametrize(
    ("fields", "stateful", "seconds"),
    [
        ({}, False, 0.6),
        ({}, True, 1.2),
        ({"usual_seconds": 10.0}, False, 10.6),
        ({"usual_seconds": 0.5, "changeover": 2.0}, True, 3.5),
        ({"usual_seconds": 0.5, "changeover": 0.01}, False, 0.7),
    ],
)
def test_a_pause_is_a_batch_and_what_the_last_change_has_shown(
    fields: dict[str, Any], stateful: bool, seconds: float
) -> None:
    assert pausing.expected([lane("0-a", stateful=stateful)], told("0-a", **fields)) == pytest.approx(seconds)


def test_the_slowest_lane_counts_and_where_nothing_closes_nothing_stands_still() -> None:
    reports = told("0-a", usual_seconds=1.0) | told("0-b", usual_seconds=7.0)
    assert pausing.expected([lane("0-a"), lane("0-b")], reports) == pytest.approx(7.6)
    assert pausing.expected([], reports) == 0.0
    assert pausing.expected([lane("0-c")], reports) == pytest.approx(0.4)


def test_a_plan_tells_the_pause_and_which_seats_are_free() -> None:
    coordinator = Coordinator(Store("sqlite://"), lease=10, grace=2)
    coordinator.start(start())
    Worker(coordinator).turns()
    told = coordinator.wishes.scale(JOB, Scaling(containers=2, dry=True))
    assert (told.pause, told.free) == (pytest.approx(1.2), ("1",))
    assert coordinator.wishes.scale(JOB, Scaling(factor=4, dry=True)).free == ()
