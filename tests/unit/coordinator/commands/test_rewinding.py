"""A rewind: where lanes begin again, what becomes of state and of what lies between stages, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from anabranch import Job
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.store import Store
from anabranch.coordinator.streams import start_offsets
from anabranch.errors import AnabranchError, ConflictError, NotFoundError
from anabranch.event_time import progress
from anabranch.event_time.control import Control
from anabranch.event_time.progress import Progress, Upstream
from anabranch.model.lane import Lane, LaneState, Position, Rewind
from anabranch.model.ssp import SSP
from anabranch.planning import plan as planning
from anabranch.planning.ownership import positions
from anabranch.planning.transition import rewind
from anabranch.protocol.commands import RewindRequest, ScaleRequest
from anabranch.protocol.container import Heartbeat, WantedLane
from anabranch.protocol.deployment import StartRequest
from anabranch.protocol.lane_report import LanePhase
from anabranch.systems.records import RECORD_SCHEMA, iso_text
from anabranch.systems.systems import Systems
from tests.unit.coordinator.helpers import Clock
from tests.unit.coordinator.programs import PROGRAM
from tests.unit.coordinator.rewinds import AT, PARTITIONS, begun, coordinator, systems
from tests.unit.coordinator.rewound import MID, Chain, clear
from tests.unit.coordinator.workers import JOB, Worker, lose, open_lanes, running
from tests.unit.planning.factory import around, job, new_id

__all__ = ["coordinator", "systems"]  # fixtures


@pytest.fixture
def ends(systems: Systems) -> dict[str, int]:
    return {f"embedded/in/{p}": end for p, end in systems.named("embedded").ends("in").items()}


def chained(
    store: Store, clock: Clock, systems: Systems, until_caught_up: bool = False
) -> tuple[Coordinator, Worker, str, str]:
    """Two stages that run, and the lanes of both."""
    chain = Chain(1)
    plan = planning.make(chain.graph, around(**{"in": PARTITIONS}))
    lanes = planning.lanes_of(plan, 4, new_id)
    given: dict[str, Any] = {"until_caught_up": until_caught_up, "program": PROGRAM, "fingerprint": {}}
    coordinator = Coordinator(store, clock=clock, lease=10, grace=2, systems=systems)
    coordinator.start(StartRequest(graph=chain.graph, model=plan.model, lanes=lanes, **given))
    worker = Worker(coordinator)
    worker.turns()
    writer, reader = (lane.id for lane in lanes)
    return coordinator, worker, writer, reader


class Telling(Worker):
    """A container whose lanes say where the stream between the stages ended if they were told to close."""

    def do(self, one: WantedLane) -> None:
        super().do(one)
        wrote = {f"embedded/{MID}/{p}": 40 for p in range(PARTITIONS)} if MID in one.lane.outputs else {}
        told = self.reports[one.lane.id]
        self.reports[one.lane.id] = told.changed(wrote=wrote if one.closing else {})


def counted_again(coordinator: Coordinator) -> str:
    return next(lane.id for lane in open_lanes(coordinator) if lane.stateful)


def running_(lanes: dict[str, Lane]) -> dict[str, Lane]:
    return {name: msgspec.structs.replace(lane, state=LaneState.RUNNING) for name, lane in lanes.items()}


def test_lanes_begin_again_and_state_is_cleared(coordinator: Coordinator, store: Store) -> None:
    worker = running(coordinator)
    worker.read = 3
    worker.turns()
    before = {lane.id for lane in open_lanes(coordinator)}
    told = coordinator.rewind(JOB, clear())
    assert (told.generation, told.to) == (2, {"embedded/in/0": 0, "embedded/in/1": 0})
    assert {lane.id for lane in told.closing} == before
    assert coordinator.status(JOB).state == "changing"
    worker.turns()
    assert coordinator.status(JOB).state == "running"
    assert begun(coordinator) == {"outputs-embedded": [0, 0], "counted": [0, 0]}
    assert all(store.lanes(JOB)[name].final[0].offset == 3 for name in before)
    counted = next(lane for lane in open_lanes(coordinator) if lane.stateful)
    assert (counted.first_batch, counted.watermark) == (0, None)
    whys = [event.why for event in coordinator.events(JOB)]
    assert "rewound to earliest, state: clear: embedded/in/0 at 0, embedded/in/1 at 0" in whys


def test_state_is_kept_where_that_is_said(coordinator: Coordinator) -> None:
    worker = running(coordinator)
    worker.read = 5
    worker.turns()
    coordinator.rewind(JOB, RewindRequest(to={"embedded/in/1": 2}, state="keep"))
    worker.turns()
    assert begun(coordinator) == {"outputs-embedded": [5, 2], "counted": [5, 2]}
    counted = next(lane for lane in open_lanes(coordinator) if lane.stateful)
    assert (counted.first_batch, list(counted.inherits)) == (8, list(counted.predecessors))


def test_nothing_is_skipped(coordinator: Coordinator) -> None:
    worker = running(coordinator)
    worker.read = 1
    worker.turns()
    coordinator.rewind(JOB, clear({"embedded/in/0": 0, "embedded/in/1": 4}))
    worker.turns()
    assert begun(coordinator)["counted"] == [0, 1]


def test_said_twice_it_is_done_once(coordinator: Coordinator) -> None:
    worker = running(coordinator)
    coordinator.rewind(JOB, clear(request="r"))
    assert coordinator.rewind(JOB, clear(request="r")).lanes == ()
    with pytest.raises(ConflictError, match="is changing: only one that is running"):
        coordinator.rewind(JOB, clear(request="s"))
    worker.turns()
    assert coordinator.rewind(JOB, clear(request="r")).generation == 2
    assert coordinator.rewind(JOB, clear(request="s")).generation == 3


def test_a_dry_run_changes_nothing(coordinator: Coordinator) -> None:
    running(coordinator)
    before = open_lanes(coordinator)
    told = coordinator.rewind(JOB, clear(dry=True))
    assert (len(told.lanes), len(told.closing), told.generation) == (2, 2, 2)
    assert (coordinator.status(JOB).state, open_lanes(coordinator)) == ("running", before)


def test_it_is_cancelled_until_a_lane_has_begun(coordinator: Coordinator, store: Store) -> None:
    worker = running(coordinator)
    worker.read = 3
    worker.turns()
    coordinator.rewind(JOB, clear())
    worker.turn()
    coordinator.cancel(JOB)
    worker.turns(6)
    assert coordinator.status(JOB).state == "running"
    assert begun(coordinator) == {"outputs-embedded": [3, 3], "counted": [3, 3]}
    model = store.model(JOB, 1, 3)
    assert (model.undoes, model.rewound) == (2, ())
    counted = next(lane for lane in open_lanes(coordinator) if lane.stateful)
    assert counted.first_batch == 8
    assert counted.inherits.keys() != set(counted.predecessors)  # the state is that of the lane before the rewound one
    coordinator.rewind(JOB, clear())
    worker.turns(2)
    worker.seat.beat(*(told for name, told in worker.reports.items() if name != counted_again(coordinator)))
    assert any(lane.begun for lane in open_lanes(coordinator))
    with pytest.raises(ConflictError, match="begun to process records again"):
        coordinator.cancel(JOB)


def test_it_is_not_cancelled_once_a_query_may_run_that_nobody_has_heard_of(coordinator: Coordinator) -> None:
    """What the query has written already would be counted in state a second time."""
    worker = running(coordinator)
    worker.read = 3
    worker.turns()
    coordinator.rewind(JOB, clear())
    worker.turns(2)
    worker.seat.beat(*(told.changed(phase=LanePhase.STARTING) for told in worker.reports.values()))
    assert not any(lane.begun for lane in open_lanes(coordinator))
    with pytest.raises(ConflictError, match="begun to process records again"):
        coordinator.cancel(JOB)


def test_a_rewound_lane_that_cannot_start_takes_all_back(coordinator: Coordinator) -> None:
    worker = running(coordinator)
    worker.read = 3
    worker.turns()
    worker.fails = lambda lane: lane.rewind is not None and not lane.rewind.back
    coordinator.rewind(JOB, clear())
    worker.turns(6)
    assert coordinator.status(JOB).state == "running"
    assert begun(coordinator) == {"outputs-embedded": [3, 3], "counted": [3, 3]}


def test_a_rewind_holds_whoever_dies(coordinator: Coordinator, store: Store, clock: Clock, systems: Systems) -> None:
    worker = running(coordinator)
    worker.read = 3
    worker.turns()
    coordinator.rewind(JOB, clear())
    after = Coordinator(store, clock=clock, lease=10, grace=2, systems=systems)
    after.adopt(JOB)
    worker = lose(after, clock)
    worker.read = 2
    worker.turns()
    assert begun(after) == {"outputs-embedded": [0, 0], "counted": [0, 0]}


@pytest.mark.parametrize(
    "order", ["it leaves first", "it ends first", "the rewind is first", "another coordinator leads"]
)
def test_a_container_that_ends_and_knows_of_no_rewind_is_followed_by_one_that_does(
    store: Store, clock: Clock, systems: Systems, order: str
) -> None:
    """Where the stream between the stages ended is known only once the next container has closed the writers."""
    coordinator, worker, writer, _ = chained(store, clock, systems)
    worker.read = 10
    worker.turns()
    ended = tuple(report.changed(phase=LanePhase.ENDED) for report in worker.reports.values())
    seat = worker.seat

    def beat(leaving: bool) -> None:
        seat.number += 1
        assert coordinator.heartbeat(
            Heartbeat(
                container=seat.me.container,
                epoch=seat.me.epoch,
                number=seat.number,
                seen=seat.seen,
                lanes=ended,
                leaving=leaving,
            )
        ).alive

    if order != "the rewind is first":
        beat(leaving=order == "it leaves first")
    coordinator.rewind(JOB, clear())
    if order == "another one leads":
        coordinator = Coordinator(store, clock=clock, lease=10, grace=2, systems=systems)
        coordinator.adopt(JOB)
    if order != "it leaves first":
        beat(leaving=True)
    assert (coordinator.status(JOB).state, store.lanes(JOB)[writer].state) == ("changing", "closing")
    after = Telling(coordinator, pid=2)
    after.turns(6)
    assert coordinator.status(JOB).state == "running"
    assert begun(coordinator) == {"outputs-embedded": [0] * PARTITIONS, "counted": [40] * PARTITIONS}


def test_a_job_is_scaled_after_it_was_rewound(coordinator: Coordinator, store: Store) -> None:
    worker = running(coordinator)
    worker.read = 5
    worker.turns()
    coordinator.rewind(JOB, clear())
    worker.read = 2
    worker.turns()
    coordinator.scale(JOB, ScaleRequest(factor=2))
    worker.turns()
    assert begun(coordinator)["outputs-embedded"] == [2] * 4
    assert store.model(JOB, 1, 3).rewound == ()


@pytest.mark.parametrize(
    ("wish", "match"),
    [
        (RewindRequest(to="earliest"), "(?s)has state in counted.*--state clear.*--state keep"),
        (clear({"embedded/in/0": 0}), "it also depends on embedded/in/1"),
        (clear({"embedded/in/0": 99, "embedded/in/1": 0}), "no offset 99: that is beyond its end"),
        (clear({"embedded/in/0": -1, "embedded/in/1": 0}), "no offset -1: that is before its first record, 0"),
        (clear({"embedded/in/2": 0}), "(?s)the stream has no such partition.*embedded/in/0 to 1"),
        (clear({"embedded/out/0": 0}), "none of the streams that it reads"),
        (clear({"embedded/in/0#1": 0}), "a bucket has no position of its own"),
        (clear({"in": 0}), "'in' is not an SSP"),
        (clear({}), "no positions to rewind to"),
        (clear("latest"), "'latest' isn't a place to rewind to"),
        (clear("2026-01-01T10:00:00"), "has no offset from UTC"),
        (clear("2999-01-01T10:00:00Z"), "is in the future"),
        (clear("2025-01-01T10:00:00Z"), "no record that job 'j' reads has the time"),
    ],
)
def test_what_cannot_be_is_refused(coordinator: Coordinator, wish: RewindRequest, match: str) -> None:
    running(coordinator)
    with pytest.raises(AnabranchError, match=match):
        coordinator.rewind(JOB, wish)
    assert coordinator.status(JOB).state == "running"


def test_a_job_that_does_not_run_is_refused(coordinator: Coordinator) -> None:
    with pytest.raises(NotFoundError):
        coordinator.rewind(JOB, clear())
    worker = running(coordinator)
    worker.fails = lambda lane: lane.stateful
    worker.turns()
    with pytest.raises(ConflictError, match="has failed: where others would continue"):
        coordinator.rewind(JOB, clear())


def test_a_time_is_the_first_record_from_then_on(systems: Systems, ends: dict[str, int]) -> None:
    sources = [SSP.parse(text) for text in ends]
    at = datetime.fromtimestamp(AT / 1000 + 7, UTC)
    found = start_offsets.offsets(at.isoformat(), JOB, sources, systems)
    assert sum(found.values()) == 7
    assert start_offsets.offsets((at - timedelta(milliseconds=1)).isoformat(), JOB, sources, systems) == found
    assert sum(start_offsets.offsets((at + timedelta(milliseconds=1)).isoformat(), JOB, sources, systems).values()) == 8
    assert start_offsets.instant("2026-11-22T11:00:00+01:00") == start_offsets.instant("2026-11-22T10:00:00Z")


@pytest.mark.parametrize(("micros", "offset"), [(123_100, 0), (123_101, 1), (123_900, 1), (123_901, 2), (123_950, 2)])
def test_a_time_is_exact_to_the_microsecond(systems: Systems, micros: int, offset: int) -> None:
    embedded = systems.named("embedded")
    embedded.create("fine", 1)
    times = [AT * 1000 + each for each in (123_100, 123_900, 123_950)]
    rows = [{"key": None, "value": b"", "headers": None, "timestamp": time} for time in times]
    with embedded.appender("fine") as appender:
        appender.append(pa.RecordBatch.from_pylist(rows, RECORD_SCHEMA))
    to = iso_text(AT * 1000 + micros)
    assert start_offsets.offsets(to, JOB, [SSP.parse("embedded/fine/0")], systems) == {"embedded/fine/0": offset}


def test_without_state_nothing_need_be_said_of_it() -> None:
    made = job(stateful=False)
    plan = planning.make(made.graph, around(**{"in": 1}))
    lanes = {lane.id: lane for lane in planning.lanes_of(plan, 4, new_id)}
    change = rewind.rewound(made.graph, plan.model, lanes, {"embedded/in/0": 0}, None, new_id)
    (lane,) = change.lanes
    assert lane.rewind is not None
    assert (lane.rewind.clear, lane.rewind.after) == (False, ())
    assert lane.beside == {lane.id: lane.predecessors}


def test_what_is_ahead_of_it_is_lowered_and_no_more() -> None:
    ssp = SSP(system="embedded", stream="in", partition=0)
    parted = Position(ssp=ssp, offset=3, parts={"0/2": 3, "1/2": 9})
    assert positions.lowered(parted, 1, 5) == Position(ssp=ssp, offset=3, parts={"0/2": 3, "1/2": 5})
    assert positions.lowered(parted, 1, 2) == Position(ssp=ssp, offset=2)


def test_event_time_begins_anew_and_heeds_no_lane_from_before() -> None:
    """Whatever those tell that wrote the stream: else what is read again would be late."""
    ssp = "embedded/mid/0"
    left = Progress(50, {}, {ssp: Upstream(4, {"old": 50}, {"older": frozenset()})})
    begun = progress.cleared(left, [ssp], ["old", "silent"])
    assert (begun.watermark, begun.upstream[ssp].cursor) == (None, 4)
    told = [
        Control("old", 60, ("older",), {"old": ("older",)}),
        Control("silent", 70),
        Control("new", 5, ("old",), {"new": ("old",), "beside": ("silent",)}),
    ]
    heard = begun.upstream[ssp].after(told, 7)
    assert heard.heard == {"new": 5, "beside": None}
    assert heard.after([Control("beside", 6, ("silent",))], 8).watermark == 5


def test_nothing_begins_before_all_that_wrote_between_the_stages_is_closed(
    store: Store, clock: Clock, systems: Systems
) -> None:
    """Else what is written again would be taken for what lay there before."""
    coordinator, worker, writer, reader = chained(store, clock, systems)
    told = coordinator.rewind(JOB, clear())
    worker.closes = False
    worker.turns()
    worker.seat.beat(worker.reports[writer], worker.reports[reader].changed(phase=LanePhase.ENDED))
    assert coordinator.known_lanes(JOB)[reader].state is LaneState.CLOSED
    assert not any(coordinator.known_lanes(JOB)[lane.id].starting for lane in told.lanes)
    wrote = {f"embedded/{MID}/0": 9, f"embedded/{MID}/1": 4}
    worker.seat.beat(worker.reports[writer].changed(phase=LanePhase.ENDED, wrote=wrote))
    begins = {lane.stage: coordinator.known_lanes(JOB)[lane.id].starting for lane in told.lanes}
    assert [position.offset for position in begins["0"]] == [0, 0]
    assert [position.offset for position in begins["1"]] == [9, 4]


def test_a_rewound_lane_that_has_begun_unheard_is_taken_back_to_where_anyone_was() -> None:
    """What it has read beyond its predecessor isn't read again; but state is that of the predecessor."""
    made = job()
    plan = planning.make(made.graph, around(**{"in": 1}))
    lanes = {lane.id: lane for lane in planning.lanes_of(plan, 4, new_id)}

    def closed(lane: Lane, offset: int) -> Lane:
        final = (Position(ssp=SSP(system="embedded", stream="in", partition=0), offset=offset),)
        return msgspec.structs.replace(lane, state=LaneState.CLOSED, final=final, last_batch=3, folder_epoch=1)

    lanes = {name: closed(lane, 3) for name, lane in lanes.items()}
    change = rewind.rewound(made.graph, plan.model, running_(lanes), {"embedded/in/0": 0}, "keep", new_id)
    again = {lane.id: closed(rewind.opened(lane, lanes), 7) for lane in change.lanes}
    back = rewind.undone(change.model, running_(again), new_id)
    found = [rewind.opened(lane, {**lanes, **again}) for lane in back.lanes]
    assert {lane.group: lane.starting[0].offset for lane in found} == {"outputs-embedded": 7, "counted": 3}


