"""Stops a job that this process runs, after a signal."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Self

import typer

from anabranch.cli import haste, progress
from anabranch.coordinator.coordinator import Coordinator
from anabranch.errors import AnabranchError, ConflictError, StoreUnavailableError
from anabranch.model.deployment_state import DeploymentState

if TYPE_CHECKING:
    from anabranch.cli.replacing import Replacer

__all__ = ["Signals", "stop"]

_LOOK = 0.5
_AGAIN = 2.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Signals:
    """Inside ``with``, the first SIGINT or SIGTERM ends the job that this process runs or is about to run, and the
    second ends the process at once.

    Before :meth:`serve` is called, the first signal raises KeyboardInterrupt in the main thread. After that, it stops
    the job, like ``anabranch stop``, and the block continues. At the end of the block, KeyboardInterrupt is raised
    after SIGINT. If SIGTERM interrupted the block, ``typer.Exit`` is raised, so the exit code is 0.

    Attributes:
        received: the first signal; None if there was none.
    """

    def __init__(self, job: str, replacer: Replacer) -> None:
        self.received: int | None = None
        self._job = job
        self._replacer = replacer
        self._coordinator: Coordinator | None = None
        self._over = threading.Event()
        self._before = {number: signal.getsignal(number) for number in _SIGNALS}

    def __enter__(self) -> Self:
        self.listen()
        return self

    def listen(self) -> None:
        """Handle the signals. Call this again after Spark has started, because PySpark installs a handler for SIGINT
        that cancels all of Spark's jobs.
        """
        for number in _SIGNALS:
            signal.signal(number, self._take)

    def serve(self, coordinator: Coordinator) -> None:
        """From now on, the first signal stops the job, which ``coordinator`` serves. If a signal has already arrived,
        KeyboardInterrupt is raised: Python ignored the signal's own KeyboardInterrupt, for example in a finalizer.
        """
        self._coordinator = coordinator
        if self.received is not None:
            raise KeyboardInterrupt

    def job_ended(self) -> None:
        """From now on, the first signal stops nothing."""
        self._over.set()

    def _take(self, number: int, _frame: FrameType | None) -> None:
        if self.received is not None:
            os._exit(128 + number)
        self.received = number
        self._replacer.told_to_end(number)
        progress.say("stopping; a second signal, such as Ctrl-C, ends the process at once ...")
        if self._coordinator is None:
            raise KeyboardInterrupt
        threading.Thread(target=stop, args=(self._coordinator, self._job, self._over), daemon=True).start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        sys.stderr.flush()
        if kind is None and self.received == signal.SIGINT:
            raise KeyboardInterrupt
        if kind is KeyboardInterrupt and self.received == signal.SIGTERM:
            raise typer.Exit from None


def stop(
    coordinator: Coordinator,
    job: str,
    over: threading.Event,
    say: Callable[[str], None] = progress.say,
    again: float = _AGAIN,
) -> None:
    """Stop a job. Until it has stopped or ``over`` is set, print what it is waiting for. Errors are printed, not
    raised. The request is repeated every ``again`` seconds while the store is unavailable, or while the job is active
    but can't be stopped at the moment. After any other error, the function returns.
    """
    waits, told = haste.Waits(say=say), ""
    while not over.is_set():
        try:
            coordinator.stop(job)
            while (status := coordinator.status(job)).state == DeploymentState.STOPPING and not over.is_set():
                waits.tell(status)
                over.wait(_LOOK)
            return
        except AnabranchError as error:
            if str(error) != told:
                told = str(error)
                say(told)
            if not _can_succeed_later(error, coordinator, job):
                return
        over.wait(again)


def _can_succeed_later(error: AnabranchError, coordinator: Coordinator, job: str) -> bool:
    """Whether a stop that has failed can succeed later. A ConflictError can mean that the job has already ended."""
    if isinstance(error, StoreUnavailableError):
        return True
    if not isinstance(error, ConflictError):
        return False
    try:
        return coordinator.status(job).state.active
    except StoreUnavailableError:
        return True
    except AnabranchError:
        return False
