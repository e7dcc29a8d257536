"""The move to another version: what goes on, what begins, and where. (That of the same version: test_transitions.)"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from anabranch import Job
from anabranch.errors import ConflictError
from anabranch.model.lane import Lane, LaneState, Position
from anabranch.model.ssp import wholes
from anabranch.planning import plan as planning
from anabranch.planning.transition import deploy, opening
from anabranch.planning.transition.change import Change
from anabranch.planning.transition.deploy import NextVersion
from tests.unit.planning.factory import around, new_id

PARTITIONS = {"in": 2, "more": 2, "rules": 1}


def job(state: str | None = "counted", build: Callable[[Job, Any], object] = lambda job, rows: None) -> Job:
    made = Job("j")
    rows = made.read("in", key="k string", schema="n int")
    rows.where("n > 0").write("out")
    if state is not None:
        rows.agg(n="count(*)", name=state).write("counts")
    build(made, rows)
    return made


def planned(made: Job, **how: Any) -> NextVersion:
    found = planning.make(made.graph, around(**{**how, **PARTITIONS}))
    return NextVersion(2, found.model, planning.lanes_of(found, 4, new_id))


def run(after: NextVersion) -> dict[str, Lane]:
    """The lanes of a version that has run: the one with state is behind the others."""
    lanes = {}
    for lane in after.lanes:
        at = 5 if lane.stateful else 9
        final = tuple(Position(ssp=ssp, offset=at) for ssp in dict.fromkeys(wholes((*lane.ssps, *lane.broadcast))))
        its = {"state": LaneState.CLOSED, "folder_epoch": 1, "begun": True, "final": final, "last_batch": 3}
        lanes[lane.id] = msgspec.structs.replace(lane, deployment=1, **its)
    return lanes


def deployed(before: Job, after: Job, **how: Any) -> tuple[Change, dict[str, Lane]]:
    """The change, and the lanes of the new version, by group, as they are opened."""
    first = planned(before, **how)
    lanes = run(first)
    present = msgspec.structs.replace(first.model, run_id=1, generation=3)
    change = deploy.deployed(planned(after), present, list(lanes.values()), new_id)
    return change, {lane.group: opening.opened(lane, lanes) for lane in change.lanes if lane.predecessors}


def places(lane: Lane) -> set[int]:
    return {position.offset for position in lane.starting}


def test_a_deployment_has_a_number_and_begins_with_its_first_generation() -> None:
    change, _ = deployed(job(), job(), factor=2)
    model = change.model
    assert (model.run_id, model.generation, model.replaces, model.factor) == (2, 1, 1, 2)
    assert {lane.deployment for lane in change.lanes} == {2}
    assert {task.name for task in model.stages[0].tasks} == {f"Partition_{p}-{b}-2" for p in (0, 1) for b in (0, 1)}


def test_state_and_outputs_go_on_where_they_were() -> None:
    _, lanes = deployed(job(), job(build=lambda j, rows: rows.where("n < 0").write("below")))
    assert places(lanes["counted"]) == {5}
    assert (lanes["counted"].first_batch, lanes["counted"].afresh) == (4, False)
    assert places(lanes["outputs-embedded"]) == {9}
    assert set(lanes["outputs-embedded"].outputs) >= {"out", "below"}


def test_new_state_begins_empty_where_the_furthest_lane_was() -> None:
    _, lanes = deployed(job(), job(build=lambda j, rows: rows.agg(n="max(n)", name="highest").write("most")))
    lane = lanes["highest"]
    assert (lane.afresh, lane.first_batch, places(lane)) == (True, 0, {9})
    assert len(lane.predecessors) == 2


def test_what_goes_is_closed_and_nobody_follows() -> None:
    before, after = job(), job(state=None)
    first = planned(before)
    lanes = [msgspec.structs.replace(lane, deployment=1, state=LaneState.RUNNING) for lane in first.lanes]
    change = deploy.deployed(planned(after), first.model, lanes, new_id)
    assert set(change.closing) == {lane.id for lane in lanes}
    (follower,) = change.lanes
    assert [lane.group for lane in lanes if lane.id in follower.predecessors] == ["outputs-embedded"]
    left = deploy.left_behind([*lanes, *change.lanes], 1)
    assert [lane.group for lane in left] == ["counted"]


def test_an_input_that_is_new_begins_where_its_read_says() -> None:
    plain = job(state=None)
    merged = Job("j")
    rows = merged.read("in", key="k string", schema="n int").merge(merged.read("more", key="k string", schema="n int"))
    rows.where("n > 0").write("out")
    _, lanes = deployed(plain, merged)
    (lane,) = lanes.values()
    assert {str(position.ssp) for position in lane.starting} == {"embedded/in/0", "embedded/in/1"}
    assert {str(ssp) for ssp in lane.added} == {"embedded/more/0", "embedded/more/1"}


def test_a_new_stage_has_lanes_of_its_own() -> None:
    def build(made: Job, rows: Any) -> None:
        rows.partition_by("n").agg(m="count(*)", name="per-n").write("by-n-counts")

    change, lanes = deployed(job(), job(build=build))
    (reader,) = (lane for lane in change.lanes if lane.group == "per-n")
    (writer,) = (lane for lane in change.lanes if "j-by-n-1" in lane.outputs)
    assert (reader.predecessors, reader.upstream, reader.afresh) == ((), (writer.id,), False)
    assert places(lanes[writer.group]) == {9}


def test_a_stage_keeps_its_tasks_and_lanes_wherever_it_stands_in_the_file() -> None:
    first = Job("j")
    first.read("in", key="k string", schema="n int").agg(n="count(*)", name="counted").write("counts")
    second = Job("j")
    second.read("more", key="k string", schema="n int").write("copied")
    second.read("in", key="k string", schema="n int").agg(n="count(*)", name="counted").write("counts")
    change, lanes = deployed(first, second, factor=2, containers=2)
    assert [stage.stage for stage in change.model.stages] == ["0", "1"]
    assert lanes["counted"].stage == "1"
    kept = [lane for lane in change.lanes if lane.group == "counted"]
    assert [(lane.seat, lane.factor, len(lane.tasks)) for lane in kept] == [("0", 2, 2), ("1", 2, 2)]
    assert len(change.model.stages[0].tasks) == 2 * 2
    for container in change.model.containers:
        assert {name for lane in kept if lane.seat == container.seat for name in lane.tasks} == set(
            container.tasks["1"]
        )


def test_outputs_that_may_be_at_different_places_cannot_become_one() -> None:
    apart = job(state=None)
    apart.read("more", key="k string", schema="n int").write("other")
    together = Job("j")
    rows = together.read("in", key="k string", schema="n int")
    rows = rows.merge(together.read("more", key="k string", schema="n int"))
    rows.where("n > 0").write("out")
    rows.write("other")
    with pytest.raises(ConflictError, match="outputs other, out come from one lane now"):
        deployed(apart, together)


def test_lanes_are_fed_by_those_that_follow_the_writers() -> None:
    made = job(build=lambda j, rows: rows.partition_by("n").agg(m="count(*)", name="per-n").write("by-n-counts"))
    change, lanes = deployed(made, made)
    (writer,) = (lane for lane in change.lanes if "j-by-n-1" in lane.outputs)
    (reader,) = (lane for lane in change.lanes if lane.group == "per-n")
    assert reader.upstream == (writer.id,)
    assert writer.beside == {writer.id: writer.predecessors}
    assert lanes["per-n"].first_batch == 4
