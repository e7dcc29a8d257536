"""Whatever versions follow one another while inputs grow: none reads a record again, and none leaves one out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from anabranch import Job
from anabranch.model.job_model import JobModel
from anabranch.model.lane import Lane, LaneState, Position, open_lanes
from anabranch.model.ssp import SSP
from anabranch.planning import plan as planning
from anabranch.planning.ownership.buckets import NEVER, floors
from anabranch.planning.transition import deploy, expand, follow, opening
from anabranch.planning.transition.change import Change
from anabranch.planning.transition.deploy import NextVersion
from tests.support.cases import examples
from tests.unit.planning.factory import around, new_id

STREAMS = ("a", "b", "c")
Part = tuple[SSP, int]
"""A partition, and a bucket of it."""


def job(streams: tuple[str, ...]) -> Job:
    made = Job("j")
    rows, *others = (made.read(stream, key="k string", schema="n int", start="latest") for stream in streams)
    for other in others:
        rows = rows.merge(other)
    rows.where("n > 0").write("out")
    return made


@dataclass
class World:
    """A job, the partition counts of the streams, and how far the job has read them. A stream that the job doesn't
    read, or that no version has read before, isn't in ``done``."""

    grouper: str
    factor: int
    containers: int
    counts: dict[str, int]
    versions: list[tuple[tuple[str, ...], JobModel, tuple[Lane, ...]]] = field(default_factory=list)
    lanes: dict[str, Lane] = field(default_factory=dict)
    done: dict[Part, int] = field(default_factory=dict)

    def begin(self, streams: tuple[str, ...]) -> None:
        found = planning.make(job(streams).graph, self._around())
        self.model = msgspec.structs.replace(found.model, run_id=1)
        lanes = [msgspec.structs.replace(lane, deployment=1) for lane in planning.lanes_of(found, 4, new_id)]
        self.versions.append((streams, self.model, tuple(lanes)))
        self._open(lanes)

    @property
    def streams(self) -> tuple[str, ...]:
        return self.versions[-1][0]

    def _around(self) -> Any:
        return around(self.grouper, self.factor, self.containers, **self.counts)

    def deploy(self, streams: tuple[str, ...], never: bool) -> None:
        """A version, planned now; if it ``never`` begins, it is taken back."""
        found = planning.make(job(streams).graph, self._around())
        self._next(streams, found.model, planning.lanes_of(found, 4, new_id), never)

    def rollback(self, back: int, never: bool) -> None:
        """A former deployment, as it was when the next one replaced it."""
        self._next(*self.versions[-1 - back % len(self.versions)], never)

    def _next(self, streams: tuple[str, ...], model: JobModel, planned: tuple[Lane, ...], never: bool) -> None:
        former, number = self.model, self.model.run_id
        version = NextVersion(number + 1, model, planned)
        change = deploy.deployed(version, self.model, follow.heads(self.lanes.values()), new_id)
        if never:
            self._close(change)
            opened = [opening.opened(lane, self.lanes) if lane.predecessors else lane for lane in change.lanes]
            self.lanes |= {lane.id: opening.never_begun(lane, "it was taken back") for lane in opened}
            void = [lane for lane in self.lanes.values() if lane.deployment == number + 1]
            known = {name for lane in void for name in lane.predecessors}
            heads = [lane for lane in void if lane.id not in known]
            heads += deploy.left_behind(self.lanes.values(), number)
            streams, model, planned = self.versions[-1]
            version = NextVersion(number + 2, model, planned)
            change = deploy.deployed(version, change.model, heads, new_id, former)
            assert not [lane for lane in change.lanes if lane.added or not lane.predecessors]
        self._close(change)
        self.model = change.model
        self._open(change.lanes)
        self.versions.append((streams, self.model, change.lanes))

    def notice(self) -> None:
        counts = {f"embedded/{stream}": count for stream, count in self.counts.items()}
        change = expand.expanded(job(self.streams).graph, self.model, self.lanes, counts, new_id)
        self._close(change)
        self.model = change.model
        self._open(change.lanes)
        self.versions[-1] = self.streams, self.model, tuple(follow.heads(self.lanes.values()))

    def work(self, number: int, records: int) -> None:
        lanes = open_lanes(self.lanes.values())
        lane = lanes[number % len(lanes)]
        read = self._read(lane)
        for whole, its in self._parts(lane).items():
            for part in its:
                self.done[part] = max(self.done[part], read[whole] + records)

    def _parts(self, lane: Lane) -> dict[SSP, list[Part]]:
        """A lane's partitions, each with the parts that the lane has."""
        found: dict[SSP, list[Part]] = {}
        for whole, its in floors(lane).items():
            mine = (bucket for bucket in range(self.factor) if its[bucket % len(its)] != NEVER)
            found[whole] = [(whole, bucket) for bucket in mine]
        return found

    def _read(self, lane: Lane) -> dict[SSP, int]:
        """How far a lane has read each partition: as far as that part which is furthest behind."""
        return {whole: min(self.done[part] for part in its) for whole, its in self._parts(lane).items()}

    def _close(self, change: Change) -> None:
        for name in change.closing:
            lane = self.lanes[name]
            final = tuple(Position(ssp=ssp, offset=offset) for ssp, offset in self._read(lane).items())
            its: dict[str, Any] = {"final": final, "last_batch": lane.first_batch + 3}
            self.lanes[name] = msgspec.structs.replace(lane, state=LaneState.CLOSED, begun=True, folder_epoch=1, **its)

    def _open(self, lanes: Any) -> None:
        """Lanes begin where those before ended; at 0 in partitions that were added, and at 5 in other streams."""
        had, read = dict(self.done), {whole.stream for whole, _ in self.done}
        for lane in lanes:
            opened = opening.opened(lane, self.lanes) if lane.predecessors else lane
            self.lanes[lane.id] = msgspec.structs.replace(opened, state=LaneState.RUNNING)
            at = floors(opened)
            for whole, its in self._parts(opened).items():
                for part in its:
                    begins = at[whole][part[1] % len(at[whole])] if whole in opened.begins else None
                    begins = (0 if whole in opened.fresh else 5) if begins is None else begins
                    assert begins == had.get(part, 0 if whole.stream in read else 5), (part, opened)
                    self.done[part] = begins
        heads = follow.heads(self.lanes.values())
        has = [part for lane in heads for its in self._parts(lane).values() for part in its]
        assert len(has) == len({*has})
        streams = {name.split("/")[1] for stage in self.model.stages for name in stage.inputs}
        self.done = {part: at for part, at in self.done.items() if part[0].stream in streams}
        assert {*has} == {*self.done}, "what the job has read belongs to nobody"


