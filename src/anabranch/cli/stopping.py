"""Stops a job that this process runs, after a signal."""

from __future__ import annotations

import threading
from collections.abc import Callable

from anabranch.cli import haste, progress
from anabranch.coordinator.coordinator import Coordinator
from anabranch.errors import AnabranchError, ConflictError, StoreUnavailableError
from anabranch.model.deployment_state import DeploymentState

__all__ = ["stop"]

_LOOK = 0.5
_AGAIN = 2.0


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
