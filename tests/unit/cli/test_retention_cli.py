"""How long a stream keeps its records: set, shown and applied."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from anabranch.cli.main import app
from anabranch.errors import UsageError


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def stream(*words: str, text: str = "") -> Result:
    return CliRunner().invoke(app, ["stream", *words], input=text)


def test_a_retention_is_set_shown_and_applied(tmp_path: Path) -> None:
    assert stream("create", "s", "--partitions", "2", "--retain-for", "7 days").exit_code == 0
    assert json.loads(stream("describe", "s", "--json").stdout)["retention"] == {"ms": 604_800_000, "bytes": None}
    lines = tmp_path / "lines"
    lines.write_text("".join(f'{{"n": {n}}}\n' for n in range(100)))
    for _ in range(3):
        assert stream("put", "s", "--file", str(lines)).exit_code == 0
    assert "s: 2 partitions, 300 records, keeps records for 7 days" in stream("describe", "s").stdout
    said = stream("retain", "s", "--retain-bytes", "1").stderr
    assert "s: keeps 1 bytes of each partition; 200 records deleted" in said
    assert "0\t100 to 150" in stream("describe", "s").stdout
    assert stream("put", "s", "--file", str(lines)).exit_code == 0
    said = stream("describe", "s").stdout
    assert "s: 2 partitions, 100 records, keeps 1 bytes of each partition" in said
    assert "0\t150 to 200" in said
    assert len(stream("cat", "s").stdout.splitlines()) == 100
    assert "s: keeps all records; 0 records deleted" in stream("retain", "s", "--forever").stderr


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--retain-bytes", "many"), "'many' isn't a size"),
        (("--retain-for", "a while"), "is no duration"),
        (("--forever", "--retain-bytes", "1GB"), "--forever excludes the other options"),
    ],
)
def test_what_is_no_retention(words: tuple[str, ...], text: str) -> None:
    stream("create", "s", "--partitions", "1")
    found = stream("retain", "s", *words)
    assert isinstance(found.exception, UsageError)
    assert text in str(found.exception)
