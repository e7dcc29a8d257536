"""What ``run`` refuses before it starts Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch import config
from anabranch.cli import run
from anabranch.config import Settings
from anabranch.coordinator.leadership import endpoint
from anabranch.coordinator.store import stored_jobs
from anabranch.errors import AnabranchError, ConflictError, StoreUnavailableError
from anabranch.launch import loading, local_store, outputs
from anabranch.launch.loading import JobFile
from anabranch.systems.embedded import EmbeddedSystem

JOB = """\
from anabranch import Job

job = Job("delays")
job.read("flights", key="k string", schema="n int").write("late")
"""


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Of a folder with a job file ``job.py`` and the job's input."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.py").write_text(JOB)
    (tmp_path / "anabranch.toml").write_text("")
    settings = config.load(tmp_path / "anabranch.toml")
    EmbeddedSystem(settings.systems.embedded.root).create("flights", partitions=2)
    return settings


@pytest.fixture
def file(settings: Settings, tmp_path: Path) -> JobFile:
    return loading.load(tmp_path / "job.py")


@pytest.mark.parametrize("name", ["known_lanes", "known_formats"])
@pytest.mark.parametrize("error", [StoreUnavailableError("the disk is full"), ConflictError("the store is locked")])
def test_a_store_that_cannot_be_read_is_not_one_that_knows_no_lanes(
    file: JobFile, settings: Settings, monkeypatch: pytest.MonkeyPatch, name: str, error: AnabranchError
) -> None:
    def fails(*_: object) -> None:
        raise error

    def checked(*_: object) -> None:
        raise AssertionError("outputs are compared with lanes that weren't read")

    monkeypatch.setattr(stored_jobs, name, fails)
    monkeypatch.setattr(outputs, "checked", checked)
    with pytest.raises(type(error)) as caught:
        run.execute(file, settings, available_now=False)
    assert caught.value is error


def test_a_job_is_not_planned_while_another_process_may_change_it(
    file: JobFile, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job could drain after it was looked up."""

    def present_model(*_: object) -> None:
        raise AssertionError("the job is looked up while another process has it")

    monkeypatch.setattr(local_store, "present_model", present_model)
    lock = endpoint.RunLock(settings.coordinator.store, "delays")
    with lock, pytest.raises(ConflictError, match="already running here"):
        run.execute(file, settings, available_now=False)
