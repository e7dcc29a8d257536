"""Waits for a coordinator that can't be reached yet, or for a job to reach a state."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import TypeVar

from anabranch.cli import progress
from anabranch.config.secrets import without_passwords
from anabranch.coordinator.api.client import AWAY, Client
from anabranch.deadlines import wait_until
from anabranch.errors import AnabranchError, OutOfTimeError, UnreachableError
from anabranch.model.deployment_state import DeploymentState
from anabranch.protocol.status import JobStatus

__all__ = ["SETTLED", "answered", "polled", "until"]

SETTLED = frozenset(DeploymentState) - {DeploymentState.PLANNED, DeploymentState.STARTING, DeploymentState.CHANGING}
"""The states of a job that was started, and isn't starting or changing any more."""
_LAUNCHED_WITHIN = 5.0
"""How many seconds it can take until a coordinator with a launcher reports that it launches containers."""
_FIRST, _LONGEST = 0.5, 5.0
_POLL = 0.1

S = TypeVar("S")
T = TypeVar("T")


def answered(ask: Callable[[], T], unless: Callable[[], bool] = lambda: False) -> T:
    """The answer to ``ask``, a request to a coordinator. If the coordinator can't be reached or can't answer now, a
    message is printed once, and the request is repeated until it succeeds. But if ``unless`` returns True, the error is
    raised instead.
    """
    pause, said = _FIRST, False
    while True:
        try:
            return ask()
        except AWAY as error:
            if unless():
                raise
            if not said:
                progress.say(f"{error.what}; waiting for the coordinator ...")
                said = True
        time.sleep(pause)
        pause = min(_LONGEST, pause * 2)


def polled(
    job: str,
    ask: Callable[[], S],
    look: Callable[[S], T | None],
    timeout: float,
    late: Callable[[], OutOfTimeError],
    every: float,
) -> T:
    """Ask a coordinator about a job until ``look``, called with the answer, has a result other than None, and return
    the result. If the coordinator can't be reached or can't answer now, it is asked again, too.

    Args:
        late: returns the error to raise after ``timeout`` seconds if the last request was answered.
        every: the seconds between two requests.

    Raises:
        UnreachableError: the coordinator couldn't be reached at the last request.
        OutOfTimeError: ``late()``; or the coordinator couldn't answer the last request for another reason.
    """
    away: AnabranchError | None = None

    def asked() -> T | None:
        nonlocal away
        try:
            answer = ask()
        except AWAY as error:
            away = error
            return None
        away = None
        return look(answer)

    def ended() -> AnabranchError:
        if away is None:
            return late()
        kind = UnreachableError if isinstance(away, UnreachableError) else OutOfTimeError
        return kind(
            f"after {timeout:g} s, it isn't known whether this is done: {away.what}",
            "; then ".join(filter(None, (away.cure, f"see anabranch status {job}"))),
        )

    return wait_until(asked, timeout, ended, every)


def until(client: Client, job: str, states: Collection[str], timeout: float) -> JobStatus:
    """Wait until a job is in one of the states, and return its status. Print the job's state meanwhile.

    Raises:
        OutOfTimeError: the job isn't in one of the states after ``timeout`` seconds.
        AnabranchError: the coordinator's launcher has given up starting containers, or the coordinator can't be reached
            after ``timeout`` seconds.
    """
    begin, seen, told = time.monotonic(), "", ""
    deadline = begin + timeout
    state = ""

    def look() -> JobStatus | None:
        nonlocal seen, told, state
        status = answered(lambda: client.status(job), unless=lambda: time.monotonic() > deadline)
        state = status.state
        if state in states:
            return status
        if status.launching is not None and status.launching.gave_up:
            raise AnabranchError(
                f"containers of job {job} can't be started: {status.launching.reason}",
                f"their logs are in {status.launching.logs}; anabranch start {job} tries again",
            )
        now = f"job {job} is {state}"
        if not any(container.alive for container in status.containers) and state == DeploymentState.STARTING:
            now += ": no container has registered yet"
            if status.launching is None and time.monotonic() > begin + _LAUNCHED_WITHIN:
                now += f"; start one: anabranch container {job} --coordinator {without_passwords(client.url)}"
        if now == seen and now != told:  # not the first time: a launcher needs a moment to report
            progress.say(now)
            told = now
        seen = now
        return None

    def late() -> OutOfTimeError:
        return OutOfTimeError(
            f"job {job} is {state} after {timeout:g} s, not {' or '.join(states)}",
            f"it continues in the background; see anabranch status {job}",
        )

    return wait_until(look, timeout, late, _POLL)
