"""Verbs of the command line, called in this process against a coordinator at a URL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from typer.testing import CliRunner

from anabranch.cli.main import app
from anabranch.coordinator.api import listening
from anabranch.coordinator.coordinator import Coordinator

__all__ = ["Call", "served"]

Call = Callable[..., tuple[str, str]]
"""Takes the words of a command that must succeed. Returns its stdout and stderr."""


@contextmanager
def served(coordinator: Coordinator, folder: Path) -> Iterator[Call]:
    """Serve a coordinator, whose URL is in a configuration file in ``folder``."""
    server = listening.serve(coordinator)
    config = folder / "anabranch.toml"
    config.write_text(f'[coordinator]\nurl = "{server.url}"\n')

    def call(*words: str) -> tuple[str, str]:
        found = CliRunner().invoke(app, [*words, "--config", str(config)], catch_exceptions=False)
        assert found.exit_code == 0, found.output
        return found.stdout, found.stderr

    try:
        yield call
    finally:
        server.close()
