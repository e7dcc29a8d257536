"""What verbs and containers learn of a job if the coordinator whose URL comes first stands by."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from anabranch.cli import connect, drain, progress, stop
from anabranch.config import CoordinatorSettings
from anabranch.coordinator.api import listening
from anabranch.coordinator.api.client import Client
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.leadership import endpoint
from anabranch.coordinator.store import Store
from anabranch.errors import ConflictError, NotLeadingError, OutOfTimeError, StoreUnavailableError
from tests.unit.cli.coordinators import Pair, pair
from tests.unit.coordinator import silent, versions
from tests.unit.coordinator.helpers import FIRST, SECOND, Seat, plan, wait_for
from tests.unit.coordinator.programs import PROGRAM


@pytest.fixture
def both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pair]:
    """The first URL is that of the coordinator that stands by."""
    monkeypatch.chdir(tmp_path)
    with pair(tmp_path) as made:
        monkeypatch.setenv("ANABRANCH__COORDINATOR__STORE", made.settings.store)
        monkeypatch.setenv("ANABRANCH__COORDINATOR__URL", made.url)
        yield made


def begun(coordinator: Coordinator) -> Seat:
    coordinator.start(plan(program=PROGRAM))
    return silent.begun(coordinator)


def test_a_container_gets_the_code_that_its_leader_is_waiting_for(both: Pair) -> None:
    both.leader.start(versions.start(versions.job()))
    versions.Process(both.leader, 1).work()
    versions.deploy(both.leader, versions.job(more=True))
    both.clock.at += 100  # the former container has died before its lanes ended
    both.leader.tick()
    with Client(both.url) as client:
        found = client.running("j").deployment
    assert found == both.leader.running("j").deployment == 1
    assert not versions.Process(both.leader, found).me.done


def test_a_coordinator_does_not_say_what_a_job_needs_that_it_does_not_serve(both: Pair) -> None:
    begun(both.leader)
    with pytest.raises(NotLeadingError, match="doesn't serve job 'delays' now"):
        both.standby.running("delays")
    with Client(both.url.split(",")[0]) as client, pytest.raises(NotLeadingError):
        client.running("delays")


def test_reads_are_answered_by_the_leader_if_it_answers(both: Pair) -> None:
    begun(both.leader)
    first, second = both.url.split(",")
    assert connect.status(both.settings, "delays").served
    assert [each.served for each in connect.jobs(both.settings)] == [True]
    assert [each.served for each in connect.overview(both.settings).jobs] == [True]
    with Client(first) as client:
        assert not client.status("delays").served
    with Client(f"{first},http://127.0.0.1:9") as client:
        assert not client.status("delays").served
    with Client(both.url) as client:
        assert client.status("delays").served
        assert client.url == second


def test_a_job_whose_coordinator_was_not_asked_is_not_said_to_rest(
    both: Pair, capsys: pytest.CaptureFixture[str]
) -> None:
    seat = begun(both.leader)
    progress.unserved(both.settings, both.standby.status("delays"))
    assert "no coordinator that serves the job answered" in capsys.readouterr().err
    both.leader.stop("delays")
    silent.leave(seat, (FIRST, "ended"), (SECOND, "ended"))
    assert both.standby.status("delays").state == "stopped"
    progress.unserved(both.settings, both.standby.status("delays"))
    assert capsys.readouterr().err == "nothing is running: this is from the store\n"


def test_what_a_standby_cannot_read_is_asked_of_the_leader(both: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    begun(both.leader)

    def fails(_: str) -> None:
        raise ConflictError("not now", "try again")

    monkeypatch.setattr(both.standby, "status", fails)
    assert connect.status(both.settings, "delays").served


@pytest.mark.parametrize("in_process", [False, True])
def test_a_job_whose_run_was_killed_is_said_to_rest(
    alone: CoordinatorSettings, in_process: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    Coordinator(Store(alone.store)).start(plan() if in_process else plan(program=PROGRAM))
    progress.unserved(alone, connect.status(alone, "delays"))
    said = "nothing is running: " if in_process else "no coordinator that serves the job answered: "
    assert capsys.readouterr().err.startswith(said)


def test_a_process_that_has_a_job_without_serving_it_is_named(
    alone: CoordinatorSettings, capsys: pytest.CaptureFixture[str]
) -> None:
    Coordinator(Store(alone.store)).start(plan())
    with endpoint.RunLock(alone.store, "delays"):
        progress.unserved(alone, connect.status(alone, "delays"))
    assert capsys.readouterr().err.startswith(f"process {os.getpid()} is starting the job, ending it, ")


@pytest.mark.parametrize("in_process", [False, True])
@pytest.mark.parametrize("verb", [stop.stop, drain.drain])
def test_who_ends_a_run_waits_until_its_process_has_released_the_job(
    alone: CoordinatorSettings, monkeypatch: pytest.MonkeyPatch, verb: Callable[..., None], in_process: bool
) -> None:
    """Spark is still being stopped. A coordinator, which has other jobs, isn't waited for."""
    monkeypatch.setattr(drain, "begun", lambda *_: SimpleNamespace(stages={}, deployment=1))
    monkeypatch.setattr(drain, "wait", lambda *_: None)
    coordinator = Coordinator(Store(alone.store))
    coordinator.start(plan() if in_process else plan(program=PROGRAM))
    server = listening.serve(coordinator)
    late = pytest.raises(OutOfTimeError, match=f"process {os.getpid()}") if in_process else nullcontext()
    with endpoint.RunLock(alone.store, "delays"):
        endpoint.write(alone.store, "delays", server.url)
        with late:
            verb("delays", timeout=0.0)
    server.close()


