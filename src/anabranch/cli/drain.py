"""``anabranch drain``: lets a job finish what it should still read, and end."""

from __future__ import annotations

import contextlib
import time
import uuid
from typing import Annotated

import typer

from anabranch import config as configuration
from anabranch.cli import connect, options, output, progress, waiting
from anabranch.config import CoordinatorSettings
from anabranch.coordinator.api.client import AWAY, Client
from anabranch.errors import ConflictError, JobFailedError, NotFoundError, OutOfTimeError, UsageError
from anabranch.model.deployment_state import DeploymentState
from anabranch.model.lane import LaneState
from anabranch.protocol.drain import DrainAccepted, DrainMode, DrainNotification
from anabranch.protocol.status import JobStatus

__all__ = ["begun", "drain", "wait", "wished"]

_LAST = (DeploymentState.DRAINED, DeploymentState.STOPPED, DeploymentState.FAILED)
_POLL = 0.05


def drain(
    job: options.Job,
    up_to: Annotated[
        str,
        typer.Option(
            help="What the job still reads: planned (only the planned batches) or latest (up to the latest record)."
        ),
    ] = "planned",
    timeout: options.Timeout = 300.0,
    detach: options.Detach = False,
    config: options.Config = None,
    json: options.Json = False,
) -> None:
    """Let a running job finish what it should still read, emit all windows, fire all timers, and end.

    Ctrl-C stops only the waiting.
    """
    settings = configuration.load(config).coordinator
    with connect.client(settings, job) as client:
        holder = connect.LockHolder(settings, job)
        told = begun(client, job, up_to)
        progress.say(f"job {job}: {sum(map(len, told.stages.values()))} lane(s) in {len(told.stages)} stage(s) drain")
        if not detach:
            end = time.monotonic() + timeout
            wait(client, settings, job, timeout)
            holder.wait(max(0.0, end - time.monotonic()))
    if json:
        output.as_json(told)
    progress.say(f"job {job}: {'drains' if detach else 'drained'}, deployment {told.deployment}")


def begun(client: Client, job: str, up_to: str) -> DrainAccepted:
    """Request a drain, and return the response. Raises ConflictError if the job can't be drained now."""
    told = client.drain(job, wished(client.status(job).deployment, up_to))
    if told.ignored:
        raise ConflictError(f"job {job} isn't draining: {told.ignored}", f"see anabranch status {job}")
    return told


def wished(deployment: int, up_to: str, dry: bool = False) -> DrainNotification:
    """The request to drain. Raises UsageError if ``up_to`` is neither ``planned`` nor ``latest``."""
    if up_to not in set(DrainMode):
        raise UsageError(f"--up-to can't be {up_to!r}", f"give {' or '.join(DrainMode)}")
    return DrainNotification(uuid=str(uuid.uuid4()), run_id=deployment, mode=DrainMode(up_to), dry=dry)


def wait(client: Client, settings: CoordinatorSettings, job: str, timeout: float) -> None:
    """Wait until a job has drained, and print its progress meanwhile.

    Raises:
        JobFailedError: the job has failed, or was stopped.
        ConflictError: the drain was cancelled.
        OutOfTimeError: the drain took longer than ``timeout`` seconds; or a function has been working on one message
            for a minute, and the job has no ``message_timeout``.
        UnreachableError: the coordinator can't be reached after ``timeout`` seconds.
    """
    status: JobStatus | None = None
    last = ""

    def look(present: JobStatus | None) -> bool | None:
        nonlocal status, last
        status = present
        if status is None:
            return None
        if _has_drained(job, status):
            return True
        if (now := progress.draining(status)) != last:
            progress.say(now)
            last = now
        return None

    def late() -> OutOfTimeError:
        stuck = "" if status is None else "".join(f"; {line}" for line in progress.stuck(status))
        return OutOfTimeError(
            f"job {job} is still draining after {timeout:g} s: {last}{stuck}",
            f"it continues in the background; see anabranch status {job}; anabranch cancel {job}, or stop it",
        )

    waiting.polled(job, lambda: _status(client, settings, job), look, timeout, late, _POLL)


def _has_drained(job: str, status: JobStatus) -> bool:
    """Whether the job has drained. Raises an error if it won't drain any more; see :func:`wait`."""
    if status.state == DeploymentState.DRAINED:
        return True
    if status.drain is None and status.state == DeploymentState.RUNNING:
        raise ConflictError(f"the drain of job {job} was cancelled", f"see anabranch events {job}")
    if status.state in (DeploymentState.STOPPING, DeploymentState.STOPPED, DeploymentState.FAILED):
        raise JobFailedError(f"job {job} is {status.state}: {status.error or 'it was stopped meanwhile'}")
    if any(lane.report is not None and lane.report.drain.overdue for lane in status.lanes):
        raise OutOfTimeError(
            f"job {job} is still draining: {'; '.join(progress.stuck(status))}",
            f"it continues in the background; see anabranch status {job}; anabranch cancel {job}, or stop it; with "
            "[job] message_timeout such a message becomes a dead letter",
        )
    return False


def _status(client: Client, settings: CoordinatorSettings, job: str) -> JobStatus | None:
    """A job's status. If the coordinator of ``client`` can't be reached (for example, because a ``run`` has ended), the
    store or another coordinator that serves the job is asked. In this case, the status is used only if the job is in a
    final state. In any other state, the result is None if another coordinator serves the job.

    Raises:
        AnabranchError: no coordinator answers, and the job isn't in a final state, as far as the store can be read.
    """
    try:
        return client.status(job)
    except AWAY:
        with contextlib.suppress(*AWAY, NotFoundError):
            status = connect.status(settings, job)
            if status.state in _LAST:
                return status
            if status.served:
                return None
        raise


def listed(told: DrainAccepted, status: JobStatus) -> list[str]:
    """What a drain would do: a line for each stage, a line about the duration, and a line about the next step."""
    lanes = {each.lane.id: each for each in status.lanes}
    lines = []
    for number, (stage, names) in enumerate(told.stages.items(), 1):
        its = [lanes[name] for name in names if name in lanes]
        lag = sum(each.lag for each in its)
        stateful = sum(each.lane.stateful for each in its)
        windows = sum(each.report.drain.windows for each in its if each.report is not None)
        what = f"{number}. stage {stage}: {len(names)} lane(s), {stateful} with state; {lag:,} records wait"
        lines.append(what + (f", {windows:,} rows of state are emitted" if windows else ""))
    open_lanes = sum(each.lane.state is not LaneState.CLOSED for each in status.lanes)
    lines.append(f"the drain takes about {told.seconds:.1f} s, if no more records arrive to be read")
    return [*lines, f"{open_lanes} lane(s) end; the next start is deployment {status.deployment + 1}"]
