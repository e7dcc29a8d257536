"""Continues a job's last deployment with the settings of its last start."""

from __future__ import annotations

from anabranch.coordinator.commands.context import Context
from anabranch.coordinator.jobs import loading, plans, seats
from anabranch.coordinator.jobs.registry import JobRegistry
from anabranch.coordinator.store import DeploymentRecord, stored_jobs
from anabranch.errors import ConflictError
from anabranch.model.deployment_state import DeploymentState
from anabranch.protocol.deployment import StartRequest

__all__ = ["apply", "check", "plan", "run"]


def run(context: Context, job: str) -> int:
    """Continue the job's last deployment. If this deployment was drained, start its version again in a new deployment.
    If the job is running but its launcher has given up, only the launcher is made to try again. Returns the number of
    the deployment that the job then runs.

    Raises:
        NotFoundError: there is no such job.
        ConflictError: the job is already running, it was reset, or its code isn't stored. (The code of a job that runs
            in one process with its coordinator is never stored.)
        NotLeadingError: as for :func:`loading.check_adopted`.
    """
    registry = context.registry
    with registry.locked_all() as jobs:
        stored = stored_jobs.deployment(registry.store, job)
        if job in jobs:
            registry.advance(jobs[job])
            if seats.try_again(jobs[job], registry.clock()):
                return stored.id
        check(registry, stored)
        return apply(registry, plan(registry, stored), stored)


def check(registry: JobRegistry, stored: DeploymentRecord) -> None:
    """Raises ConflictError or NotLeadingError if the deployment can't continue: see :func:`run`."""
    job = stored.job
    loading.check_adopted(registry, stored)
    if job in registry.jobs and registry.jobs[job].state.active:
        raise ConflictError(f"job {job!r} is running already", f"anabranch stop {job}")
    if stored.state is DeploymentState.RESET:
        raise ConflictError(f"job {job!r} was reset: there is nothing to continue", "start it: anabranch start JOB.py")
    if stored.program is None:
        raise ConflictError(f"the code of job {job!r} is not here", f"start it with its file: JOB.py for {job}")


def plan(registry: JobRegistry, stored: DeploymentRecord) -> StartRequest | None:
    """The new deployment to store, if the last deployment was drained; None if the last deployment continues."""
    if stored.state != DeploymentState.DRAINED:
        return None
    store, job = registry.store, stored.job
    graph, model = store.graph(job, stored.id), stored_jobs.model(store, job)
    known = store.lanes(job)
    return plans.after_drain(plans.again(stored, graph, model, known), stored.id + 1, known)


def apply(registry: JobRegistry, planned: StartRequest | None, stored: DeploymentRecord) -> int:
    """Store the planned deployment, if there is one, and serve the job."""
    found = stored if planned is None else registry.create(planned)
    registry.serve(found)
    return found.id
