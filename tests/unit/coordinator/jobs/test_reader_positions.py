"""What a job has still to read, as its coordinator stores it beside the job's inputs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from anabranch import Job
from anabranch.config import Settings
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.jobs import reader_positions
from anabranch.coordinator.store import Store
from anabranch.coordinator.streams import start_offsets
from anabranch.errors import OutOfTimeError
from anabranch.model.lane import Lane, LaneState, Position, Rewind
from anabranch.model.ssp import SSP
from anabranch.planning import plan as planning
from anabranch.planning import stages
from anabranch.protocol.commands import ScaleRequest
from anabranch.protocol.deployment import StartRequest
from anabranch.protocol.lane_report import LaneReport
from anabranch.systems.embedded import LaneWriter, Log
from anabranch.systems.systems import Systems
from tests.support.costs import ALLOWED, calls
from tests.support.reports import lane_report
from tests.unit.coordinator import drainer, workers
from tests.unit.coordinator.helpers import Clock
from tests.unit.coordinator.programs import PROGRAM
from tests.unit.coordinator.workers import JOB, start
from tests.unit.planning.factory import around, new_id
from tests.unit.systems.embedded.helpers import put

IN = ("embedded", "in")
ZERO, ONE = SSP.parse("embedded/in/0"), SSP.parse("embedded/in/1")


def lane(name: str, *ssps: SSP, **fields: Any) -> Lane:
    return Lane(
        id=name, job=JOB, deployment=1, stage="0", group="g", seat="0", tasks=(), ssps=ssps or (ZERO,), **fields
    )


def ended(offset: int, ssp: SSP = ZERO) -> dict[str, Any]:
    return {"state": LaneState.CLOSED, "final": (Position(ssp=ssp, offset=offset),)}


def report(name: str, batch: int = 7, **positions: int) -> LaneReport:
    at = {f"embedded/in/{number.removeprefix('p')}": offset for number, offset in positions.items()}
    return lane_report(lane=name, phase="running", positions=at, batch=batch)


def begun(offset: int, *predecessors: str, **fields: Any) -> dict[str, Any]:
    return {"starting": (Position(ssp=ZERO, offset=offset),), "predecessors": predecessors, **fields}


CASES: dict[str, tuple[list[Lane], list[LaneReport], Mapping[int, int]]] = {
    "a lane that reports": ([lane("a")], [report("a", p0=5)], {0: 5}),
    "a lane that doesn't": ([lane("a")], [], {}),
    "one of two lanes doesn't": ([lane("a"), lane("b", ZERO, ONE)], [report("a", p0=5)], {}),
    "two lanes read a partition": ([lane("a"), lane("b")], [report("a", p0=5), report("b", p0=3)], {0: 3}),
    "each its own": ([lane("a"), lane("b", ONE)], [report("a", p0=5), report("b", p1=3)], {0: 5, 1: 3}),
    "a broadcast input": ([lane("a", ONE, broadcast=(ZERO,))], [report("a", p0=5, p1=3)], {0: 5, 1: 3}),
    "before its first batch": ([lane("a")], [report("a", -1, p0=2)], {0: 2}),
    "a lane that was stopped": ([lane("a", final=(Position(ssp=ZERO, offset=6),))], [], {0: 6}),
    "a successor that hasn't begun": ([lane("a", **ended(6)), lane("b", predecessors=("a",))], [], {0: 6}),
    "one whose start is known": ([lane("a", **ended(6)), lane("b", **begun(5, "a"))], [], {0: 5}),
    "one that has begun": ([lane("a", **ended(6)), lane("b", **begun(6, "a"))], [report("b", p0=9)], {0: 9}),
    "one predecessor unknown": (
        [lane("a", **ended(6)), lane("c", state=LaneState.CLOSING), lane("b", predecessors=("a", "c"))],
        [],
        {},
    ),
    "one that closes": ([lane("a", state=LaneState.CLOSING)], [report("a", p0=5)], {0: 5}),
    "rewound, and not begun": (
        [lane("a", **ended(6)), lane("b", predecessors=("a",), rewind=Rewind(to={str(ZERO): 2}))],
        [],
        {0: 2},
    ),
    "rewound, with a copied folder": (
        [lane("a", **ended(6)), lane("b", **begun(6, "a", rewind=Rewind(to={str(ZERO): 2}), first_batch=8))],
        [report("b", 7, p0=6)],
        {0: 2},
    ),
    "rewound, and begun": (
        [lane("a", **ended(6)), lane("b", **begun(6, "a", rewind=Rewind(to={str(ZERO): 2}), first_batch=8))],
        [report("b", 8, p0=3)],
        {0: 3},
    ),
    "a rewind undone": (
        [
            lane("a", **ended(6)),
            lane("b", predecessors=("a",), **ended(9)),
            lane("c", predecessors=("b",), rewind=Rewind(back=True)),
        ],
        [],
        {0: 6},
    ),
    "a lane that has drained before others": (
        [lane("a", **ended(6)), lane("b", SSP.parse("embedded/between/0"))],
        [],
        {0: 6},
    ),
    "a drained job": ([lane("a", **ended(4)), lane("b", predecessors=("a",), **ended(8))], [], {0: 8}),
}


@pytest.mark.parametrize(("lanes", "reports", "expected"), CASES.values(), ids=list(CASES))
def test_what_lanes_have_still_to_read(
    lanes: list[Lane], reports: list[LaneReport], expected: Mapping[int, int]
) -> None:
    known = {each.id: each for each in lanes}
    found = reader_positions.still_to_read(lanes, known, {each.lane: each for each in reports})
    assert found is not None
    assert found[IN] == expected


@pytest.mark.parametrize("reports", [True, False], ids=["running", "stopped"])
def test_twice_the_partitions_are_not_four_times_the_work(reports: bool) -> None:
    def cost(partitions: int) -> int:
        ssps = [SSP.parse(f"embedded/in/{number}") for number in range(partitions)]
        final = tuple(Position(ssp=ssp, offset=3) for ssp in ssps)
        lanes = [lane("a", *ssps, state=LaneState.CLOSED, final=final), lane("b", *ssps, predecessors=("a",))]
        its = {"b": report("b", **{f"p{number}": 5 for number in range(partitions)})} if reports else {}
        known = {each.id: each for each in lanes}
        return calls(lambda: reader_positions.still_to_read(lanes, known, its))

    assert cost(400) < ALLOWED * cost(200)


def test_without_lanes_nothing_is_known() -> None:
    assert reader_positions.still_to_read([], {}, {}) is None


def test_a_stream_that_is_read_no_more_is_left_out() -> None:
    lanes = [lane("a", SSP.parse("embedded/former/0"), state=LaneState.CLOSED), lane("b", predecessors=("a",))]
    found = reader_positions.still_to_read(lanes, {each.id: each for each in lanes}, {})
    assert found == {IN: {}}


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        ({0: 5}, {0: 7}, {0: 5}),
        ({0: 7}, {0: 5}, {0: 5}),
        ({0: 5}, {0: 7, 1: 3}, {0: 5}),
        ({0: 5, 1: 3}, {0: 7}, {0: 5}),
    ],
)
def test_what_was_passed_before_and_still_is(
    before: Mapping[int, int], now: Mapping[int, int], expected: Mapping[int, int]
) -> None:
    assert reader_positions.common(before, now) == expected


@pytest.fixture
def systems(tmp_path: Path) -> Systems:
    return Systems(Settings(systems={"embedded": {"root": str(tmp_path / "streams")}}), JOB)  # type: ignore[arg-type]


@pytest.fixture
def log(tmp_path: Path) -> Log:
    found = Log(tmp_path / "streams")
    for stream in ("in", "former"):
        found.create(stream, 2)
        found.readers(stream).hold_all(JOB)
    return found


def positions(log: Log) -> Mapping[int, int]:
    return log.readers("in").all()[JOB].positions


def test_positions_are_stored_a_minute_later(store: Store, clock: Clock, systems: Systems, log: Log) -> None:
    coordinator = Coordinator(store, clock=clock, systems=systems)
    worker = workers.running(coordinator)
    worker.read = 5
    worker.turns()
    coordinator.reader_positions.look()
    assert positions(log) == {}
    worker.read = 9
    worker.turns()
    clock.at += 59
    coordinator.reader_positions.look()
    assert positions(log) == {}, "not yet"
    clock.at += 1
    coordinator.reader_positions.look()
    assert positions(log) == {0: 5, 1: 5}, "what was read a minute ago, though more is read by now"
    assert log.readers("former").all() == {}, "no lane reads it"


def test_what_was_seen_before_a_reader_chose_anew_does_not_count(
    store: Store, clock: Clock, systems: Systems, log: Log
) -> None:
    coordinator = Coordinator(store, clock=clock, systems=systems)
    worker = workers.running(coordinator)
    worker.read = 5
    worker.turns()
    for _ in range(2):
        coordinator.reader_positions.look()
        clock.at += 60
        log.readers("in").hold_all(JOB)
        log.readers("former").hold_all(JOB)
    coordinator.reader_positions.look()
    assert positions(log) == {}
    assert JOB in log.readers("former").all()
    clock.at += 60
    coordinator.reader_positions.look()
    assert positions(log) == {0: 5, 1: 5}


def test_a_job_that_has_ended_stores_where_it_is(store: Store, clock: Clock, systems: Systems, log: Log) -> None:
    coordinator = Coordinator(store, clock=clock, systems=systems)
    worker = workers.running(coordinator)
    worker.read = 5
    worker.turns()
    coordinator.stop(JOB)
    worker.turns()
    assert coordinator.status(JOB).state == "stopped"
    coordinator.reader_positions.settle(JOB)
    assert positions(log) == {0: 5, 1: 5}


@pytest.mark.parametrize("ends", [True, False], ids=["to its end", "stopped meanwhile"])
def test_a_job_that_drains_stays_a_reader_of_its_inputs(
    store: Store, clock: Clock, systems: Systems, log: Log, ends: bool
) -> None:
    """The lanes that read them close first, and the next deployment reads on from there."""
    coordinator = Coordinator(store, clock=clock, systems=systems)
    worker = drainer.running(coordinator)
    worker.slow = {each.id for each in drainer.lanes_of(store, 1) if each.upstream}
    coordinator.drain(JOB, drainer.said())
    worker.turns(8)
    assert {each.state for each in drainer.sources(store)} == {LaneState.CLOSED}
    for _ in range(3):
        coordinator.reader_positions.look()
        clock.at += 60
    assert positions(log) == {0: 10, 1: 10}
    assert log.readers("former").all() == {}, "no lane of the deployment has ever read it"
    if ends:
        worker.slow = set()
        worker.turns(8)
        assert coordinator.status(JOB).state == "drained"
    coordinator.reader_positions.settle(JOB)
    assert positions(log) == {0: 10, 1: 10}


def between(containers: int = 1, factor: int = 1, partitions: int = 2) -> tuple[StartRequest, str]:
    """A job of two stages, and the stream between them."""
    made = Job(JOB)
    made.read("in", key="k binary", schema="n int").partition_by("n").agg(c="count(*)").write("counts")
    (stream,) = stages.intermediate_streams(made.graph)
    plan = planning.make(
        made.graph, around("partition", factor, containers, **{"in": 2, stream.replace("-", "_"): partitions})
    )
    lanes = planning.lanes_of(plan, 4, new_id)
    return StartRequest(graph=made.graph, model=plan.model, lanes=lanes, fingerprint={}, program=PROGRAM), stream


def filled(log: Log, stream: str, partitions: int = 2) -> None:
    """Four entries of one record in each partition."""
    log.create(stream, partitions)
    for partition in range(partitions):
        writer = LaneWriter(log, JOB, f"writer-{partition}", 1)
        for batch in range(4):
            put(writer, log, stream, partition, batch, b"x")


def started(store: Store, clock: Clock, systems: Systems, log: Log) -> tuple[Coordinator, str, workers.Worker]:
    """A coordinator with a job of two stages, the stream between them, which has records, and the job's container."""
    coordinator = Coordinator(store, clock=clock, systems=systems)
    request, stream = between()
    filled(log, stream)
    coordinator.start(request)
    return coordinator, stream, workers.Worker(coordinator)


