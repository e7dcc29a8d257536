"""Inputs that are bound to patterns: which streams they have, and what becomes of a job when others come."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from anabranch import Job
from anabranch.config import Settings
from anabranch.container.checkpoint import offset_log
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.input_monitor import counted
from anabranch.coordinator.store import Store
from anabranch.errors import AnabranchError, ConflictError, GraphError, NotFoundError
from anabranch.grouping.ownership import floors, owned
from anabranch.model.hashing import bucket, partition_for
from anabranch.model.job_model import JobModel, Matched
from anabranch.model.lane import Lane, LaneState, Position, open_lanes
from anabranch.model.ssp import SSP, wholes
from anabranch.planning import patterns
from anabranch.planning import plan as planning
from anabranch.planning.plan import Plan
from anabranch.planning.transition import expand, rescale, rewind
from anabranch.planning.transition.change import Change
from anabranch.protocol.commands import ExpandRequest
from anabranch.protocol.container import Registration
from anabranch.protocol.deployment import StartRequest
from anabranch.systems.embedded import EmbeddedSystem
from tests.unit.coordinator.helpers import Clock
from tests.unit.coordinator.inputs import Counts
from tests.unit.coordinator.programs import PROGRAM
from tests.unit.coordinator.workers import Worker
from tests.unit.planning.factory import around, new_id

PATTERN = "in-.*"
KINDS = ("outputs-embedded", "counted")


def job() -> Job:
    made = Job("j")
    rows = made.read("in", key="k string", schema="n int")
    rows.where("n > 0").write("in-out")
    rows.agg(n="count(*)", name="counted").write("counts")
    return made


def matched(*streams: str, pattern: str = PATTERN) -> dict[str, Matched]:
    return {"in": Matched(system="embedded", pattern=pattern, streams=streams)}


def planned(made: Job, grouper: str = "partition", factor: int = 1, containers: int = 1, **counts: int) -> Plan:
    """``counts``: of the streams that match, ``in_a`` for ``in-a``, and of others."""
    surroundings = around(grouper, factor, containers, **counts)
    its = matched(*(name for name in surroundings.partitions if name.startswith("in-")))
    return planning.make(made.graph, replace(surroundings, patterns=its))


def named(counts: Mapping[str, int]) -> dict[str, int]:
    return {f"embedded/in-{stream}": count for stream, count in counts.items()}


def found(made: Job, *there: str, known: JobModel | None = None, new: bool = True, pattern: str = PATTERN) -> Any:
    every = {"in": pattern, "other": "never-read"}
    its = patterns.found(made.graph, every, {"in": "embedded"}, {"embedded": there}, known, new)
    return its["in"].streams


# --- which streams an input has ---------------------------------------------------------------------------------------


def test_all_that_match_and_that_the_job_does_not_write_itself() -> None:
    there = ("in-b", "in-a", "in-out", "in-dead-letters", "begin-c", "in", "counts")
    assert found(job(), *there) == ("in-a", "in-b")
    assert found(job(), "j-markers", "j-controls", "j-trips", pattern="j-.*") == ("j-trips",)


def test_the_whole_name_has_to_match() -> None:
    assert found(job(), "in-a", "in-ab", pattern="in-.") == ("in-a",)


def test_one_that_is_read_by_its_name_is_not_read_twice() -> None:
    made = job()
    made.read("in-b", schema="n int").write("bs")
    assert found(made, "in-a", "in-b") == ("in-a",)


def test_streams_that_come_are_the_last_ones() -> None:
    model = planned(job(), in_b=2, in_c=2).model
    assert found(job(), "in-a", "in-b", "in-c", known=model) == ("in-b", "in-c", "in-a")
    assert found(job(), "in-a", "in-b", "in-c", known=model, new=False) == ("in-b", "in-c")


def test_none_at_all_or_one_that_is_gone_is_an_error() -> None:
    with pytest.raises(NotFoundError, match=r"read 'in' .*no stream in embedded has a name that matches 'in-\.\*'"):
        found(job(), "other", "begin-a")
    model = planned(job(), in_a=2, in_b=2).model
    for pattern, there in ((PATTERN, ("in-a",)), ("in-a", ("in-a", "in-b"))):
        with pytest.raises(NotFoundError, match="has read stream 'in-b' so far"):
            found(job(), *there, known=model, pattern=pattern)


def test_what_cannot_be_many_streams_is_refused() -> None:
    made = Job("j")
    rows = made.read("rows", key="k string", schema="n int")
    rows.merge(made.read("in", key="k string", schema="n int", broadcast=True)).write("out")
    with pytest.raises(GraphError, match=r"read 'in'.*is a broadcast, and is bound to the pattern"):
        patterns.check(made.graph, {"in": PATTERN})
    with pytest.raises(GraphError, match=r"write 'out'.*is an output"):
        patterns.check(made.graph, {"out": PATTERN})
    patterns.check(made.graph, {"rows": PATTERN})


@pytest.mark.parametrize(
    ("stream", "says"),
    [
        ({"pattern": "in-("}, "is no regular expression"),
        ({"pattern": PATTERN, "topic": "in", "system": "kafka"}, "topic is for one stream"),
        ({"pattern": PATTERN, "delivery": "at-least-once", "system": "kafka"}, "delivery is for one stream"),
        ({"pattern": PATTERN, "format": "confluent"}, "which subject"),
    ],
)
def test_settings_that_make_no_sense(stream: dict[str, str], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        Settings(streams={"in": stream})  # type: ignore[dict-item]


# --- a plan -----------------------------------------------------------------------------------------------------------


def test_a_plan_has_all_of_them_and_one_stream_of_dead_letters() -> None:
    plan = planned(job(), in_a=2, in_b=4, grouper="cogroup")
    (stage,) = plan.model.stages
    assert stage.inputs == ("embedded/in-a", "embedded/in-b")
    assert stage.patterns == matched("in-a", "in-b")
    for lane in plan.lanes:
        assert {ssp.stream for ssp in lane.ssps} == {"in-a", "in-b"}
        assert lane.matched == {"in": ("in-a", "in-b")}
        assert lane.dead_letters == {"in-a": "in-dead-letters", "in-b": "in-dead-letters"}
        assert lane.outputs["in-dead-letters"] == 4
    with pytest.raises(GraphError, match=r"in-a \(2 partitions\) and embedded/in-b \(4\) by key"):
        planned(job(), in_a=2, in_b=4)


# --- streams that come ------------------------------------------------------------------------------------------------


def lanes_of(plan: Plan) -> dict[str, Lane]:
    return {lane.id: lane for lane in planning.lanes_of(plan, 4, new_id)}


@pytest.mark.parametrize(
    ("grouper", "first", "count", "says"),
    [
        ("partition", {"in_a": 2}, 4, "in-b has come with 4 partitions, and embedded/in-a had 2"),
        ("ssp", {"in_a": 2}, 2, "grouper 'ssp' would put a key of theirs"),
        ("cogroup", {"in_a": 4}, 6, "in-b has 6 partitions, and stage 0 has 4 groups of keys"),
    ],
)
def test_a_stream_that_would_part_keys_is_refused(grouper: str, first: dict[str, int], count: int, says: str) -> None:
    plan = planned(job(), grouper, **first)
    with pytest.raises(ConflictError, match=says):
        expand.expanded(job().graph, plan.model, lanes_of(plan), {"embedded/in-b": count}, new_id)


def test_it_counts_with_how_many_partitions_streams_began() -> None:
    plan = planned(job(), in_a=2)
    wide = expand.expanded(job().graph, plan.model, lanes_of(plan), {"embedded/in-a": 4}, new_id)
    both = expand.expanded(
        job().graph, wide.model, {lane.id: lane for lane in wide.lanes}, {"embedded/in-b": 2}, new_id
    )
    assert [len(task.ssps) for task in both.model.stages[0].tasks] == [3, 3]


def test_one_stream_for_two_inputs_is_refused() -> None:
    made = job()
    made.read("more", key="k string", schema="n int").merge(made.read("in", key="k string", schema="n int"))
    stage = planned(job(), in_a=2).model.stages[0]
    two = {**stage.patterns, "more": Matched(system="embedded", pattern=".*-b", streams=("x-b",))}
    with pytest.raises(ConflictError, match="in-b matches the patterns of in and more"):
        patterns.widened(msgspec.structs.replace(stage, patterns=two), ["embedded/in-b"])


def test_others_do_not_come() -> None:
    model = planned(job(), in_a=2).model
    there = {"embedded/in-a": 2, "embedded/in-out": 2, "kafka/in-b": 2, "embedded/begin": 1, "embedded/in-c": 0}
    assert patterns.coming(job().graph, model, there) == []
    assert expand.seen(job().graph, model, {**there, "embedded/in-b": 3}) == {"embedded/in-a": 2, "embedded/in-b": 3}


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
                keys, begins = self.streams[whole.stream.removeprefix("in-")][whole.partition], floors(lane, whole)
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


@settings(max_examples=500, deadline=None)
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


# --- the coordinator --------------------------------------------------------------------------------------------------


def start(**counts: int) -> StartRequest:
    made = job()
    plan = planned(made, **counts)
    return StartRequest(
        graph=made.graph, model=plan.model, lanes=planning.lanes_of(plan, 4, new_id), fingerprint={}, program=PROGRAM
    )


def test_a_coordinator_lets_streams_come() -> None:
    counts, clock = Counts(), Clock()
    counts.counts = named({"a": 2})
    coordinator = Coordinator(Store("sqlite://"), clock=clock, lease=10, grace=2, counting=counts)
    coordinator.start(start(in_a=2))
    worker = Worker(coordinator)
    worker.turns()
    counts.counts = {**named({"a": 2, "b": 2, "out": 1})}
    dry = coordinator.expand("j", ExpandRequest(dry=True))
    assert dry.partitions == named({"b": 2})
    coordinator.look()
    assert coordinator.status("j").inputs == named({"a": 2, "b": 2})
    worker.turns()
    status = coordinator.status("j")
    assert (status.state, status.generation) == ("running", 2)
    (why,) = [event.why for event in coordinator.events("j") if "running → changing" in event.what]
    assert why == "embedded/in-b has come, with 2 partitions"
    for each in status.lanes:
        assert set(map(str, each.lane.fresh)) == {"embedded/in-b/0", "embedded/in-b/1"}
        assert each.lane.dead_letters == {"in-a": "in-dead-letters", "in-b": "in-dead-letters"}
    counts.counts = named({"a": 2, "b": 2, "c": 4})
    clock.at += 60
    coordinator.look()
    (warning,) = coordinator.status("j").warnings
    assert "in-c has come with 4 partitions" in warning
    counts.counts = named({"a": 2, "b": 0})
    clock.at += 60
    coordinator.look()
    (warning,) = coordinator.status("j").warnings
    assert "embedded/in-b is gone" in warning


def test_the_racks_of_streams_that_come_are_looked_up() -> None:
    counts, asked = Counts(), list[list[str]]()

    def racks(job: str, settings: Any, streams: Any) -> dict[str, Any]:
        asked.append(list(streams))
        return {}

    counts.counts = named({"a": 2, "b": 2})
    coordinator = Coordinator(Store("sqlite://"), clock=Clock(), lease=10, grace=2, counting=counts, locating=racks)
    coordinator.start(start(in_a=2))
    coordinator.register(Registration(job="j", execution="execution-1", host="here", pid=1, rack="a"))
    Worker(coordinator).turns()
    coordinator.expand("j", ExpandRequest(dry=True))
    coordinator.look()
    assert asked == [["embedded/in-a", "embedded/in-b"]] * 2


def test_systems_are_asked_for_all_that_match(tmp_path: Any) -> None:
    system = EmbeddedSystem(tmp_path)
    for stream, partitions in (("in-a", 2), ("in-b", 3), ("other", 1)):
        system.create(stream, partitions)
    given = {"systems": {"embedded": {"root": str(tmp_path)}}}
    found = counted("j", given, ["embedded/in-a", "embedded/in-z"], matched("in-a").values())
    assert found == {"embedded/in-a": 2, "embedded/in-b": 3, "embedded/in-z": 0}
    with pytest.raises(AnabranchError):
        counted("j", given, [], [Matched(system="nowhere", pattern=".*", streams=())])


def test_a_source_comes_into_an_entry_of_the_offset_log() -> None:
    lines = ["v1", '{"batchWatermarkMs": 0}', '{"in-a": {"0": 5}}', "-", '{"other": {"0": 1}}']
    wider = offset_log.parse("\n".join(lines)).with_source(1, {"in-b": {}})
    assert offset_log.format(wider).split("\n")[2:] == [lines[2], '{"in-b": {}}', *lines[3:]]
    assert wider.with_positions(wider.streams()["in-b"], {0: 7}).positions(1) == {0: 7}
