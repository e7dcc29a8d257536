"""Verbs that work on a store alone need no coordinator, and none answers then."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from anabranch.cli.main import app
from anabranch.coordinator.jobs import plans
from anabranch.coordinator.store import Store, address
from anabranch.model.deployment_state import DeploymentState
from anabranch.protocol.deployment import Program
from tests.unit.coordinator.helpers import plan
from tests.unit.coordinator.store.helpers import event

NOBODY = "http://127.0.0.1:9"


@pytest.fixture
def root(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The storage root of a job that was stopped, as its settings in the store say. Its coordinator has ended."""
    root = f"{tmp_path}/its-lanes"
    settings = {"storage": {"root": root}, "systems": {"embedded": {"root": f"{tmp_path}/streams"}}}
    program = Program(artifact="0" * 64, file="delays.py", settings=settings, schemas={})
    store = Store(url)
    store.create_deployment(plans.numbered(plan(program=program), 1), DeploymentState.STOPPED, event())
    if address.is_on_server(url):
        store.stand_by()
        assert store.claim(None, NOBODY)
        store.resign()
    else:
        monkeypatch.setenv("ANABRANCH__COORDINATOR__URL", NOBODY)
    store.close()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANABRANCH__COORDINATOR__STORE", url)
    return root


def said(*words: str) -> Any:
    found = CliRunner().invoke(app, words, catch_exceptions=False)
    assert found.exit_code == 0, found.output
    return json.loads(found.stdout)


def test_what_a_reset_would_lose_is_said(root: str) -> None:
    told = said("reset", "delays", "--json")
    assert (told["done"], told["inputs"], told["folder"]) == (False, ["flights"], f"{root}/delays")


def test_a_job_is_checked_and_repaired(root: str) -> None:
    assert said("check", "delays", "--repair", "--json") == {"job": "delays", "served": False, "findings": []}


def test_a_job_is_compacted(root: str) -> None:
    assert said("compact", "delays", "--json") == {"job": "delays", "lanes": [], "folders": []}
