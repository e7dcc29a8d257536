"""Options of ``plan`` that don't go with what is planned."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from anabranch.cli.main import app
from anabranch.errors import UsageError


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("rewind", "j", "--to", "earliest"), "plan rewind shows no traffic between racks"),
        (("drain", "j"), "plan drain shows no traffic between racks"),
        (("deploy", "job.py"), "plan deploy shows no traffic between racks"),
        (("assign", "j", "--json"), "either a page or JSON"),
        (("job.py", "--json"), "either a page or JSON"),
    ],
)
def test_a_page_that_would_not_be_written_is_refused(tmp_path: Path, words: tuple[str, ...], what: str) -> None:
    page = tmp_path / "plan.html"
    with pytest.raises(UsageError, match=what) as caught:
        CliRunner().invoke(app, ["plan", *words, "--html", str(page)], catch_exceptions=False)
    assert "leave out --html" in caught.value.cure
    assert not page.exists()
