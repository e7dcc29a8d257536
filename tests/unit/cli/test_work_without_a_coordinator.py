"""Verbs that work on a store alone need no coordinator, and none answers then."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from anabranch.cli.main import app
from anabranch.coordinator.jobs import plans
from anabranch.coordinator.store import Store, address
from anabranch.errors import AnabranchError
from anabranch.model.deployment_state import DeploymentState
from anabranch.protocol.deployment import Program
from tests.unit.coordinator.helpers import FIRST, plan
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


def refused(path: Path) -> None:
    raise PermissionError(errno.EPERM, "Operation not permitted", str(path))


def test_what_a_reset_would_lose_is_said(root: str) -> None:
    told = said("reset", "delays", "--json")
    assert (told["done"], told["inputs"], told["folder"]) == (False, ["flights"], f"{root}/delays")


def test_a_reset_says_that_it_is_done_once_it_is_done(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(root) / "delays"
    (folder / "lane").mkdir(parents=True)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rmdir", refused)
        broken_off = CliRunner().invoke(app, ["reset", "delays", "--yes", "--json"])
    assert broken_off.stdout == ""
    assert isinstance(broken_off.exception, AnabranchError)
    assert str(broken_off.exception) == (
        f"job delays is reset in the store, but {folder}/lane can't be deleted: Operation not permitted\n"
        "  see that this user can delete it, or delete it yourself; then run anabranch reset delays --yes"
    )
    told = said("reset", "delays", "--yes", "--json")
    assert (told["done"], told["wasReset"], folder.exists()) == (True, True, False)


def test_a_folder_that_compact_cannot_delete_is_named(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (Path(root) / "delays" / FIRST / "7").mkdir(parents=True)
    monkeypatch.setattr(Path, "rmdir", refused)
    caught = CliRunner().invoke(app, ["compact", "delays"]).exception
    assert isinstance(caught, AnabranchError)
    assert f"{root}/delays/{FIRST}/7 can't be deleted: Operation not permitted" in caught.what
    assert "anabranch compact delays" in caught.cure


def test_a_job_is_checked_and_repaired(root: str) -> None:
    assert said("check", "delays", "--repair", "--json") == {"job": "delays", "served": False, "findings": []}


def test_a_job_is_compacted(root: str) -> None:
    assert said("compact", "delays", "--json") == {"job": "delays", "lanes": [], "folders": []}
