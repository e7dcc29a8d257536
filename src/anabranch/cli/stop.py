"""``anabranch stop``: ends a job at a batch boundary, or at once."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from anabranch import config as configuration
from anabranch.cli import connect, haste, options, progress
from anabranch.config import CoordinatorSettings
from anabranch.coordinator.api.client import AWAY, Client
from anabranch.deadlines import wait_until
from anabranch.errors import OutOfTimeError
from anabranch.model.deployment_state import DeploymentState
from anabranch.protocol.status import JobStatus

_POLL = 0.2
_ENDED = (DeploymentState.STOPPED, DeploymentState.FAILED, DeploymentState.DRAINED)


def stop(
    job: options.Job,
    timeout: options.Timeout = 300.0,
    now: Annotated[
        bool,
        typer.Option(
            "--now",
            help="Stop at once. Running batches are repeated later, so at-least-once output may be written twice.",
        ),
    ] = False,
    detach: options.Detach = False,
    config: options.Config = None,
) -> None:
    """Stop a running job at a batch boundary, or at once, and wait until it has stopped.

    Ctrl-C stops only the waiting.
    """
    where = configuration.load(config).coordinator
    with connect.client(where, job) as client:
        holder = connect.LockHolder(where, job)
        client.stop(job, now)
        haste.said(now)
        if not detach:
            end = time.monotonic() + timeout
            status = _wait(client, where, job, timeout)
            holder.wait(max(0.0, end - time.monotonic()))
            progress.say(f"job {job}: {status.state}")


def _wait(client: Client, where: CoordinatorSettings, job: str, timeout: float) -> JobStatus:
    """Wait until a job has stopped, and return its last status. ``client`` is the client that requested the stop."""
    waits, unserved = haste.Waits(), False

    def look() -> JobStatus | None:
        nonlocal unserved
        status = _status(client, where, job)
        if status is not None and not _runs(where, status):
            return status
        if status is not None and status.served:
            unserved = False
            waits.tell(status)
        elif not unserved:
            unserved = True
            progress.say(f"no coordinator that serves job {job} answers; waiting for one ...")
        return None

    def late() -> OutOfTimeError:
        if unserved:
            return OutOfTimeError(
                f"job {job} has not stopped within {timeout:g} s, and no coordinator that serves it answers",
                "its containers may run on until one does: start it again with anabranch coordinator, or see what "
                "keeps it from answering",
            )
        return OutOfTimeError(
            f"job {job} has not stopped within {timeout:g} s",
            f"the job continues to stop in the background; see anabranch status {job}",
        )

    return wait_until(look, timeout, late, _POLL)


def _status(client: Client, where: CoordinatorSettings, job: str) -> JobStatus | None:
    """The job's status; None if no coordinator can answer now. If ``client`` gets no answer (for example, because an
    ``anabranch run`` has ended), another coordinator or the store is asked.
    """
    try:
        return client.status(job)
    except AWAY:
        try:
            return connect.status(where, job)
        except AWAY:
            return None


def _runs(where: CoordinatorSettings, status: JobStatus) -> bool:
    """Whether a part of the job is running, or may be running."""
    if status.state in _ENDED:
        return status.served and any(container.alive for container in status.containers)
    if status.served:
        return True
    try:
        return not connect.is_left_by_run(where, status.job)
    except AWAY:  # for a moment, the store can't be read
        return True
