"""Another version, or a former one, after the inputs have grown: what was read isn't read again, and none is missed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from anabranch import Job
from anabranch.errors import ConflictError
from anabranch.model.job_model import JobModel, Matched
from anabranch.model.lane import Lane, LaneState, Position
from anabranch.model.ssp import wholes
from anabranch.planning import plan as planning
from anabranch.planning.ownership import broadcasts
from anabranch.planning.transition import after_drain, deploy, expand, opening
from anabranch.planning.transition.deploy import NextVersion
from tests.unit.planning import matching
from tests.unit.planning.factory import around, new_id


def job(*parts: str, name: str = "j") -> Job:
    """Merged inputs, which begin at their ends; with state if ``parts`` say so."""
    made = Job(name)
    rows = made.read("in", key="k string", schema="n int", start="latest")
    for stream in (each for each in parts if each != "state"):
        rows = rows.merge(made.read(stream, key="k string", schema="n int", start="latest"))
    rows.where("n > 0").write("out")
    if "state" in parts:
        rows.agg(n="count(*)", name="counted").write("counts")
    return made


def planned(made: Job, number: int, matched: Mapping[str, Matched] | None = None, **how: Any) -> NextVersion:
    surroundings = replace(around(**{"more": 2, **how}), patterns=matched or {})
    plan = planning.make(made.graph, surroundings)
    return NextVersion(number, plan.model, planning.lanes_of(plan, 4, new_id))


def at(lanes: Sequence[Lane], offset: int) -> dict[str, Lane]:
    """The lanes, closed at this offset."""
    found = {}
    for lane in lanes:
        final = tuple(Position(ssp=ssp, offset=offset) for ssp in dict.fromkeys(wholes((*lane.ssps, *lane.broadcast))))
        its: dict[str, Any] = {"folder_epoch": 1, "begun": True, "final": final, "last_batch": lane.first_batch + 3}
        found[lane.id] = msgspec.structs.replace(lane, state=LaneState.CLOSED, **its)
    return found


def first(version: NextVersion, offset: int = 50) -> tuple[JobModel, dict[str, Lane]]:
    """A version's first deployment, closed."""
    model = msgspec.structs.replace(version.model, run_id=version.deployment)
    lanes = [msgspec.structs.replace(lane, deployment=version.deployment) for lane in version.lanes]
    return model, at(lanes, offset)


def moved(
    after: NextVersion, model: JobModel, lanes: Mapping[str, Lane], back: JobModel | None = None
) -> tuple[JobModel, list[Lane]]:
    """The model of the next deployment, and its lanes as they open."""
    former = [lane for lane in lanes.values() if lane.deployment == model.run_id]
    former = [lane for lane in former if not any(lane.id in each.predecessors for each in lanes.values())]
    if back is not None:
        former += deploy.left_behind(lanes.values(), back.run_id)
    change = deploy.deployed(after, model, former, new_id, back)
    return change.model, [opening.opened(lane, lanes) if lane.predecessors else lane for lane in change.lanes]


def grown(made: Job, model: JobModel, lanes: Mapping[str, Lane], **counts: int) -> tuple[JobModel, dict[str, Lane]]:
    """The job once it has noticed that its inputs have grown, all lanes closed at 60."""
    running = {name: msgspec.structs.replace(lane, state=LaneState.RUNNING) for name, lane in lanes.items()}
    named = {f"embedded/{stream.replace('_', '-')}": count for stream, count in counts.items()}
    change = expand.expanded(made.graph, model, running, named, new_id)
    kept = [lane for name, lane in lanes.items() if lane.deployment == model.run_id and name not in change.closing]
    return change.model, {**lanes, **at([*kept, *(opening.opened(lane, lanes) for lane in change.lanes)], 60)}


def begins(lanes: Sequence[Lane], group: str = "outputs-embedded") -> dict[str, int]:
    its = [lane for lane in lanes if lane.group == group]
    return {str(ssp).removeprefix("embedded/"): offset for lane in its for ssp, offset in lane.begins.items()}


