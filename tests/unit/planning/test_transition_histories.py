"""Whatever a job goes through, each message is taken once, and state is where it was."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.model.hashing import bucket
from anabranch.model.job_model import JobModel
from anabranch.model.lane import Lane, LaneState, Position, open_lanes
from anabranch.model.ssp import wholes
from anabranch.planning import plan as planning
from anabranch.planning.ownership.buckets import floors, owned
from anabranch.planning.transition import deploy, expand, follow, rescale, rewind
from anabranch.planning.transition.change import Change
from anabranch.planning.transition.deploy import NextVersion
from tests.support.cases import examples
from tests.unit.planning.factory import around, job, new_id

KEYS = st.lists(st.none() | st.binary(max_size=2), max_size=40)


@dataclass
class Batch:
    """One that was begun. ``rows`` are those of its messages that are the lane's own, by the slot that publishes them;
    ``committed``: the slots that have; ``ends``: by partition."""

    rows: dict[Any, list[tuple[int, bytes, int, int]]]
    ends: dict[int, int]
    committed: set[Any] = field(default_factory=set)


@dataclass
class World:
    """A job on streams of some messages, as its lanes have read it. What was done is by group and partition.

    ``taken``: what needn't be done any more, unless it is rewound; ``kept``: what the state should hold; ``pending``:
    by lane, the batch in which its process was killed.
    """

    streams: list[list[bytes | None]]
    grouper: str = "partition"
    factor: int = 1
    containers: int = 1
    spread: int = 1
    lanes: dict[str, Lane] = field(default_factory=dict)
    read: dict[str, dict[int, int]] = field(default_factory=dict)
    state: dict[str, list[tuple[int, bytes, int, int]]] = field(default_factory=dict)
    done: list[tuple[str, int, int]] = field(default_factory=list)
    taken: set[tuple[str, int, int]] = field(default_factory=set)
    kept: Counter[tuple[int, bytes, int, int]] = field(default_factory=Counter)
    pending: dict[str, Batch] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.job = job()
        surroundings = around(self.grouper, self.factor, self.containers, **{"in": len(self.streams)})
        plan = planning.make(self.job.graph, replace(surroundings, lanes=self.spread))
        self.model: JobModel = plan.model
        for lane in planning.lanes_of(plan, 4, new_id):
            self._begin(lane)

    @property
    def open(self) -> list[Lane]:
        return open_lanes(self.lanes.values())

    def _begin(self, lane: Lane) -> None:
        self.lanes[lane.id] = msgspec.structs.replace(lane, folder_epoch=1, state=LaneState.RUNNING)
        begins = {whole.partition: [0] for whole in wholes(lane.ssps) if not lane.starting or whole in lane.fresh}
        for position in lane.starting:
            begins.setdefault(position.ssp.partition, []).append(position.offset)
        self.read[lane.id] = {partition: min(offsets) for partition, offsets in begins.items()}
        afresh = not lane.stateful or (lane.rewind is not None and lane.rewind.clear)
        before = () if afresh else lane.inherits or lane.predecessors
        self.state[lane.id] = [row for name in before for row in self.state[name]]

    def work(self, number: int, messages: int) -> None:
        """A lane has a batch; that of a killed process comes first."""
        lane = self._planned(number, messages)
        self._finish(lane)

    def kill(self, number: int, seed: int) -> None:
        """A lane's process dies in a batch of which some slots are committed. Who goes on finishes just that batch, as
        far as the slots' markers don't say that it is done; so does who goes on from the lane."""
        dice = random.Random(seed)
        lane = self._planned(number, dice.randint(1, 9))
        self._publish(lane, [slot for slot in self.pending[lane.id].rows if dice.random() < 0.5])

    def _planned(self, number: int, messages: int) -> Lane:
        lane = self.open[number % len(self.open)]
        self._finish(lane)
        rows: dict[Any, list[tuple[int, bytes, int, int]]] = {}
        ends: dict[int, int] = {}
        for whole in dict.fromkeys(wholes(lane.ssps)):
            stream, begins = self.streams[whole.partition], floors(lane)[whole]
            start = self.read[lane.id][whole.partition]
            ends[whole.partition] = min(len(stream), start + messages)
            for offset in range(start, ends[whole.partition]):
                key = stream[offset]
                if lane.stateful and key is None:
                    continue
                mine = bucket(key, offset, len(begins))
                if offset >= begins[mine]:
                    slot = bucket(key, offset, 4) if lane.stateful else (whole.partition, mine)
                    row = (lane.numbers[str(whole)], key or b"", whole.partition, offset)
                    rows.setdefault(slot, []).append(row)
        self.pending[lane.id] = Batch(rows, ends)
        return lane

    def _publish(self, lane: Lane, slots: Iterable[Any]) -> None:
        batch = self.pending[lane.id]
        for slot in {*slots} - batch.committed:
            for _, _, partition, offset in batch.rows[slot]:
                self._take((lane.group, partition, offset))
            batch.committed.add(slot)

    def _finish(self, lane: Lane) -> None:
        """Commit the batch that a lane has begun, if there is one."""
        if lane.id not in self.pending:
            return
        self._publish(lane, self.pending[lane.id].rows)
        batch = self.pending.pop(lane.id)
        rows = [row for its in batch.rows.values() for row in its]
        self.state[lane.id] += rows
        self.kept.update(rows if lane.stateful else ())
        self.read[lane.id] |= batch.ends

    def _take(self, message: tuple[str, int, int]) -> None:
        """Process a message: never twice unless it was rewound, and never before an older one of its key."""
        group, partition, offset = message
        stream = self.streams[partition]
        assert message not in self.taken, message
        if stream[offset] is not None:
            older = {(group, partition, o) for o in range(offset) if stream[o] == stream[offset]}
            assert older <= self.taken, message
        self.taken.add(message)
        self.done.append(message)

    def _before(self, to: dict[int, int]) -> set[tuple[str, int, int]]:
        return {(g, p, o) for g, p, o in self.taken if o < to.get(p, len(self.streams[p]))}

    def rewind(self, seed: int, cancel: bool) -> None:
        """To places by chance, of some partitions or all; maybe cancelled before it has an effect."""
        for lane in self.open:
            self._finish(lane)
        dice = random.Random(seed)
        some = [p for p in range(len(self.streams)) if dice.random() < 0.7] or [0]
        state = dice.choice(["keep", "clear"])
        whole = range(len(self.streams)) if state == "clear" else some
        to = {p: dice.randrange(len(self.streams[p]) + 1) for p in whole}
        taken, kept = set(self.taken), Counter(self.kept)
        self.taken = self._before(to)
        texts = {f"embedded/in/{p}": offset for p, offset in to.items()}
        self._move(rewind.rewound(self.job.graph, self.model, self.lanes, texts, state, new_id))
        if state == "clear":
            self.kept.clear()
        if cancel:
            self.taken, self.kept = taken, kept
            self._move(rewind.undone(self.model, self.lanes, new_id))

    def change(self, factor: int, containers: int) -> Change:
        return self._move(rescale.rescaled(self.job.graph, self.model, self.lanes, factor, containers, new_id))

    def grow(self, times: int, keys: Sequence[bytes | None]) -> Change:
        """The input gets ``times`` as many partitions, the new ones with messages of these keys."""
        count = len(self.streams) * times
        self.streams += [list(keys) for _ in range(count - len(self.streams))]
        counts = {"embedded/in": count}
        return self._move(expand.expanded(self.job.graph, self.model, self.lanes, counts, new_id))

    def deploy(self, other: int) -> Change:
        """The same job once more: planned anew, or, as in a rollback, as it ran already; its inputs may have grown."""
        surroundings = around("partition", self.model.factor, len(self.model.containers), **{"in": len(self.streams)})
        planned = planning.make(self.job.graph, replace(surroundings, lanes=self.spread))
        lanes = planning.lanes_of(planned, 4, new_id) if other else tuple(self.lanes.values())
        after = NextVersion(self.model.run_id + 1, planned.model if other else self.model, lanes)
        return self._move(deploy.deployed(after, self.model, follow.heads(self.lanes.values()), new_id))

    def _move(self, change: Change) -> Change:
        for name in change.closing:
            lane = self.lanes[name]
            self._finish(lane)
            final = [
                Position(ssp=ssp, offset=self.read[name][ssp.partition]) for ssp in dict.fromkeys(wholes(lane.ssps))
            ]
            self.lanes[name] = msgspec.structs.replace(lane, state=LaneState.CLOSED, final=tuple(final), last_batch=7)
        self.model = change.model
        self.lanes.update({lane.id: lane for lane in change.lanes})
        for lane in change.lanes:
            self._begin(rewind.opened(lane, self.lanes))
        return change

    def finish(self) -> None:
        for number in range(len(self.open)):
            self.work(number, 10_000)


FACTORS = st.sampled_from([1, 2, 4, 8, 16, 64])
STEPS = st.lists(
    st.tuples(st.just("work"), st.integers(0, 40), st.integers(1, 9))
    | st.tuples(st.just("kill"), st.integers(0, 40), st.integers(0, 10_000))
    | st.tuples(st.just("change"), FACTORS, st.integers(1, 4))
    | st.tuples(st.sampled_from(["rewind", "cancel"]), st.integers(0, 10_000), st.just(0))
    | st.tuples(st.just("deploy"), st.integers(0, 1), st.just(0))
    | st.tuples(st.just("grow"), st.sampled_from([1, 2, 3]), st.integers(0, 5)),
    max_size=16,
)

HISTORIES = given(
    streams=st.lists(KEYS, min_size=1, max_size=3),
    factor=FACTORS,
    containers=st.integers(1, 4),
    lanes=st.integers(1, 3),
    grouper=st.sampled_from(["partition", "ssp", "cogroup"]),
    steps=STEPS,
)


@examples(500)
@HISTORIES
def test_each_message_is_taken_once_and_state_is_whole(**history: Any) -> None:
    _holds(**history)


@pytest.mark.long
@settings(max_examples=5000)
@HISTORIES
def test_each_message_is_taken_once_in_many_histories(**history: Any) -> None:
    _holds(**history)


def _holds(
    streams: list[list[bytes | None]],
    factor: int,
    containers: int,
    lanes: int,
    grouper: str,
    steps: list[tuple[str, int, int]],
) -> None:
    """Once, and once more for each time that it was rewound after that; keys in order: see :meth:`World._take`."""
    base, streams = len(streams), [*streams]
    world = World(streams, grouper, factor, containers, lanes)
    for what, first, second in steps:
        if what == "work":
            world.work(first, second)
        elif what == "kill":
            world.kill(first, second)
        elif what == "change":
            world.change(first, second)
        elif what == "deploy":
            world.deploy(first)
        elif what != "grow":
            world.rewind(first, cancel=what == "cancel")
        elif len(streams) * first <= 12:
            world.grow(first, [b"a", None, b"b", b"a", b"cc"][:second])
        for stage in world.model.stages:
            parts = Counter((lane.group, task) for lane in world.open if not lane.stateful for task in lane.tasks)
            assert parts == {("outputs-embedded", task.name): 1 for task in stage.tasks}
        counts = Counter(lane.seat for lane in world.open if not lane.stateful)
        assert max(counts.values()) <= lanes
    world.finish()
    assert world.taken == {
        (group, partition, offset)
        for partition, stream in enumerate(streams)
        for offset, key in enumerate(stream)
        for group in ("outputs-embedded", "counted")
        if group != "counted" or key is not None
    }
    if all(what not in ("rewind", "cancel") for what, _, _ in steps):
        assert set(Counter(world.done).values()) <= {1}
    held: Counter[tuple[int, bytes, int, int]] = Counter()
    for lane in world.open:
        if lane.stateful:
            mine = owned(lane)
            held.update(
                row for row in world.state[lane.id] if bucket(row[1], 0, lane.factor) in mine.get(row[0], frozenset())
            )
    assert held == world.kept
    assert all(task == partition % base for task, _, partition, _ in held)
