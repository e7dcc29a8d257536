"""``anabranch demo`` acts only on what it starts, whatever the environment says."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from anabranch.cli.main import app
from anabranch.systems.contract import System
from anabranch.tour import tour
from anabranch.tour.processes import Processes

ELSEWHERE = {
    "ANABRANCH__COORDINATOR__STORE": "postgresql://production/anabranch",
    "ANABRANCH__COORDINATOR__URL": "http://production.invalid:8480",
    "ANABRANCH__SYSTEMS__DEFAULT": "kafka",
    "ANABRANCH__SYSTEMS__KAFKA__BOOTSTRAP_SERVERS": "production.invalid:9092",
    "anabranch__job__factor": "4",
}


@pytest.fixture
def toured(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The name of the tour's system, and what the verb ``jobs`` says in the tour's folder."""
    seen: list[str] = []

    class Tour:
        def __init__(self, _screen: object, processes: Processes, system: System, *_: object) -> None:
            verb = processes.start("jobs")
            verb.popen.wait()
            seen.extend((system.name, verb.text))

        def run(self) -> bool:
            return True

    monkeypatch.setattr(tour, "Tour", Tour)
    return seen


def test_settings_in_the_environment_are_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, toured: list[str]
) -> None:
    for name, value in ELSEWHERE.items():
        monkeypatch.setenv(name, value)
    ran = CliRunner().invoke(app, ["demo", "--folder", str(tmp_path / "tour")], catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    system, listed = toured
    assert system == "embedded"
    assert "http://127.0.0.1:" in listed
    assert "production" not in listed
    assert ran.stderr.splitlines()[0] == f"demo: has its own settings, and ignores {', '.join(sorted(ELSEWHERE))}"


def test_without_settings_in_the_environment_nothing_is_said(tmp_path: Path, toured: list[str]) -> None:
    ran = CliRunner().invoke(app, ["demo", "--folder", str(tmp_path / "tour")], catch_exceptions=False)
    assert len(toured) == 2
    assert "ignores" not in ran.stderr
