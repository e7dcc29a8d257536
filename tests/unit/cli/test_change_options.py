"""The options that verbs share which change a running job: each such verb has them beside its own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from anabranch.cli.change_options import ChangeOptions, with_change_options


@pytest.mark.parametrize(
    ("words", "wanted", "patience"),
    [
        ([], ChangeOptions(), 300.0),
        (["--timeout", "5", "--now", "--json"], ChangeOptions(timeout=5.0, now=True, json=True), 5.0),
        (["--detach", "--config", "a.toml"], ChangeOptions(detach=True, config=Path("a.toml")), None),
    ],
)
def test_a_verb_gets_its_own_options_and_those_of_a_change(
    words: list[str], wanted: ChangeOptions, patience: float | None
) -> None:
    got: list[tuple[str, int, ChangeOptions]] = []

    def verb(job: str, own: Annotated[int, typer.Option()] = 1, *, chosen: ChangeOptions) -> None:
        got.append((job, own, chosen))

    app = typer.Typer()
    app.command()(with_change_options(verb))
    found = CliRunner().invoke(app, ["j", "--own", "3", *words], catch_exceptions=False)
    assert found.exit_code == 0, found.output
    assert got == [("j", 3, wanted)]
    assert got[0][2].patience == patience
