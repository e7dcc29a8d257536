"""Whatever versions follow one another while inputs grow: none reads a record again, and none leaves one out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from anabranch import Job
from anabranch.errors import ConflictError
from anabranch.model.job_model import JobModel
from anabranch.model.lane import Lane, LaneState, Position, open_lanes
from anabranch.model.ssp import SSP, wholes
from anabranch.planning import plan as planning
from anabranch.planning.ownership import broadcasts
from anabranch.planning.ownership.buckets import NEVER, floors
from anabranch.planning.transition import deploy, expand, follow, opening
from anabranch.planning.transition.change import Change
from anabranch.planning.transition.deploy import NextVersion
from tests.support.cases import examples
from tests.unit.planning.factory import around, new_id

STREAMS = ("a", "b", "c", "rules")
"""The last one is a broadcast."""
BESIDE = ("a", "d")
"""What a second branch reads, if there is one. It is the same in all versions."""
Part = tuple[str, SSP, int, int]
"""An output, a partition that is read for it, the number of a task if the partition is broadcast (otherwise -1), and a
bucket."""


def job(streams: tuple[str, ...], branch: bool) -> Job:
    made = Job("j")

    def read(stream: str) -> Any:
        return made.read(stream, key="k string", schema="n int", start="latest", broadcast=stream == "rules")

    if branch:
        read(BESIDE[0]).merge(read(BESIDE[1])).write("beside")
    rows, *others = map(read, streams)
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
    branch: bool = False
    versions: list[tuple[tuple[str, ...], JobModel, tuple[Lane, ...]]] = field(default_factory=list)
    lanes: dict[str, Lane] = field(default_factory=dict)
    done: dict[Part, int] = field(default_factory=dict)

    def begin(self, streams: tuple[str, ...]) -> None:
        found = planning.make(job(streams, self.branch).graph, self._around())
        self.model = msgspec.structs.replace(found.model, run_id=1)
        lanes = [msgspec.structs.replace(lane, deployment=1) for lane in planning.lanes_of(found, 4, new_id)]
        self.versions.append((streams, self.model, tuple(lanes)))
        self._open(lanes)

    @property
    def streams(self) -> tuple[str, ...]:
        return self.versions[-1][0]

    def _around(self) -> Any:
        return around(self.grouper, self.factor, self.containers, **self.counts)

    def deploy(self, streams: tuple[str, ...], never: Sequence[tuple[str, ...]]) -> None:
        """A version, planned now. Before it, other versions replace one another without beginning (``never``), and the
        last one is taken back."""
        if never:
            self._take_back(never)
        found = planning.make(job(streams, self.branch).graph, self._around())
        self._next(streams, found.model, planning.lanes_of(found, 4, new_id))

    def rollback(self, back: int) -> None:
        """A former deployment, as it was when the next one replaced it."""
        self._next(*self.versions[-1 - back % len(self.versions)])

    def _next(self, streams: tuple[str, ...], model: JobModel, planned: tuple[Lane, ...]) -> None:
        version = NextVersion(self.model.run_id + 1, model, planned)
        change = _allowed(lambda: deploy.deployed(version, self.model, follow.heads(self.lanes.values()), new_id))
        if change is not None:
            self._replace(change, streams)

    def _take_back(self, never: Sequence[tuple[str, ...]]) -> None:
        former, present, heads = self.model, self.model, follow.heads(self.lanes.values())
        for streams in never:
            found = planning.make(job(streams, self.branch).graph, self._around())
            version = NextVersion(present.run_id + 1, found.model, planning.lanes_of(found, 4, new_id))
            change = _allowed(partial(deploy.deployed, version, present, heads, new_id))
            if change is None:
                continue
            self._close(change)
            opened = [opening.opened(lane, self.lanes) if lane.predecessors else lane for lane in change.lanes]
            self.lanes |= {lane.id: opening.never_begun(lane, "it was taken back") for lane in opened}
            present, heads = change.model, [self.lanes[lane.id] for lane in opened]
        if present is former:
            return
        streams, model, planned = self.versions[-1]
        heads = [*heads, *deploy.left_behind(self.lanes.values(), former.run_id)]
        change = deploy.deployed(NextVersion(present.run_id + 1, model, planned), present, heads, new_id, former)
        assert not [lane for lane in change.lanes if lane.added or not lane.predecessors]
        self._replace(change, streams)

    def _replace(self, change: Change, streams: tuple[str, ...]) -> None:
        self._close(change)
        self.model = change.model
        self.versions.append((streams, self.model, change.lanes))
        self._open(change.lanes)

    def notice(self) -> None:
        counts = {f"embedded/{stream}": count for stream, count in self.counts.items()}
        graph = job(self.streams, self.branch).graph
        change = _allowed(lambda: expand.expanded(graph, self.model, self.lanes, counts, new_id))
        if change is None:
            return
        self._close(change)
        self.model = change.model
        self._open(change.lanes)
        self.versions[-1] = self.streams, self.model, tuple(follow.heads(self.lanes.values()))
        read = {ssp for lane in self.versions[-1][2] for ssp in (*wholes(lane.ssps), *lane.broadcast)}
        its = {*self.streams, *(BESIDE if self.branch else ())}
        assert {(ssp.stream, ssp.partition) for ssp in read} == {(s, p) for s in its for p in range(self.counts[s])}
        beside = {ssp for lane in self.versions[-1][2] if _output(lane) == "beside" for ssp in wholes(lane.ssps)}
        assert len(beside) == (sum(self.counts[stream] for stream in BESIDE) if self.branch else 0)

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
        for (whole, number), its in _floors(lane).items():
            mine = (bucket for bucket in range(self.factor) if its[bucket % len(its)] != NEVER)
            found.setdefault(whole, []).extend((_output(lane), whole, number, bucket) for bucket in mine)
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
        had, read = dict(self.done), {(output, whole.stream) for output, whole, _, _ in self.done}
        for lane in lanes:
            opened = opening.opened(lane, self.lanes) if lane.predecessors else lane
            self.lanes[lane.id] = msgspec.structs.replace(opened, state=LaneState.RUNNING)
            at = _floors(opened)
            for whole, its in self._parts(opened).items():
                for part in its:
                    output, _, number, bucket = part
                    floor = at[whole, number]
                    begins = floor[bucket % len(floor)] if whole in opened.begins else None
                    begins = (0 if whole in opened.fresh else 5) if begins is None else begins
                    assert begins == had.get(part, 0 if (output, whole.stream) in read else 5), (part, opened)
                    self.done[part] = begins
        heads = follow.heads(self.lanes.values())
        has = [part for lane in heads for its in self._parts(lane).values() for part in its]
        assert len(has) == len({*has})
        reads = {"out": self.streams, "beside": BESIDE}
        # A later version can have fewer tasks that read a broadcast.
        self.done = {
            part: at
            for part, at in self.done.items()
            if part[1].stream in reads[part[0]] and (part[2] < 0 or part in has)
        }
        assert {*has} == {*self.done}, "what the job has read belongs to nobody"


def _allowed(planned: Callable[[], Change]) -> Change | None:
    """The change; None if it is refused because other tasks would read a broadcast."""
    try:
        return planned()
    except ConflictError as error:
        if "broadcast" not in error.what:
            raise
        return None


def _output(lane: Lane) -> str:
    return "out" if "out" in lane.outputs else "beside"


def _floors(lane: Lane) -> dict[tuple[SSP, int], tuple[int, ...]]:
    """Where each bucket begins, by partition and, if the partition is broadcast, by task."""
    found = {(whole, -1): its for whole, its in floors(lane).items()}
    return found | {(whole, n): broadcasts.floors(lane, whole, n) for whole in lane.broadcast for n in lane.bases}


INPUTS = st.sets(st.sampled_from(STREAMS)).map(
    lambda its: tuple(sorted(its - {"rules"} or {"a"}) + sorted(its & {"rules"}))
)
STEPS = st.lists(
    st.tuples(st.just("deploy"), INPUTS, st.lists(INPUTS, max_size=3))
    | st.tuples(st.just("rollback"), st.integers(0, 4), st.none())
    | st.tuples(st.just("grow"), st.sampled_from((*STREAMS, "d")), st.booleans())
    | st.tuples(st.just("notice"), st.none(), st.none())
    | st.tuples(st.just("work"), st.integers(0, 20), st.integers(1, 9)),
    min_size=2,
    max_size=14,
)


@examples(400)
@given(
    st.sampled_from(["partition", "ssp", "cogroup"]),
    st.sampled_from([1, 2, 4]),
    st.integers(1, 3),
    st.tuples(*[st.integers(1, 4)] * 5),
    st.booleans(),
    INPUTS,
    STEPS,
)
@example(
    "partition",
    1,
    1,
    (1,) * 5,
    False,
    ("a",),
    [("deploy", ("a", "b"), []), ("grow", "a", True), ("rollback", 1, None)],
)
@example("partition", 1, 1, (1,) * 5, False, ("a",), [("grow", "a", False), ("deploy", ("a", "b"), [])])
@example("partition", 1, 1, (1,) * 5, False, ("a", "b"), [("work", 0, 9), ("deploy", ("a",), [("a",)])])
@example(  # only the second of two stages that read a stream is formed with its new partitions
    "partition",
    1,
    1,
    (1,) * 5,
    True,
    ("a",),
    [("grow", "a", False), ("deploy", ("a", "b"), []), ("notice", None, None)],
)
@example(
    "partition", 1, 1, (1,) * 5, False, ("a", "b"), [("work", 0, 9), ("deploy", ("a",), [("a",), ("a", "b", "c")])]
)
@example("partition", 1, 1, (1,) * 5, False, ("a", "b", "rules"), [("deploy", ("a",), [("a",), ("a", "rules")])])
@example("cogroup", 1, 1, (4, 2, 1, 1, 1), False, ("a", "rules"), [("deploy", ("a",), [("a", "b", "rules")])])
@example(  # versions that never began had partitions, and tasks, that the job has never read
    "partition", 1, 1, (1,) * 5, False, ("a",), [("grow", "a", False), ("deploy", ("a",), [("b",), ("a",)])]
)
@example(
    "partition",
    1,
    1,
    (1,) * 5,
    False,
    ("a", "rules"),
    [("grow", "a", False), ("deploy", ("a",), [("b",), ("a", "rules")])],
)
def test_each_version_continues_where_the_one_before_it_was(
    grouper: str,
    factor: int,
    containers: int,
    counts: tuple[int, ...],
    branch: bool,
    streams: tuple[str, ...],
    steps: list[Any],
) -> None:
    world = World(grouper, factor, containers, dict(zip((*STREAMS, "d"), counts, strict=True)), branch)
    world.begin(streams)
    for what, first, second in steps:
        if what == "deploy":
            world.deploy(first, second)
        elif what == "rollback":
            world.rollback(first)
        elif what == "work":
            world.work(first, second)
        elif what == "notice":
            world.notice()
        elif world.counts[first] <= 6:
            world.counts[first] *= 2
            if second:  # otherwise, the job hasn't noticed it yet
                world.notice()
