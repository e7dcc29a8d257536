"""A coordinator whose jobs' inputs get other partition counts: it goes along, or says why not."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
import pytest
from structlog.testing import capture_logs

from anabranch.coordinator.api import listening
from anabranch.coordinator.api.client import Client
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.store import Store
from anabranch.coordinator.streams.input_monitor import InputMonitor, counted
from anabranch.errors import AnabranchError, ConfigError, ConflictError, LogError
from anabranch.metrics import exposition
from anabranch.model.job_model import Matched
from anabranch.protocol.commands import ExpandRequest, RewindRequest, ScaleRequest
from anabranch.protocol.lane_report import LanePhase
from anabranch.systems.embedded import EmbeddedSystem
from tests.unit.coordinator.helpers import Clock, wait_for
from tests.unit.coordinator.inputs import IN, Counts, running
from tests.unit.coordinator.programs import PROGRAM
from tests.unit.coordinator.workers import JOB, Worker, open_lanes, start


@pytest.fixture
def counts() -> Counts:
    return Counts()


@pytest.fixture
def coordinator(store: Store, clock: Clock, counts: Counts) -> Coordinator:
    return Coordinator(store, clock=clock, lease=10, grace=2, counting=counts)


def whys(coordinator: Coordinator, what: str) -> list[str]:
    return [event.why for event in coordinator.events(JOB) if what in event.what]


def test_it_looks_time_and_again_and_goes_along(coordinator: Coordinator, clock: Clock, counts: Counts) -> None:
    worker = running(coordinator)
    worker.read = 5
    coordinator.look()
    coordinator.look()
    assert counts.asked == [[IN]]
    assert coordinator.status(JOB).inputs == {IN: 2}
    assert (
        'anabranch_input_partitions{job="j",stream="embedded/in"} 2.0'
        in exposition(coordinator.jobs(), 0, True).decode()
    )
    counts.counts[IN] = 4
    coordinator.look()
    assert coordinator.status(JOB).generation == 1
    clock.at += 60
    coordinator.look()
    status = coordinator.status(JOB)
    assert (status.state, status.generation, status.inputs) == ("changing", 2, {IN: 4})
    clock.at += 60
    coordinator.look()  # not while it is changing
    assert len(counts.asked) == 2
    worker.turns()
    assert coordinator.status(JOB).state == "running"
    assert {ssp.partition for lane in open_lanes(coordinator) for ssp in lane.ssps} == {0, 1, 2, 3}
    assert whys(coordinator, "running → changing") == ["embedded/in has 4 partitions instead of 2"]
    coordinator.look()
    assert coordinator.status(JOB).generation == 2


def test_what_it_cannot_go_along_with_is_said_once_and_lanes_run_on(
    coordinator: Coordinator, clock: Clock, counts: Counts
) -> None:
    worker = running(coordinator)
    before = [lane.id for lane in open_lanes(coordinator)]
    for wrong, told in ((3, "first written with 2"), (1, "and had 2"), (0, "embedded/in is gone")):
        counts.counts[IN] = wrong
        for _ in range(3):
            clock.at += 60
            worker.turn()
            coordinator.look()
        (warning,) = coordinator.status(JOB).warnings
        assert told in warning
        assert [told in why for why in whys(coordinator, "can't adapt")].count(True) == 1
    assert [lane.id for lane in open_lanes(coordinator)] == before
    with pytest.raises(ConflictError, match="embedded/in is gone"):
        coordinator.expand(JOB, ExpandRequest())
    counts.counts[IN] = 6
    clock.at += 60
    worker.turn()
    coordinator.look()
    assert (coordinator.status(JOB).generation, coordinator.status(JOB).warnings) == (2, ())


def test_a_system_that_does_not_answer_holds_nothing_up(coordinator: Coordinator, clock: Clock, counts: Counts) -> None:
    running(coordinator)
    counts.away = True
    coordinator.look()
    assert coordinator.status(JOB).warnings == (
        "how many partitions its inputs have isn't known: the cluster doesn't answer",
    )
    with pytest.raises(AnabranchError, match="doesn't answer"):
        coordinator.expand(JOB, ExpandRequest())
    counts.away = False
    clock.at += 60
    coordinator.look()
    assert coordinator.status(JOB).warnings == ()


def test_nor_do_settings_of_another_version(store: Store, clock: Clock) -> None:
    coordinator = Coordinator(store, clock=clock, lease=10, grace=2)
    program = msgspec.structs.replace(PROGRAM, settings={"job": {"cores": 1}})
    coordinator.start(msgspec.structs.replace(start(), program=program))
    Worker(coordinator).turns()
    coordinator.look()
    (warning,) = coordinator.status(JOB).warnings
    assert "the settings that job 'j' was started with: unknown setting 'job.cores'" in warning
    with pytest.raises(ConfigError, match=r"unknown setting 'job\.cores'"):
        coordinator.rewind(JOB, RewindRequest(to="earliest", state="clear"))


def test_a_user_needs_not_wait(coordinator: Coordinator, counts: Counts) -> None:
    worker = running(coordinator)
    assert coordinator.expand(JOB, ExpandRequest()).partitions == {}
    counts.counts[IN] = 4
    dry = coordinator.expand(JOB, ExpandRequest(dry=True))
    assert (dry.generation, dry.partitions, len(dry.closing), len(dry.lanes)) == (2, {IN: 4}, 2, 2)
    assert coordinator.status(JOB).generation == 1
    assert coordinator.expand(JOB, ExpandRequest(request="r")).generation == 2
    counts.counts[IN] = 8
    again = coordinator.expand(JOB, ExpandRequest(request="r"))
    assert (again.generation, again.lanes) == (2, ())
    with pytest.raises(ConflictError, match="only one that is running"):
        coordinator.expand(JOB, ExpandRequest())
    with pytest.raises(ConflictError, match="can't have fewer partitions again"):
        coordinator.cancel(JOB)
    worker.turns()
    coordinator.scale(JOB, ScaleRequest(factor=4))
    coordinator.cancel(JOB)
    worker.turns(6)
    model = coordinator.model(JOB)
    assert (model.generation, model.factor, model.expands) == (4, 1, ())
    assert {ssp.partition for task in model.stages[0].tasks for ssp in task.ssps} == {0, 1, 2, 3}


def test_a_job_that_is_started_again_goes_along_with_what_came_meanwhile(
    coordinator: Coordinator, store: Store
) -> None:
    worker = running(coordinator)
    coordinator.stop(JOB)
    worker.closes = True
    worker.turn()
    for name, report in worker.reports.items():
        worker.reports[name] = report.changed(phase=LanePhase.ENDED)
    worker.seat.beat(*worker.reports.values())
    assert coordinator.status(JOB).state == "stopped"
    coordinator.start(start(partitions=4))
    assert (coordinator.status(JOB).state, coordinator.model(JOB).generation) == ("changing", 2)
    worker = Worker(coordinator, pid=2)
    worker.turns()
    assert coordinator.status(JOB).state == "running"
    assert {ssp.partition for lane in open_lanes(coordinator) for ssp in lane.ssps} == {0, 1, 2, 3}


def test_a_coordinator_that_dies_behind_the_store_is_followed_by_one_that_goes_on(
    coordinator: Coordinator, store: Store, clock: Clock, counts: Counts
) -> None:
    worker = running(coordinator)
    counts.counts[IN] = 4
    coordinator.expand(JOB, ExpandRequest())  # and nobody is told
    coordinator.abandon()
    other = Coordinator(store, clock=clock, lease=10, grace=2, counting=counts)
    assert other.adopt(JOB)
    worker.seat.coordinator = other
    worker.turns()
    assert (other.status(JOB).state, other.status(JOB).generation) == ("running", 2)
    assert len(open_lanes(other)) == 2
    took = other.status(JOB).rescale_seconds
    assert took is not None
    assert took < 60, "it is counted from when the change was stored"


def test_a_lane_that_cannot_start_is_left_alone_and_tried_again(coordinator: Coordinator, counts: Counts) -> None:
    worker = running(coordinator)
    counts.counts[IN] = 4
    coordinator.expand(JOB, ExpandRequest())
    worker.fails = lambda lane: lane.stateful and bool(lane.fresh)
    worker.turns()
    status = coordinator.status(JOB)
    assert (status.state, status.generation) == ("running", 2)
    assert [lane.lane.error for lane in status.lanes if lane.lane.error] == ["it can't"]
    counts.counts[IN] = 8
    with pytest.raises(ConflictError, match="has failed"):
        coordinator.expand(JOB, ExpandRequest())


def test_over_http(coordinator: Coordinator, counts: Counts) -> None:
    running(coordinator)
    server = listening.serve(coordinator)
    try:
        with Client(server.url) as client:
            counts.counts[IN] = 3
            with pytest.raises(ConflictError, match="first written with 2"):
                client.expand(JOB, ExpandRequest())
            counts.counts[IN] = 4
            assert client.expand(JOB, ExpandRequest(dry=True)).partitions == {IN: 4}
            told = client.expand(JOB, ExpandRequest())
            assert (told.generation, len(told.lanes), client.status(JOB).inputs) == (2, 2, {IN: 4})
    finally:
        server.close()


def test_a_job_in_real_time_goes_along_when_it_starts_again(store: Store, clock: Clock, counts: Counts) -> None:
    coordinator = Coordinator(store, clock=clock, lease=10, grace=2, counting=counts)
    begun = start()
    assert begun.program is not None
    program = msgspec.structs.replace(begun.program, settings={"job": {"trigger": "real-time"}})
    coordinator.start(msgspec.structs.replace(begun, program=program))
    Worker(coordinator).turns()
    counts.counts[IN] = 4
    with pytest.raises(ConflictError, match="a task slot for each new partition"):
        coordinator.expand(JOB, ExpandRequest())


def test_what_came_to_a_lane_that_never_began_comes_to_the_next_one(coordinator: Coordinator, counts: Counts) -> None:
    worker = running(coordinator)
    counts.counts[IN] = 4
    coordinator.expand(JOB, ExpandRequest())
    worker.fails = lambda lane: bool(lane.fresh)
    worker.turns()
    assert coordinator.status(JOB).state == "failed"
    coordinator.start(start(partitions=8))
    worker = Worker(coordinator, pid=2)
    worker.closes = False
    worker.fails = lambda lane: len(lane.fresh) == 2
    worker.turns(6)
    status = coordinator.status(JOB)
    assert (status.state, status.generation) == ("running", 3)
    for each in status.lanes:
        assert {ssp.partition for ssp in each.lane.ssps} == set(range(8))
        assert {ssp.partition for ssp in each.lane.fresh} == set(range(2, 8))
        assert {position.ssp.partition for position in each.lane.starting} == {0, 1}


def test_how_many_there_are(tmp_path: Path) -> None:
    EmbeddedSystem(tmp_path).create("in", 3)
    settings = {"systems": {"embedded": {"root": str(tmp_path)}}}
    assert counted("j", settings, ["embedded/in", "embedded/none"]) == {"embedded/in": 3, "embedded/none": 0}


def test_a_matching_stream_that_cannot_be_described_is_an_error(tmp_path: Path) -> None:
    for name in ("in-1", "in-2"):
        EmbeddedSystem(tmp_path).create(name, 3)
    (tmp_path / "in-2" / "stream.json").write_bytes(b"")
    settings = {"systems": {"embedded": {"root": str(tmp_path)}}}
    others = [Matched(system="embedded", pattern="in-1", streams=("in-1",))]
    assert counted("j", settings, [], others) == {"embedded/in-1": 3}
    with pytest.raises(LogError, match=r"in-2/stream\.json"):
        counted("j", settings, [], [Matched(system="embedded", pattern="in-.*", streams=("in-1",))])


def test_a_thread_looks() -> None:
    looks = []

    class Broken:
        def look(self) -> None:
            looks.append(time.monotonic())
            raise AnabranchError("it can't", "")

    with capture_logs() as lines, InputMonitor(Broken(), every=0.01):
        wait_for(lambda: len(looks) > 2)
    assert [line["event"] for line in lines] == ["inputs could not be looked at; it is tried again"]
    ended = len(looks)
    time.sleep(0.05)
    assert len(looks) == ended
