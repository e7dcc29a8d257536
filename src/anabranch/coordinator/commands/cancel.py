"""Undoes a job's change or drain that is under way."""

from __future__ import annotations

from anabranch.coordinator.commands.context import Context
from anabranch.coordinator.jobs import draining, transitions
from anabranch.coordinator.jobs.registry import JobRegistry
from anabranch.coordinator.jobs.running_job import RunningJob
from anabranch.coordinator.jobs.transitions import Generation

__all__ = ["apply", "check", "run"]


def run(context: Context, job: str) -> None:
    """If a job is being changed, return it to its former generation or version. If it is draining, let it run again.

    Raises:
        NotFoundError: there is no such job.
        ConflictError: this coordinator doesn't serve the job; or as for :func:`check` and :meth:`JobRegistry.undo`.
    """
    registry = context.registry
    with registry.locked(job) as running_job:
        present = registry.up_to_date(running_job)
        check(running_job, present)
        apply(registry, running_job, present)


def check(running_job: RunningJob, present: Generation) -> None:
    """Raises ConflictError if the job is neither being changed nor draining. Also raises ConflictError if the change or
    drain can't be undone for one of these reasons:

    - partitions or streams were added,
    - the change itself undoes another change,
    - a lane has begun with the code of a new deployment,
    - a lane failed after it had begun, or a lane without predecessors failed (unless a new deployment added it),
    - a rewound job is already processing records again,
    - a draining job's event time has ended.
    """
    if running_job.progress.drain is not None:
        draining.check_cancellable(running_job.job, running_job.progress.drain)
    else:
        transitions.check_cancellable(running_job, present)


def apply(registry: JobRegistry, running_job: RunningJob, present: Generation) -> None:
    if running_job.progress.drain is None:
        registry.undo(running_job, present, "user", "the user cancelled it")
    else:
        registry.put_drain(running_job, None, "user", "cancelled the drain", "")
        registry.advance(running_job)