def test_a_lane_waits_for_nothing_from_a_rewound_one_that_has_failed(
    store: Store, clock: Clock, systems: Systems
) -> None:
    """It wasn't closed itself: those that it was planned to be fed by are no more."""
    coordinator, worker, _, reader = chained(store, clock, systems, until_caught_up=True)
    (again,) = coordinator.rewind(JOB, RewindRequest(to="earliest", state="keep")).lanes
    worker.turns()
    assert coordinator.status(JOB).state == "running"
    assert coordinator.known_lanes(JOB)[reader].state is LaneState.RUNNING
    worker.fails = lambda lane: lane.id == again.id
    worker.turns()
    assert coordinator.status(JOB).state == "failed"


def test_a_broadcast_partition_is_rewound_for_all_tasks() -> None:
    """Also for those that were further than others."""
    made = Job("j")
    rows = made.read("in", key="k string", schema="n int")
    rows.merge(made.read("rules", key="k string", schema="n int", broadcast=True)).write("out")
    plan = planning.make(made.graph, around(**{"in": 1, "rules": 1}))
    (lane,) = planning.lanes_of(plan, 4, new_id)
    whole, rules = (SSP(system="embedded", stream=stream, partition=0) for stream in ("in", "rules"))
    starting = (Position(ssp=whole, offset=0), Position(ssp=rules, offset=3, parts={"0:1/2": 9}))
    final = (Position(ssp=whole, offset=4), Position(ssp=rules, offset=6))
    closed = msgspec.structs.replace(lane, state=LaneState.CLOSED, starting=starting, final=final, last_batch=1)
    to = {"embedded/rules/0": 7}
    (again,) = rewind.rewound(made.graph, plan.model, running_({lane.id: lane}), to, None, new_id).lanes
    found = rewind.opened(again, {lane.id: closed})
    assert found.starting[1] == Position(ssp=rules, offset=6, parts={"0:1/2": 7})
    low = msgspec.structs.replace(again, rewind=Rewind(to={"embedded/rules/0": 2}))
    assert rewind.opened(low, {lane.id: closed}).starting[1] == Position(ssp=rules, offset=2)
