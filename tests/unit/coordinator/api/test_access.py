"""Who may ask for what: tokens and roles, the file of the token, the trail of requests, and slow or rude clients."""

from __future__ import annotations

import dataclasses
import json
import os
import socket
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from anabranch.config import CoordinatorSettings
from anabranch.coordinator.api import limits, listening, openapi, token_file
from anabranch.coordinator.api import server as server_api
from anabranch.coordinator.api.audit import Audit, AuditedRequest
from anabranch.coordinator.api.auth import Access, Role, Tokens
from anabranch.coordinator.api.browsers import Names
from anabranch.coordinator.api.client import Client
from anabranch.coordinator.api.operation import operation
from anabranch.coordinator.api.operations import OPERATIONS, Operations
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.store import Event, Store
from anabranch.errors import AnabranchError, ConfigError
from anabranch.model.lane import Lane
from anabranch.protocol.deployment import Program
from anabranch.views.dead_letters import DeadLetter
from tests.unit.coordinator.api.requests import NAMES, filled
from tests.unit.coordinator.helpers import Clock, plan

TOKEN, READS = "the-token-of-operators", "the-token-of-readers"
PROGRAM = Program(artifact=NAMES["sha256"], file="delays.py", settings={}, schemas={})


class Written:
    """A trail that keeps what it takes."""

    def __init__(self) -> None:
        self.all: list[AuditedRequest] = []

    def take(self, requested: AuditedRequest, /) -> None:
        self.all.append(requested)


@pytest.fixture
def coordinator() -> Coordinator:
    made = Coordinator(Store("sqlite://"))
    made.start(plan(program=PROGRAM))
    return made


@pytest.fixture
def trail() -> Written:
    return Written()


@pytest.fixture
def server(coordinator: Coordinator, trail: Written) -> Iterator[listening.Server]:
    routes = server_api.app(coordinator, token=TOKEN, read_token=READS, trail=trail)
    made = listening.Server(routes, listening.listen())
    yield made
    made.close()


def asked(server: listening.Server, method: str, path: str, token: str | None, **more: Any) -> httpx.Response:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    return httpx.request(method, f"{server.url}{filled(path)}", headers=headers, trust_env=False, timeout=60, **more)


PRIVATE = {"running", "dead_letters", "early_output", "artifact"}
"""Settings, records of users, and code."""
FOR_OPERATORS = {
    "RunningDeployment",
    "Program",
    "StartRequest",
    "DeployRequest",
    "DeadLetters",
    "DeadLetter",
    "Content",
}
"""Documents with settings, code or records: none of them may be anywhere in an answer to whoever may only read."""


def test_whoever_may_only_read_changes_nothing_and_sees_neither_settings_nor_code_nor_records(
    coordinator: Coordinator, server: listening.Server
) -> None:
    """Over all operations: a new one that changes something, or gives those, is refused."""
    before = coordinator.status("delays"), coordinator.events("delays")
    for each in OPERATIONS:
        query = "?executionContainerId=x" if each.path == "/containerHeartbeat" else ""
        sent = {} if each.method == "GET" else {"json": {}}
        if each.name == "put_artifact":
            sent = {"content": b"x"}
        reads = asked(server, each.method, each.path + query, READS, **sent)
        allowed = each.method == "GET" and each.name not in PRIVATE
        assert (reads.status_code == 403) is not allowed, (each.name, reads.text)
        assert each.changes is (each.method != "GET"), each.name
        if each.method == "GET":
            assert asked(server, "GET", each.path + query, TOKEN).status_code not in {401, 403}, each.name
            assert asked(server, "HEAD", each.path + query, READS).status_code == reads.status_code, each.name
    assert (coordinator.status("delays"), coordinator.events("delays")) == before
    assert "settings, code or records" in asked(server, "GET", "/jobs/delays/running", READS).text


@pytest.mark.parametrize(
    ("path", "status"), [("running/", 404), ("%72unning", 403), ("../delays/running", 404), ("nothing", 404)]
)
def test_whoever_may_only_read_gets_no_path_that_is_no_operation(
    server: listening.Server, path: str, status: int
) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        head = f"GET /jobs/delays/{path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {READS}\r\n\r\n"
        connection.sendall(head.encode())
        assert connection.recv(10_000).startswith(f"HTTP/1.1 {status}".encode())
    assert asked(server, "GET", "/jobs/delays%2frunning", READS).status_code == 403


