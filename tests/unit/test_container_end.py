"""What a container says of its job once it has nothing left to run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from anabranch.cli import container
from anabranch.coordinator import http
from anabranch.coordinator.client import Client
from anabranch.coordinator.service import Coordinator
from anabranch.coordinator.store import Store
from anabranch.errors import ConflictError, JobFailedError
from tests.unit.coordinator_helpers import FIRST, SECOND, Seat, plan, report


@pytest.fixture
def coordinator() -> Coordinator:
    made = Coordinator(Store("sqlite://"))
    made.start(plan())
    return made


@pytest.fixture
def client(coordinator: Coordinator) -> Iterator[Client]:
    server = http.serve(coordinator)
    with Client(server.url) as made:
        yield made
        server.close()


def test_a_job_that_has_failed_is_an_error(coordinator: Coordinator, client: Client) -> None:
    Seat(coordinator).beat(report(FIRST, "failed", error="boom"), report(SECOND, "failed", error="boom, too"))
    with pytest.raises(JobFailedError, match=f"job delays failed: lane {FIRST}: boom"):
        container._check_ended_well(client, "delays", 1)


def test_a_job_that_was_stopped_is_none(coordinator: Coordinator, client: Client) -> None:
    coordinator.stop("delays")
    container._check_ended_well(client, "delays", 1)


def test_how_a_job_has_ended_may_not_be_known(client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    container._check_ended_well(Client("http://127.0.0.1:9"), "delays", 1)
    assert "how job delays has ended isn't known: nothing runs at http://127.0.0.1:9" in capsys.readouterr().err


def test_other_code_that_runs_is_an_error_for_who_starts_containers(coordinator: Coordinator, client: Client) -> None:
    with pytest.raises(ConflictError, match="deployment 1 of job delays follows deployment 2"):
        container._check_ended_well(client, "delays", 2)
