"""An error in what is due for one job doesn't hold up the other jobs, and is shown for the job."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from anabranch.cli import connect
from anabranch.config import CoordinatorSettings
from anabranch.coordinator.api import server
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.jobs import fencing, offers
from anabranch.coordinator.jobs.fencing import Fence
from anabranch.coordinator.jobs.running_job import RunningJob
from anabranch.coordinator.store import Store
from anabranch.errors import AnabranchError, NotLeadingError, StateError, StoreUnavailableError, UnsupportedFormatError
from tests.unit.coordinator.helpers import FIRST, SECOND, Clock, Seat, lane, plan
from tests.unit.coordinator.programs import PROGRAM

LEASE, GRACE = 10.0, 2.0
OTHER = ("first", "second")
BAD, WELL = "delays", "other"


class Breaks:
    """The offers of a job can't be made while there is an ``error``."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self._renew = offers.renew

    def __call__(self, job: RunningJob) -> bool:
        if self.error is not None and job.job == BAD and job.seats.processes:
            raise self.error
        return self._renew(job)


@pytest.fixture
def breaks(monkeypatch: pytest.MonkeyPatch) -> Breaks:
    found = Breaks()
    monkeypatch.setattr("anabranch.coordinator.jobs.registry.offers.renew", found)
    return found


def made(store: Store, clock: Clock) -> Coordinator:
    return Coordinator(store, clock, LEASE, now=lambda: 7.0, grace=GRACE)


@pytest.fixture
def served(store: Store, clock: Clock, breaks: Breaks) -> Coordinator:
    """A coordinator with two jobs, each with a process that runs its lanes."""
    coordinator = made(store, clock)
    for job, names in ((BAD, (FIRST, SECOND)), (WELL, OTHER)):
        coordinator.start(plan(job, tuple(lane(name, job=job) for name in names), program=PROGRAM))
        seat = Seat(coordinator, job)
        seat.beat()
        seat.report("running", *names, folder_epoch=seat.me.epoch)
    return coordinator


def told(coordinator: Coordinator) -> list[tuple[str, str]]:
    return [(event.what, event.why) for event in coordinator.events(BAD) if event.kind == "other"]


@pytest.mark.parametrize(
    ("error", "why"), [(StateError("no offset"), "no offset"), (KeyError("a lane"), "KeyError: 'a lane'")]
)
def test_a_job_that_cannot_be_advanced_leaves_the_others_alone(
    served: Coordinator, clock: Clock, breaks: Breaks, error: Exception, why: str
) -> None:
    breaks.error = error
    for _ in range(3):
        served.tick()
    clock.at += LEASE + GRACE
    served.tick()
    assert {fence.lane.id for fence in served.fences()} >= set(OTHER)
    assert {demand.job for demand in served.demands(())} == {BAD, WELL}


def test_why_it_cannot_be_advanced_is_shown_once_until_it_can(served: Coordinator, breaks: Breaks) -> None:
    what = "the job can't be advanced"
    for error, events in (
        ("no offset", [(what, "no offset")]),
        ("", [(what, "no offset")]),
        ("no lane", [(what, "no offset"), (what, "no lane")]),
    ):
        breaks.error = StateError(error) if error else None
        for _ in range(3):
            served.tick()
        assert told(served) == events
        assert served.status(BAD).warnings == ((f"the job can't be advanced: {error}",) if error else ())
        assert served.live(BAD).warnings == served.status(BAD).warnings
        assert served.status(WELL).warnings == ()


