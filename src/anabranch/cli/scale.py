"""``anabranch scale``: gives a running job another factor or number of containers."""

from __future__ import annotations

import time
import uuid
from typing import Annotated

import typer

from anabranch import config as configuration
from anabranch.cli import connect, haste, options, output, progress, waiting
from anabranch.cli.change_options import ChangeOptions, with_change_options
from anabranch.coordinator.api.client import Client
from anabranch.errors import ConflictError, JobFailedError, OutOfTimeError, UsageError
from anabranch.model.deployment_state import DeploymentState
from anabranch.model.lane import LaneState
from anabranch.protocol.commands import ChangeResult, RewindResult, ScaleRequest, ScaleResult
from anabranch.protocol.status import JobStatus

_POLL = 0.2
AGAIN = 15.0
"""The line with the remaining work is printed when it changes, and again if it hasn't changed for this many seconds."""
REPEATED = "job {job}: the change has been requested; the first answer was lost"
"""The line about a request that had already been carried out."""


@with_change_options
def scale(
    job: options.Job,
    factor: Annotated[int | None, typer.Option(help="How many key buckets each partition is divided into.")] = None,
    containers: Annotated[int | None, typer.Option(help="How many containers the job runs in.")] = None,
    *,
    chosen: ChangeOptions,
) -> None:
    """Change a running job's factor or containers, and wait until that is done. Ctrl-C stops only the waiting."""
    with connect.client(configuration.load(chosen.config).coordinator, job) as client:
        scaled = client.scale(job, wished(factor, containers, now=chosen.now))
        haste.said(chosen.now)
        told = f"factor {scaled.factor}, {scaled.containers} container(s), generation {scaled.generation}"
        if scaled.closing or scaled.repeated:
            told += followed(client, job, scaled, chosen.patience)
        else:
            told += " already"
    tell(job, scaled, told, chosen.json)


def followed(client: Client, job: str, change: ScaleResult | RewindResult, timeout: float | None) -> str:
    """Print how many lanes a change closes and starts. Then, if ``timeout`` isn't None, wait until the change is done.
    Returns the end of the line that reports the change: a statement that all lanes are running, or an empty string if
    ``timeout`` is None.

    Raises the errors of :func:`wait`, and ConflictError if the change was undone.
    """
    if change.repeated:
        progress.say(REPEATED.format(job=job))
    else:
        progress.say(f"job {job}: {len(change.closing)} lane(s) are closed, {len(change.lanes)} follow them")
    if timeout is None:
        return ""
    wait(client, job, timeout)
    _check(client, job, change)
    return "; all its lanes run"


def tell(job: str, change: ChangeResult, said: str, json: bool) -> None:
    """Print the result of a requested change."""
    if json:
        output.as_json(change)
    progress.say(f"job {job}: {said}")


def wished(factor: int | None, containers: int | None, dry: bool = False, now: bool = False) -> ScaleRequest:
    """The request to scale. Raises UsageError if neither a factor nor a number of containers is given."""
    if factor is None and containers is None:
        raise UsageError("no change is given", "give --factor X, --containers N or both")
    return ScaleRequest(factor=factor, containers=containers, request=uuid.uuid4().hex, dry=dry, now=now)


def wait(client: Client, job: str, timeout: float) -> None:
    """Wait until a job is neither changing nor starting any more, and print its progress meanwhile. (A deploy starts a
    job that wasn't running.)

    Raises:
        JobFailedError: the job isn't running after the change.
        OutOfTimeError: the change took longer than ``timeout`` seconds.
        UnreachableError: the coordinator can't be reached after ``timeout`` seconds.
    """
    last, state, waits = "", "changing", haste.Waits()
    begun = said = time.monotonic()

    def look(status: JobStatus) -> JobStatus | None:
        nonlocal last, state, said
        state = status.state
        if state in waiting.SETTLED:
            return status
        now, at = _left(status), time.monotonic()
        if now != last or at - said >= AGAIN:
            progress.say(now if now != last else f"{now}, after {at - begun:.0f} s")
            last, said = now, at
        waits.tell(status)
        return None

    def late() -> OutOfTimeError:
        return OutOfTimeError(
            f"job {job} is still {state} after {timeout:g} s: {last}",
            f"it continues in the background; see anabranch status {job}",
        )

    status = waiting.polled(job, lambda: client.status(job), look, timeout, late, _POLL)
    if status.state != DeploymentState.RUNNING:
        raise JobFailedError(f"job {job} is {status.state}: {status.error or 'it was stopped meanwhile'}")


def _check(client: Client, job: str, changed: ScaleResult | RewindResult) -> None:
    """Raises ConflictError if the change was undone."""
    model = client.model(job)
    if model.undoes == changed.generation:
        raise gone_back(client, job, f"factor {model.factor}, {len(model.containers)} container(s)")


def gone_back(client: Client, job: str, to: str) -> ConflictError:
    """The error for a job whose change was undone, with the reason. ``to`` describes what the job has gone back to,
    such as its former factor."""
    last = next((each for each in client.changes(job) if each.outcome == "undone"), None)
    why = "" if last is None else f": {last.reason}"
    return ConflictError(f"job {job} has gone back to {to}{why}", f"see anabranch events {job}")


def _left(status: JobStatus) -> str:
    lanes = [each.lane for each in status.lanes]
    closing = sum(lane.state is LaneState.CLOSING for lane in lanes)
    waiting = sum(lane.state is LaneState.PLANNED for lane in lanes)
    return f"job {status.job}: {closing} lane(s) to close, {waiting} to start"
