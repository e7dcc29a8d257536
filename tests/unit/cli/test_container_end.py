"""What a container says of its job once it has nothing left to run."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from anabranch import Job
from anabranch.cli import container
from anabranch.config import JobSettings, Settings
from anabranch.container.heartbeats import DirectHeartbeats
from anabranch.container.seat_lease import SeatLease
from anabranch.coordinator.api import listening
from anabranch.coordinator.api.client import Client
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.store import Store
from anabranch.errors import ConflictError, JobFailedError
from tests.unit.coordinator.helpers import FIRST, SECOND, Seat, plan, report, wanted


@pytest.fixture
def coordinator() -> Coordinator:
    made = Coordinator(Store("sqlite://"))
    made.start(plan())
    return made


@pytest.fixture
def client(coordinator: Coordinator) -> Iterator[Client]:
    server = listening.serve(coordinator)
    with Client(server.url) as made:
        yield made
        server.close()


def test_a_job_that_has_failed_is_an_error(coordinator: Coordinator, client: Client) -> None:
    Seat(coordinator).beat(report(FIRST, "failed", error="boom"), report(SECOND, "failed", error="boom, too"))
    with pytest.raises(JobFailedError, match=f"job delays failed: lane {FIRST}: boom"):
        container.check_ended_well(client, "delays", 1)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({}, ""),
        ({"on_coordinator_loss": "stop"}, 'the job has on_coordinator_loss = "stop"'),
        ({"trigger": "real-time"}, "the job runs in real time"),
    ],
)
def test_why_a_container_stops_without_its_coordinator(settings: dict[str, Any], why: str) -> None:
    job = Job("shop")
    job.read("orders", schema="id int").write("large")
    assert container.stops_because(job.graph, Settings(job=JobSettings(**settings))) == why


def test_a_container_that_stops_without_its_coordinator_says_why(coordinator: Coordinator) -> None:
    seat = Seat(coordinator)
    seat_lease = SeatLease(seat.me, 0.0, lambda: seat.me.lease, stops_because="the job runs in real time")
    assert seat_lease.must_stop.endswith(" s, and the job runs in real time")


def test_a_job_that_was_stopped_is_none(coordinator: Coordinator, client: Client) -> None:
    coordinator.stop("delays")
    container.check_ended_well(client, "delays", 1)


def test_how_a_job_has_ended_may_not_be_known(client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    container.check_ended_well(Client("http://127.0.0.1:9"), "delays", 1)
    assert "it isn't known how job delays ended: nothing runs at http://127.0.0.1:9" in capsys.readouterr().err


def test_other_code_that_runs_is_an_error_for_who_starts_containers(coordinator: Coordinator, client: Client) -> None:
    with pytest.raises(ConflictError, match="deployment 1 of job delays follows deployment 2"):
        container.check_ended_well(client, "delays", 2)


def test_a_container_that_gives_way_to_a_new_process_ends_neither_lane_nor_job(coordinator: Coordinator) -> None:
    """Its lanes have failed in all attempts that may help here; the next process goes on with them."""
    seat = Seat(coordinator)
    gone = DirectHeartbeats(coordinator, SeatLease(seat.me, 0.0, lambda: 0.0, stops_because=""))
    gone.take([report(lane, "running", folder_epoch=1) for lane in (FIRST, SECOND)])
    waiting = {"folder_epoch": 1, "stopped": True, "pending": True, "trouble": "OptionalDataException"}
    gone.leave([report(FIRST, "ended", 3, number=4, **waiting), report(SECOND, "ended", stopped=True)], returns=True)
    (demand,) = coordinator.demands(())
    assert (demand.holders, [*demand.returning]) == (frozenset(), ["execution-1"])
    (event,) = [each for each in coordinator.events("delays") if "again" in each.what]
    assert (event.what, event.why) == (
        f"lane {FIRST} failed and is tried again, in a new process",
        "OptionalDataException",
    )
    status = coordinator.status("delays")
    assert (status.state, status.error) == ("running", None)
    after = Seat(coordinator, pid=2)
    assert wanted(after.beat()) == [FIRST, SECOND]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_container_that_waits_for_its_coordinator_ends_as_it_is_told_to(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    command = [sys.executable, "-m", "anabranch", "container", "delays", "--coordinator", "http://127.0.0.1:9"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        assert process.stderr is not None
        assert process.stderr.readline().endswith("waiting for the coordinator ...\n")
        process.send_signal(number)
        _, printed = process.communicate(timeout=60)
    assert (process.returncode, printed) == (
        code,
        "stopping; a second signal, such as Ctrl-C, ends the process at once ...\n",
    )
