"""What ``run`` refuses before it starts Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch import config
from anabranch.cli import run
from anabranch.coordinator.store import stored_jobs
from anabranch.errors import AnabranchError, ConflictError, StoreUnavailableError
from anabranch.launch import loading, outputs
from anabranch.systems.embedded import EmbeddedSystem

JOB = """\
from anabranch import Job

job = Job("delays")
job.read("flights", key="k string", schema="n int").write("late")
"""


@pytest.mark.parametrize("name", ["known_lanes", "known_formats"])
@pytest.mark.parametrize("error", [StoreUnavailableError("the disk is full"), ConflictError("the store is locked")])
def test_a_store_that_cannot_be_read_is_not_one_that_knows_no_lanes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, error: AnabranchError
) -> None:
    def fails(*_: object) -> None:
        raise error

    def checked(*_: object) -> None:
        raise AssertionError("outputs are compared with lanes that weren't read")

    monkeypatch.setattr(stored_jobs, name, fails)
    monkeypatch.setattr(outputs, "checked", checked)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.py").write_text(JOB)
    (tmp_path / "anabranch.toml").write_text("")
    settings = config.load(tmp_path / "anabranch.toml")
    EmbeddedSystem(settings.systems.embedded.root).create("flights", partitions=2)
    with pytest.raises(type(error)) as caught:
        run.execute(loading.load(tmp_path / "job.py"), settings, available_now=False)
    assert caught.value is error