def starts(log: Log, stream: str) -> list[int]:
    return [at.offset for _, at in sorted(log.starts(stream).items())]


def test_what_had_been_read_a_minute_ago_is_deleted_between_stages(
    store: Store, clock: Clock, systems: Systems, log: Log
) -> None:
    """Not what was read last: after a power cut, a lane may read that once more."""
    coordinator = Coordinator(store, clock=clock, systems=systems)
    request, stream = between()
    filled(log, stream)
    filled(log, "of-another-job")
    coordinator.start(request)
    worker, found = workers.Worker(coordinator), []
    for seconds, read in ((0, 1), (60, 2), (39, 3), (22, 4), (61, 4)):
        clock.at += seconds
        worker.read = read
        worker.turns()
        coordinator.reader_positions.look()
        found.append(starts(log, stream))
    assert found == [[0, 0], [1, 1], [1, 1], [2, 2], [3, 3]], "the last entry always stays"
    assert starts(log, "of-another-job") == [0, 0]


def test_containers_that_share_partitions_wait_for_each_other(
    store: Store, clock: Clock, systems: Systems, log: Log
) -> None:
    coordinator = Coordinator(store, clock=clock, systems=systems)
    request, stream = between(containers=2, factor=2, partitions=1)
    filled(log, stream, partitions=1)
    coordinator.start(request)
    first, second = workers.Worker(coordinator, "0"), workers.Worker(coordinator, "1", pid=2)
    first.read = 3

    def a_minute() -> list[int]:
        first.turns()
        second.turns()
        coordinator.reader_positions.look()
        clock.at += 60
        return starts(log, stream)

    shared = [
        {ssp.key_bucket for ssp in lane.ssps if (ssp.stream, ssp.partition) == (stream, 0)} for lane in request.lanes
    ]
    assert sum(map(bool, shared)) == 2, "or this shows nothing"
    assert [a_minute() for _ in range(3)] == [[0]] * 3
    second.read = 2
    assert [a_minute() for _ in range(2)] == [[0], [2]]