def named(stream: str, partitions: range | int) -> list[str]:
    return [f"{stream}/{p}" for p in (range(partitions) if isinstance(partitions, int) else partitions)]


def texts(lanes: Sequence[Lane], what: Callable[[Lane], Sequence[object]]) -> set[str]:
    return {str(ssp).removeprefix("embedded/") for lane in lanes for ssp in what(lane)}


# --- the version is new, and the job hasn't noticed that its input has grown ------------------------------------------
VERSIONS = {
    "an input more": ((), ("more",)),
    "an input less": (("more",), ()),
    "an input more, and state": ((), ("more", "state")),
}
HOW: list[dict[str, Any]] = [
    {},
    {"factor": 2},
    {"containers": 2},
    {"containers": 4},
    {"grouper": "ssp"},
    {"grouper": "cogroup"},
]


@pytest.mark.parametrize("how", HOW, ids=str)
@pytest.mark.parametrize("name", VERSIONS)
def test_partitions_that_nobody_had_noticed_are_read_from_their_beginning(name: str, how: dict[str, Any]) -> None:
    before, after = VERSIONS[name]
    if "state" in after and "grouper" in how:
        how = {"grouper": "cogroup"}  # with "ssp", the keys of the two inputs would be apart
    counts = {"in": 8, "more": 8}
    model, lanes = first(planned(job(*before), 1, **{**how, "in": 4, "more": 8}))
    _, opened = moved(planned(job(*after), 2, **{**how, **counts}), model, lanes)
    for group in {lane.group for lane in opened}:
        its = [lane for lane in opened if lane.group == group]
        assert begins(its, group) == dict.fromkeys(named("in", 4), 50)
        assert texts(its, lambda lane: lane.fresh) == {*named("in", range(4, 8))}
        begun = [lane for lane in its if lane.predecessors]  # others have all that isn't fresh added
        added = {each for each in texts(begun, lambda lane: wholes(lane.ssps)) if each.startswith("more")}
        assert texts(its, lambda lane: lane.added) == added


def test_partitions_alone_in_their_lane_are_read_from_their_beginning_too() -> None:
    """Such a lane has no predecessor."""
    model, lanes = first(planned(job(), 1, **{"in": 2}))
    _, opened = moved(planned(job("more"), 2, **{"in": 8, "containers": 4}), model, lanes)
    alone = [lane for lane in opened if not lane.predecessors]
    assert not alone  # the number of containers is the job's
    model, lanes = first(planned(job(), 1, **{"in": 2, "containers": 4}))
    _, opened = moved(planned(job("more"), 2, **{"in": 8, "containers": 4}), model, lanes)
    alone = [lane for lane in opened if not lane.predecessors]
    assert alone
    assert all(lane.fresh == lane.ssps for lane in alone)


def test_a_stream_that_another_output_read_is_new_for_this_one() -> None:
    def made(*parts: str) -> Job:
        found = job(*parts)
        found.read("more", key="k string", schema="n int", start="latest", name="other").write("elsewhere")
        return found

    model, lanes = first(planned(made(), 1, **{"in": 2, "more": 2}))
    _, opened = moved(planned(made("more"), 2, **{"in": 2, "more": 4}), model, lanes)
    (lane,) = (each for each in opened if "out" in each.outputs)
    assert texts([lane], lambda each: each.added) == {*named("more", 4)}
    (other,) = (each for each in opened if "elsewhere" in each.outputs)
    assert begins([other]) == dict.fromkeys(named("more", 2), 50)


