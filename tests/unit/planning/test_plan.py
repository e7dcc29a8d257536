"""The whole plan: tasks and lanes with their SSPs, reads, promises, and what can't be planned."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest

from anabranch import Job
from anabranch.errors import ConfigError, GraphError
from anabranch.grouping import groupers
from anabranch.model import document, names
from anabranch.model.ssp import SSP
from anabranch.model.traffic import Traffic
from anabranch.planning import plan as planning
from anabranch.planning.assignment.assignor import Rules
from anabranch.planning.plan import Placement, Plan
from tests.unit.planning.delays import EXACT, ROUGH, delays, make
from tests.unit.planning.factory import around


def test_inputs_whose_keys_were_together_may_grow_one_by_one() -> None:
    job = Job("j")
    left, right = (job.read(name, key="k string", schema="n int") for name in ("a", "b"))
    left.merge(right).agg(n="count(*)").write("counts")
    planning.make(job.graph, around(a=4, b=4))
    with pytest.raises(GraphError, match="can be in different tasks"):
        planning.make(job.graph, around(a=8, b=4))
    planning.make(job.graph, replace(around(a=8, b=4), bases={"a": 4, "b": 4}))


def texts(ssps: tuple[SSP, ...]) -> list[str]:
    return [str(ssp).removeprefix("embedded/") for ssp in ssps]


def tasks(plan: Plan, stage: int = 0) -> dict[str, list[str]]:
    return {task.name: texts(task.ssps) for task in plan.model.stages[stage].tasks}


def test_stages_tasks_and_container() -> None:
    plan = make(delays(), around(flights=2))
    first, second = plan.model.stages
    assert (first.stage, first.key, first.stateful, first.inputs) == ("0", ("tail",), True, ("embedded/flights",))
    assert (second.stage, second.key, second.stateful) == ("1", ("dest",), True)
    assert second.inputs == ("embedded/delays-by-dest-1",)
    assert tasks(plan, 0) == {"Partition_0": ["flights/0"], "Partition_1": ["flights/1"]}
    assert tasks(plan, 1) == {"Partition_0": ["delays-by-dest-1/0"], "Partition_1": ["delays-by-dest-1/1"]}
    (container,) = plan.model.containers
    assert container.tasks == {"0": ("Partition_0", "Partition_1"), "1": ("Partition_0", "Partition_1")}
    assert list(first.base) == ["embedded/flights/0", "embedded/flights/1"]
    assert plan.warnings == ()


def test_lanes_their_ssps_outputs_and_what_feeds_them() -> None:
    plan = make(delays(), around(flights=2))
    assert [(n.stage, n.group, n.operators, texts(n.ssps), n.upstream, n.outputs) for n in plan.lanes] == [
        (
            "0",
            "outputs-embedded",
            ("where", "late", "by-dest"),
            ["flights/0", "flights/1"],
            (),
            {"late": 2, "delays-by-dest-1": 2, "flights-dead-letters": 2},
        ),
        (
            "0",
            "per-tail",
            ("per-tail", "tails"),
            ["flights/0", "flights/1"],
            (),
            {"tails": 2, "flights-dead-letters": 2},
        ),
        (
            "1",
            "per-dest",
            ("per-dest", "dests", "report"),
            ["delays-by-dest-1/0", "delays-by-dest-1/1"],
            (0,),
            {"dests": 2},
        ),
    ]
    assert [n.stateful for n in plan.lanes] == [False, True, True]
    assert all(n.base == {str(s): s for s in n.ssps} for n in plan.lanes)


def test_reads_per_ssp_count_the_lanes_that_read_it() -> None:
    assert make(delays(), around(flights=2)).reads_per_ssp == {
        "embedded/delays-by-dest-1/0": 1,
        "embedded/delays-by-dest-1/1": 1,
        "embedded/flights/0": 2,
        "embedded/flights/1": 2,
    }


def test_one_map_arrow_branch_two_sql_branches_and_state_are_two_reads() -> None:
    job = Job("j")
    a = job.read("a", key="k string", schema="x int")
    a.map_arrow(str).write("one")
    a.where("x").write("two")
    a.select("k", "x").write("three")
    a.agg(n="count(*)").write("four")
    plan = make(job, around(a=3))
    assert plan.reads_per_ssp == {f"embedded/a/{p}": 2 for p in range(3)}
    assert [lane.group for lane in plan.lanes] == ["outputs-embedded", "agg"]


def test_each_output_has_a_promise_and_the_partitions_it_would_be_made_with() -> None:
    plan = make(delays(), around(flights=6, tails=3))
    assert {o.operator: (o.promise, o.stream, o.partitions, o.intermediate) for o in plan.outputs} == {
        "late": (EXACT, "late", 6, False),
        "tails": (EXACT, "tails", 3, False),
        "by-dest": (EXACT, "delays-by-dest-1", 6, True),
        "dests": (EXACT, "dests", 6, False),
        "report": (ROUGH, None, 0, False),
        "flights": (EXACT, "flights-dead-letters", 6, False),
    }


@pytest.mark.parametrize(
    ("declared", "existing", "expected"),
    [(None, {}, 5), (3, {}, 3), (None, {"j_by_x_1": 7}, 7), (3, {"j_by_x_1": 7}, 7)],
)
def test_partitions_of_an_intermediate_stream(declared: int | None, existing: dict[str, int], expected: int) -> None:
    job = Job("j")
    job.read("a").merge(job.read("b")).partition_by("x", partitions=declared).write("out")
    plan = make(job, around(a=5, b=2, **existing))
    assert len(plan.model.stages[1].tasks) == expected
    assert {o.operator: o.partitions for o in plan.outputs if not o.dead_letters} == {"by-x": expected, "out": expected}


def test_lane_records_have_ids_slots_and_links() -> None:
    plan = make(delays(), around(flights=2))
    numbers = count(10)
    lanes = planning.lanes_of(plan, 8, lambda: f"{next(numbers):08x}")
    assert [lane.id for lane in lanes] == ["0-0000000a", "0-0000000b", "1-0000000c"]
    assert [lane.upstream for lane in lanes] == [(), (), ("0-0000000a",)]
    assert lanes[2].slots == tuple(f"state-{number}" for number in range(8))
    assert {(lane.job, lane.state_partitions, lane.epoch, lane.folder_epoch) for lane in lanes} == {("delays", 8, 0, 0)}
    assert lanes[0].outputs == {"late": 2, "delays-by-dest-1": 2, "flights-dead-letters": 2}


@pytest.mark.parametrize(
    ("grouper", "base"),
    [("partition", "Partition_{p}"), ("cogroup", "Group_{p}"), ("ssp", "SystemStreamPartition_embedded/flights/{p}")],
)
def test_factor_4_makes_four_virtual_tasks_of_each_ssp(grouper: str, base: str) -> None:
    plan = make(delays(), around(grouper, factor=4, flights=2))
    assert tasks(plan) == {
        f"{base.format(p=p)}-{bucket}-4": [f"flights/{p}#{bucket}"] for p in range(2) for bucket in range(4)
    }
    assert [task.index for task in plan.model.stages[0].tasks] == list(range(8))
    assert len(plan.model.stages[1].tasks) == 8
    lane = plan.lanes[0]
    assert texts(lane.ssps) == [f"flights/{p}#{bucket}" for p in range(2) for bucket in range(4)]
    assert {str(ssp) for ssp in lane.base.values()} == {"embedded/flights/0", "embedded/flights/1"}
    assert plan.reads_per_ssp["embedded/flights/0"] == 2
    for task in plan.model.stages[0].tasks:
        assert str(names.parse(task.name)) == task.name


def test_cogroup_of_12_and_8_partitions_has_4_tasks() -> None:
    job = Job("j")
    job.read("a", key="k int").merge(job.read("b", key="k int")).agg(n="count(*)").write("out")
    plan = make(job, around("cogroup", a=12, b=8))
    assert tasks(plan) == {
        f"Group_{g}": [*(f"a/{p}" for p in range(g, 12, 4)), *(f"b/{p}" for p in range(g, 8, 4))] for g in range(4)
    }
    assert plan.warnings == ()


def test_cogroup_without_a_common_divisor_is_a_warning_with_the_counts() -> None:
    job = Job("j")
    job.read("a", key="k int").merge(job.read("b", key="k int")).agg(n="count(*)").write("out")
    (warning,) = make(job, around("cogroup", a=3, b=4)).warnings
    assert "has only one task" in warning
    assert "embedded/a: 3, embedded/b: 4" in warning


@pytest.mark.parametrize("grouper", ["partition", "ssp"])
def test_streams_of_different_counts_that_meet_by_key_need_cogroup(grouper: str) -> None:
    job = Job("j")
    job.read("a", key="k int").merge(job.read("b", key="k int")).agg(n="count(*)", name="both").write("out")
    with pytest.raises(GraphError) as caught:
        make(job, around(grouper, a=12, b=8))
    assert "agg 'both' (test_plan.py:" in caught.value.what
    assert "embedded/a (12 partitions)" in caught.value.what
    assert "embedded/b (8)" in caught.value.what
    assert f"with grouper '{grouper}', records of one key can be in different tasks" in caught.value.what
    assert 'grouper = "cogroup": this gives 4 tasks' in caught.value.cure


def test_equal_counts_and_stateless_merges_don_t() -> None:
    job = Job("j")
    job.read("a", key="k int").merge(job.read("b", key="k int")).agg(n="count(*)").write("out")
    assert len(make(job, around(a=4, b=4)).model.stages[0].tasks) == 4
    job = Job("j")
    job.read("a").merge(job.read("b")).write("out")
    assert tasks(make(job, around(a=2, b=3))) == {
        "Partition_0": ["a/0", "b/0"],
        "Partition_1": ["a/1", "b/1"],
        "Partition_2": ["b/2"],
    }


@pytest.mark.parametrize("factor", [1, 2])
@pytest.mark.parametrize("containers", [1, 2])
def test_a_broadcast_input_is_in_every_task_and_lane_whole(factor: int, containers: int) -> None:
    job = Job("j")
    rates = job.read("rates", broadcast=True, key="k int")
    job.read("a", key="k int").merge(rates).agg(n="count(*)").write("out")
    plan = make(job, around(factor=factor, containers=containers, a=2, rates=3))
    whole = ["rates/0", "rates/1", "rates/2"]
    assert len(plan.model.stages[0].tasks) == 2 * factor
    assert [texts(task.broadcast) for task in plan.model.stages[0].tasks] == [whole] * 2 * factor
    assert all(ssp.stream == "a" for task in plan.model.stages[0].tasks for ssp in task.ssps)
    assert [texts(lane.broadcast) for lane in plan.lanes] == [whole] * containers
    assert plan.reads_per_ssp["embedded/rates/1"] == containers
    assert plan.reads_per_ssp["embedded/a/0"] == plan.reads_per_ssp["embedded/a/1"] == 1


def test_several_containers_share_the_tasks_and_all_feed_the_next_stage() -> None:
    plan = make(delays(), around(containers=2, flights=4))
    assert [(n.seat, n.stage, n.group, n.tasks) for n in plan.lanes if n.group != "per-tail"] == [
        ("0", "0", "outputs-embedded", ("Partition_0", "Partition_1")),
        ("1", "0", "outputs-embedded", ("Partition_2", "Partition_3")),
        ("0", "1", "per-dest", ("Partition_0", "Partition_1")),
        ("1", "1", "per-dest", ("Partition_2", "Partition_3")),
    ]
    feeding = {number for number, n in enumerate(plan.lanes) if n.group == "outputs-embedded"}
    assert {n.upstream for n in plan.lanes if n.stage == "1"} == {tuple(sorted(feeding))}


def test_a_container_without_a_task_has_no_lane() -> None:
    plan = make(delays(), around(containers=3, flights=2))
    assert {lane.seat for lane in plan.lanes} == {"0", "1"}
    assert plan.model.containers[2].tasks == {"0": (), "1": ()}


@pytest.mark.parametrize(("factor", "containers"), [(2, 1), (1, 2)])
def test_a_shuffle_inside_the_query_can_t_be_scaled_or_spread(factor: int, containers: int) -> None:
    job = Job("j")
    job.read("a").partition_by("x", via="spark").agg(n="count(*)").write("out")
    assert len(make(job, around(a=4)).lanes) == 1
    with pytest.raises(GraphError) as caught:
        make(job, around(factor=factor, containers=containers, a=4))
    assert "partition_by 'by-x' (test_plan.py:" in caught.value.what
    assert f"factor {factor} and {containers} container(s)" in caught.value.what
    assert 'via="stream"' in caught.value.cure


def test_a_users_grouper_makes_the_tasks_and_is_checked() -> None:
    job = Job("j")
    job.read("a", key="k int").agg(n="count(*)").write("out")
    plan = make(job, around("mine:lone_task", factor=2, a=2))
    assert tasks(plan) == {"everything": ["a/0#0", "a/0#1", "a/1#0", "a/1#1"]}
    assert plan.model.stages[0].grouper == "mine:lone_task"
    forgetful = planning.Surroundings(
        factor=1,
        containers=1,
        grouper_name="mine:forgetful",
        grouper=lambda request: tuple(t for t in groupers.named("partition")(request) if t.index),
        partitions={"a": 2},
        systems={},
    )
    with pytest.raises(GraphError, match="embedded/a/0 is in no task of stage '0'"):
        make(job, forgetful)


def test_the_grouper_all_reads_everything_in_every_container() -> None:
    job = Job("j")
    job.read("a").foreach_batch(print)
    plan = make(job, around("all", containers=2, a=3))
    assert tasks(plan) == {name: ["a/0", "a/1", "a/2"] for name in ("Task_0", "Task_1")}
    assert plan.reads_per_ssp == {f"embedded/a/{p}": 2 for p in range(3)}
    assert [lane.seat for lane in plan.lanes] == ["0", "1"]


def test_the_grouper_all_in_several_containers_and_exactly_once_is_refused() -> None:
    job = Job("j")
    job.read("a").write("out")
    assert len(make(job, around("all", a=3)).lanes) == 1
    with pytest.raises(ConfigError) as caught:
        make(job, around("all", containers=2, a=3))
    assert "reads each record 2 times, but output 'out' promises exactly once" in caught.value.what
    assert "another grouper" in caught.value.cure


@pytest.mark.parametrize(
    ("grouper", "factor", "expected"),
    [("partition", 1, [0, 1, 2]), ("partition", 4, [0, 1, 2]), ("ssp", 2, [0, 1, 2]), ("cogroup", 2, [0, 1, 2])],
)
def test_the_hidden_grouping_column_never_depends_on_the_factor(grouper: str, factor: int, expected: list[int]) -> None:
    plan = make(delays(), around(grouper, factor=factor, flights=3))
    numbers = planning.task_numbers(plan.model.stages[0], factor)
    assert [numbers[SSP(system="embedded", stream="flights", partition=p)] for p in range(3)] == expected


def test_a_plan_is_json_and_back() -> None:
    plan = make(delays(), around(factor=2, flights=2))
    assert document.decode(document.encode(plan), Plan) == plan


def test_tasks_are_placed_by_the_racks_that_are_known_at_the_start() -> None:
    replicas = {"kafka/flights": {0: ("b", "a"), 1: ("a",), 2: ("c",)}}
    given = replace(around(containers=2, flights=3), systems={"flights": "kafka"})
    placement = Placement(Rules(strategy="min_traffic"), ("a", "b"), replicas)
    plan = make(delays(), replace(given, placement=placement))
    assert [(each.seat, each.rack) for each in plan.model.containers] == [("0", "a"), ("1", "b")]
    seats = {name: each.seat for each in plan.model.containers for name in each.tasks["0"]}
    assert (seats["Partition_0"], seats["Partition_1"]) == ("1", "0")
    assert all(len(each.tasks["0"]) + len(each.tasks["1"]) == 3 for each in plan.model.containers)
    assert plan.traffic == Traffic(read={"a": {"a": 3, "c": 3}, "b": {"b": 3}})
    assert plan.warnings == ()
    without = replace(placement, replicas={"kafka/flights": {0: ("b", "a"), 1: (None,), 2: ("c",)}})
    unknown = make(delays(), replace(given, placement=without))
    assert unknown.warnings == (
        "racks are ignored when tasks are placed: a broker that has partition 1 of kafka/flights has no rack",
    )
    assert [each.rack for each in unknown.model.containers] == [None, None]
