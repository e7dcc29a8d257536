"""Broadcast inputs while factor and containers change: each task takes every record, and none is put aside twice."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch import Job
from anabranch.errors import StateError
from anabranch.model.hashing import bucket
from anabranch.model.lane import Lane, LaneState, Position, open_lanes
from anabranch.model.ssp import SSP, wholes
from anabranch.planning import plan as planning
from anabranch.planning.ownership import broadcasts
from anabranch.planning.ownership.buckets import owned
from anabranch.planning.transition import opening, rescale
from anabranch.planning.transition.change import Change
from tests.support.cases import examples
from tests.unit.planning.factory import around, new_id

RULES = SSP(system="embedded", stream="rules", partition=0)
FINEST = 16
LETTERS = "outputs-embedded"


def job(stateful: bool) -> Job:
    """Of the groups, one reads the broadcast alone; and without state some tasks read nothing else in another one."""
    made = Job("j")
    rows = made.read("in", key="k binary", schema="n int")
    rules = made.read("rules", key="k binary", schema="n int", broadcast=True)
    both = rows.merge(rules)
    both.write("out")
    if stateful:
        both.agg(n="count(*)", name="counted").write("counts")
    else:
        others = made.read("others", key="k binary", schema="n int")
        rows.merge(others).foreach_batch(lambda df, lane, batch, epoch: None, name="all")
    rules.foreach_batch(lambda df, lane, batch, epoch: None, name="alone")
    return made


@dataclass
class World:
    """The partition ``rules`` of a broadcast, whose keys these are, as lanes have read it.

    ``had``: by group, task at factor 1 and finest bucket, the offsets that were given to the task that has the bucket.
    ``state``: by task at factor 1, the offsets that went into it. ``letters``: the offsets that were looked at for
    what can't be read.
    """

    rules: list[bytes | None]
    partitions: int = 1
    factor: int = 1
    containers: int = 1
    stateful: bool = False
    lanes: dict[str, Lane] = field(default_factory=dict)
    read: dict[str, int] = field(default_factory=dict)
    given: Counter[str] = field(default_factory=Counter)
    had: defaultdict[tuple[str, int, int], Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    state: defaultdict[int, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    letters: Counter[int] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.job = job(self.stateful)
        counts = {"in": self.partitions, "rules": 1, **({} if self.stateful else {"others": 3})}
        plan = planning.make(self.job.graph, around("partition", self.factor, self.containers, **counts))
        self.model = plan.model
        for lane in planning.lanes_of(plan, 4, new_id):
            self._begin(lane)

    @property
    def tasks(self) -> int:
        return self.partitions if self.stateful else max(3, self.partitions)

    @property
    def open(self) -> list[Lane]:
        return [lane for lane in open_lanes(self.lanes.values()) if lane.broadcast]

    def _begin(self, lane: Lane) -> None:
        self.lanes[lane.id] = msgspec.structs.replace(lane, folder_epoch=1, state=LaneState.RUNNING)
        self.read[lane.id] = lane.begins.get(RULES, 0)

    def work(self, number: int, messages: int) -> None:
        lane = self.open[number % len(self.open)]
        end = min(len(self.rules), self.read[lane.id] + messages)
        for offset in range(self.read[lane.id], end):
            self._give(lane, offset)
        self.read[lane.id] = end

    def _give(self, lane: Lane, offset: int) -> None:
        key = self.rules[offset]
        if lane.stateful:
            for number, buckets in owned(lane).items():
                if bucket(key, offset, lane.factor) in buckets:
                    self.state[number][offset] += 1
        else:
            for (number, mine), at in broadcasts.begins(lane, RULES).items():
                if offset >= at:
                    cells = [(lane.group, number, cell) for cell in range(mine, FINEST, lane.factor)]
                    assert any(not self.had[cell][offset] for cell in cells), "all of them have had it"
                    self.given[lane.group] += 1
                    for cell in cells:
                        self.had[cell][offset] += 1
        if lane.group == LETTERS:
            floors = broadcasts.floors(lane, RULES, 0)
            self.letters[offset] += offset >= floors[bucket(key, offset, len(floors))]

    def change(self, factor: int, containers: int) -> Change:
        change = rescale.rescaled(self.job.graph, self.model, self.lanes, factor, containers, new_id)
        for name in change.closing:
            lane = self.lanes[name]
            final = [Position(ssp=ssp, offset=0) for ssp in dict.fromkeys(wholes(lane.ssps))]
            final += [Position(ssp=ssp, offset=self.read[name]) for ssp in lane.broadcast]
            self.lanes[name] = msgspec.structs.replace(lane, state=LaneState.CLOSED, final=tuple(final), last_batch=7)
        self.model = change.model
        self.lanes.update({lane.id: lane for lane in change.lanes})
        for lane in change.lanes:
            self._begin(opening.opened(lane, self.lanes))
        return change

    def finish(self) -> None:
        for number in range(len(self.open)):
            self.work(number, 10_000)

    def virtual(self) -> Iterator[tuple[str, int, int]]:
        """By group without state, each finest bucket of each task as often as open lanes have it."""
        for lane in self.open:
            for number, mine in owned(lane).items() if not lane.stateful else ():
                yield from ((lane.group, number, c) for each in mine for c in range(each, FINEST, lane.factor))


FACTORS = st.sampled_from([1, 2, 4, 16])
STEPS = st.lists(
    st.tuples(st.just("work"), st.integers(0, 40), st.integers(1, 9))
    | st.tuples(st.just("change"), FACTORS, st.integers(1, 4)),
    max_size=14,
)


@examples(300)
@given(
    rules=st.lists(st.none() | st.binary(max_size=2), max_size=20),
    partitions=st.integers(1, 4),
    factor=FACTORS,
    containers=st.integers(1, 4),
    stateful=st.booleans(),
    steps=STEPS,
)
def test_each_task_takes_each_record_and_state_once(
    rules: list[bytes | None],
    partitions: int,
    factor: int,
    containers: int,
    stateful: bool,
    steps: list[tuple[str, int, int]],
) -> None:
    """Of several tasks that become one, it has what one of them hasn't had, and never what all have."""
    world = World(rules, partitions, factor, containers, stateful)
    cells = [(g, n, c) for g in (LETTERS, "alone") for n in range(world.tasks) for c in range(FINEST)]
    for what, first, second in steps:
        if what == "work":
            world.work(first, second)
        else:
            world.change(first, second)
            assert Counter(world.virtual()) == Counter(cells)
    world.finish()
    everything = set(range(len(rules)))
    assert all(set(world.had[cell]) == everything for cell in cells)
    assert all(world.state[number] == Counter(everything) for number in range(world.tasks if stateful else 0))
    assert world.letters == Counter(everything)
    if not any(what == "change" for what, *_ in steps):
        assert world.given == Counter({g: world.tasks * factor * len(rules) for g in (LETTERS, "alone") if rules})