def test_partitions_that_a_start_finds_add_no_lane_to_an_output_that_is_gone() -> None:
    """The output's last lanes are still closing, and nobody could run a lane of theirs."""
    model, lanes = first(planned(job("state"), 1, **{"in": 2}))
    closing = {name: msgspec.structs.replace(lane, state=LaneState.CLOSING) for name, lane in lanes.items()}
    change = deploy.deployed(planned(job(), 2, **{"in": 2}), model, list(closing.values()), new_id)
    new = {lane.id: lane for lane in change.lanes}
    grew = expand.expanded(job().graph, change.model, {**closing, **new}, {"embedded/in": 4}, new_id)
    assert {lane.group for lane in grew.lanes} == {"outputs-embedded"}
    assert {*grew.closing} == {*new}


def branches(*parts: str) -> Job:
    """Two stages that read the same stream, or only the first of them."""
    made = Job("j")
    made.read("in", key="k string", schema="n int").where("n > 0").write("out")
    if parts:
        other = made.read("more", key="k string", schema="n int")
        if "split" in parts:
            other = other.partition_by("k")
        rows = other.merge(made.read("in", key="k string", schema="n int"))
        rows.write("elsewhere")
        if "state" in parts:
            rows.agg(n="count(*)", name="counted").write("counts")
    return made


@pytest.mark.parametrize(
    ("before", "after", "how"),
    [
        ((), ("merged",), {}),
        ((), ("merged",), {"factor": 2, "containers": 2}),
        (("split",), ("split", "state"), {"grouper": "cogroup"}),
    ],
)
def test_growth_is_still_noticed_if_only_some_stages_were_formed_with_it(
    before: tuple[str, ...], after: tuple[str, ...], how: dict[str, Any]
) -> None:
    model, lanes = first(planned(branches(*before), 1, **{**how, "in": 2}))
    made = branches(*after)
    model, opened = moved(planned(made, 2, **{**how, "in": 4}), model, lanes)
    counts = {"embedded/in": 4, "embedded/more": 2}
    assert expand.other(made.graph, model, counts) == {"embedded/in": 4}
    known = {**lanes, **at(opened, 60)}
    grew, known = grown(made, model, known, **{"in": 4})
    assert expand.other(made.graph, grew, counts) == {}
    new = [lane for name, lane in known.items() if name not in {*lanes, *(each.id for each in opened)}]
    assert all("out" in lane.outputs for lane in new)
    assert texts(new, lambda lane: lane.fresh) == {*named("in", range(2, 4))}
    for stage in grew.stages:
        its = [ssp for task in stage.tasks for ssp in task.ssps if ssp.stream == "in"]
        assert len(its) == len(set(its)) == 4 * how.get("factor", 1) or not its


# --- the version is a former one: it was planned before the inputs grew -----------------------------------------------
@pytest.mark.parametrize("how", HOW, ids=str)
@pytest.mark.parametrize(("before", "after"), [((), ("more",)), (("more",), ())])
def test_a_former_version_continues_in_partitions_that_came_after_it(
    before: tuple[str, ...], after: tuple[str, ...], how: dict[str, Any]
) -> None:
    old = planned(job(*before), 1, **{**how, "in": 2, "more": 2})
    model, lanes = moved(planned(job(*after), 2, **{**how, "in": 2, "more": 2}), *first(old))
    model, known = grown(job(*after), model, at(lanes, 55), **{"in": 4})
    model, opened = moved(NextVersion(3, old.model, old.lanes), model, known)
    assert begins(opened) == dict.fromkeys(named("in", 4), 60)
    assert not texts(opened, lambda lane: lane.fresh)
    assert texts(opened, lambda lane: lane.added) == ({*named("more", 2)} if before else set())
    assert expand.other(job(*before).graph, model, {"embedded/in": 4}) == {}
    read = [ssp for lane in opened for ssp in lane.ssps]
    assert len(read) == len(set(read)) == (4 + 2 * len(before)) * how.get("factor", 1)


def joined(join: bool) -> Job:
    made = Job("j")
    sides = [
        made.read(stream, key="k string", schema=f"{stream}1 int, at{stream} timestamp", name=stream)
        for stream in ("a", "b")
    ]
    if join:
        sides[0].merge(sides[1]).agg(n="count(*)", name="counted").write("counts")
    else:
        sides[0].merge(sides[1]).write("out")
    return made


