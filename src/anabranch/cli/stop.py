"""``anabranch stop``: ends a job at a batch boundary, or at once."""

from __future__ import annotations

from typing import Annotated

import typer

from anabranch import config as configuration
from anabranch.cli import connect, haste, options, progress
from anabranch.config import CoordinatorSettings
from anabranch.coordinator.api.client import AWAY
from anabranch.deadlines import wait_until
from anabranch.errors import OutOfTimeError
from anabranch.model.deployment_state import DeploymentState
from anabranch.protocol.status import JobStatus

_POLL = 0.2


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
        client.stop(job, now)
    haste.said(now)
    if detach:
        return
    waits = haste.Waits()

    def look() -> JobStatus | None:
        status = _status(where, job)
        if status is not None and not _runs(status):
            return status
        if status is not None:
            waits.tell(status)
        return None

    def late() -> OutOfTimeError:
        return OutOfTimeError(
            f"job {job} has not stopped within {timeout:g} s",
            f"the job continues to stop in the background; see anabranch status {job}",
        )

    progress.say(f"job {job}: {wait_until(look, timeout, late, _POLL).state}")


def _status(where: CoordinatorSettings, job: str) -> JobStatus | None:
    """The job's status; None if the process that serves the job is ending, or no coordinator can answer now."""
    try:
        return connect.status(where, job)
    except AWAY:
        return None


def _runs(status: JobStatus) -> bool:
    """Whether any part of the job is running."""
    if not status.served:
        return False
    ended = status.state in (DeploymentState.STOPPED, DeploymentState.FAILED, DeploymentState.DRAINED)
    return not ended or any(container.alive for container in status.containers)
