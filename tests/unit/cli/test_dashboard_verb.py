"""``anabranch dashboard``: which coordinator's page it opens."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from anabranch.cli.main import app
from anabranch.coordinator.store import Store
from anabranch.errors import ConflictError

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def printed(*options: str) -> str:
    found = CliRunner().invoke(app, ["dashboard", "--print", *options], catch_exceptions=False)
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


def test_of_several_named_ones_it_is_that_of_the_first() -> None:
    assert printed("--coordinator", "http://one.example:1/, http://two.example:2") == "http://one.example:1/ui/#/"


def test_the_lines_of_the_command_line_that_a_page_shows_have_options_that_there_are() -> None:
    """The lines for kinds of changes are made by a function of the page."""
    source = (ROOT / "dashboard" / "src" / "pages" / "requests.ts").read_text()
    shown = re.findall(r'if \(kind === "(\w+)".*options\.push\("(--[a-z-]+)"', source)
    assert ("scale", "--factor") in shown
    verbs: Any = get_command(app)
    for verb, option in shown:
        options = {name for each in verbs.get_command(None, verb).params for name in each.opts}
        assert option in options, f"{verb} {option}"


def test_without_any_it_says_what_to_start(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Store(url).close()
    monkeypatch.setenv("ANABRANCH__COORDINATOR__STORE", url)
    with pytest.raises(ConflictError, match="nothing that serves a dashboard is running here"):
        printed()
