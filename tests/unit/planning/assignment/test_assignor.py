"""Tasks to seats with racks: balanced, each partition in few seats, little traffic, and nothing moves twice."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.grouping import groupers
from anabranch.grouping.request import Input, Request
from anabranch.model.job_model import StageModel
from anabranch.model.ssp import wholes
from anabranch.planning.assignment import assignor, placement
from anabranch.planning.assignment.assignor import Rules, Where

RACKS = "abc"


def stage(partitions: int, factor: int = 1, name: str = "0", stateful: bool = False, stream: str = "s") -> StageModel:
    inputs = (Input("kafka", stream, partitions),)
    tasks = groupers.named("partition")(Request(stage=name, inputs=inputs, factor=factor))
    return StageModel(
        stage=name, key=(), stateful=stateful, grouper="partition", inputs=(f"kafka/{stream}",), tasks=tasks
    )


def where(racks: Sequence[str | None], replicas: Mapping[int, Sequence[str | None]], stream: str = "s") -> Where:
    seats = {str(number): rack for number, rack in enumerate(racks)}
    return Where(seats=seats, partitions={f"kafka/{stream}": replicas})


def across(stages: Sequence[StageModel], seats: assignor.Placed, around: Where) -> int:
    """What containers read from other racks: a partition once for each that has any task of it."""
    reads = {
        (each.stage, whole, seats[each.stage][task.name])
        for each in stages
        for task in each.tasks
        for whole in wholes(task.ssps)
    }
    return sum(
        around.seats[seat] not in around.partitions[f"{ssp.system}/{ssp.stream}"][ssp.partition]
        for _, ssp, seat in reads
    )


def loads(found: Mapping[str, str], around: Where) -> list[int]:
    counts = Counter(found.values())
    return sorted(counts[seat] for seat in around.seats)


def shuffled(dice: random.Random, around: Where, stages: list[StageModel]) -> tuple[Where, list[StageModel]]:
    seats = list(around.seats.items())
    dice.shuffle(seats)
    dice.shuffle(stages)
    return Where(seats=dict(seats), partitions=around.partitions, lanes=around.lanes), stages


def random_case(dice: random.Random, factor: int, most: int = 6) -> tuple[list[StageModel], Where]:
    count = dice.randint(1, most)
    replicas = {number: dice.sample(RACKS, dice.randint(1, 2)) for number in range(count)}
    racks = [dice.choice(RACKS) for _ in range(dice.randint(1, 3))]
    return [stage(count, factor, stateful=dice.random() < 0.5)], where(racks, replicas)


def test_it_goes_where_the_data_is_and_traffic_is_none_when_it_can_be() -> None:
    around = where("abc", {number: [RACKS[number % 3]] for number in range(6)})
    found = assignor.seat([stage(6)], {}, around, Rules(strategy="min_traffic"))
    assert found.seats["0"] == {f"Partition_{number}": str(number % 3) for number in range(6)}
    assert (found.cost, found.gap, found.why_not) == (0, 0, "")
    assert across([stage(6)], assignor.seat([stage(6)], {}, around, Rules()).seats, around) > 0


@pytest.mark.parametrize(
    ("racks", "replicas", "why_not"),
    [
        (["a", None], {0: ["a"], 1: ["b"]}, "container seat 1 has no rack"),
        (["a", "b"], {0: ["a"]}, "nothing is known of partition 1 of kafka/s"),
        (["a", "b"], {0: ["a"], 1: [None]}, "a broker that has partition 1 of kafka/s has no rack"),
    ],
)
def test_without_a_rack_somewhere_it_is_placed_without_racks_and_says_why(
    racks: list[str | None], replicas: dict[int, list[str | None]], why_not: str
) -> None:
    around, one = where(racks, replicas), stage(2)
    found = assignor.seat([one], {}, around, Rules(strategy="min_traffic"))
    assert found.why_not == why_not
    assert found.seats["0"] == placement.place(one.tasks, around.seats)
    told = assignor.explained([one], {}, around, Rules(strategy="min_traffic"))
    assert why_not in told["0"]["Partition_0"]


def test_for_one_container_no_rack_is_needed() -> None:
    around, one = where([None], {}), stage(2)
    assert assignor.seat([one], {}, around, Rules(strategy="min_traffic")).why_not == ""
    told = assignor.explained([one], {}, where([None], {0: ["a"], 1: ["b"]}), Rules(strategy="min_traffic"))
    assert told["0"]["Partition_1"] == "new in seat 0; there is no other seat"


def test_a_stream_that_is_not_made_yet_does_not_count() -> None:
    around = where("ab", {0: ["a"], 1: ["b"]})
    stages = [stage(2), stage(2, name="1", stream="between")]
    assert assignor.seat(stages, {}, around, Rules(strategy="min_traffic")).why_not
    elsewhere = [stage(2), stage(2, name="1", stream="between")]
    local = Where(seats=around.seats, partitions={"other/s": {}})
    assert assignor.seat(elsewhere, {}, local, Rules(strategy="min_traffic")).why_not == ""
    nowhere = assignor.seat(elsewhere, {}, Where(seats=around.seats), Rules(strategy="min_traffic"))
    assert nowhere.why_not == "no stream that the job reads is in racks"
    known = Where(seats=around.seats, partitions=around.partitions, coming={"kafka/between"})
    found = assignor.seat(stages, {}, known, Rules(strategy="min_traffic"))
    assert not found.why_not
    assert found.seats["0"] == {"Partition_0": "0", "Partition_1": "1"}
    assert loads(found.seats["1"], known) == [1, 1]


@pytest.mark.parametrize("strategy", ["min_traffic", "balance_subtopology"])
@given(seed=st.integers(0, 10**6))
@settings(max_examples=60)
def test_one_bucket_a_partition_is_the_solvers_optimum(strategy: str, seed: int) -> None:
    dice = random.Random(seed)
    (one,), around = random_case(dice, factor=1)
    found = assignor.seat([one], {}, around, Rules(strategy=strategy))  # type: ignore[arg-type]
    best = min(
        across([one], {"0": placed}, around)
        for placed in (
            dict(zip((task.name for task in one.tasks), each, strict=True))
            for each in itertools.product(around.seats, repeat=len(one.tasks))
        )
        if max(loads(placed, around)) - min(loads(placed, around)) <= 1
    )
    assert across([one], found.seats, around) * 10 == found.cost == best * 10
    assert found.gap == 0


@given(seed=st.integers(0, 10**6), factor=st.sampled_from([1, 2, 4]), first=st.sampled_from(["containers", "traffic"]))
@settings(max_examples=150)
def test_it_is_balanced_the_same_in_any_order_and_on_its_own_result_nothing_moves(
    seed: int, factor: int, first: str
) -> None:
    dice = random.Random(seed)
    stages, around = random_case(dice, factor, most=9)
    rules = Rules(strategy="min_traffic", first=first)  # type: ignore[arg-type]
    former = {"0": {task.name: dice.choice([*around.seats, "9"]) for task in stages[0].tasks if dice.random() < 0.7}}
    found = assignor.seat(stages, former, around, rules)
    counts = loads(found.seats["0"], around)
    assert counts[-1] - counts[0] <= 1
    assert found.gap >= 0
    assert found.cost >= 0
    other, again = shuffled(dice, around, stages)
    assert assignor.seat(again, former, other, rules).seats == found.seats
    after = assignor.seat(stages, found.seats, around, rules)
    assert after.seats == found.seats
    if first == "containers":
        traffic = across(stages, found.seats, around)
        moved = sum(found.seats["0"][name] != seat for name, seat in former["0"].items())
        assert found.cost == traffic * 10 + moved
        without = placement.place(stages[0].tasks, around.seats, former["0"])
        tasks = stages[0].tasks
        assert placement.consumption(tasks, found.seats["0"]) == placement.consumption(tasks, without)
        assert (
            across(stages, {"0": without}, around) * 10
            + sum(without[name] != seat for name, seat in former["0"].items())
            >= found.cost
        )


@given(
    st.lists(st.tuples(st.integers(1, 3), st.booleans()), min_size=1, max_size=4),
    st.sampled_from([1, 2, 4]),
    st.integers(1, 4),
    st.integers(1, 4),
    st.sampled_from(["min_traffic", "balance_subtopology"]),
)
@settings(max_examples=60)
def test_all_stages_together_are_balanced_after_a_change_of_containers_too(
    shapes: list[tuple[int, bool]], factor: int, before: int, after: int, strategy: str
) -> None:
    stages = [
        stage(partitions, factor, str(number), stateful, f"s{number}")
        for number, (partitions, stateful) in enumerate(shapes)
    ]
    replicas = {f"kafka/s{number}": dict.fromkeys(range(3), RACKS) for number in range(len(stages))}
    rules = Rules(strategy=strategy)  # type: ignore[arg-type]

    def around(containers: int) -> Where:
        return Where(seats={str(each): RACKS[each % 3] for each in range(containers)}, partitions=replicas)

    former = assignor.seat(stages, {}, around(before), rules).seats
    found = assignor.seat(stages, former, around(after), rules).seats
    for some in (stages, [each for each in stages if each.stateful]):
        counts = Counter(seat for each in some for seat in found[each.stage].values())
        assert max(counts.values(), default=0) - min(counts[seat] for seat in around(after).seats) <= 1
    assert assignor.seat(stages, found, around(after), rules).seats == found


def test_buckets_of_a_partition_stay_together_where_its_replica_is() -> None:
    around = where("abc", {number: [RACKS[number // 2]] for number in range(6)})
    one = stage(6, factor=4)
    found = assignor.seat([one], {}, around, Rules(strategy="min_traffic"))
    assert placement.consumption(one.tasks, found.seats["0"]) == 1.0
    assert across([one], found.seats, around) == 0
    assert (found.cost, found.gap) == (0, 0)


def test_traffic_first_cuts_partitions_where_that_saves_traffic() -> None:
    """Two partitions in rack a, whose only seats are 0 and 1: each has a half of both, or one of them."""
    around = where("aab", {0: ["a", "b"], 1: ["a"], 2: ["a"]})
    one = stage(3, factor=2)
    containers = assignor.seat([one], {}, around, Rules(strategy="min_traffic"))
    traffic = assignor.seat([one], {}, around, Rules(strategy="min_traffic", first="traffic"))
    assert placement.consumption(one.tasks, containers.seats["0"]) == 1.0
    assert across([one], traffic.seats, around) == 0


def test_a_task_without_a_seat_that_is_still_there_and_one_that_is_new_are_told_apart() -> None:
    around = where("ab", {0: ["a"], 1: ["b"]})
    told = assignor.explained([stage(2)], {"0": {"Partition_0": "7"}}, around, Rules(strategy="min_traffic"))["0"]
    assert told["Partition_0"].startswith("moves from seat 7 to seat 0, as that is gone")
    assert told["Partition_1"] == "new in seat 1; all it reads has a replica in rack b"
    told = assignor.explained([stage(2, 2)], {"0": {"Partition_0": "1"}}, around, Rules(strategy="min_traffic"))["0"]
    assert told["Partition_0-0-2"] == (
        "moves from seat 1 to seat 0; 1 of 1 tasks that read the same partition are there too; "
        "all it reads is in rack a"
    )
