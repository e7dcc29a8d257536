"""``anabranch rewind`` and ``plan rewind``: what they take, and what they say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from anabranch.cli import connect
from anabranch.cli import rewind as verb
from anabranch.cli.main import app
from anabranch.coordinator.coordinator import Coordinator
from anabranch.errors import ConflictError, NotFoundError, UsageError
from anabranch.protocol.status import JobStatus
from tests.unit.coordinator.conftest import clock, store
from tests.unit.coordinator.rewinds import begun, coordinator, systems
from tests.unit.coordinator.workers import JOB, Worker, running

__all__ = ["clock", "coordinator", "store", "systems"]  # fixtures


class Desk:
    """A coordinator, whose container goes on whenever somebody looks."""

    def __init__(self, coordinator: Coordinator, worker: Worker) -> None:
        self._coordinator = coordinator
        self._worker = worker

    def __getattr__(self, name: str) -> Any:
        return getattr(self._coordinator, name)

    def status(self, job: str) -> JobStatus:
        found = self._coordinator.status(job)
        self._worker.turn()
        return found


@pytest.fixture
def worker(coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch) -> Worker:
    worker = running(coordinator)
    worker.read = 5
    worker.turns()

    @contextmanager
    def client(*_: object) -> Iterator[Desk]:
        yield Desk(coordinator, worker)

    monkeypatch.setattr(connect, "client", client)
    return worker


def said(*words: str) -> Any:
    return CliRunner().invoke(app, words, catch_exceptions=False)


def test_it_waits_until_all_lanes_run_again(coordinator: Coordinator, worker: Worker) -> None:
    result = said("rewind", JOB, "--to", "earliest", "--state", "clear")
    assert result.exit_code == 0
    assert "2 lane(s) are closed, 2 follow them" in result.stderr
    assert "rewound to earliest, generation 2; all its lanes run" in result.stderr
    assert coordinator.status(JOB).state == "running"
    assert begun(coordinator)["counted"] == [0, 0]


def test_detached_it_prints_what_comes_of_it(coordinator: Coordinator, worker: Worker, tmp_path: Path) -> None:
    file = tmp_path / "positions.json"
    file.write_text(json.dumps({"embedded/in/1": 2}))
    result = said("rewind", JOB, "--to", str(file), "--state", "keep", "--detach", "--json")
    told = json.loads(result.stdout)
    assert (told["generation"], told["to"], len(told["lanes"])) == (2, {"embedded/in/1": 2}, 2)
    assert coordinator.status(JOB).state == "changing"


def test_it_says_why_the_job_has_gone_back(worker: Worker) -> None:
    worker.fails = lambda lane: lane.rewind is not None and not lane.rewind.back
    with pytest.raises(ConflictError, match=r"has gone back.*can't start: it can't"):
        said("rewind", JOB, "--to", "earliest", "--state", "clear")


def test_a_plan_shows_what_is_read_again_and_changes_nothing(coordinator: Coordinator, worker: Worker) -> None:
    result = said("plan", "rewind", JOB, "--to", "earliest", "--state", "clear")
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert "│ embedded/in/0 │ 0 │ 5 │" in lines
    assert "the state of counted is cleared" in lines
    assert "no lane keeps running" in lines
    assert any(line.startswith("output pauses for about") for line in lines)
    assert coordinator.status(JOB).generation == 1
    assert json.loads(said("plan", "rewind", JOB, "--to", "earliest", "--state", "keep", "--json").stdout)["to"]


@pytest.mark.parametrize(
    "words", [("plan", "rewind", JOB), ("plan", "rewind", "--to", "earliest"), ("plan", "job.py", "--to", "earliest")]
)
def test_a_plan_of_nothing_is_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="plan rewind JOB --to earliest"):
        said(*words)


@pytest.mark.parametrize(
    ("text", "kind", "match"),
    [
        ("[1]", UsageError, "a file of positions: Expected `object`, got `array`"),
        ("{", UsageError, "a file of positions"),
        ('{"kafka/in/0": "1"}', UsageError, "a file of positions: Expected `int`"),
        (None, NotFoundError, "there is no file"),
    ],
)
def test_a_file_that_holds_no_positions(tmp_path: Path, text: str | None, kind: type[Exception], match: str) -> None:
    file = tmp_path / "positions.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(kind, match=match):
        verb.wished(str(file), None)


def test_positions_are_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "positions.json"
    file.write_text(json.dumps({"kafka/in/0": 12}))
    wish = verb.wished(str(file), "keep")
    assert (wish.to, wish.state) == ({"kafka/in/0": 12}, "keep")
    assert wish.request
    with pytest.raises(UsageError, match="--state can't be 'new'"):
        verb.wished("earliest", "new")
