"""What only HTTP has: statuses, bodies that don't fit, ports, and nobody at the other end."""

from __future__ import annotations

import hashlib
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient

from anabranch.coordinator.api import listening, operation, operations
from anabranch.coordinator.api import server as server_api
from anabranch.coordinator.api.client import Client
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.store import Store
from anabranch.errors import (
    AnabranchError,
    ConflictError,
    FencedError,
    NotFoundError,
    OutOfTimeError,
    UnreachableError,
    UnsupportedFormatError,
    UsageError,
)
from anabranch.job_code.artifact import MAX_BYTES
from anabranch.model.document import compact
from anabranch.protocol.errors import error_of, payload_of, status_of
from tests.unit.coordinator.helpers import FIRST, Seat, plan, wait_for

JSON = {"Content-Type": "application/json"}


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator(Store("sqlite://"))


@pytest.fixture
def server(coordinator: Coordinator) -> Iterator[listening.Server]:
    serving = listening.serve(coordinator)
    yield serving
    serving.close()


@pytest.mark.parametrize(
    ("request_line", "body", "status", "says"),
    [
        ("GET /healthz", None, 200, '"service":"anabranch"'),
        ("GET /jobs", None, 200, '"state":"starting"'),
        ("GET /jobs/nobody", None, 404, "there is no job 'nobody'"),
        ("GET /jobs/..%5Cetc", None, 400, "can't be the name of a job"),
        ("GET /nowhere", None, 404, "GET /nowhere: Not Found"),
        ("DELETE /jobs", None, 405, "DELETE /jobs: Method Not Allowed"),
        ("GET /jobs/delays/events?limit=x", None, 400, "limit is 'x'"),
        ("GET /jobs/delays/events?limit=0", None, 400, "0 events can't be asked for"),
        ("POST /jobs/nobody/stop", None, 404, "there is no job 'nobody'"),
        ("POST /containers", "{", 400, "not a Registration"),
        ("POST /containers", "[1]", 400, "not a Registration"),
        ("POST /containers", '{"version": 9}', 400, "format version 9"),
        (
            "POST /containers/delays:0:1/heartbeat",
            '{"container": "delays:0:2", "epoch": 2, "number": 1}',
            400,
            "another container",
        ),
        (
            "POST /containers/delays:0:9/heartbeat?wait=nan",
            '{"container": "delays:0:9", "epoch": 2, "number": 1}',
            400,
            "wait is",
        ),
        (
            "POST /containers/delays:0:9/heartbeat",
            '{"container": "delays:0:9", "epoch": 2, "number": 1}',
            200,
            '"alive":false',
        ),
        ("GET /containerHeartbeat", None, 400, "executionContainerId is missing"),
        ("GET /containerHeartbeat?executionContainerId=", None, 400, "executionContainerId is missing"),
        ("GET /containerHeartbeat?executionContainerId=x", None, 200, '{"alive":false}'),
        ("GET /containerHeartbeat?executionContainerId=execution-1", None, 200, '{"alive":true}'),
    ],
)
def test_what_is_answered(
    coordinator: Coordinator,
    server: listening.Server,
    *,
    request_line: str,
    body: str | None,
    status: int,
    says: str,
) -> None:
    method, path = request_line.split()
    coordinator.start(plan())
    Seat(coordinator)
    typed = {} if body is None else JSON
    answer = httpx.request(method, f"{server.url}{path}", content=body, headers=typed)
    assert answer.status_code == status
    assert says in answer.text
    assert status < 400 or {"error", "cure"} <= answer.json().keys()


def test_documents_carry_their_version_and_camel_case(coordinator: Coordinator, server: listening.Server) -> None:
    coordinator.start(plan())
    model = httpx.get(f"{server.url}/jobs/delays/model").json()
    assert (model["version"], model["runId"]) == (1, 1)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (UsageError("what", "cure"), 400),
        (UnsupportedFormatError("what"), 400),
        (NotFoundError("what", "cure"), 404),
        (ConflictError("what"), 409),
        (FencedError("what"), 409),
        (OutOfTimeError("what"), 500),
        (AnabranchError("what"), 500),
    ],
)
def test_errors_arrive_as_they_were_sent(error: AnabranchError, status: int) -> None:
    assert status_of(error) == status
    arrived = error_of(status, payload_of(error))
    assert (type(arrived), arrived.args) == (type(error), error.args)


