"""Ends the lanes of a job."""

from __future__ import annotations

from anabranch.coordinator.commands.context import Context
from anabranch.coordinator.jobs import job_events
from anabranch.coordinator.jobs.registry import JobRegistry
from anabranch.coordinator.jobs.running_job import RunningJob
from anabranch.errors import ConflictError
from anabranch.model.deployment_state import DeploymentState

__all__ = ["apply", "check", "run"]


def run(context: Context, job: str, at_once: bool = False) -> None:
    """Stop a job.

    If the job is already stopping, only ``at_once`` can have an effect.

    Args:
        at_once: whether lanes break off their running batches rather than end at a batch boundary. The next start
            finishes these batches. The value isn't stored, so a coordinator that takes over doesn't know it.

    Raises:
        NotFoundError: there is no such job.
        ConflictError: the job has failed, or this coordinator doesn't serve it.
    """
    registry = context.registry
    with registry.locked(job) as running_job:
        registry.advance(running_job)
        check(running_job)
        apply(registry, running_job, at_once)


def check(running_job: RunningJob) -> None:
    """Raises ConflictError if the job has failed."""
    if running_job.state is DeploymentState.FAILED:
        job = running_job.job
        raise ConflictError(f"job {job!r} is not running: it failed", f"anabranch status {job} says why")


def apply(registry: JobRegistry, running_job: RunningJob, at_once: bool) -> None:
    if at_once and not running_job.progress.at_once:
        registry.store.note([job_events.hastened(running_job.job, registry.now(), "state", "stop")])
    running_job.progress.at_once = running_job.progress.at_once or at_once
    registry.advance(running_job, stop_wanted=True)
