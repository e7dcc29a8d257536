"""A secret that is planted in the settings is searched in all that verbs print, raise and leave behind."""

from __future__ import annotations

import json
import sqlite3
import traceback
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import typer.main
from structlog.testing import capture_logs
from typer.testing import CliRunner

from anabranch.cli.main import app
from anabranch.coordinator.api import listening
from anabranch.coordinator.api import server as server_api
from anabranch.coordinator.api.audit import Audit
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.store import Store
from anabranch.protocol.deployment import Program
from tests.unit.coordinator.helpers import Seat, plan

PLANTED = "pl4nted-s3cret"
TOKEN, READS, PASSWORD, WRONG = (f"{PLANTED}-{what}" for what in ("token", "read", "password", "wrong"))
CONFIG = """
[coordinator]
url = "URL"
token = "${file:FOLDER/token}"
read_token = "${env:PLANTED_READ}"
store = "sqlite:///FOLDER/.anabranch/coordinator.db"

[systems]
default = "kafka"

[systems.kafka]
bootstrap_servers = "127.0.0.1:1"
security_protocol = "SASL_PLAINTEXT"
sasl_username = "anna"
sasl_password = "${env:PLANTED_PASSWORD}"

[formats]
registry = "http://127.0.0.1:1"
registry_username = "anna"
registry_password = "${env:PLANTED_PASSWORD}"
"""
VERBS: dict[str, list[list[str]]] = {
    "init": [["no/such/folder/at/all"]],
    "run": [["nowhere.py"], ["broken.py"]],
    "coordinator": [["--host", "203.0.113.1"], ["--port", "99999"]],
    "container": [["nobody"]],
    "start": [["nowhere.py"], ["broken.py"], ["delays"], ["nobody"]],
    "plan": [["nowhere.py"], ["scale", "delays", "--factor", "3"], ["rewind", "delays"]],
    "jobs": [[], ["--json"]],
    "status": [["delays"], ["delays", "--json"], ["nobody"]],
    "describe": [["delays"], ["nobody"]],
    "events": [["delays"], ["delays", "--json"], ["nobody"]],
    "why": [["delays"], ["nobody"]],
    "show": [["overview"], ["live", "delays"], ["live", "nobody"], ["early-output", "delays"], ["moves", "delays"]],
    "dashboard": [["delays"], ["delays", "--print"], ["nobody"]],
    "check": [["delays"], ["nobody"]],
    "fence": [["delays:0:1"], ["nobody:0:1"]],
    "scale": [["delays", "--factor", "8", "--detach"], ["nobody", "--factor", "2"]],
    "deploy": [["nowhere.py"], ["broken.py"]],
    "rollback": [["delays"], ["nobody"]],
    "rewind": [["delays", "--to", "earliest"], ["nobody", "--to", "earliest"]],
    "expand": [["delays"], ["nobody"]],
    "drain": [["delays", "--detach"], ["nobody"]],
    "cancel": [["delays"], ["nobody"]],
    "compact": [["delays"], ["nobody"]],
    "backup": [["nobody", "there"], ["delays", "--help"]],
    "restore": [["--help"]],
    "sizing": [["delays"], ["nobody"]],
    "reset": [["delays"], ["nobody", "--yes"]],
    "accept": [["delays", "flights"], ["nobody", "flights", "--yes"]],
    "stop": [["nobody"], ["delays", "--now"]],
    "doctor": [["--help"]],
    "demo": [["--help"]],
    "jars": [["fetch", "nothing"]],
    "stream": [["list"], ["describe", "flights"], ["create", "flights"], ["retain", "flights"]],
    "assign": [["apply", "delays"], ["show", "delays"]],
    "inspect": [["state", "delays"], ["offsets", "delays"]],
}