@pytest.mark.parametrize("body", [None, [], {"error": 3}, {"error": "x", "kind": "SystemExit"}])
def test_answers_of_strangers_are_errors_too(body: object) -> None:
    assert type(error_of(500, body)) is AnabranchError


def test_a_fault_of_ours_is_told_and_the_next_request_is_served(
    coordinator: Coordinator, server: listening.Server
) -> None:
    coordinator.jobs = lambda: {}["fault"]  # type: ignore[method-assign]
    with Client(server.url) as client:
        with pytest.raises(AnabranchError, match="the coordinator failed: KeyError"):
            client.jobs()
        with pytest.raises(NotFoundError):
            client.status("delays")


def test_who_asks_again_hears_the_end_and_is_refused_soon(
    coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "HEARD_WITHIN", 1.0)  # however slow this machine is
    server = listening.serve(coordinator)
    server.end()
    with Client(server.url) as client:
        assert client.jobs() == []
    wait_for(lambda: not _answers(server.url))
    server.close()


def _answers(url: str) -> bool:
    try:
        with Client(url) as client:
            client.jobs()
    except UnreachableError:
        return False
    return True


def test_nobody_at_the_other_end(coordinator: Coordinator) -> None:
    server = listening.serve(coordinator)
    server.close()
    with Client(server.url) as client, pytest.raises(UnreachableError, match=f"nothing runs at {server.url}"):
        client.jobs()


CODE = b"code of a job"
SHA = hashlib.sha256(CODE).hexdigest()


def test_an_artifact_is_kept_by_its_hash(coordinator: Coordinator) -> None:
    with TestClient(server_api.app(coordinator)) as client:
        assert client.get(f"/artifacts/{SHA}").status_code == 404
        for _ in range(2):
            assert client.put(f"/artifacts/{SHA}", content=CODE).status_code == 200
        answer = client.get(f"/artifacts/{SHA}")
        assert (answer.content, answer.headers["content-type"]) == (CODE, "application/zip")
        assert client.put(f"/artifacts/{SHA}", content=CODE + b"!").status_code == 400
        assert client.get(f"/artifacts/{SHA}").content == CODE


@pytest.mark.parametrize(
    "name", ["..%2F..%2Fetc%2Fpasswd", "%2e%2e", "..%5Cetc", SHA.upper(), SHA[1:], SHA + "0", "", "x" * 5000]
)
@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_an_artifact_of_no_hash_is_refused(coordinator: Coordinator, method: str, name: str) -> None:
    with TestClient(server_api.app(coordinator), raise_server_exceptions=False) as client:
        answer = client.request(
            method, f"{client.base_url}/artifacts/{name}", content=CODE if method == "PUT" else None
        )
        assert answer.status_code in {400, 404, 405, 415}
        assert answer.json()["error"]


@pytest.mark.parametrize(
    ("method", "path", "most"),
    [
        ("POST", "/jobs", operations.MAX_PLAN_BYTES),
        ("POST", "/containers", operation.MAX_BYTES),
        ("POST", "/containers/delays:0:1/heartbeat", operation.MAX_BYTES),
        ("PUT", f"/artifacts/{SHA}", MAX_BYTES),
    ],
)
def test_what_is_too_large_is_refused_in_words(coordinator: Coordinator, method: str, path: str, most: int) -> None:
    with TestClient(server_api.app(coordinator)) as client:
        client.headers["Content-Type"] = "application/zip" if method == "PUT" else "application/json"
        answer = client.request(method, path, content=b" " * (most + 1))
        assert (answer.status_code, answer.json()["error"]) == (413, f"{method} {path}: more than {most} bytes")
        assert client.request(method, path, content=b" " * 100).status_code == 400


