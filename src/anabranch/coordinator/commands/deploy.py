"""Replaces a job's version with another version, which takes over the job's state and positions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext

import msgspec

from anabranch.coordinator.commands import off_lock
from anabranch.coordinator.commands.context import Context
from anabranch.coordinator.jobs import job_events, loading, next_deployment, reports, transitions
from anabranch.coordinator.jobs.next_deployment import CurrentDeployment, FormerDeployment, NextDeployment
from anabranch.coordinator.jobs.registry import JobRegistry
from anabranch.coordinator.jobs.states import started
from anabranch.coordinator.jobs.transitions import Generation
from anabranch.coordinator.store import DeploymentRecord, Store, stored_jobs
from anabranch.errors import ConflictError, UsageError
from anabranch.model.deployment_state import DeploymentState
from anabranch.model.lane import Lane
from anabranch.model.naming import check_name
from anabranch.model.outline import Basis
from anabranch.planning.transition import deploy, follow
from anabranch.protocol.deployment import DeployRequest, DeployResult, RollbackRequest

__all__ = ["already", "apply", "change", "check", "plan", "present", "run"]


def run(context: Context, job: str, request: DeployRequest) -> DeployResult:
    """Replace the job's version with the version in ``request``. A job that isn't running is started.

    Raises:
        NotFoundError: there is no such job.
        ConflictError: the job can't be replaced by this version now. The message names the reason:

            - The job is being started, changed, drained or stopped.
            - The job is running and has a failed lane.
            - The job was drained or reset, or was stopped while it drained.
            - The job ends on its own when it has caught up, or it runs in one process with its coordinator.
            - The version can't continue from the current state.
            - The job isn't in the state that the request expects.
            - The job changed during each attempt to plan.
        NotLeadingError: as for :func:`loading.check_adopted`.
        UsageError: the version belongs to another job, or has no program although containers should run it; or the
            state to be dropped doesn't exist.
    """
    if request.start.graph.job != job:
        raise UsageError(
            f"the file is of job {request.start.graph.job!r}, not {job!r}", "deploy a file with Job(NAME) of that name"
        )
    if request.start.program is None and context.registry.grace is not None:
        raise UsageError("the version has no program", "deploy it with anabranch deploy")
    return change(context, job, request, lambda found: plan(found, request))


def change(
    context: Context,
    job: str,
    request: DeployRequest | RollbackRequest,
    planned: Callable[[CurrentDeployment], NextDeployment],
) -> DeployResult:
    """Replace a job's version, for a deploy or a rollback. If the request was already carried out, nothing is changed,
    and the answer names the deployment that the request led to, even if that deployment was undone. With
    ``request.dry``, nothing is changed.

    The job isn't locked while a plan is made. If the job has changed by the time the plan is ready, a new plan is made.

    Args:
        planned: creates a plan for the current deployment.

    Raises:
        ConflictError: the job changed during each attempt to plan; or the job isn't running here, and another process
            holds its lock. Also raises the errors of :func:`present`, :func:`check`, ``planned`` and
            :func:`off_lock.check_expected`.
    """
    registry = context.registry
    for _ in range(off_lock.TRIES):
        found = present(registry, job)
        if (number := stored_jobs.requested(registry.store, job, request.request)) is not None:
            return already(registry, job, number)
        basis = Basis(deployment=found.stored.id, generation=found.stored.generation)
        off_lock.check_expected(job, request, basis, None)
        check(found)
        following = planned(found)
        off_lock.check_expected(job, request, basis, following.result)
        heads = len(follow.heads(found.lanes))
        if request.dry:
            return off_lock.response(following.result, basis, request, heads)
        owned = registry.owning(job) if found.running_job is None else nullcontext()
        with owned, registry.locked_all():
            if _is_still(registry, found):
                return off_lock.response(apply(registry, found, following, request), basis, request, heads)
    raise off_lock.always_changes(job)


def present(registry: JobRegistry, job: str) -> CurrentDeployment:
    """The job's current deployment, with a snapshot of the job if it is running. Raises NotFoundError if there is no
    such job. Also raises the error of :func:`loading.check_adopted`.
    """
    store, snapshot = registry.store, None
    with registry.locked_all() as jobs:
        running_job = jobs.get(check_name("job", job))
        if running_job is not None:
            registry.advance(running_job)
            if running_job.state.active:
                snapshot = off_lock.take(registry, running_job)
        stored = stored_jobs.deployment(store, job)
        loading.check_adopted(registry, stored)
    if snapshot is not None:
        lanes = tuple(snapshot.running_job.known.values())
        return CurrentDeployment(stored, snapshot.present, lanes, snapshot.running_job)
    generation = Generation(store.graph(job, stored.id), store.model(job, stored.id, stored.generation))
    known = store.lanes(job)
    lanes = tuple(lane for lane in known.values() if lane.deployment == stored.id)
    return CurrentDeployment(stored, generation, lanes, None, tuple(_not_replaced(store, stored, known)))


def _not_replaced(store: Store, stored: DeploymentRecord, known: Mapping[str, Lane]) -> Iterator[FormerDeployment]:
    """See :attr:`CurrentDeployment.former`."""
    job, number = stored.job, stored.id
    while not any(lane.begun for lane in known.values() if lane.deployment == number):
        number = store.model(job, number, 1).replaces
        if not number:
            return
        former, left = stored_jobs.deployment(store, job, number), deploy.left_behind(known.values(), number)
        generation = Generation(store.graph(job, number), store.model(job, number, former.generation))
        yield FormerDeployment(former, generation, tuple(left))


def _is_still(registry: JobRegistry, found: CurrentDeployment) -> bool:
    """Whether a plan for ``found`` is still valid. The caller holds the job's lock."""
    job = found.stored.job
    running_job = registry.jobs.get(job)
    if found.running_job is not None:
        return running_job is not None and found.running_job.plans_alike(running_job)
    is_at_rest = running_job is None or not running_job.state.active
    return is_at_rest and stored_jobs.deployment(registry.store, job) == found.stored


