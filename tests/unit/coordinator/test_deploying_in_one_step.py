"""Another version of a job that doesn't run: it is stored and started in one step, or not at all."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest

from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.leadership.election import Election
from anabranch.coordinator.leadership.endpoint import RunLock
from anabranch.coordinator.leadership.leadership import Leadership
from anabranch.coordinator.store import Store
from anabranch.errors import AnabranchError, ConfigError, ConflictError, StoreUnavailableError
from anabranch.protocol.commands import ScaleRequest
from anabranch.protocol.deployment import DeployRequest, RollbackRequest
from anabranch.protocol.drain import DrainNotification
from anabranch.protocol.lane_report import LanePhase
from tests.unit.coordinator.helpers import Clock
from tests.unit.coordinator.versions import Process, coordinator_on, deploy, job, running, start

JOB = "j"
STEPS = [name for name in vars(Store) if name.endswith("_deployment") or name in ("put_lanes", "note")]


def stopped(coordinator: Coordinator, process: Process) -> None:
    coordinator.stop(JOB)
    process.reports = {name: each.changed(phase=LanePhase.ENDED) for name, each in process.reports.items()}
    process.beat()
    process.leave()


def breaking(store: Store, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """Let the store be away from the ``step``-th time on that something is to be stored."""
    done = iter(range(100))

    def away(whole: Any) -> Any:
        def stores(*given: Any, **named: Any) -> Any:
            if next(done) >= step:
                raise StoreUnavailableError("connection lost", "")
            return whole(*given, **named)

        return stores

    for name in STEPS:
        monkeypatch.setattr(store, name, away(getattr(store, name)))


def test_a_version_that_was_stored_is_served_even_if_it_cannot_be_read_at_once(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    coordinator, (process,) = running(store)
    stopped(coordinator, process)
    assert coordinator.release(JOB)
    stores, reads = store.replace_deployment, store.deployment

    def stored(*given: Any) -> None:
        stores(*given)
        monkeypatch.setattr(store, "deployment", lost)

    def lost(*given: Any) -> None:
        monkeypatch.setattr(store, "deployment", reads)
        raise StoreUnavailableError("connection lost", "")

    monkeypatch.setattr(store, "replace_deployment", stored)
    with pytest.raises(StoreUnavailableError):
        deploy(coordinator, job(more=True), request="r")
    coordinator.tick()
    status = coordinator.status(JOB)
    assert (status.deployment, status.state, status.served) == (2, "starting", True)
    assert deploy(coordinator, job(more=True), request="r").deployment == 2
    assert Process(coordinator, 1).seat == "0"


@pytest.mark.parametrize("step", [0, 1, 2])
def test_the_next_leader_finds_the_former_version_or_one_that_it_serves(
    store: Store, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    coordinator, (process,) = running(store)
    stopped(coordinator, process)
    with monkeypatch.context() as broken:
        breaking(store, broken, step)
        try:
            deploy(coordinator, job(more=True), request="r")
            done = True
        except StoreUnavailableError:
            done = False
    assert done or step < 2
    other = coordinator_on(store)
    adopted = other.adopt(JOB)
    assert adopted == (other.model(JOB).run_id == 2)
    assert deploy(other, job(more=True), request="r").deployment == 2
    assert other.status(JOB).state == "starting"
    assert len([event for event in other.events(JOB) if event.what.startswith("planned deployment 2")]) == 1


def test_a_rollback_that_was_broken_off_does_not_go_one_version_too_far(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    coordinator, (process,) = running(store)
    stopped(coordinator, process)
    for number in (2, 3):
        made = start(job(more=number == 2), code=str(number) * 64)
        coordinator.deploy(JOB, DeployRequest(start=made))
        former = Process(coordinator, number - 1)
        former.work()
        former.leave()
        process = Process(coordinator, number)
        process.work()
        stopped(coordinator, process)
    with monkeypatch.context() as broken:
        breaking(store, broken, 0)
        with pytest.raises(StoreUnavailableError):
            coordinator.rollback(JOB, RollbackRequest(request="one"))
    assert coordinator.rollback(JOB, RollbackRequest(request="two")).version_of == 2


def test_a_job_that_was_stopped_while_it_drained_is_not_deployed(store: Store) -> None:
    """It would start without the drain, which was promised to continue."""
    coordinator, (process,) = running(store)
    coordinator.drain(JOB, DrainNotification(uuid=str(uuid.uuid4()), run_id=1, mode="planned"))
    stopped(coordinator, process)
    for tried in (lambda: deploy(coordinator, job(more=True)), lambda: coordinator.rollback(JOB, RollbackRequest())):
        with pytest.raises(AnabranchError) as refused:
            tried()
        if isinstance(refused.value, ConflictError):
            assert "stopped while it drained" in str(refused.value) or "no version before" in str(refused.value)
    kept = store.deployment(JOB)
    assert kept is not None
    assert kept.drain is not None


def test_no_other_process_can_serve_what_was_deployed_while_it_was_at_rest(tmp_path: Path) -> None:
    """On a store that ``anabranch run`` can use as well."""
    url, here = f"sqlite:///{tmp_path / 'coordinator.db'}", "http://127.0.0.1:1"
    clock, store = Clock(), Store(f"sqlite:///{tmp_path / 'coordinator.db'}")
    coordinator = coordinator_on(store, clock)
    leadership = Leadership(coordinator, store, url, Election(store, here, clock), here, lambda *_: None)
    leadership.turn()
    leadership.start(start(job()))
    process = Process(coordinator, 1)
    process.work()
    stopped(coordinator, process)
    leadership.turn()
    with RunLock(url, JOB), pytest.raises(ConflictError, match="is already running here"):
        deploy(coordinator, job(more=True))
    assert coordinator.status(JOB).deployment == 1
    deploy(coordinator, job(more=True))
    leadership.turn()
    with pytest.raises(ConflictError), RunLock(url, JOB):
        pass
    assert coordinator.status(JOB).state == "starting"


@pytest.mark.parametrize("containers", [0, -1, 1001, 20_000_000])
def test_a_job_gets_no_more_containers_than_settings_allow(store: Store, containers: int) -> None:
    coordinator, _ = running(store)
    for dry in (True, False):
        with pytest.raises(ConfigError, match=r"give 1 to 1,000"):
            coordinator.scale(JOB, ScaleRequest(containers=containers, dry=dry))