def test_tasks_that_come_together_stay_as_far_as_they_were() -> None:
    """Two containers aren't equally far. Halves of a task that become one begin where the one was that was behind; and
    if that never runs, because the change is taken back, each half is where it was."""
    world = World([b"a"] * 10, factor=2, containers=2)
    for number, lane in enumerate(world.open):
        world.work(number, 8 if lane.seat == "0" else 3)

    def alone() -> list[Lane]:
        return [lane for lane in world.open if lane.group == "alone"]

    world.change(2, 1)
    assert alone()[0].starting == (Position(ssp=RULES, offset=3, parts={"0:0/1": 8, "1:0/2": 8}),)
    far = {(0, 0): 8, (0, 1): 8, (1, 0): 8}
    assert broadcasts.begins(alone()[0], RULES) == {**dict.fromkeys([(1, 1), (2, 0), (2, 1)], 3), **far}
    world.change(1, 1)
    assert broadcasts.begins(alone()[0], RULES) == {(0, 0): 8, (1, 0): 3, (2, 0): 3}
    world.change(2, 2)
    assert [lane.starting for lane in alone()] == [(Position(ssp=RULES, offset=at),) for at in (8, 3)]


def test_whole_tasks_say_nothing_of_buckets() -> None:
    world = World([b"a"] * 10, factor=1, containers=1)
    before = {lane.group for lane in world.open}
    change = world.change(2, 1)
    assert {lane.group for lane in change.lanes if lane.broadcast} == before == {LETTERS, "alone"}
    assert all(not lane.buckets and lane.bases == (0, 1, 2) for lane in change.lanes)


def test_parts_of_tasks_are_told_where_some_are_elsewhere() -> None:
    lanes = [lane for lane in World([], factor=4, containers=2).open if lane.group == "alone"]
    assert [(lane.seat, lane.bases, lane.buckets) for lane in lanes] == [
        ("0", (0, 1), {"1": (0, 1)}),
        ("1", (1, 2), {"1": (2, 3)}),
    ]


def test_a_store_that_was_damaged_is_told_of() -> None:
    world = World([b"a"] * 4, containers=2)
    (one, _) = [lane for lane in world.open if lane.group == "alone"]
    left = msgspec.structs.replace(one, final=(Position(ssp=RULES, offset=2),))
    whole = msgspec.structs.replace(one, id="0-new", bases=(0, 1, 2))
    with pytest.raises(StateError, match="didn't have all of its tasks"):
        broadcasts.begin(whole, RULES, [left])
