"""What each grouper makes of the streams, which of them keep a key together, and what is refused."""

from __future__ import annotations

import dataclasses
import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.errors import ConfigError, ConflictError, GraphError
from anabranch.grouping import groupers, keys, ssp, validation
from anabranch.grouping.request import Input, Request
from anabranch.model import hashing, names
from anabranch.model.factor import FACTORS
from anabranch.model.ssp import SSP
from anabranch.model.task import Task

COUNTS = st.lists(st.integers(1, 24), min_size=1, max_size=4)
CUTTING = st.sampled_from(["partition", "ssp", "cogroup"])


def request(*counts: int, factor: int = 1, broadcast: int = 0, containers: int = 1) -> Request:
    inputs = [Input("kafka", f"s{n}", count) for n, count in enumerate(counts)]
    inputs += [Input("kafka", "everywhere", broadcast, broadcast=True)] if broadcast else []
    return Request(stage="main", inputs=tuple(inputs), factor=factor, containers=containers)


def holdings(tasks: tuple[Task, ...]) -> dict[str, list[str]]:
    return {task.name: [str(ssp).removeprefix("kafka/") for ssp in task.ssps] for task in tasks}


def test_partition_holds_partition_i_of_every_stream() -> None:
    assert holdings(groupers.named("partition")(request(3, 2))) == {
        "Partition_0": ["s0/0", "s1/0"],
        "Partition_1": ["s0/1", "s1/1"],
        "Partition_2": ["s0/2"],
    }


def test_ssp_numbers_tasks_as_samza_71_does() -> None:
    inputs = (Input("kafka", "IS2", 8), Input("kafka", "IS1", 4))
    tasks = groupers.named("ssp")(Request(stage="main", inputs=inputs))
    assert [(str(task.ssps[0]), task.index) for task in tasks] == [
        *((f"kafka/IS2/{n}", n) for n in range(8)),
        *((f"kafka/IS1/{n}", 8 + n) for n in range(4)),
    ]
    assert tasks[9].name == "SystemStreamPartition_kafka/IS1/1"


def test_cogroup_of_8_and_12_is_the_mapping_of_samza_71() -> None:
    inputs = (Input("kafka", "IS1", 8), Input("kafka", "IS2", 12))
    tasks = groupers.named("cogroup")(Request(stage="main", inputs=inputs))
    assert {str(ssp): task.index for task in tasks for ssp in task.ssps} == {
        "kafka/IS1/0": 0,
        "kafka/IS1/1": 1,
        "kafka/IS1/2": 2,
        "kafka/IS1/3": 3,
        "kafka/IS1/4": 0,
        "kafka/IS1/5": 1,
        "kafka/IS1/6": 2,
        "kafka/IS1/7": 3,
        "kafka/IS2/0": 0,
        "kafka/IS2/1": 1,
        "kafka/IS2/2": 2,
        "kafka/IS2/3": 3,
        "kafka/IS2/4": 0,
        "kafka/IS2/5": 1,
        "kafka/IS2/6": 2,
        "kafka/IS2/7": 3,
        "kafka/IS2/8": 0,
        "kafka/IS2/9": 1,
        "kafka/IS2/10": 2,
        "kafka/IS2/11": 3,
    }
    assert [task.name for task in tasks] == ["Group_0", "Group_1", "Group_2", "Group_3"]


def test_all_makes_a_task_for_each_container() -> None:
    tasks = groupers.named("all")(request(2, 1, containers=2))
    assert holdings(tasks) == {"Task_0": ["s0/0", "s0/1", "s1/0"], "Task_1": ["s0/0", "s0/1", "s1/0"]}
    assert [task.index for task in tasks] == [0, 1]


@pytest.mark.parametrize(
    ("grouper", "expected"),
    [
        (
            "partition",
            {
                "Partition_0-0-2": ["s0/0#0", "s1/0#0"],
                "Partition_0-1-2": ["s0/0#1", "s1/0#1"],
                "Partition_1-0-2": ["s0/1#0"],
                "Partition_1-1-2": ["s0/1#1"],
            },
        ),
        (
            "cogroup",
            {
                "Group_0-0-2": ["s0/0#0", "s0/1#0", "s1/0#0"],
                "Group_0-1-2": ["s0/0#1", "s0/1#1", "s1/0#1"],
            },
        ),
        (
            "ssp",
            {
                "SystemStreamPartition_kafka/s0/0-0-2": ["s0/0#0"],
                "SystemStreamPartition_kafka/s0/0-1-2": ["s0/0#1"],
                "SystemStreamPartition_kafka/s0/1-0-2": ["s0/1#0"],
                "SystemStreamPartition_kafka/s0/1-1-2": ["s0/1#1"],
                "SystemStreamPartition_kafka/s1/0-0-2": ["s1/0#0"],
                "SystemStreamPartition_kafka/s1/0-1-2": ["s1/0#1"],
            },
        ),
    ],
)
def test_a_factor_cuts_every_task(grouper: str, expected: dict[str, list[str]]) -> None:
    tasks = groupers.named(grouper)(request(2, 1, factor=2))
    assert holdings(tasks) == expected
    assert [task.index for task in tasks] == list(range(len(expected)))