@pytest.mark.parametrize("name", [each.name for each in OPERATIONS if not each.private])
def test_what_whoever_may_only_read_gets_has_no_settings_code_or_records_in_it(name: str) -> None:
    (read,) = (each for each in OPERATIONS if each.name == name)
    assert read.method == "GET"
    assert read.result is not bytes
    alone = openapi.described([dataclasses.replace(read, request=None)], "1")
    assert not FOR_OPERATORS & set(alone["components"]["schemas"])


def test_the_documents_for_operators_are_there() -> None:
    """A new name of one of them has to be said above."""
    assert set(openapi.described(OPERATIONS, "1")["components"]["schemas"]) >= FOR_OPERATORS


class Grown(Operations):
    """A table to which operations were added by somebody who didn't think of tokens."""

    @operation("GET", "/jobs/{job}/lanes/{lane}/dead-letters", field="letters")
    def letters(self, job: str, lane: str) -> list[DeadLetter]:  # type: ignore[empty-body]
        """The dead letters of a lane"""

    @operation("GET", "/jobs/{job}/lanes/{lane}", private=False)
    def one_lane(self, job: str, lane: str) -> Lane:  # type: ignore[empty-body]
        """One lane"""

    def call(self, operation: Any, /, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError


def test_a_new_operation_is_for_operators_unless_it_says_otherwise() -> None:
    letters, lane = vars(Grown)["letters"], vars(Grown)["one_lane"]
    routes = [Route(each.path, lambda _: PlainTextResponse("there"), methods=["GET"]) for each in (letters, lane)]
    protected = Access(Starlette(routes=routes), Tokens(TOKEN, READS), Names.of(["testserver"]), (letters, lane))
    client = TestClient(protected)
    answers = {
        (path, token): client.get(f"/jobs/j/lanes/l{path}", headers={"Authorization": f"Bearer {token}"}).status_code
        for path in ("", "/dead-letters")
        for token in (READS, TOKEN)
    }
    assert answers == {("", READS): 200, ("", TOKEN): 200, ("/dead-letters", READS): 403, ("/dead-letters", TOKEN): 200}


def test_what_changes_something_is_for_operators() -> None:
    with pytest.raises(ValueError, match="has private=False: who may only read may only GET"):
        operation("POST", "/jobs/{job}/grow", changes=True, private=False)


@pytest.mark.parametrize(
    ("brought", "role"),
    [
        (b"Bearer operators", Role.OPERATE),
        (b"Bearer readers", Role.READ),
        (b"", None),
        (b"Bearer ", None),
        (b"Bearer None", None),
        (b"operators", None),
        (b"Bearer operators,Bearer operators", None),
        (b"Bearer operators ", None),
    ],
)
def test_roles_of_tokens(brought: bytes, role: Role | None) -> None:
    assert Tokens("operators", "readers").role_of(brought) is role
    assert Tokens("operators").role_of(brought) is (role if role is Role.OPERATE else None)
    assert Tokens().role_of(brought) is Role.OPERATE


def test_the_token_is_made_once_for_its_user_alone(tmp_path: Path) -> None:
    path = tmp_path / "new" / "coordinator.db.token"
    assert token_file.read(path) is None
    token = token_file.made(path)
    assert len(token) >= 40
    assert (token_file.made(path), token_file.read(path)) == (token, token)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_a_token_that_others_may_have_seen_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "token"
    first = token_file.made(path)
    path.chmod(0o640)
    assert token_file.made(path) != first
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.write_text("\n")
    assert token_file.made(path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("of an attacker")
    path.unlink()
    path.symlink_to(elsewhere)
    with pytest.raises(ConfigError, match="can't be made"):
        token_file.made(path)


def test_without_a_setting_there_is_no_place_for_a_token() -> None:
    with pytest.raises(ConfigError, match="no file is named"):
        token_file.of(CoordinatorSettings())


def test_a_client_takes_the_token_that_is_made_after_it(coordinator: Coordinator, tmp_path: Path) -> None:
    path = tmp_path / "token"
    with_none = Client("http://127.0.0.1:1", token=lambda: token_file.read(path))
    made = token_file.made(path)
    server = listening.serve(coordinator, token=made)
    try:
        later = Client(server.url, token=lambda: token_file.read(path))
        path.unlink()
        assert [each.job for each in later.jobs()] == ["delays"]
        path.write_text("another")
        assert [each.job for each in later.jobs()] == ["delays"]  # nobody has refused the first one
        wrong = Client(server.url, token=lambda: "wrong" if not path.exists() else made)
        path.unlink()
        other = Client(server.url, token=lambda: "wrong")
        with pytest.raises(AnabranchError, match="the token is missing or wrong"):
            other.jobs()
        assert [each.job for each in wrong.jobs()] == ["delays"]
    finally:
        server.close()
        with_none.close()


def test_who_changed_what_is_written_down(server: listening.Server, trail: Written) -> None:
    with Client(server.url, token=TOKEN) as client:
        client.jobs()
        client.stop("delays")
        client.running("delays")
    assert asked(server, "POST", "/jobs/delays/scale", READS, json={}).status_code == 403
    assert asked(server, "GET", "/jobs", None).status_code == 401
    assert asked(server, "POST", "/jobs/nobody/stop", TOKEN).status_code == 404
    found = [(each.who, each.address, each.method, each.path, each.status, each.job) for each in trail.all]
    assert found == [
        ("operate", "127.0.0.1", "POST", "/jobs/delays/stop", 200, "delays"),
        ("operate", "127.0.0.1", "GET", "/jobs/delays/running", 200, "delays"),
        ("read", "127.0.0.1", "POST", "/jobs/delays/scale", 403, "delays"),
        ("nobody", "127.0.0.1", "GET", "/jobs", 401, None),
        ("operate", "127.0.0.1", "POST", "/jobs/nobody/stop", 404, "nobody"),
    ]
    assert socket.gethostname() in trail.all[0].client_name
    assert not any(TOKEN in repr(each) or READS in repr(each) for each in trail.all)


def test_plans_are_in_the_trail_and_no_events(coordinator: Coordinator, tmp_path: Path) -> None:
    noted: list[Event] = []
    trail = Audit(tmp_path / "audit", noted.append)
    with TestClient(server_api.app(coordinator, token=TOKEN, trail=trail)) as client:
        for verb, body in (
            ("scale", {"factor": 3}),
            ("drain", {"uuid": "1", "runId": 1}),
            ("rewind", {"to": "earliest"}),
        ):
            for dry in (True, False):
                client.post(
                    f"/jobs/delays/{verb}", headers={"Authorization": f"Bearer {TOKEN}"}, json={**body, "dry": dry}
                )
    trail.close()
    lines = [json.loads(line) for line in (tmp_path / "audit").read_text().splitlines()]
    assert [(line["path"], line["dry"]) for line in lines] == [
        (f"/jobs/delays/{verb}", dry) for verb in ("scale", "drain", "rewind") for dry in (True, False)
    ]
    assert [each.what.split(":")[0] for each in noted] == [
        f"POST /jobs/delays/{verb}" for verb in ("scale", "drain", "rewind")
    ]


def requested(status: int = 200, at: float = 0.0, **more: Any) -> AuditedRequest:
    given = {"who": "nobody", "client_name": "", "address": "1.2.3.4", "method": "POST", "path": "/jobs/delays/stop"}
    return AuditedRequest(at=at, status=status, **{**given, **more})


def test_of_all_refused_requests_of_an_address_only_so_many_a_minute_are_recorded(
    coordinator: Coordinator, tmp_path: Path
) -> None:
    noted: list[Event] = []
    trail = Audit(tmp_path / "audit", noted.append)
    with TestClient(server_api.app(coordinator, token=TOKEN, read_token=READS, trail=trail)) as client:
        for method, path in (("GET", "/jobs/delays/nothing"), ("POST", "/jobs/delays/stop")) * 75:
            client.request(method, path, headers={"Authorization": f"Bearer {READS}"})
        for _ in range(75):
            client.post("/jobs/delays/nothing", headers={"Authorization": f"Bearer {TOKEN}"}, json={})
    trail.close()
    lines = [json.loads(line) for line in (tmp_path / "audit").read_text().splitlines()]
    assert [each["who"] for each in lines].count("read") == 100
    assert [each["who"] for each in lines].count("operate") == 75
    assert [each.who.split()[0] for each in noted].count("read") == 1
    assert [each.who.split()[0] for each in noted].count("operate") == 75


def test_refused_requests_leave_a_job_its_history(tmp_path: Path) -> None:
    """A hundred containers whose token has expired ask again all the time."""
    noted: list[Event] = []
    clock = Clock()
    begun = clock.at

    def note(event: Event) -> None:
        if event.job == "nobody":
            raise AnabranchError("there is no such job")
        noted.append(event)

    trail = Audit(tmp_path / "audit", note, clock)
    for second in range(0, 180, 30):
        clock.at, before = begun + second, len(noted)
        for number in range(100):
            refused = {"status": 401, "why": "no token", "address": f"10.0.0.{number}"}
            trail.take(requested(path=f"/containers/delays:{number}:5/heartbeat", **refused))
            trail.take(requested(path="/jobs/nobody/stop", **refused))
        trail.take(requested(client_name="anna@here"))
        deadline = time.monotonic() + 10
        while not noted or "anna" not in noted[-1].why or len(noted) <= before:
            assert time.monotonic() < deadline
            time.sleep(0.001)
    trail.close()
    lines = (tmp_path / "audit").read_text().splitlines()
    assert len(lines) == 6 * 201
    assert [each.why for each in noted if "heartbeat" in each.what] == [
        "no token",
        "no token, 199 others were refused since the last such event: see the audit trail",
        "no token, 199 others were refused since the last such event: see the audit trail",
    ]


def test_the_trail_is_a_bounded_file_and_events(tmp_path: Path) -> None:
    noted: list[Event] = []
    clock = Clock()
    trail = Audit(tmp_path / "audit", noted.append, clock)
    trail.take(requested(client_name="anna@here"))
    for _ in range(250):
        trail.take(requested(status=401, path="/jobs", why="no token"))
        clock.at += 0.1
    clock.at += 36.0
    trail.take(requested(status=401, at=-1e6, path="/jobs", why="no token"))  # the machine's clock was set back
    trail.close()
    lines = [json.loads(line) for line in (tmp_path / "audit").read_text().splitlines()]
    assert len(lines) == 1 + 100 + 1
    assert (lines[0]["who"], lines[0]["client_name"], lines[0]["status"]) == ("nobody", "anna@here", 200)
    assert lines[-1]["left_out"] == 150
    assert [(each.job, each.who, each.what) for each in noted] == [
        ("delays", "nobody at 1.2.3.4", "POST /jobs/delays/stop: 200")
    ]
    assert stat.S_IMODE((tmp_path / "audit").stat().st_mode) == 0o600


def fill(path: Path) -> None:
    path.write_bytes(b"x" * 10_000_000 + b"\n")


def record(path: Path, what: str) -> None:
    """What a process does that has one request to record."""
    trail = Audit(path, lambda event: None)
    trail.take(requested(path=what))
    trail.close()


def recorded(path: Path) -> list[str]:
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line)["path"] for line in lines if line.startswith("{")]


