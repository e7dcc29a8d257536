"""Let another version of a job follow the present one, on its state and positions."""

from __future__ import annotations

import msgspec

from anabranch.coordinator import queries
from anabranch.coordinator.commands.context import Context
from anabranch.coordinator.jobs import next_deployment, transitions
from anabranch.coordinator.jobs.next_deployment import NextDeployment, Present
from anabranch.coordinator.jobs.registry import JobRegistry
from anabranch.coordinator.jobs.transitions import Generation
from anabranch.coordinator.naming import check_name
from anabranch.errors import ConflictError, UsageError
from anabranch.model.deployment_state import DeploymentState
from anabranch.protocol.deployment import DeployRequest, DeployResult, RollbackRequest

__all__ = ["already", "apply", "check", "plan", "present", "run"]


def run(context: Context, job: str, request: DeployRequest) -> DeployResult:
    """The job is changing until all of its lanes run; one that is at rest is started. Said twice with the same request,
    nothing more happens.

    Raises:
        NotFoundError: nobody knows the job.
        ConflictError: it is being started, changed or stopped; or the version can't follow: says why.
        UsageError: it is of another job; or state is to go that doesn't.
    """
    if request.start.graph.job != job:
        raise UsageError(
            f"the file is of job {request.start.graph.job!r}, not {job!r}", "deploy a file with Job(NAME) of that name"
        )
    registry = context.registry
    with registry.locked_all():
        found = present(registry, job)
        if queries.is_known(registry.store, job, request.request):
            return already(registry, found)
        check(found)
        return apply(registry, found, plan(found, request), request)


def present(registry: JobRegistry, job: str) -> Present:
    """The deployment that another one is to follow."""
    store, running_job = registry.store, registry.jobs.get(check_name("job", job))
    if running_job is not None:
        registry.advance(running_job)
    stored = queries.deployment(store, job)
    generation = Generation(store.graph(job, stored.id), store.model(job, stored.id, stored.generation))
    if running_job is None or not running_job.state.active:
        lanes = [lane for lane in store.lanes(job).values() if lane.deployment == stored.id]
        return Present(stored, generation, tuple(lanes), None)
    return Present(stored, generation, tuple(running_job.known.values()), running_job)


def already(registry: JobRegistry, found: Present) -> DeployResult:
    """What is said of a request that was carried out before."""
    number = found.stored.id
    return DeployResult(
        deployment=number, version_of=next_deployment.version_of(registry.store, found.stored.job, number)
    )


def check(found: Present) -> None:
    """Raises ConflictError if nothing can follow now."""
    job = found.stored.job
    if found.stored.state == DeploymentState.DRAINED:
        raise ConflictError(
            f"job {job!r} was drained: nothing goes on", "start its next version: anabranch start JOB.py"
        )
    if found.running_job is None:
        if found.stored.drain is not None and found.stored.drain.last:
            raise ConflictError(
                f"job {job!r} was stopped while it drained, and some of its lanes have drained already: what they "
                "kept has come out, and no version can go on with it",
                f"let it finish: anabranch start {job}; then start the next version: anabranch start JOB.py",
            )
        return
    transitions.check_changeable(found.running_job)
    if found.running_job.terms.until_caught_up:
        raise ConflictError(
            f"job {job!r} ends by itself when it has caught up", "wait for that, and deploy the new version then"
        )


def plan(found: Present, request: DeployRequest) -> NextDeployment:
    """What comes of it. Errors as :func:`anabranch.coordinator.jobs.next_deployment.deployed`."""
    return next_deployment.deployed(found, request.start, 0, request.drop_state, request.request)


def apply(
    registry: JobRegistry, found: Present, planned: NextDeployment, request: DeployRequest | RollbackRequest
) -> DeployResult:
    """Go into the deployment that was planned, unless it is only asked for; start a job that is at rest with it."""
    if request.dry:
        return planned.result
    if found.running_job is not None:
        registry.replace(found.running_job, planned, request.now)
        return planned.result
    store, former = registry.store, found.stored
    event = registry.event(former.job, planned.who, f"planned {planned.what}", planned.why)
    state, left = DeploymentState.PLANNED, former.state
    registry.write(store.replace_deployment, planned.start, state, left, planned.ending, event)
    stored = queries.deployment(store, former.job)
    registry.serve(msgspec.structs.replace(stored, until_caught_up=False))
    return planned.result
