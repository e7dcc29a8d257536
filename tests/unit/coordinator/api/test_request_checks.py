"""Requests that a browser sends for somebody else's page: refused on every route, before a body is read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any

import pytest

from anabranch.coordinator.api import listening
from anabranch.coordinator.api import server as server_api
from anabranch.coordinator.api.client import Client
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.store import Store
from anabranch.protocol.container import Registration
from anabranch.protocol.deployment import Program
from tests.unit.coordinator.api.requests import SHA, filled
from tests.unit.coordinator.helpers import plan

PROGRAM = Program(artifact=SHA, file="delays.py", settings={}, schemas={})


class Served:
    """A coordinator with a job, on a loopback port, as ``anabranch run`` serves one."""

    def __init__(self, coordinator: Coordinator, server: listening.Server) -> None:
        self.coordinator, self.server = coordinator, server
        self.host = f"127.0.0.1:{server.port}"
        paths: dict[str, Any] = json.loads(self.ask("GET", "/openapi.json").text)["paths"]
        self.routes = [(method.upper(), path) for path, methods in paths.items() for method in methods]

    def ask(self, method: str, path: str, headers: dict[str, str] | None = None, body: bytes = b"") -> Answer:
        return ask(self.server.port, method, path, {"Host": self.host, **(headers or {})}, body)


class Answer:
    def __init__(self, status: int, text: str) -> None:
        self.status, self.text = status, text


def ask(port: int, method: str, path: str, headers: dict[str, str], body: bytes = b"") -> Answer:
    """Ask with exactly these headers. ``Content-Length`` may promise a body that doesn't come."""
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        if body and "Content-Length" not in headers:
            headers = {**headers, "Content-Length": str(len(body))}
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders(body or None)
        answer = connection.getresponse()
        return Answer(answer.status, answer.read().decode())
    finally:
        connection.close()


@pytest.fixture
def served() -> Iterator[Served]:
    coordinator = Coordinator(Store("sqlite://"))
    coordinator.start(plan(program=PROGRAM))
    server = listening.serve(coordinator)
    yield Served(coordinator, server)
    server.close()


FOREIGN = [
    {"Origin": "http://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://127.0.0.1:1"},  # another port of the same machine is another origin
    {"Origin": "http://localhost"},
    {"Origin": "chrome-extension://abcdefghijklmnop"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"},
    {"Host": "evil.example"},
    {"Host": "127.0.0.1.evil.example:8480"},
    {"Host": "localhost.evil.example"},
    {"Host": "evil.example:80@127.0.0.1"},
    {"Host": "10.1.2.3"},
    {"Host": ""},
    {"Host": "evil.example", "Origin": "http://evil.example"},  # a name that was rebound
    {"Host": "evil.example", "Origin": "http://evil.example", "Sec-Fetch-Site": "same-origin"},
    {"Host": "evil.example", "X-Forwarded-Host": "localhost"},
]


@pytest.mark.parametrize("headers", FOREIGN, ids=lambda each: " ".join(f"{k}={v}" for k, v in each.items()))
def test_other_pages_are_refused_on_every_route(served: Served, headers: dict[str, str]) -> None:
    """With a body that is promised and never comes: it isn't waited for."""
    before = served.coordinator.status("delays"), served.coordinator.events("delays")
    for method, path in [*served.routes, ("GET", "/nowhere"), ("POST", "/nowhere"), ("OPTIONS", "/jobs")]:
        promised = {} if method == "GET" else {"Content-Length": "100", "Content-Type": "application/json"}
        answer = served.ask(method, filled(path), {**promised, **headers})
        assert answer.status == 403, (method, path, answer.text)
        assert {"error", "cure", "kind"} == json.loads(answer.text).keys()
    assert (served.coordinator.status("delays"), served.coordinator.events("delays")) == before


@pytest.mark.parametrize(
    "content_type",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "text/json",
        "application/jsonx",
        "text/plain; application/json",
        "",
        None,
    ],
)
def test_what_changes_takes_nothing_but_json(served: Served, content_type: str | None) -> None:
    """Of these a page may send the first three to any address, without asking whether it may."""
    for method, path in served.routes:
        if method == "PUT" and not content_type:
            continue  # what older clients send; no page may, as PUT is asked for first
        if method != "GET":
            typed = {} if content_type is None else {"Content-Type": content_type}
            answer = served.ask(method, filled(path), {**typed, "Content-Length": "100"})
            assert answer.status == 415, (method, path, content_type, answer.text)


def test_the_same_page_is_heard(served: Served) -> None:
    own = {"Origin": f"http://{served.host}", "Sec-Fetch-Site": "same-origin"}
    assert served.ask("GET", "/jobs", own).status == 200
    by_name = f"localhost:{served.server.port}"
    assert served.ask("GET", "/jobs", {"Host": by_name, "Origin": f"http://{by_name}"}).status == 200
    assert served.ask("GET", "/jobs", {"Host": f"[::1]:{served.server.port}"}).status == 200
    assert served.ask("GET", "/jobs", {"Host": f"LOCALHOST.:{served.server.port}"}).status == 200
    json_body = {"Content-Type": "application/json; charset=utf-8", **own}
    assert served.ask("POST", "/containers", json_body, b'{"job": "delays"}').status == 400  # it was read
    assert served.ask("POST", "/jobs/delays/stop", own).status == 200


def test_clients_that_are_no_browsers_are_heard(served: Served) -> None:
    with Client(served.server.url) as client:
        assert [each.job for each in client.jobs()] == ["delays"]
        client.put_artifact("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", b"")
        registered = client.register(Registration(job="delays", execution="x", host="h", pid=1))
        assert registered.seat == "0"


def test_names_that_are_allowed() -> None:
    coordinator = Coordinator(Store("sqlite://"))
    hosts = ("ops.example", "proxied.example:8443", "http://named.example:8480")
    server = listening.Server(server_api.app(coordinator, hosts=hosts), listening.listen())

    def status(host: str, **headers: str) -> int:
        return ask(server.port, "GET", "/jobs", {"Host": host, **headers}).status

    try:
        for host in ("ops.example", "OPS.example:1", "proxied.example", "named.example:8480", "localhost"):
            assert status(host) == 200, host
        assert status("other.example") == 403
        # a proxy that passes its own name on as Origin, and not as Host
        assert status(f"127.0.0.1:{server.port}", Origin="https://ops.example") == 200
        assert status(f"127.0.0.1:{server.port}", Origin="https://proxied.example:8443") == 200
        assert status(f"127.0.0.1:{server.port}", Origin="https://ops.example:444") == 403
        assert status(f"127.0.0.1:{server.port}", Origin="https://proxied.example") == 403
    finally:
        server.close()
