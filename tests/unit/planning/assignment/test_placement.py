"""Placement: balanced always, an SSP in few containers, little moved, and the same whatever the order."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.errors import ConfigError
from anabranch.grouping import groupers
from anabranch.grouping.request import Input, Request
from anabranch.model.task import Task
from anabranch.planning.assignment.placement import consumption, place

SMALL = {
    "partitions": st.integers(1, 5),
    "factor": st.sampled_from([1, 2, 4]),
    "containers": st.integers(1, 4),
}


def tasks_of(partitions: int, factor: int = 1, grouper: str = "partition") -> tuple[Task, ...]:
    inputs = (Input("kafka", "flights", partitions), Input("kafka", "weather", partitions))
    return groupers.named(grouper)(Request(stage="main", inputs=inputs, factor=factor))


def seats(count: int) -> list[str]:
    return [str(number) for number in range(count)]


def moved(before: Mapping[str, str], after: Mapping[str, str]) -> int:
    return sum(after[task] != seat for task, seat in before.items())


def compositions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    if parts == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in compositions(total - first, parts - 1):
            yield (first, *rest)


def least(partitions: int, factor: int, containers: int, previous: Mapping[str, str]) -> tuple[int, int]:
    """By trying everything: the fewest readers over all partitions, and then the fewest moves."""
    floor, ceilings = divmod(partitions * factor, containers)
    costs = {(0,) * containers: (0, 0)}
    names = [task.name for task in tasks_of(partitions, factor)]
    for at in range(0, len(names), factor):
        held = Counter(previous.get(name) for name in names[at : at + factor])
        reached: dict[tuple[int, ...], tuple[int, int]] = {}
        for filled, (readers, moves) in costs.items():
            for pieces in compositions(factor, containers):
                after = tuple(map(sum, zip(filled, pieces, strict=True)))
                if max(after) <= floor + (ceilings > 0):
                    stay = sum(min(n, held[str(seat)]) for seat, n in enumerate(pieces))
                    cost = (readers + sum(map(bool, pieces)), moves + held.total() - held[None] - stay)
                    reached[after] = min(cost, reached.get(after, cost))
        costs = reached
    return min(cost for filled, cost in costs.items() if min(filled) >= floor)


@given(
    partitions=st.integers(1, 40),
    factor=st.sampled_from([1, 2, 4, 16]),
    containers=st.integers(1, 30),
    grouper=st.sampled_from(["partition", "ssp", "cogroup"]),
    data=st.data(),
)
def test_balanced_to_floor_and_ceiling(
    partitions: int, factor: int, containers: int, grouper: str, data: st.DataObject
) -> None:
    tasks = tasks_of(partitions, factor, grouper)
    before = data.draw(st.dictionaries(st.sampled_from([t.name for t in tasks]), st.sampled_from(seats(9))))
    after = place(tasks, seats(containers), before)
    assert list(after) == [task.name for task in tasks]
    filled = Counter(after.values())
    floor, ceilings = divmod(len(tasks), containers)
    expected = [floor + 1] * ceilings + [floor] * (containers - ceilings)
    assert sorted((filled[seat] for seat in seats(containers)), reverse=True) == expected
    assert place(tasks, seats(containers), after) == after


@given(**SMALL, data=st.data())
@settings(max_examples=150)
def test_few_readers_and_then_few_moves(partitions: int, factor: int, containers: int, data: st.DataObject) -> None:
    tasks = tasks_of(partitions, factor)
    homes = st.none() | st.sampled_from(seats(4))
    before = {t.name: seat for t in tasks if (seat := data.draw(homes)) is not None}
    after = place(tasks, seats(containers), before)
    readers, moves = least(partitions, factor, containers, before)
    assert consumption(tasks, after) == pytest.approx(readers / partitions)
    assert moves <= moved(before, after)
    if factor == 1:
        assert moved(before, after) == moves


@given(**SMALL, former=st.integers(1, 4))
@settings(max_examples=150)
def test_changing_the_containers_moves_the_least_but_for_one_in_passing(
    partitions: int, factor: int, containers: int, former: int
) -> None:
    tasks = tasks_of(partitions, factor)
    before = place(tasks, seats(former))
    _, moves = least(partitions, factor, containers, before)
    assert moved(before, place(tasks, seats(containers), before)) <= moves + (factor > 1)


@given(st.integers(1, 20), st.sampled_from([1, 4]), st.integers(1, 7), st.randoms(use_true_random=False))
def test_the_same_whatever_the_order(partitions: int, factor: int, containers: int, shuffle: random.Random) -> None:
    tasks, names = list(tasks_of(partitions, factor)), seats(containers)
    before = {task.name: str(shuffle.randrange(9)) for task in tasks}
    expected = place(tasks, names, before)
    shuffled = dict(shuffle.sample(list(before.items()), len(before)))
    shuffle.shuffle(tasks)
    shuffle.shuffle(names)
    assert list(place(tasks, names, shuffled).items()) == list(expected.items())


def test_ordered_by_number() -> None:
    placed = place(tasks_of(12), seats(11))
    assert list(placed)[9:] == ["Partition_9", "Partition_10", "Partition_11"]
    assert list(placed.values()) == ["0", "0", *seats(11)[1:]]


@pytest.mark.parametrize(
    ("partitions", "factor", "containers", "expected"),
    [
        (4, 16, 2, 1.0),
        (12, 4, 3, 1.0),
        (4, 16, 4, 1.0),
        (1, 4, 2, 2.0),
        (4, 4, 3, 1.5),
        (2, 4, 8, 4.0),
        (4, 8, 6, 2.0),
        (4, 1, 3, 1.0),
    ],
)
def test_consumption(partitions: int, factor: int, containers: int, expected: float) -> None:
    tasks = tasks_of(partitions, factor)
    assert consumption(tasks, place(tasks, seats(containers))) == expected


def test_a_new_container_takes_only_its_share() -> None:
    tasks = tasks_of(4, 4)
    before = place(tasks, seats(2))
    after = place(tasks, seats(3), before)
    assert {after[task] for task in after if after[task] != before[task]} == {"2"}
    assert moved(before, after) == 5


@pytest.mark.parametrize(("former", "factor"), [(1, 4), (4, 1), (4, 16), (16, 2), (2, 2)])
@pytest.mark.parametrize("grouper", ["partition", "cogroup", "ssp"])
def test_a_change_of_factor_moves_no_key(former: int, factor: int, grouper: str) -> None:
    before = place(tasks_of(6, former, grouper), seats(3))
    turned = {name: {"0": "1", "1": "2", "2": "0"}[seat] for name, seat in before.items()}
    after = place(tasks_of(6, factor, grouper), seats(3), turned)
    seat_of = {name.rsplit("-", 2)[0] if former > 1 else name: seat for name, seat in turned.items()}
    for name, seat in after.items():
        assert seat == seat_of[name.rsplit("-", 2)[0] if factor > 1 else name]


def test_a_split_follows_each_bucket() -> None:
    before = {"Partition_0-0-2": "1", "Partition_0-1-2": "0"}
    after = place(tasks_of(1, 4), seats(2), before)
    assert after == {
        "Partition_0-0-4": "1",
        "Partition_0-1-4": "0",
        "Partition_0-2-4": "1",
        "Partition_0-3-4": "0",
    }


def test_what_does_not_divide_goes_where_there_is_least() -> None:
    assert place(tasks_of(1), seats(3), load={"0": 2, "1": 1}) == {"Partition_0": "2"}


def test_a_users_own_names_are_placed_by_index() -> None:
    tasks = [Task(name=n, index=i, stage="main", ssps=tasks_of(3)[i].ssps) for i, n in enumerate("zyx")]
    assert place(tasks, seats(3)) == {"z": "0", "y": "1", "x": "2"}
    assert place(tasks, seats(3), {"x": "0"})["x"] == "0"


def test_no_containers_are_refused_and_no_tasks_are_not() -> None:
    with pytest.raises(ConfigError):
        place(tasks_of(1), [])
    assert place([], seats(2)) == {}
    assert consumption([], {}) == 1.0


@pytest.mark.parametrize("factor", [1, 4])
def test_broadcast_counts_for_nothing(factor: int) -> None:
    inputs = (Input("kafka", "flights", 4), Input("kafka", "rules", 3, broadcast=True))
    tasks = groupers.named("partition")(Request(stage="main", inputs=inputs, factor=factor))
    assert consumption(tasks, place(tasks, seats(2))) == 1.0
