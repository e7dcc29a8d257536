"""The move to another generation: which lanes close, which follow, and what is refused."""

from __future__ import annotations

import msgspec
import pytest

from anabranch import Job
from anabranch.errors import AnabranchError
from anabranch.planning import plan as planning
from anabranch.planning.transition import expand, opening, rescale
from tests.unit.planning.factory import around, new_id
from tests.unit.planning.test_transition_histories import World


def test_a_stateless_lane_is_followed_by_one_and_starts_where_it_ended() -> None:
    world = World([[b"a", b"b"], [b"c"]])
    world.work(0, 1)
    change = world.change(4, 1)
    assert (change.model.generation, change.model.factor) == (2, 4)
    follower = next(lane for lane in change.lanes if not lane.stateful)
    assert list(follower.tasks) == [f"Partition_{p}-{b}-4" for p in (0, 1) for b in range(4)]
    assert (follower.factor, follower.numbers, follower.bases) == (4, {"embedded/in/0": 0, "embedded/in/1": 1}, (0, 1))
    (before,) = follower.predecessors
    assert before in change.closing
    opened = world.lanes[follower.id]
    assert {str(position.ssp): position.offset for position in opened.starting}["embedded/in/0#3"] == 1
    assert opened.inherits == {before: 1}


def test_state_stays_in_one_lane_while_it_stays_in_one_container() -> None:
    world = World([[b"a"], [b"b"]])
    change = world.change(8, 1)
    assert sum(lane.stateful for lane in change.lanes) == 1
    change = world.change(8, 2)
    parted = [lane for lane in change.lanes if lane.stateful]
    assert [lane.seat for lane in parted] == ["0", "1"]
    assert [lane.factor for lane in parted] == [8, 8]
    change = world.change(1, 1)
    beside = [lane for lane in change.lanes if lane.stateful]
    assert [(lane.seat, lane.tasks) for lane in beside] == [("0", ("Partition_0",)), ("0", ("Partition_1",))]
    assert len({lane.predecessors for lane in beside}) == 2


def test_what_is_not_concerned_is_left_alone() -> None:
    world = World([[b"a"], [b"b"], [b"c"], [b"d"]], containers=2)
    kept = {lane.id for lane in world.open if lane.seat == "0"}
    change = world.change(1, 2)
    assert (change.closing, change.lanes) == ((), ())
    change = world.change(1, 4)
    moved = {ssp.partition for lane in change.lanes for ssp in lane.ssps}
    assert moved == {0, 1, 2, 3}
    assert kept <= set(change.closing)


def test_a_new_partition_joins_the_lane_that_has_the_state_of_its_keys() -> None:
    world = World([[b"a"], [b"b"]], containers=2)
    world.work(0, 1)
    change = world.grow(2, [b"a"])
    assert (change.model.generation, change.model.expands) == (2, ("embedded/in",))
    assert {lane.seat: sorted(s.partition for s in lane.ssps) for lane in change.lanes} == {"0": [0, 2], "1": [1, 3]}
    counting = next(lane for lane in change.lanes if lane.stateful and lane.seat == "0")
    assert (counting.tasks, counting.numbers) == (("Partition_0",), {"embedded/in/0": 0, "embedded/in/2": 0})
    assert {text: base.partition for text, base in counting.base.items()} == {"embedded/in/0": 0, "embedded/in/2": 0}
    assert [str(ssp) for ssp in counting.fresh] == ["embedded/in/2"]
    assert [str(position.ssp) for position in world.lanes[counting.id].starting] == ["embedded/in/0"]
    again = world.grow(1, [])
    assert (again.closing, again.lanes, again.model.expands) == ((), (), ())
    scaled = world.change(4, 1)
    assert all(not lane.fresh for lane in scaled.lanes)
    assert len(scaled.model.stages[0].tasks) == 2 * 4


def test_lanes_that_have_none_of_the_new_partitions_run_on() -> None:
    made = Job("j")
    for name in ("a", "b"):
        rows = made.read(name, key="k string", schema="n int")
        rows.agg(n="count(*)", name=f"counted-{name}").write(f"counts-{name}")
    made.read("c", key="k string", schema="n int").where("n > 0").partition_by("n").write("out")
    plan = planning.make(made.graph, around(a=2, b=2, c=2))
    lanes = {lane.id: lane for lane in planning.lanes_of(plan, 4, new_id)}
    change = expand.expanded(made.graph, plan.model, lanes, {"embedded/a": 4, "embedded/b": 2}, new_id)
    assert [lanes[name].group for name in change.closing] == ["counted-a"]
    assert [(lane.group, len(lane.ssps)) for lane in change.lanes] == [("counted-a", 4)]
    assert expand.other(made.graph, change.model, {"embedded/a": 4, "embedded/b": 2, "embedded/zzz": 1}) == {}