@pytest.mark.parametrize("wide", [{"a": 4, "b": 2}, {"a": 4, "b": 4}])
def test_state_that_comes_back_has_each_key_of_both_streams_in_one_task(wide: dict[str, int]) -> None:
    """Even if the stateless version between them had other tasks."""
    old = planned(joined(True), 1, a=2, b=2)
    model, lanes = moved(planned(joined(False), 2, a=2, b=2), *first(old))
    model, known = grown(joined(False), model, at(lanes, 55), **wide)
    model, opened = moved(NextVersion(3, old.model, old.lanes), model, known)
    tasks = {task.name: {str(ssp).removeprefix("embedded/") for ssp in task.ssps} for task in model.stages[0].tasks}
    assert tasks == {
        f"Partition_{p}": {f"{stream}/{n}" for stream, count in wide.items() for n in range(p, count, 2)}
        for p in (0, 1)
    }
    assert begins(opened, "counted") == {each: 60 for stream, count in wide.items() for each in named(stream, count)}


@pytest.mark.parametrize(
    ("counts", "told"), [({"a": 3}, "isn't a multiple|a key stays with its state only in a multiple")]
)
def test_state_that_comes_back_is_refused_partitions_that_part_its_keys(counts: dict[str, int], told: str) -> None:
    old = planned(joined(True), 1, a=2, b=2)
    model, lanes = moved(planned(joined(False), 2, a=2, b=2), *first(old))
    model, known = grown(joined(False), model, at(lanes, 55), **counts)
    with pytest.raises(ConflictError, match=told):
        moved(NextVersion(3, old.model, old.lanes), model, known)


def test_a_custom_grouper_is_needed_for_partitions_that_came_after_a_version() -> None:
    old = planned(job(), 1, **{"grouper": "mine:group", "in": 2})
    model, lanes = moved(planned(job("more"), 2, **{"grouper": "mine:group", "in": 4}), *first(old))
    with pytest.raises(ConflictError, match="stage's custom grouper mine:group can't be called here") as refused:
        moved(NextVersion(3, old.model, old.lanes), model, at(lanes, 60))
    assert refused.value.cure == "deploy the file of that version: anabranch deploy JOB.py"
    _, opened = moved(planned(job(), 3, **{"grouper": "mine:group", "in": 4}), model, at(lanes, 60))
    assert begins(opened) == dict.fromkeys(named("in", 4), 60)


# --- patterns ---------------------------------------------------------------------------------------------------------
def test_a_former_version_reads_the_streams_that_came_after_it() -> None:
    old = planned(matching.job(), 1, matching.matched("in-a"), in_a=2)
    model, lanes = moved(NextVersion(2, old.model, old.lanes), *first(old))
    model, known = grown(matching.job(), model, at(lanes, 55), in_b=2)
    model, opened = moved(NextVersion(3, old.model, old.lanes), model, known)
    for group in ("outputs-embedded", "counted"):
        its = [lane for lane in opened if lane.group == group]
        assert begins(its, group) == dict.fromkeys((*named("in-a", 2), *named("in-b", 2)), 60)
        assert {lane.matched["in"] for lane in its} == {("in-a", "in-b")}
        (letters,) = {lane.dead_letters.get("in-b") for lane in its}
        assert letters == its[0].dead_letters.get("in-a")
    assert model.stages[0].patterns == matching.matched("in-a", "in-b")
    assert expand.other(matching.job().graph, model, {"embedded/in-a": 2, "embedded/in-b": 2}) == {}


