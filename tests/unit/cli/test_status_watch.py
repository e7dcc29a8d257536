"""``anabranch status --watch`` while the coordinator comes and goes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from anabranch.cli import connect
from anabranch.cli.main import app
from anabranch.errors import NotFoundError, UnreachableError
from anabranch.model.deployment_state import DeploymentState
from anabranch.protocol.status import JobStatus


def test_it_goes_on_after_the_coordinator_was_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    away = UnreachableError("nothing runs at http://127.0.0.1:1", "start it")
    there = JobStatus(job="delays", deployment=1, generation=1, state=DeploymentState.RUNNING)
    answers: list[JobStatus | Exception] = [there, away, away, there, NotFoundError("there is no job", "start it")]

    def status(*_: object) -> JobStatus:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(connect, "status", status)
    found = CliRunner().invoke(app, ["status", "delays", "--watch", "--json"])
    assert isinstance(found.exception, NotFoundError)
    assert [json.loads(line)["state"] for line in found.stdout.splitlines()] == ["running", "running"]
    assert found.stderr.count("nothing runs at http://127.0.0.1:1; trying again ...") == 1
