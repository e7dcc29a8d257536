"""``deploy --drain``: which options it takes, and what it prints."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from anabranch.cli import connect, drain, start
from anabranch.cli.main import app
from anabranch.errors import ConflictError, UsageError
from anabranch.model.deployment_state import DeploymentState
from anabranch.protocol.deployment import StartBasis

JOB = """\
from anabranch import Job

job = Job("delays")
job.read("flights", key="k string", schema="n int").write("late")
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A job file, for a coordinator that drains the job and starts deployment 2."""

    @contextmanager
    def at(*_: object) -> Iterator[Any]:
        yield SimpleNamespace(model=lambda job: None)

    monkeypatch.setattr(connect, "at", at)
    monkeypatch.setattr(start, "prepare", lambda *_, **__: None)
    monkeypatch.setattr(start, "ready", lambda *_, **__: None)
    monkeypatch.setattr(drain, "begun", lambda *_: SimpleNamespace(deployment=1))
    monkeypatch.setattr(drain, "wait", lambda *_: None)
    monkeypatch.setattr(start, "hand_over", lambda *_, **__: 2)
    monkeypatch.setattr(start, "wait", lambda *_, **__: None)
    (tmp_path / "job.py").write_text(JOB)
    return str(tmp_path / "job.py")


def said(*words: str) -> str:
    return CliRunner().invoke(app, ["deploy", *words], catch_exceptions=False).stdout


def test_the_new_deployment_is_given_as_json(file: str) -> None:
    told = json.loads(said(file, "--drain", "--json"))
    assert (told["deployment"], told["versionOf"]) == (2, 2)
    assert said(file, "--drain") == ""


def test_a_version_that_could_not_start_does_not_drain_the_job(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its code can't be packed, or its tables don't fit: this was once found after the drain, and no version ran."""

    def fails(*_: object) -> None:
        raise ConflictError("the table has no column n")

    monkeypatch.setattr(start, "ready", fails)
    monkeypatch.setattr(drain, "begun", lambda *_: pytest.fail("the job is drained"))
    with pytest.raises(ConflictError, match="no column n"):
        said(file, "--drain")


@pytest.mark.parametrize(("factors", "planned"), [((1, 1), [1]), ((1, 4), [1, 4])])
def test_a_job_that_is_scaled_before_its_drain_begins_stays_scaled(
    file: str, monkeypatch: pytest.MonkeyPatch, factors: tuple[int, int], planned: list[int]
) -> None:
    """The new version is prepared for one model, and would be started after the drain with another one."""
    models, prepared, expected = iter(factors), list[int](), list[StartBasis]()

    @contextmanager
    def at(*_: object) -> Iterator[Any]:
        yield SimpleNamespace(model=lambda job: next(models))

    def hand_over(*_: object, basis: StartBasis, **__: object) -> int:
        expected.append(basis)
        return 2

    monkeypatch.setattr(connect, "at", at)
    monkeypatch.setattr(start, "prepare", lambda client, file, settings, model, **_: prepared.append(model))
    monkeypatch.setattr(start, "hand_over", hand_over)
    said(file, "--drain")
    assert prepared == planned
    assert expected == [StartBasis(deployment=1, over=DeploymentState.DRAINED)]


@pytest.mark.parametrize(
    ("words", "what", "cure"),
    [
        (("--drain", "--detach"), "waits for the drain", "leave --detach out"),
        (("--drain", "--now"), "waits for running batches", "leave --now out"),
        (("--drain", "--drop-state", "counted"), "can't drop the state", "--reset-state"),
        (("--reset-state",), "--reset-state is for deploy --drain", "add --drain"),
        (("--up-to", "latest"), "--up-to is for deploy --drain", "add --drain"),
    ],
)
def test_an_option_that_would_be_ignored_is_refused(file: str, words: tuple[str, ...], what: str, cure: str) -> None:
    with pytest.raises(UsageError, match=what) as caught:
        said(file, *words)
    assert cure in caught.value.cure