def test_a_plan_without_a_program_is_for_one_process(coordinator: Coordinator) -> None:
    with TestClient(server_api.app(coordinator)) as client:
        answer = client.post("/jobs", content=compact(plan()), headers=JSON)
        assert (answer.status_code, answer.json()["error"]) == (400, "the plan has no program")
    assert coordinator.jobs() == []


@pytest.mark.parametrize("number", [2**63, 2**64 - 1, -(2**63), 2**70, -1])
@pytest.mark.parametrize("field", ["pid", "epoch", "number", "seen", "folderEpoch", "rows"])
def test_numbers_of_any_size_are_answered(coordinator: Coordinator, field: str, number: int) -> None:
    coordinator.start(plan())
    seat = Seat(coordinator)
    who = {"job": "delays", "seat": "0", "execution": "x\0y", "host": "h", "pid": 7, "rack": "r"}
    lane = {"lane": FIRST, "phase": "running"}
    beat: dict[str, Any] = {"container": seat.me.container, "epoch": seat.me.epoch, "number": 5, "seen": 1}
    with TestClient(server_api.app(coordinator), raise_server_exceptions=False) as client:
        if field == "pid":
            answer = client.post("/containers", json={**who, "pid": number})
        else:
            given = (
                {**beat, "lanes": [{**lane, field: number}]}
                if field in {"folderEpoch", "rows"}
                else {**beat, field: number}
            )
            answer = client.post(f"/containers/{seat.me.container}/heartbeat", json=given)
        assert answer.status_code in {200, 400}
        assert client.get("/jobs/delays").status_code == 200


def test_somebody_who_never_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        url = f"http://127.0.0.1:{mute.getsockname()[1]}"
        with Client(url, timeout=0.1) as client, pytest.raises(OutOfTimeError, match="doesn't answer"):
            client.jobs()


def test_a_port_that_is_taken(coordinator: Coordinator, server: listening.Server) -> None:
    with pytest.raises(ConflictError, match=f"port {server.port} of 127.0.0.1 can't be listened on"):
        listening.serve(coordinator, server.port)


def test_a_poll_is_answered_as_soon_as_its_time_is_over(coordinator: Coordinator, server: listening.Server) -> None:
    """Not 40 ms later, when TCP says that the first part of the answer has come."""
    coordinator.start(plan())
    with Client(server.url) as client:
        seat = Seat(client)
        seat.beat()
        late = []
        for _ in range(9):
            begun = time.monotonic()
            seat.beat(wait=0.05)
            late.append(time.monotonic() - begun - 0.05)
    assert sorted(late)[2] < 0.03


def test_polls_don_t_keep_others_waiting(coordinator: Coordinator, server: listening.Server) -> None:
    """More polls than starlette has threads of its own."""
    coordinator.start(plan())
    with Client(server.url) as client:
        seat = Seat(client)
        seat.beat()
        before = threading.active_count()
        polls = [threading.Thread(target=lambda: seat.beat(wait=30.0)) for _ in range(50)]
        for poll in polls:
            poll.start()
        wait_for(lambda: len(coordinator.registry.polls) == 50)
        assert client.status("delays").state == "starting"
        assert threading.active_count() < before + 70  # none of them has a thread of the server's
        client.stop("delays")
        for poll in polls:
            poll.join(4)
        assert not any(poll.is_alive() for poll in polls)


def test_closing_does_not_wait_for_polls(coordinator: Coordinator) -> None:
    server = listening.serve(coordinator)
    coordinator.start(plan())
    seat = Seat(Client(server.url))
    seat.beat()
    ended: list[AnabranchError] = []
    before = [one.container for one in coordinator.status("delays").containers]

    def poll() -> None:
        try:
            seat.beat(wait=30.0)
        except AnabranchError as error:
            ended.append(error)

    thread = threading.Thread(target=poll)
    thread.start()
    server.close()
    thread.join(3)
    assert not thread.is_alive()
    assert len(ended) == 1
    assert [one.container for one in coordinator.status("delays").containers] == before
    coordinator.stop("delays")
