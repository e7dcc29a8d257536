"""What a run does around the job, with incarnations that only note what they should do."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from anabranch import Job
from anabranch.errors import UsageError
from anabranch.testing import BATCH, DRAIN, KILL, run, running
from anabranch.testing.messages import Encoder
from anabranch.testing.streams import EmbeddedStreams


def writing_nothing() -> Job:
    job = Job("j")
    job.read("flights", schema="n int").foreach_batch(print)
    return job


class Noting:
    """Stands for an incarnation."""

    def __init__(self, done: list[str]) -> None:
        self._done = done

    def run(self) -> None:
        self._done.append("run")

    def run_and_kill(self) -> tuple[()]:
        self._done.append("kill")
        return ()

    def run_and_drain(self) -> None:
        self._done.append("drain")


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the incarnations have done."""
    noted: list[str] = []
    monkeypatch.setattr(running.session, "shared", lambda settings: None)
    monkeypatch.setattr(running, "carry", lambda functions: None)
    monkeypatch.setattr(running, "Incarnation", lambda *_: Noting(noted))
    return noted


def pickled(rows: Any) -> Any:
    return pickle.loads(pickle.dumps(rows))


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickled])
def test_a_copied_sentinel_is_the_same_sentinel(copied: Callable[[Any], Any], done: list[str]) -> None:
    rows = [{"n": 1}, *(copied(sentinel) for sentinel in (BATCH, KILL, DRAIN))]
    result = run(writing_nothing(), {"flights": rows})
    assert done == ["run", "kill", "drain", "run"]
    assert len(result.kills) == 1


def test_a_copied_kill_is_refused_in_real_time_too() -> None:
    with pytest.raises(UsageError, match="the inputs have a KILL"):
        run(writing_nothing(), {"flights": [copy.deepcopy(KILL)]}, trigger="real-time")


@pytest.mark.usefixtures("done")
def test_a_record_has_the_bytes_that_a_float_has_not(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The job's dead letters are written by hand, as there is no Spark to write anything."""
    value = b'{"price":12345678901234567.89}'

    class Writing(Noting):
        def run(self) -> None:
            streams = EmbeddedStreams(tmp_path / "streams")
            streams.create("flights-dead-letters", 1)
            streams.put("flights-dead-letters", [Encoder("out", [], 1).encode(0, row) for row in (value, None)])

    monkeypatch.setattr(running, "Incarnation", lambda *_: Writing([]))
    result = run(writing_nothing(), {"flights": []}, folder=tmp_path)
    assert [record.raw for record in result.records("flights-dead-letters")] == [value, None]
    assert result["flights-dead-letters"] == [{"price": 12345678901234567.89}, None]


@pytest.fixture
def unconfigured() -> Iterator[None]:
    """Structlog as it is in a process that doesn't configure it."""
    configured, before = structlog.is_configured(), structlog.get_config()
    structlog.reset_defaults()
    yield
    structlog.reset_defaults()
    if configured:
        structlog.configure(**before)


class Logging(Noting):
    """Logs as a job's function might. ``configure`` is called before."""

    def __init__(self, configure: Callable[[], None] = lambda: None) -> None:
        super().__init__([])
        self._configure = configure

    def run(self) -> None:
        self._configure()
        structlog.get_logger().info("in the run")


@pytest.mark.usefixtures("unconfigured", "done")
def test_the_users_loggers_are_quiet_only_during_a_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(running, "Incarnation", lambda *_: Logging())
    run(writing_nothing(), {"flights": []})
    structlog.get_logger().info("after the run")
    shown = capsys.readouterr().out
    assert "after the run" in shown
    assert "in the run" not in shown
    assert not structlog.is_configured()


@pytest.mark.usefixtures("unconfigured", "done")
def test_a_run_keeps_what_the_users_code_has_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    only = [structlog.processors.JSONRenderer()]
    monkeypatch.setattr(running, "Incarnation", lambda *_: Logging(lambda: structlog.configure(processors=only)))
    run(writing_nothing(), {"flights": []})
    assert structlog.get_config()["processors"] == only
