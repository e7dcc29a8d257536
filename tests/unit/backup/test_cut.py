"""Where a backup cuts through lanes that publish and read while it is made."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.backup import cut
from anabranch.backup.cut import Batch, LaneCopy, MovedOnError, PartitionCopy, Place
from anabranch.systems.archive import Publication


def one(*later: Publication, end: int = 0, batches: Mapping[str, int] | None = None) -> PartitionCopy:
    return PartitionCopy(end, batches or {}, later)


def reading(ends: Mapping[int, Mapping[Place, int]]) -> Callable[[int], Mapping[Place, int]]:
    return lambda batch: ends.get(batch, {})


def test_a_lane_that_has_published_nothing_since_stays_as_it_is() -> None:
    lanes = [LaneCopy("a", 4, 3, [("out", 0)], reading({}))]
    assert cut.settled({("out", 0): one(end=7, batches={"a": 3})}, lanes) == ({("out", 0): 0}, {"a": Batch(4, True)})


def test_a_lane_goes_back_to_the_first_batch_that_is_not_within() -> None:
    later = (Publication(1, 8, "a", 4), Publication(2, 9, "b", 1), Publication(3, 10, "a", 5))
    lanes = [LaneCopy("a", 5, 5, [("out", 0)], reading({}))]
    found = cut.settled({("out", 0): one(*later, end=7, batches={"a": 3})}, lanes)
    assert found == ({("out", 0): 0}, {"a": Batch(4, True)})


@pytest.mark.parametrize(
    ("batch", "tables"),
    [
        (Batch(10, False), {"sums": 10, "rare": 3}),
        (Batch(10, True), {"sums": 9, "rare": 3}),
        (Batch(0, True), {}),
        (Batch(-1, False), {}),
    ],
)
def test_a_copy_expects_nothing_in_outputs_that_came_after_the_cut(batch: Batch, tables: Mapping[str, int]) -> None:
    """``outputs.json`` is copied last, perhaps after the lane has committed another batch."""
    outputs = {"streams": {"out": {"0": 9, "1": 2}, "elsewhere": {"0": 7}}, "tables": {"sums": 11, "rare": 3}}
    streams = {"out": {"0": 5, "1": 2}, "elsewhere": {"0": 7}}
    assert cut.noted(outputs, batch, {"out": (5, 4)}) == {"streams": streams, "tables": tables}


def test_a_batch_that_was_published_before_another_one_is_within_if_that_one_is() -> None:
    partitions = {
        ("out", 0): one(Publication(1, 8, "a", 4), Publication(2, 9, "a", 5), end=7, batches={"a": 3}),
        ("out", 1): one(end=5, batches={"a": 5}),
    }
    lanes = [LaneCopy("a", 5, 5, [*partitions], reading({}))]
    assert cut.settled(partitions, lanes) == ({("out", 0): 1, ("out", 1): 0}, {"a": Batch(5, True)})


def test_what_a_batch_has_read_is_within() -> None:
    partitions = {("in", 0): one(Publication(1, 3), Publication(2, 6), Publication(3, 9), end=1)}
    lanes = [LaneCopy("a", 1, 1, [], reading({1: {("in", 0): 5}}))]
    assert cut.settled(partitions, lanes) == ({("in", 0): 2}, {"a": Batch(1, False)})


def test_what_has_been_read_and_is_nowhere_is_copied_once_more() -> None:
    lanes = [LaneCopy("a", 1, 1, [], reading({1: {("in", 0): 5}}))]
    with pytest.raises(MovedOnError, match="was read up to 5, and ended at 1"):
        cut.settled({("in", 0): one(end=1)}, lanes)


def test_a_folder_that_is_older_than_its_outputs_is_copied_once_more() -> None:
    lanes = [LaneCopy("a", 1, 1, [("out", 0)], reading({}))]
    with pytest.raises(MovedOnError, match="batch 2 of lane a was published, and its folder is older"):
        cut.settled({("out", 0): one(end=1, batches={"a": 2})}, lanes)


def test_a_lane_that_writes_elsewhere_too_is_never_taken_back() -> None:
    later = (Publication(1, 8, "a", 4), Publication(2, 9, "a", 5), Publication(3, 12, "a", 6))
    lanes = [LaneCopy("a", 5, 5, [("out", 0)], reading({}), is_fixed=True)]
    found = cut.settled({("out", 0): one(*later, end=7, batches={"a": 3})}, lanes)
    assert found == ({("out", 0): 2}, {"a": Batch(5, False)})


@dataclass
class Running:
    """A lane at work. ``plans``: where each of its batches ends."""

    name: str
    reads: tuple[Place, ...]
    writes: tuple[Place, ...]
    planned: int = -1
    committed: int = -1
    plans: dict[int, dict[Place, int]] = field(default_factory=dict)

    def work(self, log: dict[Place, list[Publication]], dice: Random) -> Iterator[None]:
        """Batch after batch; each partition is published, and each step taken, when it is asked for the next one."""
        while True:
            self.planned += 1
            self.plans[self.planned] = {place: log[place][-1].end if log[place] else 0 for place in self.reads}
            yield
            for place in self.writes:
                if dice.random() < 0.7:
                    end = log[place][-1].end if log[place] else 0
                    log[place].append(Publication(len(log[place]), end + dice.randrange(3), self.name, self.planned))
                    yield
            self.committed = self.planned
            yield


def lanes_of_two_stages() -> list[Running]:
    mid, out = (("mid", 0), ("mid", 1)), (("out", 0), ("out", 1))
    return [
        Running("a0", (("in", 0),), mid),
        Running("a1", (("in", 1),), mid),
        Running("b0", mid[:1], out),
        Running("b1", mid[1:], out),
    ]


@settings(max_examples=300)
@given(st.randoms(use_true_random=False), st.booleans())
def test_what_is_copied_is_what_one_crash_would_have_left(dice: Random, is_fixed: bool) -> None:
    log: dict[Place, list[Publication]] = defaultdict(list)
    lanes = lanes_of_two_stages()
    at_work = [lane.work(log, dice) for lane in lanes]

    def go_on() -> None:
        for _ in range(dice.randrange(6)):
            place = ("in", dice.randrange(2))
            log[place].append(Publication(len(log[place]), len(log[place]) + 1))
            next(dice.choice(at_work))

    for _ in range(dice.randrange(10)):
        go_on()
    places = [(stream, number) for stream in ("in", "mid", "out") for number in range(2)]
    first = {}
    for place in dice.sample(places, len(places)):
        go_on()
        first[place] = len(log[place])
    copies = []
    for lane in reversed(lanes):
        go_on()
        plans = {number: dict(ends) for number, ends in lane.plans.items()}
        fixed = is_fixed and lane.name == "b0"
        copies.append(LaneCopy(lane.name, lane.planned, lane.committed, lane.writes, reading(plans), fixed))
    go_on()
    partitions = {}
    for place in places:
        before, later = log[place][: first[place]], log[place][first[place] :]
        batches = {each.lane: each.batch for each in before if each.lane}
        partitions[place] = PartitionCopy(before[-1].end if before else 0, batches, later)

    try:
        taken, found = cut.settled(partitions, copies)
    except MovedOnError:  # what can't be taken back may have been written after another lane was copied
        assert is_fixed
        return

    for copy in copies:
        batch = found[copy.lane]
        assert batch.number <= copy.planned
        if copy.is_fixed:
            assert batch == copy.last
        whole = batch.number - 1 if batch.pending else batch.number
        for place in copy.outputs:
            size = first[place] + taken[place]
            mine = [each for each in enumerate(log[place]) if each[1].lane == copy.lane]
            assert all(at < size for at, each in mine if each.batch <= whole), "a batch that isn't run again is lost"
            assert all(at >= size for at, each in mine if each.batch > batch.number), "an unknown batch is there"
        for place, end in copy.ends(batch.number).items():
            size = first[place] + taken[place]
            assert (log[place][size - 1].end if size else 0) >= end, "something that was read isn't there"