OF_TOKENS = {"token", "coordinator.db.token.html"}
"""Files for a token, which only their user can read."""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    (tmp_path / "broken.py").write_text("import os\nraise RuntimeError('this job file is broken')\n")
    monkeypatch.setenv("PLANTED_READ", READS)
    monkeypatch.setenv("PLANTED_PASSWORD", PASSWORD)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def url(place: Path) -> Iterator[str]:
    store = Store(f"sqlite:///{place}/.anabranch/coordinator.db")
    coordinator = Coordinator(store)
    settings = {"systems": {"kafka": {"sasl_password": "${env:PLANTED_PASSWORD}"}}}
    coordinator.start(plan(program=Program(artifact="0" * 64, file="delays.py", settings=settings, schemas={})))
    Seat(coordinator)
    trail = Audit(place / ".anabranch" / "coordinator.db.audit", lambda event: store.note([event]))
    server = listening.Server(
        server_api.app(coordinator, token=TOKEN, read_token=READS, trail=trail), listening.listen()
    )
    yield server.url
    server.close()
    trail.close()
    store.close()


def said(words: list[str]) -> str:
    """All that a verb prints, logs and raises, with the causes of what it raises."""
    with capture_logs() as lines:
        found = CliRunner().invoke(app, words)
    raised = "".join(traceback.format_exception(*found.exc_info)) if found.exc_info is not None else ""
    return f"{found.output}{found.stderr}{raised}{found.exception!r}{lines}"


def left(folder: Path) -> dict[str, bytes]:
    """What lies in the folder, but for the files that are there for the token."""
    return {str(each): each.read_bytes() for each in folder.rglob("*") if each.is_file() and each.name not in OF_TOKENS}


def test_there_is_a_call_of_each_verb() -> None:
    assert set(VERBS) == set(typer.main.get_command(app).list_commands(None))


@pytest.mark.long
def test_no_verb_tells_or_leaves_a_secret(place: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)  # with what a browser is started, everybody sees
    config = place / "anabranch.toml"
    config.write_text(CONFIG.replace("URL", url).replace("FOLDER", str(place)))
    for verb, calls in VERBS.items():
        for words in calls:
            assert PLANTED not in said([verb, *words]), (verb, words)
    monkeypatch.setenv("ANABRANCH__COORDINATOR__TOKEN", WRONG)
    for words in (["status", "delays"], ["stop", "delays"]):
        text = said(words)
        assert "the token is missing or wrong" in text
        assert PLANTED not in text, words
    assert [each for each in opened if PLANTED in each] == []
    assert opened
    found = left(place)
    assert any(name.endswith("coordinator.db") for name in found)
    assert any(name.endswith(".audit") for name in found)
    assert [name for name, content in found.items() if PLANTED.encode() in content] == []


def test_the_events_name_who_was_refused_and_no_token(place: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANABRANCH__COORDINATOR__URL", url)
    for token in (WRONG, READS):
        monkeypatch.setenv("ANABRANCH__COORDINATOR__TOKEN", token)
        assert PLANTED not in said(["stop", "delays"])
    monkeypatch.setenv("ANABRANCH__COORDINATOR__TOKEN", TOKEN)
    said(["stop", "delays"])
    said(["status", "delays"])
    with closing(sqlite3.connect(place / ".anabranch" / "coordinator.db")) as store:
        query = "SELECT who, what FROM events WHERE what LIKE 'POST%' ORDER BY id"
        found = store.execute(query).fetchall()
    assert found == [
        ("nobody at 127.0.0.1", "POST /jobs/delays/stop: 401"),
        ("operate at 127.0.0.1", "POST /jobs/delays/stop: 200"),
    ]
    trail = (place / ".anabranch" / "coordinator.db.audit").read_text().splitlines()
    posts = [line for line in map(json.loads, trail) if line["method"] == "POST"]
    assert [(each["who"], each["status"]) for each in posts] == [("nobody", 401), ("read", 403), ("operate", 200)]


def test_this_test_sees_a_secret_that_is_left(place: Path) -> None:
    (place / "log").write_text(f"connecting with {TOKEN}")
    assert [name for name, content in left(place).items() if PLANTED.encode() in content] == [str(place / "log")]
    (place / "loud.py").write_text(f"raise RuntimeError('{PASSWORD}')")
    assert PLANTED in said(["run", "loud.py"])
