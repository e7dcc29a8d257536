"""What ``start`` refuses before it asks a coordinator."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from anabranch.cli.main import app
from anabranch.errors import UsageError


@pytest.mark.parametrize("option", ["--available-now", "--reset-state"])
def test_what_only_a_job_file_can_be_started_with_is_refused_for_a_name(option: str) -> None:
    caught = CliRunner().invoke(app, ["start", "delays", option, "--coordinator", "http://127.0.0.1:9"]).exception
    assert isinstance(caught, UsageError)
    assert caught.what == f"{option} needs the job's file"
    assert caught.cure == f"anabranch start JOB.py {option}, not delays"
