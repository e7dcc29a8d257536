"""``anabranch dashboard``: which coordinator's page it opens."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from anabranch.cli.main import app
from anabranch.coordinator.store import Store
from anabranch.errors import ConflictError


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def printed() -> str:
    found = CliRunner().invoke(app, ["dashboard", "--print"], catch_exceptions=False)
    assert found.exit_code == 0, found.output
    return found.stdout.strip()


def test_of_a_store_on_a_server_it_is_that_of_the_leader(postgresql_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(postgresql_url)
    store.stand_by()
    assert store.claim(None, "http://leader.example:8642")
    store.close()
    monkeypatch.setenv("ANABRANCH__COORDINATOR__STORE", postgresql_url)
    assert printed() == "http://leader.example:8642/ui/#/"


def test_of_several_configured_ones_it_is_that_of_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANABRANCH__COORDINATOR__URL", "http://one.example:1, http://two.example:2")
    assert printed() == "http://one.example:1/ui/#/"


def test_without_any_it_says_what_to_start(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Store(url).close()
    monkeypatch.setenv("ANABRANCH__COORDINATOR__STORE", url)
    with pytest.raises(ConflictError, match="nothing that serves a dashboard is running here"):
        printed()
