"""Help texts appear as they are written, and a coordinator listens where verbs look for it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from click.testing import CliRunner

from anabranch import cli
from anabranch.cli.coordinator import PORT, default_port
from anabranch.cli.main import app

VERBS: Any = typer.main.get_command(app)


@pytest.mark.parametrize("verb", VERBS.list_commands(None))
def test_no_setting_is_taken_for_markup(verb: str) -> None:
    def check(command: Any, words: list[str]) -> None:
        shown = CliRunner().invoke(command, ["--help"], env={"COLUMNS": "200"}).output
        for each in command.params:
            wanted = re.findall(r"\[\w[\w.]*\]", (getattr(each, "help", None) or "").replace("\\[", "["))
            assert all(setting in shown for setting in wanted), (words, each.name, shown)
        for name, inner in getattr(command, "commands", {}).items():
            check(inner, [*words, name])

    check(VERBS.get_command(None, verb), [verb])


@pytest.mark.parametrize(
    ("words", "verb"),
    [("stream create orders", "stream create"), ("scale", "scale"), ("run job.py --no-such", "run"), ("no-such", "")],
)
def test_a_mistake_in_a_command_points_to_the_help_of_its_verb(words: str, verb: str) -> None:
    """In a process of its own: the command line sets up this process's log."""
    run = [sys.executable, "-m", "anabranch", *words.split()]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.endswith(f"\n  see {' '.join(filter(None, ('python -m anabranch', verb, '--help')))}\n")


@pytest.mark.parametrize(
    ("host", "url", "port"),
    [
        ("127.0.0.1", None, PORT),
        ("127.0.0.1", "http://127.0.0.1:9000", 9000),
        ("127.0.0.1", "http://localhost:9000/", 9000),
        ("127.0.0.1", "http://elsewhere:9000", PORT),
        ("10.0.0.7", "http://10.0.0.6:9000, http://10.0.0.7:9001", 9001),
        ("127.0.0.1", "http://127.0.0.1", PORT),
    ],
)
def test_a_coordinator_listens_where_verbs_look_for_it(host: str, url: str | None, port: int) -> None:
    assert default_port(host, url) == port


def test_a_verb_is_the_function_of_the_module_of_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hello.py").write_text('def hello(name: str) -> None:\n    """Greet."""\n    print("hello", name)\n')
    (tmp_path / "greetings.py").write_text("def hello(name: str) -> None: ...\n")
    monkeypatch.setattr(cli, "__path__", [*cli.__path__, str(tmp_path)])
    verbs: Any = typer.main.get_command(app)
    assert verbs.list_commands(None)[-1] == "hello"  # after all that have a place of their own
    assert CliRunner().invoke(verbs, ["hello", "you"]).output == "hello you\n"
    for other in ("greetings", "connect", "main", "no-such"):
        assert verbs.get_command(None, other) is None
