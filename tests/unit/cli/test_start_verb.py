"""What ``start`` refuses before it asks a coordinator, and what it makes of a coordinator that goes away."""

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
