"""What ``deploy`` and ``rollback`` wait for, also if the job didn't run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from anabranch.cli import deploy as verb
from anabranch.cli import drain, progress, scale
from anabranch.config import CoordinatorSettings
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.store import Store
from anabranch.errors import ConflictError, JobFailedError, OutOfTimeError, UnreachableError
from anabranch.protocol.deployment import DeployResult
from anabranch.protocol.lane_report import LanePhase
from anabranch.protocol.status import JobStatus
from tests.unit.coordinator.versions import Process, deploy, job, running


class Desk:
    """A coordinator, at which something more happens whenever somebody looks."""

    def __init__(self, coordinator: Coordinator, happens: Iterator[None]) -> None:
        self._coordinator = coordinator
        self._happens = happens

    def __getattr__(self, name: str) -> Any:
        return getattr(self._coordinator, name)

    def status(self, job: str) -> JobStatus:
        found = self._coordinator.status(job)
        next(self._happens, None)
        return found


class Dying:
    """A coordinator that is killed after it has answered so many times."""

    def __init__(self, coordinator: Coordinator, answers: int) -> None:
        self._coordinator = coordinator
        self._answers = answers

    def status(self, job: str) -> JobStatus:
        if self._answers == 0:
            raise UnreachableError("nothing runs at http://c", "start one")
        self._answers -= 1
        return self._coordinator.status(job)


@pytest.fixture
def at_rest() -> Coordinator:
    """The coordinator of a job that was stopped."""
    coordinator, (process,) = running(Store("sqlite://"))
    coordinator.stop("j")
    process.reports = {name: each.changed(phase=LanePhase.ENDED) for name, each in process.reports.items()}
    process.beat()
    process.leave()
    assert coordinator.status("j").state == "stopped"
    return coordinator


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    lines: list[str] = []
    monkeypatch.setattr(progress, "say", lines.append)
    return lines


def follow(coordinator: Coordinator, told: DeployResult, happens: Iterator[None], timeout: float = 60.0) -> None:
    client: Any = Desk(coordinator, happens)
    verb.follow(client, "j", told, timeout, json=False)


def test_a_job_at_rest_is_waited_for_until_the_version_runs(at_rest: Coordinator, said: list[str]) -> None:
    def happens() -> Iterator[None]:
        yield
        closing = Process(at_rest, 1)
        closing.work()
        closing.leave()
        yield
        Process(at_rest, 2).work()

    told = deploy(at_rest, job(more=True))
    assert at_rest.status("j").state == "starting"
    follow(at_rest, told, happens())
    assert at_rest.status("j").state == "running"
    assert said[-1] == "job j: deployment 2; all its lanes run"


def test_a_change_that_takes_long_says_that_it_still_waits(
    at_rest: Coordinator, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def happens() -> Iterator[None]:
        yield
        yield
        closing = Process(at_rest, 1)
        closing.work()
        closing.leave()
        Process(at_rest, 2).work()

    told = deploy(at_rest, job(more=True))
    monkeypatch.setattr(scale, "AGAIN", 0.0)
    follow(at_rest, told, happens())
    (first, *again) = [line for line in said if "to close" in line]
    assert again
    assert all(re.fullmatch(rf"{re.escape(first)}, after \d+ s", each) for each in again), again


def test_a_job_that_does_not_start_in_time_is_told_of(at_rest: Coordinator, said: list[str]) -> None:
    told = deploy(at_rest, job(more=True))
    with pytest.raises(OutOfTimeError, match="job j is still starting after 0 s: job j: "):
        follow(at_rest, told, iter(()), timeout=0.0)


def test_one_whose_first_answer_was_lost_is_not_taken_for_done_if_it_was_undone(said: list[str]) -> None:
    coordinator, (process,) = running(Store("sqlite://"))
    deploy(coordinator, job(more=True), request="r")
    coordinator.cancel("j")
    process.work()
    process.leave()
    Process(coordinator, 3).work()
    with pytest.raises(ConflictError, match="job j has gone back to version 1, as deployment 3: the user cancelled it"):
        follow(coordinator, deploy(coordinator, job(more=True), request="r"), iter(()))
    assert said == ["job j: the change has been requested; the first answer was lost"]


def test_a_job_that_is_stopped_meanwhile_is_told_of(at_rest: Coordinator, said: list[str]) -> None:
    def happens() -> Iterator[None]:
        at_rest.stop("j")
        yield

    told = deploy(at_rest, job(more=True))
    with pytest.raises(JobFailedError, match="job j is stopped: it was stopped meanwhile"):
        follow(at_rest, told, happens())


@pytest.mark.parametrize(
    ("wait", "answers"),
    [
        (lambda client, _: scale.wait(client, "j", 0.1), 0),
        (lambda client, _: scale.wait(client, "j", 0.1), 1),
        (lambda client, settings: drain.wait(client, settings, "j", 0.1), 0),
    ],
)
def test_a_coordinator_that_is_gone_is_told_of(
    at_rest: Coordinator,
    said: list[str],
    tmp_path: Path,
    wait: Callable[[Any, CoordinatorSettings], None],
    answers: int,
) -> None:
    deploy(at_rest, job(more=True))
    settings = CoordinatorSettings(store=f"sqlite:///{tmp_path}/none.db")
    told = "after 0.1 s, it isn't known whether this is done: nothing runs at http://c\n  start one; then see anabranch"
    with pytest.raises(UnreachableError, match=re.escape(told)):
        wait(Dying(at_rest, answers), settings)