def already(registry: JobRegistry, job: str, number: int) -> DeployResult:
    """The answer to a request that has already been carried out and has led to deployment ``number``."""
    first = next_deployment.version_of(registry.store, job, number)
    return DeployResult(deployment=number, version_of=first, repeated=True)


def check(found: CurrentDeployment) -> None:
    """Raises ConflictError if no other deployment can follow the current one at the moment."""
    job = found.stored.job
    if found.stored.state == DeploymentState.DRAINED:
        raise ConflictError(
            f"job {job!r} was drained: there is nothing to continue", "start its next version: anabranch start JOB.py"
        )
    if found.stored.state is DeploymentState.RESET:
        raise ConflictError(f"job {job!r} was reset: there is nothing to continue", "start it: anabranch start JOB.py")
    if found.running_job is None:
        drain, again = found.stored.drain, f"anabranch start {job}"
        if found.stored.program is None:
            again = "anabranch run JOB.py, with the file as it was"
        if drain is not None and drain.last:
            raise ConflictError(
                f"job {job!r} was stopped while it drained, and some of its lanes have drained already: what they "
                "kept has been emitted, and no version can continue from it",
                f"let it finish: {again}; then start the next version",
            )
        if drain is not None:
            raise ConflictError(
                f"job {job!r} was stopped while it drained: it continues to drain when it is started",
                f"start it: {again}; then let it finish, or take the drain back (anabranch cancel {job}) and deploy",
            )
        return
    transitions.check_changeable(found.running_job)
    if found.running_job.terms.until_caught_up:
        raise ConflictError(
            f"job {job!r} ends by itself when it has caught up", "wait for that, and deploy the new version then"
        )


def plan(found: CurrentDeployment, request: DeployRequest) -> NextDeployment:
    """The next deployment, with the version in ``request``. Raises the errors of
    :func:`anabranch.coordinator.jobs.next_deployment.deployed`."""
    return next_deployment.deployed(found, request.start, 0, request.drop_state, request.request)


def apply(
    registry: JobRegistry, found: CurrentDeployment, planned: NextDeployment, request: DeployRequest | RollbackRequest
) -> DeployResult:
    """Enter the planned deployment; if the job isn't running, start it. The caller holds the job's lock."""
    if found.running_job is not None:
        registry.replace(registry.jobs[found.stored.job], planned, request.now)
        return planned.result
    _start(registry, found, planned)
    return planned.result


def _start(registry: JobRegistry, found: CurrentDeployment, planned: NextDeployment) -> None:
    """Start the next deployment of a job that isn't running. In a single step, the deployment is stored as already
    started. A coordinator that takes over therefore finds either the former deployment, or the next one in a state in
    which the job must be served.
    """
    store, job, model = registry.store, found.stored.job, planned.start.model
    before = store.lanes(job)
    new = {lane.id: lane for lane in planned.start.lanes}
    lanes = reports.all_restarted({**before, **{lane.id: lane for lane in planned.ending}, **new}, model.run_id)
    start = msgspec.structs.replace(planned.start, lanes=tuple(lanes[name] for name in new))
    transition = started(DeploymentState.PLANNED)
    state = transition.to
    events = (
        registry.event("state", job, planned.who, f"planned {planned.what}", planned.why),
        job_events.moved(job, registry.now(), DeploymentState.PLANNED, state, transition.why),
    )
    changed = [lane for name, lane in lanes.items() if name not in new and lane != before.get(name)]
    why = job_events.STARTED_AGAIN

    def replaced() -> DeploymentRecord:
        store.replace_deployment(start, state, found.stored.state, changed, events[0], events[1:], why)
        return stored_jobs.deployment(store, job)

    stored = registry.write(replaced)  # also if only the read fails, a job is stored that must be served
    registry.jobs[job] = loading.loaded(registry, stored, model, state, lanes, planned.start.settings)
    registry.advance(registry.jobs[job])
    registry.announce()
