"""Requests that nobody should send, over the description of the routes: none breaks or changes anything."""

from __future__ import annotations

import copy
import json
import random
import urllib.parse
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from structlog.testing import capture_logs

from anabranch.coordinator.api import listening
from anabranch.coordinator.api import server as server_api
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.store import Store, tables
from anabranch.protocol.container import Heartbeat, Registration
from anabranch.protocol.deployment import Program
from tests.unit.coordinator.helpers import FIRST, Seat, plan, report
from tests.unit.coordinator.store.helpers import raw

TOKEN = "t0ken-of-tests"
SHA = "0" * 64
ASKED = "", "/model", "/lanes", "/events"
PROGRAM = Program(artifact=SHA, file="delays.py", settings={}, schemas={})
EVIL: list[Any] = [
    None, True, -1, 0, 10**30, -(10**30), 1.5, "", "x", "\x00", "\ud800", "../../etc/passwd", "a" * 10_000, [], [[]],
    {}, {"a": {"b": 1}}, [None] * 50, "delays:0:99999999999999999999", "9" * 400,
]  # fmt: skip
NAMES = [
    "..", "../..", "%2e%2e%2fetc%2fpasswd", "..%5c..%5cetc", "%00", "a%00b", "a" * 5000, "%ff%fe", "*", "'; drop table",
    "delays%2f..%2f..", "-", ".", "~root", "delays:0:1:1", "delays:0:-1", "F" * 64, SHA + "0", "ｄelays",
]  # fmt: skip


class Target:
    """A coordinator with a job and a container, behind its HTTP server with a token."""

    def __init__(self, folder: Path) -> None:
        self.url = f"sqlite:///{folder}/coordinator.db"
        self.store = Store(self.url)
        self.coordinator = Coordinator(self.store, lease=3600.0, grace=2.0)  # however long a test takes
        self.coordinator.start(plan(program=PROGRAM))
        self.seat = Seat(self.coordinator)
        self.seat.report("running", folder_epoch=1)
        self.server = listening.Server(server_api.app(self.coordinator, token=TOKEN), listening.listen())
        self.paths: dict[str, Any] = json.loads(self.ask("GET", "/openapi.json")[1])["paths"]

    def ask(self, method: str, path: str, body: bytes | None = None, token: str | None = TOKEN) -> tuple[int, str]:
        """The path goes out as it is."""
        connection = HTTPConnection("127.0.0.1", self.server.port, timeout=30)
        headers = {"Content-Type": "application/zip" if method == "PUT" else "application/json"}
        headers |= {} if token is None else {"Authorization": f"Bearer {token}"}
        try:
            connection.request(method, urllib.parse.quote(path, safe="/?&=%:;*'~\\"), body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def state(self) -> object:
        """All that the store holds, and what the coordinator says of its job."""
        with raw(self.url) as connection:
            rows = {t.name: sorted(map(repr, connection.execute(sa.select(t)))) for t in tables.metadata.sorted_tables}
        status = self.coordinator.status("delays").to_builtins()
        for container in status["containers"]:
            container.pop("lease")
        return rows, status

    def beat(self, number: int) -> dict[str, Any]:
        me = self.seat.me
        reports = (report(FIRST, "running", 5),)
        return Heartbeat(container=me.container, epoch=me.epoch, number=number, lanes=reports).to_builtins()


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Target]:
    made = Target(tmp_path)
    yield made
    made.server.close()


def refused(target: Target, ask: Callable[[], tuple[int, str]]) -> int:
    """The status of a request; one that is refused changes nothing and is logged in one line."""
    before = target.state()
    with capture_logs() as lines:
        status, text = ask()
    assert status < 500, text
    if status >= 400:
        assert target.state() == before
        if status == 404 and not lines:  # an answer to a question about what doesn't exist
            return status
        assert [line["event"] for line in lines] == ["refused"], lines
        assert len(str(lines[0])) < 1000
    return status


def operations(target: Target) -> list[tuple[str, str]]:
    return [(method.upper(), path) for path, methods in target.paths.items() for method in methods]


def filled(path: str, name: str) -> str:
    begin, brace, rest = path.partition("{")
    return begin + name + rest.partition("}")[2] if brace else path


def test_without_the_token_there_is_nothing_but_health(target: Target) -> None:
    for method, path in operations(target):
        for token in (None, "", "wrong", TOKEN[:-1], f"{TOKEN}x"):
            status = refused(target, lambda: target.ask(method, filled(path, "delays"), b"{}", token))  # noqa: B023
            assert status == (200 if path == "/healthz" else 401), (method, path, token)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.suite(cases=3)
def test_names_that_are_paths_or_nothing(target: Target, name: str) -> None:
    for method, path in operations(target):
        if "{" in path:
            body = json.dumps(target.beat(9)).encode() if "container" in path else b"x"
            status = refused(target, lambda: target.ask(method, filled(path, name), body))  # noqa: B023
            assert 400 <= status < 500 or path.endswith("/lanes"), (method, path)  # no job has none


