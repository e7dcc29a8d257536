"""Whatever streams come to a pattern, a key stays in its task, and each message is taken once."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from anabranch.model.hashing import bucket, partition_for
from anabranch.model.lane import Lane, LaneState, Position, open_lanes
from anabranch.model.ssp import SSP, wholes
from anabranch.planning import plan as planning
from anabranch.planning.ownership.buckets import floors, owned
from anabranch.planning.transition import expand, rescale, rewind
from anabranch.planning.transition.change import Change
from tests.support.cases import examples
from tests.unit.planning.factory import new_id
from tests.unit.planning.matching import job, named, planned

KINDS = ("outputs-embedded", "counted")


# --- whatever comes ---------------------------------------------------------------------------------------------------
@dataclass
class World:
    """A job on the streams of a pattern, put by producers that follow, as its lanes have read them.

    ``taken``: how often each message was, by group; ``state``: by lane, of each row the task's number and its key.
    """

    base: int
    grouper: str
    streams: dict[str, list[list[bytes]]] = field(default_factory=dict)
    lanes: dict[str, Lane] = field(default_factory=dict)
    read: dict[str, dict[SSP, int]] = field(default_factory=dict)
    state: dict[str, list[tuple[int, bytes]]] = field(default_factory=dict)
    taken: Counter[tuple[str, SSP, int]] = field(default_factory=Counter)
    homes: dict[bytes, set[str]] = field(default_factory=lambda: defaultdict(set))
    orders: list[tuple[str, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.streams["m"] = [[] for _ in range(self.base)]
        plan = planned(job(), self.grouper, in_m=self.base)
        self.model = plan.model
        for lane in planning.lanes_of(plan, 4, new_id):
            self._begin(lane)

    def put(self, stream: str, keys: list[bytes]) -> None:
        its = self.streams[stream]
        for key in keys:
            its[partition_for(key, len(its))].append(key)

    def widen(self, stream: str, partitions: int) -> None:
        its = self.streams.setdefault(stream, [])
        its += [[] for _ in range(partitions - len(its))]

    def expand(self) -> None:
        counts = {name: len(its) for name, its in self.streams.items()}
        self._move(expand.expanded(job().graph, self.model, self.lanes, named(counts), new_id))

    def scale(self, factor: int, containers: int) -> None:
        self._move(rescale.rescaled(job().graph, self.model, self.lanes, factor, containers, new_id))

    def work(self, messages: int) -> None:
        for lane in open_lanes(self.lanes.values()):
            for whole in dict.fromkeys(wholes(lane.ssps)):
                keys, begins = self.streams[whole.stream.removeprefix("in-")][whole.partition], floors(lane)[whole]
                start = self.read[lane.id][whole]
                end = min(len(keys), start + messages)
                for offset in range(start, end):
                    if offset >= begins[bucket(keys[offset], offset, len(begins))]:
                        self.taken[lane.group, whole, offset] += 1
                        if lane.stateful:
                            self._count(lane, whole, keys[offset])
                self.read[lane.id][whole] = end

    def _count(self, lane: Lane, whole: SSP, key: bytes) -> None:
        """Into state that the lane has of that key; nobody else has any."""
        row = (lane.numbers[str(whole)], key)
        mine = [each.id for each in self.lanes.values() if each.state is not LaneState.CLOSED and self.has(each, row)]
        assert mine == [lane.id]
        self.state[lane.id].append(row)
        stage = self.model.stages[0]
        part = bucket(key, 0, self.model.factor)
        self.homes[key] |= {task.name.split("-")[0] for task in stage.tasks if self._is(task.index, row[0], part)}

    def _is(self, index: int, number: int, part: int) -> bool:
        return index == number * self.model.factor + part

    @staticmethod
    def has(lane: Lane, row: tuple[int, bytes]) -> bool:
        return lane.stateful and bucket(row[1], 0, lane.factor) in owned(lane).get(row[0], ())

    def _begin(self, lane: Lane) -> None:
        self.lanes[lane.id] = msgspec.structs.replace(lane, folder_epoch=1, state=LaneState.RUNNING)
        begins = dict.fromkeys(wholes(lane.ssps), 10**9)
        for position in lane.starting:
            begins[position.ssp.whole] = min(position.offset, begins[position.ssp.whole])
        first = not lane.starting and not lane.predecessors
        self.read[lane.id] = {whole: 0 if first or whole in lane.fresh else offset for whole, offset in begins.items()}
        self.state[lane.id] = [row for name in lane.inherits if lane.stateful for row in self.state[name]]
        self.orders.append(lane.matched["in"])

    def _move(self, change: Change) -> None:
        for name in change.closing:
            final = tuple(Position(ssp=ssp, offset=offset) for ssp, offset in self.read[name].items())
            closed = {"state": LaneState.CLOSED, "final": final, "last_batch": 7}
            self.lanes[name] = msgspec.structs.replace(self.lanes[name], **closed)
        self.model = change.model
        self.lanes |= {lane.id: lane for lane in change.lanes}
        for lane in change.lanes:
            self._begin(rewind.opened(lane, self.lanes))


WORDS = st.lists(st.integers(0, 30).map(lambda n: f"k{n}".encode()), max_size=12)
STEPS = st.lists(
    st.tuples(st.just("put"), st.sampled_from("mabz"), WORDS)
    | st.tuples(st.just("come"), st.sampled_from("abz"), st.integers(1, 3))
    | st.tuples(st.just("grow"), st.sampled_from("mabz"), st.sampled_from([2, 3]))
    | st.tuples(st.just("scale"), st.sampled_from([1, 2, 8]), st.integers(1, 3))
    | st.tuples(st.just("work"), st.just(""), st.integers(1, 5))
    | st.tuples(st.just("expand"), st.just(""), st.just(0)),
    max_size=14,
)


def lived(base: int, grouper: str, steps: list[tuple[str, Any, Any]]) -> World:
    world = World(base, grouper)
    for what, first, second in steps:
        if what == "put" and first in world.streams:
            world.put(first, second)
        elif what == "come" and first not in world.streams:
            world.widen(first, base * second if grouper == "cogroup" else base)
        elif what == "grow" and first in world.streams and len(world.streams[first]) * second <= 12:
            has = expand.partitions(job().graph, world.model)
            if f"embedded/in-{first}" in has or grouper == "cogroup":  # else it comes with a count of another base
                world.widen(first, len(world.streams[first]) * second)
        elif what == "scale":
            world.scale(first, second)
        elif what == "work":
            world.work(second)
        elif what == "expand":
            world.expand()
    world.expand()
    world.work(10_000)
    return world


@examples(500)
@given(base=st.integers(1, 3), grouper=st.sampled_from(["partition", "cogroup"]), steps=STEPS)
def test_a_key_stays_in_its_task_and_each_message_is_taken_once_whatever_comes(
    base: int, grouper: str, steps: list[tuple[str, Any, Any]]
) -> None:
    """Over streams that come, grow and are scaled: and the assignment is a function of that history."""
    world = lived(base, grouper, steps)
    every = {
        (group, SSP(system="embedded", stream=f"in-{name}", partition=partition), offset)
        for group in KINDS
        for name, its in world.streams.items()
        for partition, keys in enumerate(its)
        for offset in range(len(keys))
    }
    assert world.taken == dict.fromkeys(every, 1)
    assert all(len(tasks) == 1 for tasks in world.homes.values()), world.homes
    last = world.model.stages[0].patterns["in"].streams
    assert all(order == last[: len(order)] for order in world.orders)
    again = lived(base, grouper, steps)
    assert [(s.tasks, s.base, s.patterns) for s in again.model.stages] == [
        (s.tasks, s.base, s.patterns) for s in world.model.stages
    ]
    held = Counter(
        row
        for lane in open_lanes(world.lanes.values())
        if lane.stateful
        for row in world.state[lane.id]
        if world.has(lane, row)
    )
    assert held.total() == len(every) // len(KINDS)
