"""How long a stream keeps its records: set, shown and applied."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from anabranch.cli.main import app
from anabranch.errors import NotFoundError, UsageError
from anabranch.systems.embedded import Log
from tests.support.systems import LINES


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
    assert "s: keeps the newest 1 bytes of each partition; 200 records deleted" in said
    assert "0\t100 to 150" in stream("describe", "s").stdout
    assert stream("put", "s", "--file", str(lines)).exit_code == 0
    said = stream("describe", "s").stdout
    assert "s: 2 partitions, 100 records, keeps the newest 1 bytes of each partition" in said
    assert "0\t150 to 200" in said
    assert len(stream("cat", "s").stdout.splitlines()) == 100
    assert "s: keeps all records; 0 records deleted" in stream("retain", "s", "--forever").stderr


def test_what_readers_keep_is_shown_and_may_be_given_up(tmp_path: Path) -> None:
    stream("create", "s", "--partitions", "1")
    (tmp_path / "line").write_text('{"n": 1}\n')
    for _ in range(3):
        assert stream("put", "s", "--file", str(tmp_path / "line")).exit_code == 0
    Log(tmp_path / ".anabranch" / "streams").readers("s").hold("j", {0: 1})
    said = stream("retain", "s", "--retain-for", "0 seconds").stderr
    assert "; 1 record deleted" in said
    assert "kept beyond the retention, because job j must still read them: 2 records" in said
    assert "anabranch reset j; or anabranch stream retain s --past-readers" in said
    said = stream("describe", "s").stdout
    assert "reader j: 2 records to read, as of less than a minute ago" in said
    assert "kept beyond the retention, because job j" in said
    (reader,) = json.loads(stream("describe", "s", "--json").stdout)["readers"]
    assert (reader["job"], reader["unread"], reader["overdue"]) == ("j", 2, 2)
    said = stream("retain", "s", "--past-readers").stderr
    assert "; 2 records deleted" in said
    assert "kept beyond" not in said
    assert "reader j: 0 records to read" in stream("describe", "s").stdout
    found = stream("retain", "s", "--forget-reader", "another")
    assert isinstance(found.exception, NotFoundError)
    assert "those are: j" in str(found.exception)
    assert stream("retain", "s", "--forget-reader", "j").exit_code == 0
    assert json.loads(stream("describe", "s", "--json").stdout)["readers"] == []


@pytest.mark.parametrize("job", ["../stream", "..", "", "a/b", ".hidden"])
def test_only_a_job_is_forgotten(tmp_path: Path, job: str) -> None:
    stream("create", "s", "--partitions", "1")
    found = stream("retain", "s", "--forget-reader", job)
    assert isinstance(found.exception, UsageError)
    assert "can't be the name of a job" in str(found.exception)
    assert (tmp_path / ".anabranch" / "streams" / "s" / "stream.json").exists()


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


def test_a_stream_of_a_system_with_its_own_retention_is_not_created_with_ours(tmp_path: Path) -> None:
    section = f'[systems]\ndefault = "mine"\n[systems.mine]\nclass = "{LINES}"\nroot = "streams"\n'
    (tmp_path / "anabranch.toml").write_text(section)
    found = stream("create", "s", "--partitions", "1", "--retain-for", "7 days")
    assert isinstance(found.exception, UsageError)
    assert "s is in mine, which decides itself how long it keeps records" in str(found.exception)
    assert stream("create", "s", "--partitions", "1").exit_code == 0, "it wasn't created before"
