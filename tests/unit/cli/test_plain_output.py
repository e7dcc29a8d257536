"""Names, settings and errors are printed as they are, though rich would take some of them for markup."""

from __future__ import annotations

import re
import threading
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from rich.table import Table
from typer.testing import CliRunner

from anabranch import consoles
from anabranch.cli import connect, tables, traffic
from anabranch.cli import status as status_verb
from anabranch.cli.main import app
from anabranch.errors import NotFoundError
from anabranch.model.deployment_state import DeploymentState
from anabranch.protocol.status import JobStatus, Sizing
from tests.unit.coordinator.helpers import wait_for

TEXTS = ("set [systems.kafka] bootstrap_servers", "KeyError: '[/orders]'", "delays:100:7", "[job] [bold]x[/bold]")
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@pytest.fixture(autouse=True)
def wide_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "400")


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("TERM", "xterm")


def check(printed: str) -> None:
    plain = _CONTROL.sub("", printed)
    assert [text for text in TEXTS if text not in plain] == []


def status(job: str = "delays") -> JobStatus:
    return JobStatus(job=job, deployment=1, generation=1, state=DeploymentState.RUNNING, warnings=TEXTS)


@pytest.mark.usefixtures("terminal")
def test_in_the_table_of_run(capsys: pytest.CaptureFixture[str]) -> None:
    over = threading.Event()
    looks: list[str] = []
    coordinator = SimpleNamespace(status=lambda job: looks.append(job) or status())
    watching = threading.Thread(target=tables.watch, args=(coordinator, "delays", over, None), daemon=True)
    watching.start()
    wait_for(lambda: len(looks) > 1 or not watching.is_alive())
    assert watching.is_alive()
    over.set()
    wait_for(lambda: not watching.is_alive())
    check(capsys.readouterr().err)


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize("text", TEXTS)
def test_in_the_table_of_status(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [status(text)]

    def answer(*_: object) -> JobStatus:
        if not answers:
            raise NotFoundError("there is no job", "start it")
        return answers.pop()

    monkeypatch.setattr(connect, "status", answer)
    monkeypatch.setattr(status_verb, "time", SimpleNamespace(sleep=lambda _: None))
    ran = CliRunner().invoke(app, ["status", "delays", "--watch"])
    assert isinstance(ran.exception, NotFoundError)
    assert text in _CONTROL.sub("", ran.stdout)


def test_in_a_part_that_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [SimpleNamespace(to_builtins=lambda text=text: {"id": text, "error": text}) for text in TEXTS]
    monkeypatch.setattr(connect, "read", lambda *_: rows)
    ran = CliRunner().invoke(app, ["show", "deployments", "delays"], catch_exceptions=False)
    check(ran.stdout)


def test_in_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    sizing = Sizing(
        job="delays",
        state=DeploymentState.RUNNING,
        generation=1,
        factor=1,
        containers=1,
        allowed=(1,),
        advice=TEXTS,
    )
    client = nullcontext(SimpleNamespace(sizing=lambda _: sizing))
    monkeypatch.setattr(connect, "client", lambda *_: client)
    check(CliRunner().invoke(app, ["sizing", "delays"], catch_exceptions=False).stdout)


def test_in_why_racks_are_ignored(capsys: pytest.CaptureFixture[str]) -> None:
    traffic.show(tables.wide(), None, None, " ".join(TEXTS))
    check(capsys.readouterr().out)


@pytest.mark.parametrize("text", TEXTS)
def test_in_a_table(text: str) -> None:
    table = Table(title=text)
    table.add_column(text)
    table.add_row(text)
    console = consoles.plain(width=100, record=True)
    console.print(table)
    assert console.export_text().count(text) == 3
