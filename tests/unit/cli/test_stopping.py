"""How ``run`` stops its job after a signal, even if the store can't be written at that moment."""

from __future__ import annotations

import signal
import threading
from contextlib import nullcontext, suppress
from typing import Any

import pytest
import typer

from anabranch.cli import stopping
from anabranch.cli.replacing import Replacer
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.store import Store
from anabranch.errors import AnabranchError, ConfigError, StoreUnavailableError
from anabranch.protocol.status import JobStatus
from tests.unit.coordinator.helpers import Clock, wait_for
from tests.unit.coordinator.workers import JOB, Worker, running

FULL = StoreUnavailableError("the disk of the store is full", "make room")
LOCKED = StoreUnavailableError("the store is locked by another process", "end that")
DENIED = ConfigError("the store can't be written", "correct it")


class Away:
    """A coordinator that raises some errors before it stops a job or tells its status, and its only container."""

    def __init__(self, *errors: AnabranchError, looks: tuple[AnabranchError, ...] = ()) -> None:
        self.coordinator = Coordinator(Store("sqlite://"), clock=Clock())
        self.worker: Worker = running(self.coordinator)
        self._errors, self._looks = list(errors), list(looks)

    def stop(self, job: str) -> None:
        if self._errors:
            raise self._errors.pop(0)
        self.coordinator.stop(job)

    def status(self, job: str) -> JobStatus:
        if self._looks:
            raise self._looks.pop(0)
        self.worker.turn()
        return self.coordinator.status(job)


def stopped(away: Any, over: threading.Event | None = None) -> list[str]:
    said: list[str] = []
    stopping.stop(away, JOB, over or threading.Event(), said.append, again=0.01)
    return said


@pytest.mark.parametrize(
    ("errors", "looks", "told"),
    [
        ((), (), []),
        ((FULL, FULL, LOCKED), (), [str(FULL), str(LOCKED)]),
        ((LOCKED, LOCKED), (LOCKED,), [str(LOCKED)]),
        ((), (FULL,), [str(FULL)]),
    ],
)
def test_a_stop_is_repeated_until_the_store_can_be_written(
    errors: tuple[AnabranchError, ...], looks: tuple[AnabranchError, ...], told: list[str]
) -> None:
    away = Away(*errors, looks=looks)
    assert stopped(away) == told
    assert away.coordinator.status(JOB).state == "stopped"


def test_another_error_is_printed_and_ends_the_attempts() -> None:
    away = Away(DENIED)
    assert stopped(away) == [str(DENIED)]
    assert away.coordinator.status(JOB).state == "running"


def test_a_job_that_has_failed_is_not_stopped_again_and_again() -> None:
    away = Away()
    away.worker.fails = lambda lane: True
    away.worker.turns()
    assert away.coordinator.status(JOB).state == "failed"
    (told,) = stopped(away)
    assert "it failed" in told


def test_nothing_is_asked_of_a_job_that_is_over() -> None:
    over = threading.Event()
    over.set()
    assert stopped(Away(FULL), over) == []


@pytest.mark.parametrize("ended", [False, True])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_job_that_runs_and_decides_how_the_process_ends(number: signal.Signals, ended: bool) -> None:
    away: Any = Away()
    states = {"running"} if ended else {"stopping", "stopped"}

    def run() -> None:
        with stopping.Signals(JOB, Replacer(may=False)) as signals:
            signals.serve(away)
            if ended:
                signals.job_ended()
            signal.raise_signal(number)
            wait_for(lambda: away.coordinator.status(JOB).state in states)
            signals.job_ended()

    with pytest.raises(KeyboardInterrupt) if number == signal.SIGINT else nullcontext():
        run()


def test_a_signal_whose_exception_python_ignored_ends_the_process_nevertheless() -> None:
    def run() -> None:
        with stopping.Signals(JOB, Replacer(may=False)) as signals:
            with suppress(KeyboardInterrupt):
                signal.raise_signal(signal.SIGTERM)
            signals.serve(Coordinator(Store("sqlite://")))

    with pytest.raises(typer.Exit):
        run()