def test_streams_stay_in_the_order_in_which_the_job_began_to_read_them() -> None:
    """State goes by it, and a version that is planned anew has them sorted by name."""
    old = planned(matching.job(), 1, matching.matched("in-b"), in_b=2)
    model, lanes = grown(matching.job(), *first(old), in_a=2)
    model, opened = moved(planned(matching.job(), 2, matching.matched("in-a", "in-b"), in_a=2, in_b=2), model, lanes)
    assert {lane.matched["in"] for lane in opened} == {("in-b", "in-a")}
    assert model.stages[0].patterns["in"].streams == ("in-b", "in-a")


@pytest.mark.parametrize("how", ["reads", "writes"])
def test_a_pattern_never_includes_what_a_former_version_reads_by_name_or_writes(how: str) -> None:
    def made(named: bool) -> Job:
        found = Job("j")
        rows = found.read("in", key="k string", schema="n int")
        rows.write("out")
        if named and how == "reads":
            found.read("in-b", key="k string", schema="n int").write("other")
        elif named:
            rows.where("n > 0").write("in-b")
        return found

    old = planned(made(True), 1, matching.matched("in-a"), in_a=2, in_b=2)
    new = planned(made(False), 2, matching.matched("in-a"), in_a=2, in_b=2)
    model, lanes = moved(new, *first(old))
    model, known = grown(made(False), model, at(lanes, 55), in_b=2)
    model, opened = moved(NextVersion(3, old.model, old.lanes), model, known)
    assert all(stage.patterns["in"].streams == ("in-a",) for stage in model.stages if stage.patterns)
    assert {lane.matched["in"] for lane in opened if lane.matched} == {("in-a",)}
    assert all("embedded/in-b" not in stage.inputs for stage in model.stages if stage.patterns)


# --- a version that never began ---------------------------------------------------------------------------------------
def never(lanes: Sequence[Lane]) -> dict[str, Lane]:
    return {lane.id: opening.never_begun(lane, "it was taken back") for lane in lanes}


@pytest.mark.parametrize("how", HOW, ids=str)
def test_an_input_continues_if_the_version_without_it_never_began(how: dict[str, Any]) -> None:
    old = planned(job("more"), 1, **{**how, "in": 2, "more": 4})
    former, lanes = first(old)
    model, opened = moved(planned(job(), 2, **{**how, "in": 2, "more": 4}), former, lanes)
    known = {**lanes, **never(opened)}
    _, after = moved(NextVersion(3, old.model, old.lanes), model, known, former)
    assert begins(after) == dict.fromkeys((*named("in", 2), *named("more", 4)), 50)
    assert not texts(after, lambda lane: (*lane.added, *lane.fresh))


def test_it_continues_even_after_two_versions_that_never_began() -> None:
    old = planned(job("more", "state"), 1, **{"in": 2, "more": 2})
    former, lanes = first(old)
    second, opened = moved(planned(job("more", "state"), 2, **{"in": 2, "more": 2}), former, lanes)
    known = {**lanes, **never(opened)}
    third, opened = moved(planned(job(), 3, **{"in": 2, "more": 2}), second, known)
    known |= never(opened)
    _, after = moved(NextVersion(4, old.model, old.lanes), third, known, former)
    for group in ("outputs-embedded", "counted"):
        assert begins(after, group) == dict.fromkeys((*named("in", 2), *named("more", 2)), 50)
    (counted,) = (lane for lane in after if lane.group == "counted")
    assert (counted.afresh, counted.first_batch, len(counted.inherits)) == (False, 4, 1)


def test_it_continues_even_if_a_later_version_that_never_began_took_it_up_anew() -> None:
    """What the later version would have read isn't what the first one has read."""
    how: dict[str, Any] = {"in": 2, "more": 2, "else": 2}
    old = planned(job("more"), 1, **how)
    former, lanes = first(old)
    second, opened = moved(planned(job(), 2, **how), former, lanes)
    known = {**lanes, **never(opened)}
    third, opened = moved(planned(job("more", "else"), 3, **how), second, known)
    assert texts(opened, lambda lane: lane.added) == {*named("more", 2), *named("else", 2)}
    known |= never(opened)
    _, after = moved(NextVersion(4, old.model, old.lanes), third, known, former)
    assert begins(after) == dict.fromkeys((*named("in", 2), *named("more", 2)), 50)
    assert not texts(after, lambda lane: (*lane.added, *lane.fresh))


