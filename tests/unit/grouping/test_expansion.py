from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.errors import ConflictError
from anabranch.grouping import expansion, groupers
from anabranch.grouping.request import Input, Request
from anabranch.model.hashing import bucket, partition_for
from anabranch.model.job_model import StageModel
from anabranch.model.ssp import SSP
from tests.support.cases import examples

KEYS = [f"k{number}".encode() for number in range(40)]


def stream(name: str, partitions: int, broadcast: bool = False) -> Input:
    return Input(system="kafka", stream=name, partitions=partitions, broadcast=broadcast)


def first(grouper: str, factor: int, *inputs: Input, stateful: bool = True) -> StageModel:
    tasks = groupers.named(grouper)(Request(stage="0", inputs=inputs, factor=factor))
    base = {str(s): s for i in inputs if not i.broadcast for s in i.ssps} if stateful else {}
    named = tuple(map(str, inputs))
    return StageModel(stage="0", key=("k",), stateful=stateful, grouper=grouper, inputs=named, tasks=tasks, base=base)


def grown(stage: StageModel, *inputs: Input, before: int = 1, factor: int = 1) -> StageModel:
    return expansion.expanded(stage, inputs, before, factor, 1)


def homes(stage: StageModel, factor: int, stream: str) -> dict[bytes, tuple[str, int]]:
    """For each key, its task at factor 1 and the number that its state goes by."""
    owner = {ssp: task for task in stage.tasks for ssp in task.ssps}
    count = expansion.partitions(stage)[f"kafka/{stream}"]
    found = {}
    for key in KEYS:
        its = bucket(key, 0, factor) if factor > 1 else -1
        task = owner[SSP(system="kafka", stream=stream, partition=partition_for(key, count), key_bucket=its)]
        name = task.name if factor == 1 else task.name.rsplit("-", 2)[0]
        assert factor == 1 or task.name == f"{name}-{its}-{factor}"
        found[key] = (name, task.index // factor)
    return found


def test_a_new_partition_goes_to_the_task_with_its_keys() -> None:
    stage = grown(first("partition", 1, stream("a", 2)), stream("a", 4))
    assert {task.name: [ssp.partition for ssp in task.ssps] for task in stage.tasks} == {
        "Partition_0": [0, 2],
        "Partition_1": [1, 3],
    }
    assert expansion.base_partitions(stage) == {"kafka/a": 2}
    stage = grown(stage, stream("a", 8))
    assert [ssp.partition for ssp in stage.tasks[1].ssps] == [1, 3, 5, 7]


def test_bucket_by_bucket() -> None:
    stage = grown(first("partition", 2, stream("a", 1)), stream("a", 2), before=2, factor=2)
    assert [[str(ssp) for ssp in task.ssps] for task in stage.tasks] == [
        ["kafka/a/0#0", "kafka/a/1#0"],
        ["kafka/a/0#1", "kafka/a/1#1"],
    ]


@pytest.mark.parametrize(
    ("grouper", "names"),
    [
        ("partition", [f"Partition_{p}-{b}-4" for p in range(6) for b in range(4)]),
        ("ssp", [f"SystemStreamPartition_kafka/a/{p}-{b}-4" for p in range(6) for b in range(4)]),
        ("cogroup", [f"Group_{p}-{b}-4" for p in range(6) for b in range(4)]),
    ],
)
def test_without_state_new_partitions_make_new_tasks(grouper: str, names: list[str]) -> None:
    stage = grown(first(grouper, 4, stream("a", 4), stateful=False), stream("a", 6), before=4, factor=4)
    assert [task.name for task in stage.tasks] == names
    assert stage.base == {}


def test_cogroup_keeps_its_tasks() -> None:
    stage = first("cogroup", 1, stream("a", 12), stream("b", 8))
    wider = grown(stage, stream("a", 12), stream("b", 16))
    assert [task.name for task in wider.tasks] == ["Group_0", "Group_1", "Group_2", "Group_3"]
    assert [str(ssp) for ssp in wider.tasks[3].ssps] == [
        *(f"kafka/a/{p}" for p in (3, 7, 11)),
        *(f"kafka/b/{p}" for p in (3, 7, 11, 15)),
    ]
    wide = grown(wider, stream("a", 48), stream("b", 16))
    assert len(wide.tasks) == 4


def test_broadcast_streams_make_no_task_and_need_no_multiple() -> None:
    stage = grown(first("partition", 1, stream("a", 2), stream("all", 2, True)), stream("a", 2), stream("all", 3, True))
    assert [[ssp.partition for ssp in task.broadcast] for task in stage.tasks] == [[0, 1, 2]] * 2
    assert expansion.base_partitions(stage) == {"kafka/a": 2}


@pytest.mark.parametrize(
    ("stateful", "partitions", "match"),
    [
        (True, 6, "kafka/a has 6 partitions, and the state of stage 0 was first written with 4"),
        (True, 3, "kafka/a has 3 partitions, and had 4"),
        (False, 3, "kafka/a has 3 partitions, and had 4"),
    ],
)
def test_what_cannot_be_is_refused(stateful: bool, partitions: int, match: str) -> None:
    with pytest.raises(ConflictError, match=match):
        grown(first("partition", 1, stream("a", 4), stateful=stateful), stream("a", partitions))


def test_a_multiple_counts_from_the_base() -> None:
    stage = grown(first("partition", 1, stream("a", 4)), stream("a", 8))
    assert len(grown(stage, stream("a", 12)).tasks) == 4
    with pytest.raises(ConflictError, match="expand the stream to 12"):
        grown(stage, stream("a", 10))


def test_a_stream_whose_count_its_groups_do_not_divide_is_refused() -> None:
    with pytest.raises(ConflictError, match="kafka/b has 6 partitions, and stage 0 has 4 groups of keys"):
        grown(first("cogroup", 1, stream("a", 4)), stream("a", 4), stream("b", 6))


def test_a_stream_that_comes_back_has_the_base_that_it_had() -> None:
    stage = first("ssp", 1, stream("a", 2), stream("b", 2), stream("c", 1))
    there = homes(stage, 1, "b")
    without = grown(stage, stream("a", 2), stream("c", 1))
    assert homes(without, 1, "c") == homes(stage, 1, "c")
    assert expansion.base_partitions(without)["kafka/b"] == 2
    assert homes(grown(without, stream("a", 2), stream("c", 1), stream("b", 6)), 1, "b") == there
    with pytest.raises(ConflictError, match="kafka/b has 3 partitions"):
        grown(without, stream("a", 2), stream("c", 1), stream("b", 3))


STEPS = st.lists(
    st.tuples(st.just("grow"), st.sampled_from("abcd"), st.sampled_from([2, 3, 4]))
    | st.tuples(st.just("leave"), st.sampled_from("bcd"), st.just(0))
    | st.tuples(st.just("come"), st.sampled_from("bcd"), st.integers(1, 4))
    | st.tuples(st.just("factor"), st.just(""), st.sampled_from([1, 2, 8, 64])),
    max_size=12,
)


@examples(400)
@given(grouper=st.sampled_from(["partition", "ssp", "cogroup"]), begin=st.integers(1, 4), steps=STEPS)
def test_a_key_stays_where_it_is_whatever_comes(grouper: str, begin: int, steps: list[tuple[str, str, int]]) -> None:
    """Keys' tasks never change, and the assignment is a function of its history."""

    def lived() -> tuple[list[StageModel], dict[str, dict[bytes, tuple[str, int]]]]:
        counts, gone, factor = {"a": begin}, dict[str, int](), 1
        stage = first(grouper, factor, stream("a", begin))
        known = {"a": homes(stage, factor, "a")}
        stages = [stage]
        for what, name, number in steps:
            before = factor
            if what == "grow" and name in counts and counts[name] * number <= 64:
                counts[name] *= number
            elif what == "leave" and name in counts:
                gone[name] = counts.pop(name)
            elif what == "come" and name not in counts:
                groups = begin if grouper == "cogroup" else 1
                counts[name] = gone[name] * 2 if name in gone else number * groups
            elif what == "factor":
                factor = number
            stage = grown(stage, *(stream(n, c) for n, c in counts.items()), before=before, factor=factor)
            stages.append(stage)
            every = [ssp for task in stage.tasks for ssp in task.ssps]
            assert len(every) == len(set(every)) == sum(counts.values()) * factor
            assert len({task.name for task in stage.tasks}) == len(stage.tasks)
            for each in counts:
                now = homes(stage, factor, each)
                assert known.setdefault(each, now) == now
            if grouper == "cogroup":
                assert math.gcd(*counts.values()) % begin == 0
                apart = [set(homes(stage, factor, each).items()) for each in counts]
                assert all(each == apart[0] for each in apart)
        return stages, known

    assert lived() == lived()
