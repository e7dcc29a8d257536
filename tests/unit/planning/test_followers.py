"""Lanes that follow a lane, whichever change makes them: with its state and positions, or as it would have begun."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest

from anabranch import Job
from anabranch.model.job_model import JobModel
from anabranch.model.lane import AfterDrain, Lane, LaneState, Position
from anabranch.model.ssp import wholes
from anabranch.planning.transition import after_drain, deploy, expand, follow, opening, rescale, rewind
from anabranch.planning.transition.change import Change
from tests.unit.planning.factory import new_id
from tests.unit.planning.test_deploying_moves import deployed, job, planned

Way = Callable[[Job, JobModel, Mapping[str, Lane]], Change]
TO = {"embedded/in/0": 3, "embedded/in/1": 3}


def scaled(made: Job, model: JobModel, lanes: Mapping[str, Lane]) -> Change:
    return rescale.rescaled(made.graph, model, lanes, 2, 1, new_id)


def grown(made: Job, model: JobModel, lanes: Mapping[str, Lane]) -> Change:
    return expand.expanded(made.graph, model, lanes, {"embedded/in": 4}, new_id)


def rewound(made: Job, model: JobModel, lanes: Mapping[str, Lane], state: str = "keep") -> Change:
    return rewind.rewound(made.graph, model, lanes, TO, state, new_id)


def redeployed(made: Job, model: JobModel, lanes: Mapping[str, Lane]) -> Change:
    return deploy.deployed(planned(made), model, follow.heads(lanes.values()), new_id)


WAYS = pytest.mark.parametrize("way", [scaled, grown, rewound, redeployed])


def with_new_state() -> Job:
    return job(build=lambda made, rows: rows.agg(n="max(n)", name="highest").write("most"))


def with_new_input() -> Job:
    made = Job("j")
    rows = made.read("in", key="k string", schema="n int").merge(made.read("more", key="k string", schema="n int"))
    rows.where("n > 0").write("out")
    return made


def ended(lane: Lane, began: bool) -> Lane:
    """A lane that has closed: after three batches of its own, up to offset 20, or before it began."""
    if not began:
        return opening.never_begun(lane, "it can't start")
    final = tuple(Position(ssp=ssp, offset=20) for ssp in dict.fromkeys(wholes((*lane.ssps, *lane.broadcast))))
    its: dict[str, Any] = {"state": LaneState.CLOSED, "folder_epoch": 2, "begun": True, "final": final}
    return msgspec.structs.replace(lane, **its, last_batch=lane.first_batch + 2)


def followed(group: str, before: Job, made: Job, way: Way, began: bool) -> tuple[Lane, Lane]:
    """A lane that a deployment has made, once it is closed, and the lane that follows it."""
    change, opened = deployed(before, made)
    lanes = {lane.id: lane for lane in opened.values()}
    after = way(made, change.model, lanes)
    lanes = {name: ended(lane, began) for name, lane in lanes.items()}
    closed = lanes[opened[group].id]
    (follower,) = (lane for lane in after.lanes if closed.id in lane.predecessors)
    return closed, rewind.opened(follower, lanes)


def read(lane: Lane) -> dict[str, int]:
    return {str(ssp): offset for ssp, offset in lane.begins.items()}


@WAYS
def test_state_that_a_deployment_began_goes_on(way: Way) -> None:
    closed, lane = followed("highest", job(), with_new_state(), way, began=True)
    assert (closed.afresh, lane.afresh) == (True, False)
    assert (lane.inherits, lane.first_batch) == ({closed.id: 2}, closed.last_batch + 1)
    assert read(lane) == (TO if way is rewound else dict.fromkeys(TO, 20))


@WAYS
def test_state_that_never_began_begins_in_the_lane_that_follows(way: Way) -> None:
    """What the lane inherits are folders of other operators: only their event time counts."""
    closed, lane = followed("highest", job(), with_new_state(), way, began=False)
    assert (lane.afresh, lane.first_batch, lane.inherits) == (True, 0, closed.inherits)
    assert len(lane.inherits) == 2
    assert read(lane) == (TO if way is rewound else dict.fromkeys(TO, 9))
    assert closed.id not in {each.id for each in deploy.left_behind([closed, lane], closed.deployment)}


@WAYS
def test_an_input_that_a_deployment_added_goes_on_where_it_was(way: Way) -> None:
    closed, lane = followed("outputs-embedded", job(state=None), with_new_input(), way, began=True)
    assert (len(closed.added), lane.added) == (2, ())
    assert read(lane) == {
        **(TO if way is rewound else dict.fromkeys(TO, 20)),
        "embedded/more/0": 20,
        "embedded/more/1": 20,
    }


@WAYS
def test_an_added_input_that_was_never_read_still_begins_where_its_read_says(way: Way) -> None:
    closed, lane = followed("outputs-embedded", job(state=None), with_new_input(), way, began=False)
    assert lane.added == closed.added
    assert read(lane) == (TO if way is rewound else dict.fromkeys(TO, 9))


@pytest.mark.parametrize("state", ["keep", "clear"])
def test_a_rewind_that_never_began_is_made_by_the_lane_that_follows(state: str) -> None:
    made = job()
    change, opened = deployed(made, made)
    lanes = {lane.id: lane for lane in opened.values()}
    again = rewound(made, change.model, lanes, state)
    lanes = {name: ended(lane, began=True) for name, lane in lanes.items()}
    lanes |= {lane.id: rewind.opened(lane, lanes) for lane in again.lanes}
    after = redeployed(made, again.model, lanes)
    lanes |= {lane.id: ended(lanes[lane.id], began=False) for lane in again.lanes}
    (lane,) = (rewind.opened(lane, lanes) for lane in after.lanes if lane.group == "counted")
    (closed,) = (lanes[name] for name in lane.predecessors)
    assert (lane.rewind, lane.inherits) == (closed.rewind, {opened["counted"].id: 2})
    assert lane.first_batch == (0 if state == "clear" else closed.first_batch)
    assert read(lane) == TO


def test_a_lane_from_before_a_rewind_goes_on_with_the_state_that_a_deployment_began() -> None:
    made = with_new_state()
    change, opened = deployed(job(), made)
    lanes = {lane.id: lane for lane in opened.values()}
    again = rewound(made, change.model, lanes)
    lanes = {name: ended(lane, began=True) for name, lane in lanes.items()}
    lanes |= {lane.id: rewind.opened(lane, lanes) for lane in again.lanes}
    back = rewind.undone(again.model, lanes, new_id)
    lanes |= {lane.id: ended(lanes[lane.id], began=False) for lane in again.lanes}
    (lane,) = (rewind.opened(lane, lanes) for lane in back.lanes if lane.group == "highest")
    before = lanes[opened["highest"].id]
    assert (lane.afresh, lane.inherits, lane.first_batch) == (False, {before.id: 2}, before.last_batch + 1)
    assert read(lane) == dict.fromkeys(TO, 20)


@pytest.mark.parametrize(("before", "made"), [(job(), with_new_state()), (job(state=None), with_new_input())])
def test_after_a_drain_nothing_is_new(before: Job, made: Job) -> None:
    _, opened = deployed(before, made)
    lanes = {lane.id: ended(lane, began=True) for lane in opened.values()}
    assert any(lane.afresh or lane.added for lane in lanes.values())
    assert not any(lane.afresh or lane.added for lane in after_drain.again(lanes, new_id))


@pytest.mark.parametrize("scaled_before", [False, True])
def test_after_a_drain_an_input_that_a_deployment_had_dropped_goes_on_where_it_was(scaled_before: bool) -> None:
    first = planned(with_new_input())
    lanes = {lane.id: msgspec.structs.replace(lane, deployment=1) for lane in first.lanes}
    present = msgspec.structs.replace(first.model, run_id=1)
    if scaled_before:  # the lanes that read the input last follow others of the same deployment
        change = scaled(with_new_input(), present, lanes)
        lanes = {name: at(lane, 4) for name, lane in lanes.items()}
        lanes |= {lane.id: opening.opened(lane, lanes) for lane in change.lanes}
        assert len({lane.id for lane in lanes.values() if lane.deployment == 1}) > len(first.lanes)
    lanes = {name: lane if lane.final else at(lane, 9) for name, lane in lanes.items()}
    heads = [lane for lane in lanes.values() if not any(lane.id in each.predecessors for each in lanes.values())]
    second = deploy.deployed(planned(job(state=None)), present, heads, new_id)
    lanes |= {lane.id: at(opening.opened(lane, lanes), 20) for lane in second.lanes}
    assert {lane.deployment for lane in lanes.values()} == {1, 2}
    third = after_drain.begun(planned(with_new_input()).lanes, with_new_input().graph, lanes, new_id)
    assert [read(lane) for lane in third] == [
        {"embedded/in/0": 20, "embedded/in/1": 20, "embedded/more/0": 9, "embedded/more/1": 9}
    ]


def at(lane: Lane, offset: int) -> Lane:
    """A lane that has ended at one offset everywhere."""
    whole = dict.fromkeys(wholes((*lane.ssps, *lane.broadcast)))
    return msgspec.structs.replace(
        ended(lane, began=True), final=tuple(Position(ssp=ssp, offset=offset) for ssp in whole)
    )


def test_what_was_drained_is_taken_over_by_who_follows_a_lane_that_never_began() -> None:
    _, opened = deployed(job(), job())
    drained = msgspec.structs.replace(opened["counted"], drained=AfterDrain(writers=("0-a",)))
    closed = ended(drained, began=False)
    follower = msgspec.structs.replace(follow.as_planned(closed), id="0-b", predecessors=(closed.id,))
    lane = opening.opened(follower, {closed.id: closed})
    assert (lane.drained, lane.inherits) == (closed.drained, closed.inherits)


def test_who_follows_a_lane_that_had_nothing_to_continue_from_begins_as_it_would_have_begun() -> None:
    """It has no start offsets. Without a mark that they are known, they would be looked for again and again."""
    _, opened = deployed(job(), job())
    first = follow.as_planned(opened["outputs-embedded"])
    closed = ended(first, began=False)
    follower = msgspec.structs.replace(first, id="0-b", predecessors=(closed.id,))
    assert not follower.start_is_known
    lane = opening.opened(follower, {closed.id: closed})
    assert (lane.starting, lane.inherits, lane.start_is_known) == ((), {}, True)
    assert {*lane.added} == {*wholes(lane.ssps)}
    again = opening.never_begun(lane, "nor can this one")
    after = opening.opened(msgspec.structs.replace(first, id="0-c", predecessors=(lane.id,)), {lane.id: again})
    assert (after.starting, after.start_is_known, {*after.added}) == ((), True, {*lane.added})