INPUTS = st.sets(st.sampled_from(STREAMS), min_size=1).map(lambda its: tuple(sorted(its)))
STEPS = st.lists(
    st.tuples(st.just("deploy"), INPUTS, st.booleans())
    | st.tuples(st.just("rollback"), st.integers(0, 4), st.booleans())
    | st.tuples(st.just("grow"), st.sampled_from(STREAMS), st.booleans())
    | st.tuples(st.just("work"), st.integers(0, 20), st.integers(1, 9)),
    min_size=2,
    max_size=14,
)


@examples(400)
@given(
    st.sampled_from(["partition", "ssp", "cogroup"]),
    st.sampled_from([1, 2, 4]),
    st.integers(1, 3),
    st.tuples(*[st.integers(1, 3)] * len(STREAMS)),
    INPUTS,
    STEPS,
)
@example(
    "partition", 1, 1, (1, 1, 1), ("a",), [("deploy", ("a", "b"), False), ("grow", "a", True), ("rollback", 1, False)]
)
@example("partition", 1, 1, (1, 1, 1), ("a",), [("grow", "a", False), ("deploy", ("a", "b"), False)])
@example("partition", 1, 1, (1, 1, 1), ("a", "b"), [("deploy", ("a",), True)])
def test_each_version_continues_where_the_one_before_it_was(
    grouper: str, factor: int, containers: int, counts: tuple[int, ...], streams: tuple[str, ...], steps: list[Any]
) -> None:
    world = World(grouper, factor, containers, dict(zip(STREAMS, counts, strict=True)))
    world.begin(streams)
    for what, first, second in steps:
        if what == "deploy":
            world.deploy(first, second)
        elif what == "rollback":
            world.rollback(first, second)
        elif what == "work":
            world.work(first, second)
        elif world.counts[first] <= 6:
            world.counts[first] *= 2
            if second:  # otherwise, the job hasn't noticed it yet
                world.notice()
