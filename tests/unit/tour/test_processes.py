"""Signals that end the tour: once, not in the middle of a start, and never its clearing away."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from anabranch.errors import AnabranchError
from anabranch.tour.processes import Interruptions, Processes


@pytest.fixture(autouse=True)
def heeded() -> Iterator[None]:
    """Signals are heeded as in a terminal, though the tests may have been started where they are ignored (nohup)."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    handlers = (signal.default_int_handler, signal.SIG_DFL, signal.SIG_DFL)
    before = [signal.signal(number, handler) for number, handler in zip(numbers, handlers, strict=True)]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


def interrupt(number: signal.Signals = signal.SIGINT) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_what_is_done(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), Interruptions():
        interrupt(number)
    assert signal.getsignal(number) is before


def test_a_signal_waits_for_what_must_not_be_disturbed() -> None:
    done = []

    def tour() -> None:
        with Interruptions() as interruptions:
            with interruptions.undisturbed():
                interrupt()
                done.append("inside")
            done.append("behind")

    with pytest.raises(KeyboardInterrupt):
        tour()
    assert done == ["inside"]


def test_clearing_away_is_never_disturbed() -> None:
    done: list[str] = []

    def clear_away(name: str) -> None:
        interrupt()
        done.append(name)

    def tour() -> None:
        with Interruptions() as interruptions:
            interruptions.at_end(lambda: clear_away("first"))
            interruptions.at_end(lambda: clear_away("last"))
            interrupt()

    with pytest.raises(KeyboardInterrupt):
        tour()
    assert done == ["last", "first"]


def test_a_signal_that_was_ignored_is_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interruptions():
            interrupt(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_verb_that_fails_says_why(tmp_path: Path) -> None:
    with Interruptions() as interruptions:
        processes = Processes(tmp_path, tmp_path, {}, interruptions)
        with pytest.raises(AnabranchError, match=r"anabranch status nobody ended with 3:\nerror: there is no store"):
            processes.run("status", "nobody")


def test_nothing_is_left_of_what_was_started(tmp_path: Path) -> None:
    with Interruptions() as interruptions:
        started = Processes(tmp_path, tmp_path, {}, interruptions).start("coordinator", "--port", "0")
        started.freeze()
        assert started.code is None
    assert started.code == -signal.SIGKILL