def test_even_many_versions_that_never_began_are_soon_looked_through() -> None:
    """With a broadcast, each lane follows all lanes: there are 8^12 ways through them."""
    old = planned(with_rules(), 1, **{"in": 8, "rules": 1, "containers": 8})
    former, known = first(old)
    model, opened = former, list(known.values())
    for number in range(2, 14):
        change = deploy.deployed(planned(with_rules(), number, **{"in": 8, "rules": 1}), model, opened, new_id)
        model, opened = change.model, list(never([opening.opened(lane, known) for lane in change.lanes]).values())
        known |= {lane.id: lane for lane in opened}
    assert len(opened) == 8
    assert deploy.left_behind(known.values(), 1) == []


def test_there_can_be_any_number_of_versions_in_a_row_that_never_began() -> None:
    (lane, *_) = first(planned(job(), 1, **{"in": 2}))[1].values()
    lanes = [
        msgspec.structs.replace(lane, id=f"0-{n}", deployment=n, predecessors=(f"0-{n - 1}",)) for n in range(2, 2000)
    ]
    assert deploy.left_behind([msgspec.structs.replace(lane, id="0-1"), *lanes], 1) == []


def test_state_keeps_its_tasks_if_the_version_without_it_never_began() -> None:
    """A plan that is made anew would have a task for each partition."""
    model, lanes = grown(job("state"), *first(planned(job("state"), 1, **{"in": 2})), **{"in": 4})
    second, opened = moved(planned(job("more"), 2, **{"in": 4}), model, lanes)
    known = {**lanes, **never(opened)}
    third, after = moved(planned(job("state"), 3, **{"in": 4}), second, known, model)
    (stage,) = third.stages
    assert [task.name for task in stage.tasks] == ["Partition_0", "Partition_1"]
    (counted,) = (lane for lane in after if lane.group == "counted")
    assert set(counted.tasks) == {task.name for task in stage.tasks}
    assert {text: base.partition for text, base in stage.base.items()} == {f"embedded/in/{p}": p % 2 for p in range(4)}


# --- broadcasts -------------------------------------------------------------------------------------------------------
def with_rules(*parts: str, broadcast: bool = True) -> Job:
    made = Job("j")
    rows = made.read("in", key="k string", schema="n int").merge(
        made.read("rules", key="k string", schema="n int", broadcast=broadcast)
    )
    if "more" in parts:
        rows = rows.merge(made.read("more", key="k string", schema="n int"))
    rows.where("n > 0").write("out")
    return made


def test_a_broadcast_continues_in_tasks_that_had_it() -> None:
    model, lanes = first(planned(with_rules("more"), 1, **{"in": 2, "more": 4, "rules": 1}))
    _, opened = moved(planned(with_rules(), 2, **{"in": 2, "more": 4, "rules": 1}), model, lanes)
    assert begins(opened) == dict.fromkeys(("in/0", "in/1", "rules/0"), 50)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (with_rules(), with_rules("more")),
        (with_rules(), with_rules(broadcast=False)),
        (with_rules(broadcast=False), with_rules()),
    ],
)
def test_other_tasks_can_t_continue_to_read_a_broadcast(before: Job, after: Job) -> None:
    model, lanes = first(planned(before, 1, **{"in": 2, "more": 4, "rules": 1}))
    with pytest.raises(ConflictError, match="other tasks than before would read the broadcast embedded/rules"):
        moved(planned(after, 2, **{"in": 2, "more": 4, "rules": 1}), model, lanes)