@given(CUTTING, COUNTS, st.sampled_from(FACTORS[:6]), st.integers(0, 3))
def test_every_ssp_is_in_one_task_and_broadcast_in_all(
    grouper: str, counts: list[int], factor: int, broadcast: int
) -> None:
    asked = request(*counts, factor=factor, broadcast=broadcast)
    tasks = groupers.named(grouper)(asked)
    validation.check(asked, tasks)
    parts = [part for task in tasks for part in task.ssps]
    assert len(parts) == sum(counts) * factor
    assert {part.key_bucket for part in parts} == ({-1} if factor == 1 else set(range(factor)))
    everywhere = [SSP(system="kafka", stream="everywhere", partition=n) for n in range(broadcast)]
    assert all(list(task.broadcast) == everywhere for task in tasks)
    base = {"partition": max(counts), "ssp": sum(counts), "cogroup": math.gcd(*counts)}[grouper]
    assert len(tasks) == base * factor
    for task in tasks:
        name = names.parse(task.name)
        assert name.factor == factor
        assert {part.key_bucket for part in task.ssps} == {name.bucket}


@given(st.lists(st.integers(1, 48), min_size=2, max_size=3), st.lists(st.binary(max_size=12), min_size=1))
def test_cogroup_puts_a_key_of_all_streams_into_one_task(counts: list[int], messages: list[bytes]) -> None:
    tasks = groupers.named("cogroup")(request(*counts, factor=4))
    owner = {part: task.name for task in tasks for part in task.ssps}
    for key in messages:
        owners = {
            owner[
                SSP(
                    system="kafka",
                    stream=f"s{n}",
                    partition=hashing.partition_for(key, count),
                    key_bucket=hashing.bucket(key, 0, 4),
                )
            ]
            for n, count in enumerate(counts)
        }
        assert len(owners) == 1


@pytest.mark.parametrize(
    ("grouper", "counts", "together"),
    [
        ("partition", (4,), True),
        ("partition", (4, 4), True),
        ("partition", (4, 8), False),
        ("partition", (4, 4, 2), False),
        ("ssp", (4,), True),
        ("ssp", (4, 4), False),
        ("cogroup", (12, 8), True),
        ("cogroup", (3, 8), True),
        ("all", (3, 8), True),
    ],
)
@pytest.mark.parametrize("factor", [1, 4])
def test_which_groupers_keep_keys_together(grouper: str, counts: tuple[int, ...], together: bool, factor: int) -> None:
    asked = request(*counts, factor=1 if grouper == "all" else factor, containers=2)
    assert (keys.apart(groupers.named(grouper)(asked), asked.grouped) is None) is together


@given(CUTTING, st.lists(st.integers(1, 12), min_size=2, max_size=3))
def test_keys_are_together_exactly_when_no_key_is_torn(grouper: str, counts: list[int]) -> None:
    asked = request(*counts)
    tasks = groupers.named(grouper)(asked)
    owner = {(part.stream, part.partition): task.name for task in tasks for part in task.ssps}
    torn = any(len({owner[f"s{n}", h % count] for n, count in enumerate(counts)}) > 1 for h in range(math.lcm(*counts)))
    assert (keys.apart(tasks, asked.grouped) is not None) is torn


def test_streams_kept_apart_are_named_with_what_cogroup_would_make() -> None:
    asked = request(8, 8, 12)
    apart = keys.apart(groupers.named("partition")(asked), asked.grouped)
    assert apart == keys.SeparatedKey(asked.inputs[0], asked.inputs[2], cogroup_tasks=4)


@pytest.mark.parametrize(
    ("counts", "warned"), [((3, 8), True), ((1, 8), True), ((1, 1), False), ((1,), False), ((4, 6), False)]
)
def test_a_gcd_of_one_is_a_warning_with_the_counts(counts: tuple[int, ...], warned: bool) -> None:
    warning = keys.single_group(request(*counts).grouped)
    named = tuple((f"kafka/s{n}", count) for n, count in enumerate(counts))
    assert warning == (keys.SingleGroup(named) if warned else None)


