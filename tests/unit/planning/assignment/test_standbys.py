"""Who keeps the copies of lanes: valid, spread over racks, shared, and stable."""

from __future__ import annotations

import random
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.planning.assignment import standbys

PROCESSES = st.dictionaries(
    st.sampled_from([f"p{number}" for number in range(6)]), st.sampled_from("abc"), min_size=1, max_size=6
)


Question = tuple[dict[str, str], dict[str, str | None], int, dict[str, list[str]]]


@st.composite
def questions(draw: st.DrawFn) -> Question:
    processes: dict[str, str | None] = dict(draw(PROCESSES))
    if draw(st.booleans()):
        processes[draw(st.sampled_from(sorted(processes)))] = None
    lanes = {f"l{number}": draw(st.sampled_from(sorted(processes))) for number in range(draw(st.integers(0, 8)))}
    known = [*sorted(processes), "gone"]
    former = {lane: draw(st.lists(st.sampled_from(known), unique=True, max_size=3)) for lane in lanes}
    return lanes, processes, draw(st.integers(0, 3)), former


@settings(max_examples=60)
@given(questions())
def test_as_many_as_there_are_processes_for_and_never_where_the_lane_runs(question: Question) -> None:
    lanes, processes, copies, former = question
    found = standbys.place(lanes, processes, copies, former)
    assert found.keys() == lanes.keys()
    for lane, keepers in found.items():
        assert len(keepers) == len(set(keepers)) == min(copies, len(processes) - 1)
        assert {*keepers} <= processes.keys() - {lanes[lane]}


@settings(max_examples=60)
@given(questions())
def test_a_lane_is_in_as_many_racks_as_there_are_for_it(question: Question) -> None:
    lanes, processes, copies, former = question
    if None in processes.values():
        return
    for lane, keepers in standbys.place(lanes, processes, copies, former).items():
        racks = {processes[name] for name in (lanes[lane], *keepers)}
        assert len(racks) == min(1 + len(keepers), len(set(processes.values())))


@settings(max_examples=60)
@given(questions())
def test_without_racks_copies_are_shared_as_far_as_the_lanes_processes_allow(question: Question) -> None:
    lanes, processes, _, former = question
    found = standbys.place(lanes, dict.fromkeys(processes), 1, former)
    loads = Counter(keeper for keepers in found.values() for keeper in keepers)
    for lane, keepers in found.items():
        for keeper in keepers:
            assert all(loads[keeper] <= loads[other] + 1 for other in processes if other != lanes[lane])


@settings(max_examples=60)
@given(questions(), st.randoms())
def test_on_its_own_result_nothing_moves_whatever_the_order(question: Question, order: random.Random) -> None:
    lanes, processes, copies, former = question
    found = standbys.place(lanes, processes, copies, former)
    shuffled = order.sample(sorted(lanes), len(lanes)), order.sample(sorted(processes), len(processes))
    again = standbys.place(
        {lane: lanes[lane] for lane in shuffled[0]}, {name: processes[name] for name in shuffled[1]}, copies, former
    )
    assert again == found
    then = standbys.place(lanes, processes, copies, found)
    assert {lane: set(keepers) for lane, keepers in then.items()} == {lane: set(k) for lane, k in found.items()}


@settings(max_examples=60)
@given(st.lists(st.sampled_from("abcdef"), unique=True), st.dictionaries(st.sampled_from("abcdefg"), st.integers(0, 7)))
def test_a_copy_keeps_its_number_if_it_can(keepers: list[str], former: dict[str, int]) -> None:
    found = standbys.numbered(keepers, former)
    assert sorted(found) == [*range(len(keepers))]
    assert sorted(found.values()) == sorted(keepers)
    had = Counter(former[keeper] for keeper in keepers if keeper in former)
    for number, keeper in found.items():
        if had[former.get(keeper, -1)] == 1 and former[keeper] < len(keepers):
            assert number == former[keeper]


def test_who_keeps_a_copy_goes_on_with_it() -> None:
    processes = dict.fromkeys(["p", "q", "r"])
    for keeper in ("q", "r"):
        assert standbys.place({"l": "p"}, processes, 1, {"l": [keeper]}) == {"l": (keeper,)}