@pytest.mark.parametrize(
    ("first_parts", "then_parts", "how"),
    [
        (("more",), (), {"in": 2, "more": 4}),
        (("more",), (), {"in": 2, "more": 4, "factor": 2, "containers": 2}),
        # These tasks are fewer, but have all partitions.
        ((), ("more",), {"in": 4, "more": 2, "grouper": "cogroup"}),
        ((), ("more",), {"in": 4, "more": 2, "grouper": "cogroup", "containers": 2}),
        ((), ("more",), {"in": 4, "more": 2, "grouper": "cogroup", "factor": 2, "containers": 4}),
    ],
)
def test_a_broadcast_is_whole_again_if_the_version_with_fewer_tasks_never_began(
    first_parts: tuple[str, ...], then_parts: tuple[str, ...], how: dict[str, Any]
) -> None:
    old = planned(with_rules(*first_parts), 1, **{**how, "rules": 1})
    former, lanes = first(old)
    model, opened = moved(planned(with_rules(*then_parts), 2, **{**how, "rules": 1}), former, lanes)
    assert len(model.stages[0].tasks) < len(former.stages[0].tasks)
    _, after = moved(NextVersion(3, old.model, old.lanes), model, {**lanes, **never(opened)}, former)
    read = {str(ssp): 50 for lane in lanes.values() for ssp in (*wholes(lane.ssps), *lane.broadcast)}
    assert {f"embedded/{each}": offset for each, offset in begins(after).items()} == read
    assert all(set(broadcasts.begins(lane, lane.broadcast[0]).values()) == {50} for lane in after)


@pytest.mark.parametrize("how", [{}, {"factor": 2}, {"containers": 2}], ids=str)
def test_a_broadcast_continues_although_a_later_version_that_never_began_took_it_up_anew(how: dict[str, Any]) -> None:
    how = {"in": 2, "more": 2, "rules": 1, **how}
    old = planned(with_rules("more"), 1, **how)
    former, lanes = first(old)
    second, opened = moved(planned(job(), 2, **how), former, lanes)
    known = {**lanes, **never(opened)}
    third, opened = moved(planned(with_rules(), 3, **how), second, known)
    assert texts(opened, lambda lane: lane.added) == {"rules/0"}
    _, after = moved(NextVersion(4, old.model, old.lanes), third, {**known, **never(opened)}, former)
    assert {tuple(lane.broadcast) for lane in after} == {tuple(lane.broadcast) for lane in lanes.values()}
    assert begins(after) == dict.fromkeys((*named("in", 2), *named("more", 2), "rules/0"), 50)


@pytest.mark.parametrize(("was", "now"), [(True, False), (False, True)])
def test_state_isn_t_kept_after_a_drain_if_an_input_becomes_a_broadcast_or_ceases_to_be_one(
    was: bool, now: bool
) -> None:
    """The state of each task would belong to other records."""

    def made(broadcast: bool) -> Job:
        found = Job("j")
        rules = found.read("rules", key="k string", schema="n int", broadcast=broadcast)
        rows = found.read("in", key="k string", schema="n int").merge(rules)
        rows.agg(n="count(*)", name="counted").write("counts")
        return found

    former, lanes = first(planned(made(was), 1, **{"in": 2, "rules": 2, "containers": 2}))
    for same, after in ((True, made(was)), (False, made(now))):
        version = planned(after, 2, **{"in": 2, "rules": 2, "containers": 2})
        _, new = after_drain.continuing(version.model, version.lanes, after.graph, former, lanes, new_id)
        if same:
            assert begins(after_drain.begun(new, after.graph, lanes, new_id), "counted")["rules/0"] == 50
            continue
        told = rf"its lane read in, rules{' .broadcast.' * was}, and now reads in, rules{' .broadcast.' * now}$"
        with pytest.raises(ConflictError) as refused:
            after_drain.begun(new, after.graph, lanes, new_id)
        assert re.search(told, refused.value.what)
        assert after_drain.begun(new, after.graph, lanes, new_id, reset_state=True)
