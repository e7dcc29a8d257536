"""A job that is reset, on the embedded log: what is lost and what stays, and crashes between the durable steps."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest

from anabranch import Job
from anabranch.config import Settings
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.jobs import fencing
from anabranch.coordinator.maintenance import resetting
from anabranch.coordinator.maintenance.resetting import Losses
from anabranch.coordinator.store import Store
from anabranch.errors import AnabranchError, ConflictError, FencedError, LogError
from anabranch.model.lane import AfterDrain, Lane, LaneState
from anabranch.planning import plan as planning
from anabranch.protocol.deployment import DeployRequest, StartRequest
from anabranch.systems.embedded import LaneWriter, Log
from tests.unit.coordinator import versions
from tests.unit.coordinator.helpers import Clock
from tests.unit.coordinator.programs import PROGRAM
from tests.unit.coordinator.workers import Worker
from tests.unit.planning.factory import around
from tests.unit.systems.embedded.helpers import contents, put

JOB = "j"
BETWEEN = "j-by-n-1"
ids = count(1)


class Crash(Exception):
    """The process dies."""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(systems={"embedded": {"root": str(tmp_path / "streams")}})  # type: ignore[arg-type]


@pytest.fixture
def log(tmp_path: Path) -> Log:
    found = Log(tmp_path / "streams")
    for stream in ("in", "out", BETWEEN):
        found.create(stream, 2)
    return found


def start(containers: int = 1) -> StartRequest:
    made = Job(JOB)
    read = made.read("in", key="k binary", schema="n int")
    read.partition_by("n").agg(c="count(*)", name="counted").write("out")
    plan = planning.make(made.graph, around("partition", 1, containers, **{"in": 2}))
    lanes = planning.lanes_of(plan, 4, lambda: f"{next(ids):08x}")
    return StartRequest(graph=made.graph, model=plan.model, lanes=lanes, fingerprint={}, program=PROGRAM)


def at_rest(store: Store, log: Log, *, crashed: bool = False) -> dict[str, Lane]:
    """The lanes of a job that has written two records, of which one lies between its stages, and was stopped."""
    coordinator = Coordinator(store)
    coordinator.start(start())
    worker = Worker(coordinator)
    worker.turns()
    lanes = coordinator.known_lanes(JOB)
    for lane in lanes.values():
        put(writer(log, lane), log, next(iter(lane.outputs)), 0, 7, lane.group.encode())
    if not crashed:
        coordinator.stop(JOB)
        worker.turns()
        assert coordinator.status(JOB).state == "stopped"
    return coordinator.known_lanes(JOB)


def writer(log: Log, lane: Lane) -> LaneWriter:
    return LaneWriter(log, JOB, lane.id, lane.epoch)


def reset(store: Store, settings: Settings, **instead: Callable[..., None]) -> None:
    given: dict[str, Any] = {"fence": fencing.fence, "remove": lambda: None, **instead}
    resetting.forget(store, settings, JOB, 5.0, **given)


def test_it_says_what_is_lost(store: Store, log: Log) -> None:
    at_rest(store, log)
    assert resetting.losses(store, JOB) == Losses(
        JOB, False, ("in",), ("counted",), (BETWEEN,), ("in-dead-letters", "out")
    )


def test_a_job_that_may_run_is_not_reset(store: Store, log: Log, settings: Settings) -> None:
    before = at_rest(store, log, crashed=True)
    with pytest.raises(ConflictError, match="only a job at rest"):
        reset(store, settings)
    assert store.lanes(JOB) == before


def test_former_processes_can_write_no_more_and_streams_stay(store: Store, log: Log, settings: Settings) -> None:
    before = at_rest(store, log)
    removed = []
    reset(store, settings, remove=lambda: removed.append(1))
    assert removed == [1]
    for lane in before.values():
        with pytest.raises(FencedError):
            put(writer(log, lane), log, next(iter(lane.outputs)), 0, 8, b"late")
    assert contents(log, "out", 0) == [b"counted"]
    first, *fenced, last = store.events(JOB, 4)
    assert (first.what, last.what) == ("2 lanes are fenced", "stopped → reset")
    assert {event.lane: event.mark for event in fenced} == dict.fromkeys(before, "fenced")
    assert not any(lane.state is not LaneState.CLOSED or lane.folder_epoch for lane in store.lanes(JOB).values())


def test_its_inputs_keep_nothing_for_it_any_more(store: Store, log: Log, settings: Settings) -> None:
    at_rest(store, log)
    for job in (JOB, "another"):
        log.readers("in").hold_all(job)

    def crash() -> None:
        raise Crash

    with pytest.raises(Crash):
        reset(store, settings, remove=crash)
    log.readers("in").hold_all(JOB)  # as if the process had died before it came to that
    reset(store, settings)
    assert set(log.readers("in").all()) == {"another"}


def test_damaged_files_of_readers_do_not_stop_it(store: Store, log: Log, settings: Settings) -> None:
    at_rest(store, log)
    log.create("a", 1)
    for stream in ("a", "in"):
        log.readers(stream).hold_all(JOB)
    log.readers("a").hold_all("another")
    for job in (JOB, "another"):
        (log.root / "a" / "readers" / f"{job}.json").write_bytes(b"")
    reset(store, settings)
    assert [path.name for path in sorted(log.root.glob("*/readers/*"))] == ["another.json"]


def test_from_where_it_cannot_be_removed_it_is_told_at_the_end(
    store: Store, log: Log, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_rest(store, log)
    log.create("a", 1)
    for stream in ("a", "in"):
        log.readers(stream).hold_all(JOB)
    real = os.unlink

    def refuse(path: str) -> None:
        if path.endswith(f"a/readers/{JOB}.json"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        real(path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", refuse)
        with pytest.raises(LogError, match="j can't be removed from the readers of a in"):
            reset(store, settings)
    assert (set(log.readers("a").all()), set(log.readers("in").all())) == ({JOB}, set())
    reset(store, settings)
    assert log.readers("a").all() == {}


def test_its_next_life_begins_as_a_new_job_and_may_write(store: Store, log: Log, settings: Settings) -> None:
    before = at_rest(store, log)
    reset(store, settings)
    coordinator = Coordinator(store)
    assert coordinator.start(start()) == 2
    Worker(coordinator, pid=2).turns()
    new = {name: lane for name, lane in coordinator.known_lanes(JOB).items() if name not in before}
    assert len(new) == 2
    assert min(lane.epoch for lane in new.values()) > max(lane.epoch for lane in before.values())
    for lane in new.values():
        assert (lane.inherits, lane.first_batch, lane.drained and lane.drained.state) == ({}, 0, "")
        begins = {str(ssp): at for ssp, at in lane.begins.items()}
        if lane.group == "counted":  # what lies between the stages was the former life's, and so is its event time
            assert begins == {f"embedded/{BETWEEN}/0": 1, f"embedded/{BETWEEN}/1": 0}
            assert lane.drained == AfterDrain(writers=tuple(each for each in before if before[each].group != "counted"))
        else:
            assert begins == {}, "where its read says"
        assert put(writer(log, lane), log, next(iter(lane.outputs)), 0, 0, b"again"), "batch 0 was taken for a replay"
    assert contents(log, "out", 0) == [b"counted", b"again"]


def test_a_changed_job_may_start_then(store: Store, log: Log, settings: Settings) -> None:
    at_rest(store, log)
    coordinator = Coordinator(store)
    with pytest.raises(ConflictError, match="differs from the one that was started"):
        coordinator.start(_changed())
    reset(store, settings)
    assert Coordinator(store).start(_changed()) == 2


def test_its_next_life_has_lanes_as_it_is_planned_now(store: Store, log: Log, settings: Settings) -> None:
    before = at_rest(store, log)
    reset(store, settings)
    Coordinator(store).start(start(containers=2))
    seats = sorted((lane.group, lane.seat) for name, lane in store.lanes(JOB).items() if name not in before)
    assert [seat for group, seat in seats if group == "counted"] == ["0", "1"]


def _changed() -> StartRequest:
    return msgspec.structs.replace(start(), fingerprint={"operator counted": "other"})


@pytest.mark.parametrize("step", ["first fence", "second fence", "remove"])
def test_after_a_crash_it_is_done_again(store: Store, log: Log, settings: Settings, step: str) -> None:
    at_rest(store, log)
    fenced: list[str] = []

    def fence(lane: Lane, its: Mapping[str, Any]) -> None:
        if len(fenced) == ["first fence", "second fence"].index(step):
            raise Crash
        fencing.fence(lane, its)
        fenced.append(lane.id)

    def remove() -> None:
        raise Crash

    with pytest.raises(Crash):
        reset(store, settings, **({"remove": remove} if step == "remove" else {"fence": fence}))
    assert resetting.losses(store, JOB).is_reset == (step == "remove")
    removed = []
    reset(store, settings, remove=lambda: removed.append(1))
    assert removed == [1]
    assert store.events(JOB, 1)[0].what == "stopped → reset"
    assert Coordinator(store).start(start()) == 2


def test_a_job_whose_reset_died_before_it_was_done_goes_on(store: Store, log: Log, settings: Settings) -> None:
    before = at_rest(store, log)

    def crash(*_: Any) -> None:
        raise Crash

    with pytest.raises(Crash):
        reset(store, settings, fence=crash)
    coordinator = Coordinator(store)
    assert coordinator.resume(JOB) == 1
    Worker(coordinator, pid=2).turns()
    assert coordinator.status(JOB).state == "running"
    assert {each.lane.id for each in coordinator.status(JOB).lanes} == before.keys()


def test_outputs_that_are_gone_are_no_hindrance(store: Store, settings: Settings) -> None:
    coordinator = Coordinator(store)
    coordinator.start(start())
    worker = Worker(coordinator)
    worker.turns()
    coordinator.stop(JOB)
    worker.turns()
    reset(store, settings)
    assert store.deployment(JOB).state == "reset"  # type: ignore[union-attr]


def test_lanes_of_a_former_version_are_fenced_with_the_settings_of_that_version(
    store: Store, clock: Clock, settings: Settings, tmp_path: Path
) -> None:
    former = {
        "job": {},
        "systems": {"embedded": {"root": str(tmp_path / "streams")}},
        "outputs": {"below": {"to": "parquet", "path": str(tmp_path / "table")}},
    }
    coordinator = versions.coordinator_on(store, clock)
    coordinator.start(versions.with_settings(versions.start(versions.job(more=True)), former, {"below": "parquet"}))
    versions.Process(coordinator, 1).work()
    versions.deploy(coordinator, versions.job())
    clock.at += 100
    coordinator.tick()
    for fence in coordinator.fences():
        coordinator.fenced(fence.lane)
    coordinator.stop(JOB)
    assert coordinator.status(JOB).state == "stopped"
    fenced = []
    reset(store, settings, fence=lambda lane, its: fenced.append((lane.deployment, its)))
    assert fenced == [(1, former), (1, former)]


@pytest.mark.parametrize("verb", ["resume", "deploy"])
def test_nothing_goes_on_after_it(store: Store, log: Log, settings: Settings, verb: str) -> None:
    at_rest(store, log)
    reset(store, settings)
    coordinator = Coordinator(store)
    with pytest.raises(AnabranchError, match="was reset: there is nothing to continue") as error:
        coordinator.resume(JOB) if verb == "resume" else coordinator.deploy(JOB, DeployRequest(start=start()))
    assert error.value.cure == "start it: anabranch start JOB.py"