def test_without_state_new_partitions_are_new_tasks() -> None:
    made = Job("j")
    made.read("in", key="k string", schema="n int").where("n > 0").write("out")
    plan = planning.make(made.graph, around("partition", 2, 3, **{"in": 2}))
    lanes = {lane.id: lane for lane in planning.lanes_of(plan, 4, new_id)}
    change = expand.expanded(made.graph, plan.model, lanes, {"embedded/in": 5}, new_id)
    assert len(change.model.stages[0].tasks) == 5 * 2
    assert sorted(len(lane.tasks) for lane in change.lanes) == [3, 3, 4]
    assert {str(ssp) for lane in change.lanes for ssp in lane.fresh} == {f"embedded/in/{p}" for p in (2, 3, 4)}


def test_new_tasks_of_a_broadcast_are_refused() -> None:
    made = Job("j")
    rows = made.read("in", key="k string", schema="n int")
    rows.merge(made.read("rules", schema="n int", key="k string", broadcast=True)).write("out")
    plan = planning.make(made.graph, around(**{"in": 2, "rules": 1}))
    lanes = {lane.id: lane for lane in planning.lanes_of(plan, 4, new_id)}
    with pytest.raises(AnabranchError, match="would have other tasks, but it reads the broadcast embedded/rules"):
        expand.expanded(made.graph, plan.model, lanes, {"embedded/in": 4}, new_id)
    wider = expand.expanded(made.graph, plan.model, lanes, {"embedded/rules": 2}, new_id)
    (lane,) = wider.lanes
    assert [[str(ssp) for ssp in each] for each in (lane.broadcast, lane.fresh)] == [
        ["embedded/rules/0", "embedded/rules/1"],
        ["embedded/rules/1"],
    ]


def test_the_streams_between_stages_are_the_jobs_own() -> None:
    made = Job("j")
    made.read("in", key="k string", schema="n int").partition_by("n").agg(n="count(*)").write("counts")
    model = planning.make(made.graph, around(**{"in": 2})).model
    assert expand.partitions(made.graph, model) == {"embedded/in": 2}


def test_lanes_read_from_those_that_follow_the_writers() -> None:
    made = Job("j")
    made.read("in", key="k string", schema="n int").partition_by("n").agg(n="count(*)").write("counts")
    plan = planning.make(made.graph, around(**{"in": 2}))
    lanes = {lane.id: lane for lane in planning.lanes_of(plan, 4, new_id)}
    change = rescale.rescaled(made.graph, plan.model, lanes, 2, 1, new_id)
    writer, reader = change.lanes
    assert reader.upstream == (writer.id,)
    assert writer.beside == {writer.id: writer.predecessors}


@pytest.mark.parametrize(("last_batch", "others"), [(0, 0), (-1, 1)])
def test_who_follows_a_lane_that_never_spoke_speaks_for_those_before_it(last_batch: int, others: int) -> None:
    """Or else what the first of them told last would hold the watermark of all that read it for ever."""
    world = World([[b"a", b"b"]])
    first, second, third = (
        next(lane for lane in several if not lane.stateful)
        for several in (world.open, world.change(2, 1).lanes, world.change(4, 1).lanes)
    )
    assert third.predecessors == (second.id,)
    closed = msgspec.structs.replace(world.lanes[second.id], last_batch=last_batch)
    opened = opening.opened(third, {**world.lanes, second.id: closed})
    assert opened.speaks_for == (second.id, first.id)[: 1 + others]


@pytest.mark.parametrize(
    ("factor", "containers", "match"), [(3, 1, "factor 3"), (2048, 1, "factor 2048"), (0, 1, "factor 0")]
)
def test_what_cannot_be_is_refused(factor: int, containers: int, match: str) -> None:
    with pytest.raises(AnabranchError, match=match):
        World([[b"a"]]).change(factor, containers)


@pytest.mark.parametrize(("factor", "containers"), [(2, 1), (1, 2)])
def test_all_is_one_task_a_container(factor: int, containers: int) -> None:
    with pytest.raises(AnabranchError, match="all"):
        World([[b"a"]], grouper="all").change(factor, containers)


def test_a_shuffle_inside_the_query_has_no_factor() -> None:
    made = Job("j")
    made.read("in", key="k string", schema="n int").partition_by("n", via="spark").agg(n="count(*)").write("counts")
    plan = planning.make(made.graph, around(**{"in": 1}))
    lanes = {lane.id: lane for lane in planning.lanes_of(plan, 4, new_id)}
    with pytest.raises(AnabranchError, match="shuffle inside the query"):
        rescale.rescaled(made.graph, plan.model, lanes, 2, 1, new_id)