def test_stop_waits_until_the_leader_has_stopped_the_job(both: Pair) -> None:
    seat = begun(both.leader)
    stopping = threading.Thread(target=stop.stop, args=("delays",), daemon=True)
    stopping.start()
    wait_for(lambda: both.leader.status("delays").state == "stopping")
    stopping.join(0.5)
    assert stopping.is_alive()
    silent.leave(seat, (FIRST, "ended"), (SECOND, "ended"))
    stopping.join(10)
    assert not stopping.is_alive()


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CoordinatorSettings:
    """Settings without a URL: processes on this machine are found by their notes."""
    monkeypatch.chdir(tmp_path)
    settings = CoordinatorSettings(store=f"sqlite:///{tmp_path}/c.db")
    monkeypatch.setenv("ANABRANCH__COORDINATOR__STORE", settings.store)
    return settings


@pytest.mark.parametrize(("in_process", "away"), [(False, 0), (True, 0), (True, 2)])
def test_a_job_whose_coordinator_dies_while_it_stops_has_ended_only_if_it_ran_there(
    alone: CoordinatorSettings,
    in_process: bool,
    away: int,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """``away``: how often the store can't be read then."""
    reads, faults = connect.is_left_by_run, iter(range(away))

    def read(settings: CoordinatorSettings, job: str) -> bool:
        for _ in faults:
            raise StoreUnavailableError("the store is away", "try again")
        return reads(settings, job)

    monkeypatch.setattr(connect, "is_left_by_run", read)
    coordinator = Coordinator(Store(alone.store), grace=2.0)
    coordinator.start(plan() if in_process else plan(program=PROGRAM))
    silent.begun(coordinator)
    server = listening.serve(coordinator)
    lock = endpoint.RunLock(alone.store, "delays")
    lock.acquire()
    endpoint.write(alone.store, "delays", server.url)
    raised: list[BaseException | None] = []

    def wait() -> None:
        try:
            stop.stop("delays", timeout=3.0)
            raised.append(None)
        except OutOfTimeError as error:
            raised.append(error)

    stopping = threading.Thread(target=wait, daemon=True)
    stopping.start()
    wait_for(lambda: coordinator.status("delays").state == "stopping")
    server.close()
    endpoint.remove(alone.store, "delays")
    lock.release()
    stopping.join(15)
    (error,) = raised
    if in_process:
        assert error is None
        return
    assert "no coordinator that serves it answers" in str(error)
    assert "anabranch coordinator" in str(error)
    assert "waiting for" in capsys.readouterr().err
