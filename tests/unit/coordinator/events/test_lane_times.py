"""When lanes ran, by what is in the events."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.events.lane_times import Span, lane_times
from anabranch.coordinator.store import Event, Store
from anabranch.errors import NotFoundError, UsageError
from anabranch.model.lane import Lane, LaneState
from anabranch.protocol.commands import ScaleRequest
from anabranch.views.lane_times import LaneTimes, MarkKind
from tests.unit.coordinator.helpers import FIRST, SECOND, Clock, lane
from tests.unit.coordinator.workers import JOB, running

NOW = 1000.0


def event(at: float, lane: str, mark: MarkKind | None, why: str = "") -> Event:
    what = f"lane {lane} has news"
    return Event(kind="lane", job="delays", at=at, who="coordinator", what=what, why=why, lane=lane, mark=mark)


def seen(*events: Event, state: LaneState = LaneState.RUNNING, **span: Any) -> LaneTimes:
    lanes = {FIRST: lane(FIRST, state=state)}
    return lane_times("delays", lanes, events, Span(**{"now": NOW, "since": 0.0, "until": NOW, **span}))


def runs(times: LaneTimes) -> list[list[float | None]]:
    (row,) = times.lanes.records()
    found: list[list[float | None]] = row["runs"]
    return found


def test_a_lane_that_is_tried_again_runs_on_and_one_that_is_fenced_runs_elsewhere() -> None:
    times = seen(
        event(10, FIRST, None),
        event(12, FIRST, "started"),
        event(20, FIRST, "retried", "ValueError: no"),
        event(30, FIRST, "fenced", "at epoch 7"),
        event(32, FIRST, "started"),
        event(40, SECOND, "started"),  # of no lane that is known
    )
    assert runs(times) == [[12, 30], [32, None]]
    kinds = [(mark["at"], mark["kind"], mark["why"]) for mark in times.marks.records()]
    assert kinds == [
        (10, "other", ""),
        (12, "started", ""),
        (20, "retried", "ValueError: no"),
        (30, "fenced", "at epoch 7"),
        (32, "started", ""),
    ]
    assert {mark["summary"] for mark in times.marks.records()} == {"has news"}
    assert times.known_since == 10


def test_a_process_that_is_lost_unfenced_has_ended_when_another_one_goes_on() -> None:
    assert runs(seen(event(12, FIRST, "started"), event(32, FIRST, "started"))) == [[12, 32], [32, None]]


def test_what_a_stopped_job_ran_ended_at_the_latest_when_it_stopped() -> None:
    assert runs(seen(event(12, FIRST, "started"), stopped=50.0)) == [[12, 50]]
    assert runs(seen(event(12, FIRST, "started"), event(40, FIRST, "ended"), stopped=50.0)) == [[12, 40]]


def test_a_closed_lane_of_a_killed_process_ended_at_the_latest_when_the_job_stopped() -> None:
    times = seen(event(12, FIRST, "started"), state=LaneState.CLOSED, stopped=50.0)
    assert runs(times) == [[12, 50]]
    assert not seen(event(12, FIRST, "started"), state=LaneState.CLOSED, stopped=50.0, since=51.0).lanes.rows


def test_a_closed_lane_of_a_killed_process_ended_at_the_latest_when_it_was_continued() -> None:
    lanes = {FIRST: lane(FIRST, state=LaneState.CLOSED)}
    lanes |= {name: lane(name, predecessors=(FIRST,)) for name in ("0-b", "0-c")}
    events = event(12, FIRST, "started"), event(40, "0-c", "started"), event(45, "0-b", "started")
    times = lane_times("delays", lanes, events, Span(now=NOW, since=0.0, until=NOW))
    assert {row["id"]: row["runs"] for row in times.lanes.records()} == {
        FIRST: [[12, 40]],
        "0-b": [[45, None]],
        "0-c": [[40, None]],
    }


@pytest.mark.parametrize(("since", "until", "there"), [(0, 10, False), (10, 15, True), (40, 60, True), (60, 99, False)])
def test_closed_lanes_are_those_that_ran_in_the_span(since: float, until: float, there: bool) -> None:
    events = event(12, FIRST, "started"), event(50, FIRST, "ended")
    times = seen(*events, state=LaneState.CLOSED, since=since, until=until)
    assert bool(times.lanes.rows) == there
    assert all(since <= mark["at"] < until for mark in times.marks.records())


def test_an_open_lane_is_there_before_anything_is_known_of_it() -> None:
    assert runs(seen()) == []


def test_many_closed_lanes_are_cut_and_that_is_said() -> None:
    lanes: dict[str, Lane] = {f"0-{at}": lane(f"0-{at}", state=LaneState.CLOSED) for at in range(5)}
    marks: tuple[MarkKind, ...] = ("started", "ended")
    events = [event(at, name, mark) for at, name in enumerate(lanes) for mark in marks]
    times = lane_times("delays", lanes, events, Span(now=NOW, since=0.0, until=NOW), most_closed=2)
    assert [row["id"] for row in times.lanes.records()] == ["0-3", "0-4"]
    assert times.omitted == 3


def test_of_a_job_that_was_scaled_both_generations_are_there() -> None:
    now = Clock()
    coordinator = Coordinator(Store("sqlite://"), clock=Clock(), lease=10, grace=2, now=lambda: 4000.0 + now())
    worker = running(coordinator)
    before = {each.lane.id for each in coordinator.status(JOB).lanes}
    now.at += 60
    result = coordinator.scale(JOB, ScaleRequest(factor=4))
    worker.turns(6)
    now.at += 60
    rows = {row["id"]: row for row in coordinator.lane_times(JOB).lanes.records()}
    assert set(rows) == before | {lane.id for lane in result.lanes}
    for closed in result.closing:
        assert rows[closed.id]["runs"] == [[5000.0, 5060.0]]
    for new in result.lanes:
        assert rows[new.id]["runs"] == [[5060.0, None]]
        assert tuple(rows[new.id]["predecessors"]) == new.predecessors
    assert coordinator.lane_times(JOB).known_since is None  # from the job's first event on
    with pytest.raises(UsageError, match="ends before"):
        coordinator.lane_times(JOB, since=5000.0, until=4000.0)


def test_the_moves_of_a_change_are_those_that_its_plan_foretold() -> None:
    coordinator = Coordinator(Store("sqlite://"), clock=Clock(), lease=10, grace=2)
    worker = running(coordinator)
    with pytest.raises(NotFoundError, match="nothing was before generation 1"):
        coordinator.moves(JOB)
    plan = coordinator.scale(JOB, ScaleRequest(containers=2, dry=True, brief=True, moves=True))
    assert any(stage.moves for stage in plan.moves)
    assert coordinator.scale(JOB, ScaleRequest(containers=2, dry=True)).moves == ()
    coordinator.scale(JOB, ScaleRequest(containers=2))
    worker.turns(6)
    found = coordinator.moves(JOB)
    assert (found.deployment, found.generation, found.former) == (1, 2, (1, 1))
    assert found.stages == plan.moves
    assert coordinator.moves(JOB, 1, 2).stages == plan.moves
    with pytest.raises(NotFoundError, match="has no generation 3"):
        coordinator.moves(JOB, generation=3)
    with pytest.raises(NotFoundError, match="has no generation -1"):
        coordinator.moves(JOB, generation=-1)
