"""What ``start`` refuses before it asks a coordinator, what it makes of a coordinator that goes away, and what it says
of its plan."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from typer.testing import CliRunner

from anabranch import config
from anabranch.cli import connect, start
from anabranch.cli.main import app
from anabranch.errors import UnreachableError, UsageError
from anabranch.launch import loading, outputs, preparation
from anabranch.model.deployment_state import DeploymentState
from anabranch.protocol.deployment import StartBasis

JOB = """\
from anabranch import Job

job = Job("delays")
job.read("flights", key="k string", schema="n int").write("late")
"""
AWAY = UnreachableError("the coordinator broke off", "try again")


def away(*_: object) -> NoReturn:
    raise AWAY


@pytest.mark.parametrize("option", ["--available-now", "--reset-state"])
def test_what_only_a_job_file_can_be_started_with_is_refused_for_a_name(option: str) -> None:
    caught = CliRunner().invoke(app, ["start", "delays", option, "--coordinator", "http://127.0.0.1:9"]).exception
    assert isinstance(caught, UsageError)
    assert caught.what == f"{option} needs the job's file"
    assert caught.cure == f"anabranch start JOB.py {option}, not delays"


def test_a_job_is_not_new_because_its_coordinator_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def at(*_: object) -> Iterator[Any]:
        yield SimpleNamespace(status=away)

    monkeypatch.setattr(connect, "at", at)
    (tmp_path / "job.py").write_text(JOB)
    caught = CliRunner().invoke(app, ["start", str(tmp_path / "job.py")])
    assert caught.exception is AWAY
    assert AWAY.exit_code == 3


def test_streams_have_no_new_formats_because_the_coordinator_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "job.py").write_text(JOB)
    (tmp_path / "anabranch.toml").write_text("")
    monkeypatch.setattr(preparation, "plan", lambda *_: None)
    monkeypatch.setattr(outputs, "checked", lambda *_: None)
    client: Any = SimpleNamespace(known_lanes=lambda _: {}, running=away)
    with pytest.raises(UnreachableError):
        start.prepare(
            client, loading.load(tmp_path / "job.py"), config.load(tmp_path / "anabranch.toml"), None, drained=False
        )


@pytest.mark.parametrize(
    ("state", "over"),
    [
        (DeploymentState.DRAINING, None),
        (DeploymentState.DRAINED, DeploymentState.DRAINED),
        (DeploymentState.RESET, DeploymentState.RESET),
    ],
)
def test_a_start_says_for_which_deployment_it_was_planned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: DeploymentState, over: DeploymentState | None
) -> None:
    sent: list[StartBasis] = []
    status = SimpleNamespace(deployment=3, state=state)
    client = SimpleNamespace(status=lambda _: status, model=lambda _: None, start=sent.append, url="http://127.0.0.1:9")

    @contextmanager
    def at(*_: object) -> Iterator[Any]:
        yield client

    def ready(file: loading.JobFile, _: object) -> Any:
        return SimpleNamespace(prepared=SimpleNamespace(file=file), program=None, code=None)

    monkeypatch.setattr(connect, "at", at)
    monkeypatch.setattr(start, "prepare", lambda client, file, *_: file)
    monkeypatch.setattr(start, "ready", ready)
    monkeypatch.setattr(preparation, "start_message", lambda *_, expect: expect)
    (tmp_path / "job.py").write_text(JOB)
    CliRunner().invoke(app, ["start", str(tmp_path / "job.py"), "--detach"], catch_exceptions=False)
    assert sent == [StartBasis(deployment=3, over=over)]