def test_a_request_without_inputs_is_refused() -> None:
    with pytest.raises(GraphError, match="'main' has no inputs"):
        request()
    with pytest.raises(GraphError, match="'main' has only broadcast inputs"):
        request(broadcast=2)
    with pytest.raises(GraphError, match="kafka/empty has no partitions"):
        Input("kafka", "empty", 0)
    with pytest.raises(GraphError, match=r"kafka/s0 .* more than once"):
        Request(stage="main", inputs=(Input("kafka", "s0", 1), Input("kafka", "s0", 1, broadcast=True)))
    with pytest.raises(ConfigError, match="factor 3 "):
        request(4, factor=3)


def test_all_refuses_buckets_and_broadcast() -> None:
    with pytest.raises(ConfigError, match="factor 2"):
        groupers.named("all")(request(4, factor=2))
    with pytest.raises(ConfigError, match="kafka/everywhere"):
        groupers.named("all")(request(4, broadcast=1))


def test_an_unknown_grouper_names_the_nearest() -> None:
    with pytest.raises(ConfigError) as caught:
        groupers.named("CoGroups")
    assert caught.value.what == "no grouper is called 'CoGroups'; did you mean 'cogroup'?"
    assert "partition, ssp, cogroup, all" in caught.value.cure


@pytest.mark.parametrize(
    ("previous", "inputs", "at_fault"),
    [
        (["a", "b"], ["a", "b", "c"], None),
        (["a", "b", "c"], ["a", "c"], None),
        ([], ["a"], None),
        (["a", "b"], ["b", "a"], "reads b where it read a before"),
        (["a", "b"], ["a", "c", "b"], "reads c where it read b before"),
    ],
)
def test_inputs_grouped_by_ssp_keep_their_order(previous: list[str], inputs: list[str], at_fault: str | None) -> None:
    if at_fault is None:
        ssp.check_order("main", previous, inputs)
    else:
        with pytest.raises(ConflictError, match=at_fault):
            ssp.check_order("main", previous, inputs)


def _edited(task: Task, **changes: object) -> Task:
    return msgspec.structs.replace(task, **changes)


@pytest.mark.parametrize(
    ("edit", "at_fault"),
    [
        (lambda t: t[:1], "kafka/s0/1#0 is in no task"),
        (lambda t: t[1:], "kafka/s0/0#0 is in no task"),
        (lambda t: (*t, _edited(t[0], name="again")), "kafka/s0/0#0 is in two tasks, 'a' and 'again'"),
        (lambda t: (_edited(t[0], name="b"), t[1]), "task 1 .* has no name, or another's: 'b'"),
        (lambda t: (_edited(t[0], name=""), t[1]), "task 0 .* has no name"),
        (lambda t: (t[1], t[0]), "task 'b' has index 1"),
        (lambda t: (t[0], _edited(t[1], stage="other")), "of stage 'other'"),
        (lambda t: (t[0], _edited(t[1], broadcast=())), "kafka/everywhere/0 is broadcast, but not"),
        (
            lambda t: (_edited(t[0], ssps=(*t[0].ssps, SSP(system="kafka", stream="s0", partition=1))), t[1]),
            "'a' holds kafka/s0/1, which",
        ),
        (
            lambda t: (_edited(t[0], broadcast=(*t[0].broadcast, t[0].ssps[0])), t[1]),
            "kafka/s0/0#0 is not broadcast, but is",
        ),
    ],
)
def test_a_users_grouper_is_held_to_the_rules(edit, at_fault: str) -> None:  # type: ignore[no-untyped-def]
    def mine(asked: Request) -> tuple[Task, ...]:
        return tuple(
            Task(
                name=name,
                index=index,
                stage=asked.stage,
                ssps=tuple(asked.buckets(asked.grouped[0].ssp(index))),
                broadcast=asked.broadcast,
            )
            for index, name in enumerate("ab")
        )

    asked = request(2, factor=2, broadcast=1)
    assert validation.check(asked, mine(asked)) == mine(asked)
    with pytest.raises(GraphError, match=at_fault):
        validation.check(asked, edit(mine(asked)))


def test_the_order_of_a_request_is_the_order_of_its_inputs() -> None:
    asked = request(2, 1)
    turned = dataclasses.replace(asked, inputs=asked.inputs[::-1])
    assert [str(t.ssps[0]) for t in groupers.named("ssp")(turned)] == [
        "kafka/s1/0",
        "kafka/s0/0",
        "kafka/s0/1",
    ]
