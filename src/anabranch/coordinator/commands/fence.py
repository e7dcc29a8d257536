"""Takes a container's seat away."""

from __future__ import annotations

from anabranch.coordinator.commands.context import Context
from anabranch.coordinator.jobs import loading
from anabranch.coordinator.jobs.parts import Process
from anabranch.coordinator.jobs.registry import JobRegistry
from anabranch.coordinator.jobs.running_job import RunningJob
from anabranch.coordinator.store import stored_jobs
from anabranch.errors import ConflictError, NotFoundError
from anabranch.model.naming import check_container

__all__ = ["apply", "check", "run"]


def run(context: Context, container: str, why: str = "") -> None:
    """Expel a container: take its seat away. The lanes for which the container might still write are then fenced (see
    :meth:`anabranch.coordinator.coordinator.Coordinator.fences`). Once they are fenced, another process can take the
    seat.

    Args:
        why: the user's reason, for the event; empty if no reason is given.

    Raises:
        NotFoundError: there is no such container.
        ConflictError: the container has no seat, or this coordinator never expels containers.
        NotLeadingError: as for :func:`loading.check_adopted`.
        UsageError: the container's id isn't valid.
    """
    check_container(container)
    registry = context.registry
    with registry.locked_all():
        running_job, process = check(registry, container)
        apply(registry, running_job, process, why)


def check(registry: JobRegistry, container: str) -> tuple[RunningJob, Process]:
    """The job of a container, and the process that should lose its seat. Raises the errors of :func:`run`."""
    running_job, process = registry.holder(container)
    if running_job is None or process is None:
        record = registry.store.container(container)
        if record is None:
            raise NotFoundError(f"there is no container {container}", "anabranch status JOB lists those of a job")
        if record.gone is None:
            loading.check_adopted(registry, stored_jobs.deployment(registry.store, record.job))
        gone = record.gone or f"job {record.job!r} is not running here"
        raise ConflictError(f"container {container} has no seat: {gone}", f"anabranch status {record.job}")
    if registry.grace is None:
        raise ConflictError(
            f"container {container} is in one process with the coordinator of job {running_job.job!r}",
            f"anabranch stop {running_job.job}",
        )
    return running_job, process


def apply(registry: JobRegistry, running_job: RunningJob, process: Process, why: str) -> None:
    registry.expel(running_job, process, "user", f"the user fenced it{f': {why}' if why else ''}")
    registry.advance(running_job)