def test_nothing_is_deleted_during_a_change_because_it_may_be_undone(
    store: Store, clock: Clock, systems: Systems, log: Log
) -> None:
    coordinator, stream, worker = started(store, clock, systems, log)

    def pass_minutes(count: int) -> None:
        for _ in range(count):
            worker.turns()
            coordinator.reader_positions.look()
            clock.at += 60

    worker.read = 3
    worker.turns()
    coordinator.scale(JOB, ScaleRequest(factor=2))
    worker.closes = False
    pass_minutes(3)
    assert (coordinator.status(JOB).state, starts(log, stream)) == ("changing", [0, 0])
    worker.closes = True
    pass_minutes(3)
    assert (coordinator.status(JOB).state, starts(log, stream)) == ("running", [3, 3])


def test_a_job_that_has_ended_deletes_what_it_has_read_between_its_stages(
    store: Store, clock: Clock, systems: Systems, log: Log
) -> None:
    """Otherwise, a job that is run for less than two minutes at a time would never delete anything."""
    coordinator, stream, worker = started(store, clock, systems, log)
    worker.read = 3
    worker.turns()
    coordinator.stop(JOB)
    worker.turns()
    coordinator.reader_positions.settle(JOB)
    assert starts(log, stream) == [3, 3]


@pytest.mark.parametrize("error", [OutOfTimeError("no answer", "try later"), KeyError("of a user's system")])
def test_a_stream_that_cannot_be_purged_does_not_stop_the_others(
    store: Store, clock: Clock, systems: Systems, log: Log, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    coordinator, stream, worker = started(store, clock, systems, log)
    worker.read = 2
    worker.turns()

    def fails(*_: object) -> None:
        raise error

    coordinator.reader_positions.look()
    with monkeypatch.context() as patched, capture_logs() as lines:
        patched.setattr(systems.named("embedded"), "purge", fails)
        for _ in range(2):
            clock.at += 60
            coordinator.reader_positions.look()
    assert [line["event"] for line in lines] == ["records that were read can't be deleted"]
    assert starts(log, stream) == [0, 0]
    clock.at += 60
    coordinator.reader_positions.look()
    assert starts(log, stream) == [2, 2]


def test_a_damaged_file_does_not_stop_the_coordinator(store: Store, clock: Clock, systems: Systems, log: Log) -> None:
    coordinator = Coordinator(store, clock=clock, systems=systems)
    workers.running(coordinator)
    (log.root / "in" / "readers" / f"{JOB}.json").write_bytes(b"")
    coordinator.reader_positions.look()
    clock.at += 60
    coordinator.reader_positions.look()
    assert coordinator.status(JOB).state == "running"


@pytest.mark.parametrize("job", [JOB, "another"])
def test_a_damaged_file_stops_nothing_else(store: Store, clock: Clock, systems: Systems, log: Log, job: str) -> None:
    coordinator = Coordinator(store, clock=clock, systems=systems)
    worker = workers.running(coordinator)
    worker.read = 5
    worker.turns()
    log.readers("former").hold_all(job)  # its name comes first
    (log.root / "former" / "readers" / f"{job}.json").write_bytes(b"")
    with capture_logs() as lines:
        coordinator.reader_positions.look()
        clock.at += 60
        coordinator.reader_positions.look()
    assert positions(log) == {0: 5, 1: 5}
    assert [line["stream"] for line in lines] == (["former"] if job == JOB else [])


def test_settings_that_are_not_known_keep_no_other_job_from_its_turn(store: Store, clock: Clock) -> None:
    coordinator = Coordinator(store, clock=clock)
    program = msgspec.structs.replace(PROGRAM, settings={"job": {"cores": 1}})
    coordinator.start(msgspec.structs.replace(start(), program=program))
    with capture_logs() as lines:
        coordinator.reader_positions.look()
    (line,) = lines
    assert (line["job"], "unknown setting 'job.cores'" in line["error"]) == (JOB, True)


def test_what_fails_is_told_anew_for_a_job_that_was_away(store: Store, clock: Clock) -> None:
    coordinator = Coordinator(store, clock=clock)
    program = msgspec.structs.replace(PROGRAM, settings={"job": {"cores": 1}})
    coordinator.start(msgspec.structs.replace(start(), program=program))
    with capture_logs() as lines:
        for served in (True, True, False, True):
            if not served:
                coordinator.abandon()
            elif JOB not in coordinator.registry.jobs:
                assert coordinator.adopt(JOB)
            coordinator.reader_positions.look()
            clock.at += 60
    assert len([line for line in lines if "what a job has read" in line["event"]]) == 2


def test_where_a_job_is_rewound_to_is_kept_from_before_it_is_looked_up(systems: Systems, log: Log) -> None:
    readers = log.readers("in")
    readers.hold(JOB, {0: 0, 1: 0})
    revision = readers.all()[JOB].revision
    assert readers.advance(JOB, {0: 9, 1: 9}, revision)
    start_offsets.offsets("earliest", JOB, [ZERO, ONE], systems)
    found = readers.all()[JOB]
    assert found.positions == {}
    assert found.revision != revision


def test_a_lane_that_is_started_again_is_where_it_ended() -> None:
    stopped = msgspec.structs.replace(lane("a"), final=(Position(ssp=ZERO, offset=6),))
    found = reader_positions.still_to_read([stopped], {"a": stopped}, {"a": report("a", -1)})
    assert found == {IN: {0: 6}}
