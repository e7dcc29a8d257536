"""``anabranch show`` and ``anabranch why``: of a coordinator at a URL, and of a store that nobody serves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from anabranch.cli.main import app
from anabranch.coordinator.api import listening, server
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.jobs import plans
from anabranch.coordinator.leadership import endpoint
from anabranch.coordinator.store import Store
from anabranch.model.deployment_state import DeploymentState
from anabranch.protocol.commands import ScaleRequest
from tests.unit.coordinator.figures import with_figures
from tests.unit.coordinator.helpers import Clock, plan
from tests.unit.coordinator.store.helpers import event
from tests.unit.coordinator.workers import JOB

PARTS = ("live", "partitions", "placement", "graph", "deployments", "changes", "history", "moves", "lane-times")


@pytest.fixture(params=["served", "at rest"])
def served(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[bool]:
    """A job, behind a URL or in a store."""
    url = f"sqlite:///{tmp_path}/coordinator.db"
    store = Store(url)
    coordinator = Coordinator(store, clock=Clock(), lease=10, grace=2, counting=lambda *_: {"embedded/in": 2})
    worker = with_figures(coordinator)
    coordinator.scale(JOB, ScaleRequest(factor=4))
    worker.turns(6)
    coordinator.tick()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANABRANCH__COORDINATOR__STORE", url)
    if request.param == "at rest":
        store.close()
        yield False
        return
    opened = listening.Server(server.app(coordinator), listening.listen())
    monkeypatch.setenv("ANABRANCH__COORDINATOR__URL", opened.url)
    yield True
    opened.close()
    store.close()


def said(*words: str) -> str:
    found = CliRunner().invoke(app, words, catch_exceptions=False)
    assert found.exit_code == 0, found.output
    return found.output


def test_each_part_is_shown_and_given_as_json(served: bool) -> None:
    for part in PARTS:
        assert said("show", part, JOB)
        plain = json.loads(said("show", part, JOB, "--json"))
        assert plain
        if isinstance(plain, dict) and "served" in plain:
            assert plain["served"] is served
    for part in ("overview", "coordinator"):
        assert said("show", part)
        assert json.loads(said("show", part, "--json"))
    (change,) = json.loads(said("show", "changes", JOB, "--json"))
    assert (change["kind"], change["outcome"], change["generation"]) == ("scale", "done", 2)


def test_the_overview_has_what_a_process_on_this_machine_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path}/coordinator.db"
    store = Store(url)
    coordinator = Coordinator(store, clock=Clock(), lease=10, grace=2)
    with_figures(coordinator)
    store.create_deployment(plans.numbered(plan(), 1), DeploymentState.STOPPED, event())
    opened = listening.serve(coordinator)
    endpoint.write(url, JOB, opened.url)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANABRANCH__COORDINATOR__STORE", url)
    try:
        jobs = json.loads(said("show", "overview", "--json"))["jobs"]
    finally:
        opened.close()
        store.close()
    found = {each["job"]: (each["served"], each["state"], each["rows"]) for each in jobs}
    assert found == {JOB: (True, "running", 30.0), "delays": (False, "stopped", None)}


def test_why_says_what_is_the_matter(served: bool) -> None:
    rules = {each["rule"] for each in json.loads(said("why", JOB, "--json"))}
    assert rules == (set() if served else {"no-leader"})
    text = said("why", JOB)
    assert text == "nothing known holds job j back\n" if served else "no coordinator" in text
