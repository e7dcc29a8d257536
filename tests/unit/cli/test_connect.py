"""What verbs find if no coordinator serves the jobs of a store."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from anabranch.cli import connect
from anabranch.config import CoordinatorSettings
from anabranch.coordinator.jobs import plans
from anabranch.coordinator.leadership import endpoint
from anabranch.coordinator.store import Store, address
from anabranch.errors import ConflictError, NotFoundError, OutOfTimeError, UnreachableError
from anabranch.model.deployment_state import DeploymentState
from tests.unit.coordinator.helpers import plan
from tests.unit.coordinator.store.helpers import event


@pytest.fixture
def settings(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CoordinatorSettings:
    """Of a store with a job, on which no coordinator has ever led."""
    store = Store(url)
    store.create_deployment(plans.numbered(plan(), 1), DeploymentState.STOPPED, event())
    store.close()
    monkeypatch.chdir(tmp_path)
    return CoordinatorSettings(store=url)


def test_reads_are_answered_from_the_store(settings: CoordinatorSettings) -> None:
    assert [(each.job, each.served) for each in connect.jobs(settings)] == [("delays", False)]
    assert connect.status(settings, "delays").state == "stopped"
    assert connect.read(settings, "delays", lambda asked: asked.status("delays").state) == "stopped"
    assert [each.job for each in connect.overview(settings).jobs] == ["delays"]


def test_a_change_says_what_to_start(settings: CoordinatorSettings) -> None:
    with pytest.raises(ConflictError, match="job 'delays' is not running: its last state is stopped") as caught:
        connect.client(settings, "delays")
    verb = "anabranch coordinator" if address.is_on_server(settings.store) else "anabranch run"
    assert verb in caught.value.cure


def test_a_change_of_an_unknown_job_names_the_known_ones(settings: CoordinatorSettings) -> None:
    with pytest.raises(NotFoundError, match="delays"):
        connect.client(settings, "delay")


@pytest.mark.parametrize("job", ["delays", "new"])
def test_a_process_that_starts_or_ends_a_job_is_named(settings: CoordinatorSettings, job: str) -> None:
    if address.is_on_server(settings.store):
        return  # there are no locks
    lock = endpoint.RunLock(settings.store, job)
    with lock, pytest.raises(ConflictError, match=f"process {os.getpid()} is starting it, ending it"):
        connect.client(settings, job)


def test_only_the_process_that_ran_a_job_is_waited_for(settings: CoordinatorSettings) -> None:
    if address.is_on_server(settings.store):
        connect.LockHolder(settings, "delays").wait(0.0)
        return
    with endpoint.RunLock(settings.store, "delays"):
        holder = connect.LockHolder(settings, "delays")
        with pytest.raises(OutOfTimeError, match=f"process {os.getpid()}, in which it ran, hasn't ended"):
            holder.wait(0.0)
        (endpoint.run_folder(settings.store) / "delays.lock").write_text("1\n")  # another run has the job by now
        holder.wait(0.0)
    holder.wait(0.0)


def test_a_process_that_does_not_answer_hides_no_job_from_a_list(
    settings: CoordinatorSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect, "served_here", lambda _: {"delays": "http://127.0.0.1:9"})
    if address.is_on_server(settings.store):
        return  # the coordinator that leads is asked
    assert [(each.job, each.served) for each in connect.jobs(settings)] == [("delays", False)]
    assert [each.job for each in connect.overview(settings).jobs] == ["delays"]
    with pytest.raises(UnreachableError):
        connect.status(settings, "delays")