@pytest.mark.parametrize(
    ("fills", "new", "old"),
    [
        ((True,), [], ["/0", "/late"]),
        ((True, False), ["/1"], ["/0", "/late"]),
        ((True, True), ["/late"], ["/1"]),
    ],
)
def test_processes_that_write_to_a_full_file_at_once_keep_its_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fills: tuple[bool, ...], new: list[str], old: list[str]
) -> None:
    """One process has opened the file when others write to it first. ``fills``: whether each finds it full."""
    path, write = tmp_path / "audit", os.write

    def others_first(descriptor: int, line: bytes) -> int:
        monkeypatch.setattr(os, "write", write)
        for number, full in enumerate(fills):
            if full:
                fill(path)
            record(path, f"/{number}")
        return write(descriptor, line)

    fill(path)
    monkeypatch.setattr(os, "write", others_first)
    record(path, "/late")
    assert recorded(path) == new
    assert recorded(tmp_path / "audit.1") == old


def test_what_changes_something_and_then_breaks_is_in_the_trail(
    coordinator: Coordinator, trail: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> None:
        raise RuntimeError("after the change was stored")

    monkeypatch.setattr(coordinator.registry, "announce", broken)
    routes = server_api.app(coordinator, token=TOKEN, trail=trail)
    with TestClient(routes, raise_server_exceptions=False) as client:
        answer = client.post("/jobs/delays/stop", headers={"Authorization": f"Bearer {TOKEN}"})
    assert answer.status_code == 500
    assert [(each.path, each.status, each.who) for each in trail.all] == [("/jobs/delays/stop", 500, "operate")]
    monkeypatch.undo()
    assert coordinator.status("delays").state in ("stopping", "stopped"), "it was changed all the same"


def test_a_client_that_leaves_in_the_middle_is_no_fault_of_the_coordinator(
    server: listening.Server, trail: Written
) -> None:
    head = f"POST /jobs/delays/scale HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n"
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(f'{head}Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{{"fac'.encode())
    deadline = time.monotonic() + 10
    while not trail.all and time.monotonic() < deadline:
        time.sleep(0.01)
    assert [(each.path, each.status) for each in trail.all] == [("/jobs/delays/scale", 400)]


def test_a_trail_that_can_t_be_written_stops_nobody(tmp_path: Path) -> None:
    def broken(event: Event) -> None:
        raise AnabranchError("there is no such job")

    trail = Audit(tmp_path / "missing" / "audit", broken)
    for _ in range(3):
        trail.take(requested())
    trail.close()
    assert not (tmp_path / "missing").exists()


def test_a_trail_whose_writer_hangs_is_closed_in_time(tmp_path: Path) -> None:
    goes_on = threading.Event()

    def hangs(event: Event) -> None:
        goes_on.wait(60)

    trail = Audit(tmp_path / "audit", hangs)
    for _ in range(1_100):  # more than may wait
        trail.take(requested())
    closing = threading.Thread(target=trail.close, args=(0.1,), daemon=True)
    closing.start()
    closing.join(10)
    assert not closing.is_alive()
    goes_on.set()


def test_an_unforeseen_error_doesn_t_end_the_trail(tmp_path: Path) -> None:
    noted: list[Event] = []

    def note(event: Event) -> None:
        if event.job == "odd":
            raise UnicodeEncodeError("utf-8", event.job, 0, 1, "the database can't take this")
        noted.append(event)

    trail = Audit(tmp_path / "audit", note)
    for path in ("/jobs/odd/stop", "/jobs/delays/stop"):
        trail.take(requested(path=path))
    trail.close()
    assert len((tmp_path / "audit").read_text().splitlines()) == 2
    assert [each.job for each in noted] == ["delays"]


def test_the_file_doesn_t_wait_for_the_store(tmp_path: Path) -> None:
    goes_on, hangs = threading.Event(), threading.Event()

    def note(event: Event) -> None:
        hangs.set()
        goes_on.wait(60)

    trail = Audit(tmp_path / "audit", note)
    trail.take(requested())
    assert hangs.wait(10)
    for number in range(3_000):  # more than may wait, but not at once
        trail.take(requested())
        if number % 500 == 0:
            _lines_reach(tmp_path / "audit", number + 2)
    trail.close(2)
    assert len((tmp_path / "audit").read_text().splitlines()) == 3_001
    goes_on.set()


def _lines_reach(path: Path, count: int) -> None:
    deadline = time.monotonic() + 10
    while len(path.read_text().splitlines()) < count:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_an_address_that_is_refused_all_the_time_is_told_so() -> None:
    now = [0.0]
    refusals = limits.Refusals(lambda: now[0])
    assert [refusals.are_too_many("a") for _ in range(1001)] == [False] * 1000 + [True]
    assert not refusals.are_too_many("b")
    now[0] = 61.0
    assert not refusals.are_too_many("a")


@pytest.mark.parametrize("sent", [b"", b"GET /jobs HT", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"])
def test_who_never_ends_a_request_is_cut_off(
    server: listening.Server, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(limits, "HEAD_WITHIN", 0.5)
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall(sent)
        assert connection.recv(1) == b""


def test_who_never_ends_a_second_request_is_cut_off(server: listening.Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HEAD_WITHIN", 2.0)
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert connection.recv(10_000).startswith(b"HTTP/1.1 200")
        connection.sendall(b"GET /heal")
        while connection.recv(10_000):
            pass


def test_a_body_that_doesn_t_come_is_answered(server: listening.Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BODY_WITHIN", 0.5)
    head = f"POST /containers HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall(f"{head}Content-Type: application/json\r\nContent-Length: 9\r\n\r\n{{".encode())
        assert connection.recv(10_000).startswith(b"HTTP/1.1 408")


def test_a_poll_may_wait_longer_than_a_body(
    coordinator: Coordinator, server: listening.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is waited for is the rest of the request, and not the answer."""
    monkeypatch.setattr(limits, "BODY_WITHIN", 0.3)
    monkeypatch.setattr(limits, "HEAD_WITHIN", 0.3)
    slow = coordinator.jobs

    def jobs() -> Any:
        time.sleep(1.0)
        return slow()

    coordinator.jobs = jobs  # type: ignore[method-assign]
    assert asked(server, "GET", "/jobs", TOKEN).status_code == 200