def test_lanes_that_cannot_be_fenced_keep_no_other_job_from_being_fenced(
    served: Coordinator, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(store: Store, job: RunningJob) -> list[Fence]:
        if job.job == BAD:
            raise StateError("not a Program")
        return due(store, job)

    due = fencing.due
    monkeypatch.setattr("anabranch.coordinator.jobs.fencing.due", fails)
    clock.at += LEASE + GRACE
    served.tick()
    assert {fence.lane.id for fence in served.fences()} == set(OTHER)
    assert served.status(BAD).warnings == ("the job's lanes can't be fenced: not a Program",)
    monkeypatch.undo()
    assert {fence.lane.id for fence in served.fences()} == {FIRST, SECOND, *OTHER}
    assert served.status(BAD).warnings == ()


def test_inputs_that_cannot_be_checked_keep_no_other_job_from_its_turn(store: Store, clock: Clock) -> None:
    asked: list[str] = []

    def counting(job: str, *_: Any) -> Mapping[str, int]:
        asked.append(job)
        if job == BAD:
            raise KeyError("of a system's own")
        return {}

    coordinator = Coordinator(store, clock, LEASE, now=lambda: 7.0, grace=GRACE, counting=counting)
    for job in (BAD, WELL):
        coordinator.start(plan(job, (lane(f"{job}-1", job=job),), program=PROGRAM))
        seat = Seat(coordinator, job)
        seat.beat()
        seat.report("running", f"{job}-1", folder_epoch=seat.me.epoch)
    for _ in range(3):
        coordinator.look()
    assert asked == [BAD, WELL]
    assert coordinator.status(BAD).warnings == ("the job's inputs can't be checked: KeyError: \"of a system's own\"",)
    assert coordinator.status(WELL).warnings == ()


@pytest.mark.parametrize("error", [StoreUnavailableError("no answer"), NotLeadingError("another leads")])
def test_what_concerns_all_jobs_is_raised(served: Coordinator, breaks: Breaks, error: AnabranchError) -> None:
    breaks.error = error
    with pytest.raises(type(error)):
        served.tick()
    assert told(served) == []


def test_a_job_that_cannot_be_advanced_is_adopted(
    served: Coordinator, store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise StateError("no offset")

    other = made(store, clock)
    monkeypatch.setattr(other.registry, "advance", fails)
    assert other.adopt(BAD)
    assert other.status(BAD).served
    assert other.status(BAD).warnings == ("the job can't be advanced: no offset",)


def test_a_job_is_not_served_if_the_store_is_away_when_it_is_adopted(
    served: Coordinator, store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise StoreUnavailableError("no answer")

    other = made(store, clock)
    monkeypatch.setattr(other.registry, "advance", fails)
    with pytest.raises(StoreUnavailableError):
        other.adopt(BAD)
    assert BAD not in other.registry.jobs


def test_a_job_that_cannot_be_read_again_leaves_the_others_alone(
    served: Coordinator, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(job: str, *_: Any) -> None:
        if job == BAD:
            raise StateError("not a job model")
        return model(job, *_)

    model = store.model
    monkeypatch.setattr(store, "model", fails)
    served.registry.unsure = True
    served.tick()
    assert not served.registry.unsure
    assert list(served.registry.jobs) == [WELL]
    monkeypatch.setattr(store, "model", model)
    served.tick()
    assert set(served.registry.jobs) == {BAD, WELL}


def test_a_job_in_a_state_of_a_newer_version_hides_no_other_job(tmp_path: Path, clock: Clock) -> None:
    coordinator = made(Store(f"sqlite:///{tmp_path}/c.db"), clock)
    for job in (BAD, WELL):
        coordinator.start(plan(job, (lane(f"{job}-1", job=job),), program=PROGRAM))
    other = made(Store(f"sqlite:///{tmp_path}/c.db"), clock)
    with sqlite3.connect(tmp_path / "c.db") as database:
        database.execute(f"update deployments set state = 'pausing' where job = '{BAD}'")
    bad, well = other.jobs()
    assert (bad.job, bad.state, well.job, well.state) == (BAD, "running", WELL, "starting")
    assert "pausing" in (bad.error or "")
    assert [each.job for each in other.overview().jobs] == [BAD, WELL]
    with TestClient(server.app(other)) as client:
        assert f'anabranch_job{{job="{WELL}",state="starting"}} 1.0' in client.get("/metrics").text


@pytest.mark.parametrize("table", ["models", "deployments"])
def test_a_job_at_rest_that_cannot_be_read_hides_no_other_job(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    url = f"sqlite:///{tmp_path}/c.db"
    coordinator = made(Store(url), clock)
    for job in (BAD, WELL):
        coordinator.start(plan(job, (lane(f"{job}-1", job=job),), program=PROGRAM))
    other = made(Store(url), clock)
    column = "document" if table == "models" else "program"
    with sqlite3.connect(tmp_path / "c.db") as database:
        database.execute(f"update {table} set {column} = '{{\"version\": 9}}' where job = '{BAD}'")
    for found in (other.jobs(), connect.jobs(CoordinatorSettings(store=url))):
        assert [(each.job, each.state, each.deployment, each.generation, each.served) for each in found] == [
            (BAD, "starting", 1, 1, False),
            (WELL, "starting", 1, 1, False),
        ]
        assert "can't be read from the store" in (found[0].error or "")
        assert found[1].error is None
    bad, well = other.overview().jobs
    assert (bad.state, well.state) == ("starting", "starting")
    assert bad.worst is not None
    assert "format version 9" in bad.worst.why
    with TestClient(server.app(other)) as client:
        assert f'anabranch_job{{job="{BAD}",state="starting"}} 1.0' in client.get("/metrics").text
    assert [each.job for each in other.demands([BAD])] == []
    with pytest.raises(UnsupportedFormatError):
        other.status(BAD)

    def fails() -> None:
        raise StoreUnavailableError("no answer")

    monkeypatch.setattr(other.registry.store, "last_state", lambda _: fails())
    monkeypatch.setattr(other.registry.store, "deployment", lambda *_: fails())
    for read in (other.jobs, other.overview):
        with pytest.raises(StoreUnavailableError):
            read()
