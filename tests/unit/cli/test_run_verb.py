"""What ``run`` refuses before it starts Spark, and what it makes of a signal before its job runs."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import typer

from anabranch import config
from anabranch.cli import run
from anabranch.cli.replacing import Replacer
from anabranch.config import Settings
from anabranch.container import executors
from anabranch.coordinator.commands import start
from anabranch.coordinator.commands.context import Context
from anabranch.coordinator.leadership import endpoint
from anabranch.coordinator.store import Store, stored_jobs
from anabranch.errors import AnabranchError, ConflictError, NotFoundError, StoreUnavailableError
from anabranch.launch import loading, local_store, outputs, preparation
from anabranch.launch.loading import JobFile
from anabranch.protocol.deployment import StartRequest
from anabranch.spark.session import java_program
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


class WithoutSpark(Replacer):
    """Starts no Spark, but handles SIGINT as PySpark does then."""

    @contextmanager
    def session(self, *_: object) -> Iterator[None]:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        yield None


@pytest.mark.parametrize(("number", "ending"), [(signal.SIGTERM, typer.Exit), (signal.SIGINT, KeyboardInterrupt)])
@pytest.mark.parametrize("moment", ["while it is planned", "once Spark has started", "once it is stored as started"])
def test_a_signal_before_the_job_runs_ends_it_in_order(
    file: JobFile,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    moment: str,
    number: signal.Signals,
    ending: type[BaseException],
) -> None:
    carry_out = start.run

    def told(*_: object) -> None:
        signal.raise_signal(number)

    def started(context: Context, request: StartRequest) -> None:
        carry_out(context, request)
        told()

    monkeypatch.setattr(java_program, "resolve", lambda: None)
    monkeypatch.setattr(executors, "ready", lambda *_: None)
    monkeypatch.setattr(preparation, "resolved", lambda *_: {})
    if moment == "while it is planned":
        monkeypatch.setattr(preparation, "plan", told)
    elif moment == "once Spark has started":
        monkeypatch.setattr(preparation, "resolved", told)
    else:
        monkeypatch.setattr(start, "run", started)
    before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    with pytest.raises(ending):
        run.execute(file, settings, available_now=False, replacer=WithoutSpark(may=False))
    assert "stopping; a second signal" in capsys.readouterr().err
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == before
    assert not endpoint.RunLock(settings.coordinator.store, "delays").is_held()
    assert state_of(settings) == ("stopped" if moment == "once it is stored as started" else "")


def state_of(settings: Settings) -> str:
    """The state of the job; empty if it isn't stored."""
    try:
        with closing(Store.open_existing(settings.coordinator.store)) as store:
            return stored_jobs.deployment(store, "delays").state
    except NotFoundError:
        return ""