@pytest.mark.long
def test_bodies_that_are_no_documents(target: Target) -> None:
    dice = random.Random(1)
    bodies = [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"x"',
        b"1e999",
        b"\xff\xfe\x00",
        b"[" * 5000,
        b'{"a":' * 2000,
        dice.randbytes(2000),
    ]
    for method, path in operations(target):
        if "requestBody" in target.paths[path][method.lower()]:
            name = SHA if "sha256" in path else target.seat.me.container
            for body in bodies:
                status = refused(target, lambda: target.ask(method, filled(path, name), body))  # noqa: B023
                assert 400 <= status < 500, (method, path, body[:20])


def test_bodies_that_are_too_large(target: Target) -> None:
    for path, most in (("/jobs", 100_000_000), ("/containers", 16_000_000), (f"/artifacts/{SHA}", 50_000_000)):
        method = "PUT" if "artifacts" in path else "POST"
        assert refused(target, lambda: target.ask(method, path, b" " * (most + 1))) == 413  # noqa: B023


def test_queries_that_make_no_sense(target: Target) -> None:
    beat = json.dumps(target.beat(9)).encode()
    container = target.seat.me.container
    for value in ("", "x", "-1", "nan", "inf", "1e999", "9" * 400, "%00"):
        assert refused(target, lambda: target.ask("GET", f"/jobs/delays/events?limit={value}")) == 400  # noqa: B023
        path = f"/containers/{container}/heartbeat?wait={value}"
        if value != "9" * 400:
            assert refused(target, lambda: target.ask("POST", path, beat)) == 400  # noqa: B023
    assert refused(target, lambda: target.ask("GET", "/containerHeartbeat")) == 400


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.suite(cases=2)
def test_documents_with_something_wrong_in_them(target: Target, seed: int) -> None:
    """What is taken all the same must leave a coordinator that can be asked."""
    dice = random.Random(seed)
    who = Registration(job="delays", seat=None, execution="x", host="h", pid=1).to_builtins()
    container = target.seat.me.container
    for number in range(25):
        path, document = dice.choice(
            [
                ("/jobs", plan("other", program=PROGRAM).to_builtins()),
                ("/jobs", plan(program=PROGRAM).to_builtins()),
                ("/containers", who),
                (f"/containers/{container}/heartbeat", target.beat(number + 10)),
            ]
        )
        spoiled = copy.deepcopy(document)
        for _ in range(dice.choice([1, 1, 2])):
            spoil(dice, spoiled)
        if refused(target, lambda: target.ask("POST", path, json.dumps(spoiled).encode())) == 200:  # noqa: B023
            for question in ("/jobs", *(f"/jobs/{job}{its}" for job in ("delays", "other") for its in ASKED)):
                assert refused(target, lambda: target.ask("GET", question)) in {200, 404}, question  # noqa: B023


def spoil(dice: random.Random, document: Any) -> None:
    """Replace, drop or add something somewhere in a document."""
    places: list[tuple[Any, Any]] = []

    def walk(value: Any) -> None:
        for key in list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
            places.append((value, key))
            walk(value[key])

    walk(document)
    where, key = dice.choice(places)
    if isinstance(where, dict) and dice.random() < 0.2:
        del where[key]
    elif isinstance(where, dict) and dice.random() < 0.1:
        where["\x00"] = dice.choice(EVIL)
    else:
        where[key] = copy.deepcopy(dice.choice(EVIL))


def test_what_is_said_again_changes_nothing_more(target: Target) -> None:
    container = target.seat.me.container
    registration = Registration(job="delays", seat="0", execution="execution-1", host="here", pid=1).to_builtins()
    beats = [target.beat(9), {**target.beat(9), "lanes": [report(FIRST, "ended", 7).to_builtins()]}]
    assert target.ask("POST", f"/containers/{container}/heartbeat", json.dumps(beats[0]).encode())[0] == 200
    before = target.state()
    for body in beats:  # the second one has the number of the first
        status, answer = target.ask("POST", f"/containers/{container}/heartbeat", json.dumps(body).encode())
        assert (status, json.loads(answer)["alive"]) == (200, True)
    status, answer = target.ask("POST", "/containers", json.dumps(registration).encode())
    assert (status, json.loads(answer)["container"]) == (200, container)
    assert (
        refused(target, lambda: target.ask("POST", "/jobs", json.dumps(plan(program=PROGRAM).to_builtins()).encode()))
        == 409
    )
    assert target.state() == before
    assert target.ask("POST", "/jobs/delays/stop")[0] == 200
    before = target.state()
    assert target.ask("POST", "/jobs/delays/stop")[0] == 200
    assert target.state() == before
