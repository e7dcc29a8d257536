"""Starts a planned job. If the job's last deployment can continue, it continues. Otherwise, a new deployment begins."""

from __future__ import annotations

import msgspec

from anabranch.coordinator.commands import expand
from anabranch.coordinator.commands.context import Context
from anabranch.coordinator.jobs import loading, plans
from anabranch.coordinator.jobs.registry import JobRegistry
from anabranch.coordinator.store import DeploymentRecord, stored_jobs
from anabranch.errors import ConflictError
from anabranch.model.deployment_state import DeploymentState
from anabranch.model.naming import check_name
from anabranch.planning.transition import expand as planned_expansion
from anabranch.protocol.deployment import StartBasis, StartRequest

__all__ = ["apply", "check", "plan", "run"]


def run(context: Context, start: StartRequest) -> int:
    """Start the job, and return the deployment's number. If the job is new, or its last deployment was drained or
    reset, a new deployment begins. Otherwise, the last deployment continues with its own lanes, and the lanes in
    ``start`` are ignored.

    Raises:
        ConflictError: the job is already running, or can't begin where its last drain ended. Also raised if the job
            should continue its last deployment, but differs from it; the message names the difference. Also raised if
            the start was planned for another state of the job.
        NotLeadingError: as for :func:`loading.check_adopted`.
        StateError: as for :func:`plan`.
        UsageError: the job's name isn't valid; or as for :func:`plan`.
    """
    job, registry = check_name("job", start.graph.job), context.registry
    with registry.locked_all():
        stored = registry.store.deployment(job)
        check(registry, job, stored)
        stored = registry.store.deployment(job)  # the check may have stored the end of a drain
        return apply(registry, plan(registry, start, stored), start, stored)


def check(registry: JobRegistry, job: str, stored: DeploymentRecord | None) -> None:
    """Raises ConflictError if the job is already running. Also raises the error of :func:`loading.check_adopted`.
    ``stored`` is the job's last deployment; None if there is none."""
    if stored is not None:
        loading.check_adopted(registry, stored)
    if job in registry.jobs:
        registry.advance(registry.jobs[job])
        if registry.jobs[job].state.active:
            raise ConflictError(f"job {job!r} is running already", f"anabranch stop {job}")


def plan(registry: JobRegistry, start: StartRequest, stored: DeploymentRecord | None) -> StartRequest | None:
    """The new deployment to store; None if the last deployment (``stored``) continues.

    Raises:
        ConflictError: the job should continue its last deployment, but differs from it. Also raised if the job can't
            begin where its last drain ended or keep the state that the drain left, or if the start was planned for
            another state of the job.
        StateError: as for :func:`plans.after_drain`.
        UsageError: as for :func:`plans.numbered`.
    """
    _check_expected(start, stored)
    if stored is None:
        return plans.numbered(start, 1)
    if stored.state.is_over:
        resets = start.reset_state or stored.state is DeploymentState.RESET
        start = msgspec.structs.replace(start, reset_state=resets)
        store, former = registry.store, stored_jobs.model(registry.store, stored.job)
        known = store.lanes(stored.job)
        if not resets:
            plans.check_state(stored, store.graph(stored.job, stored.id), start, known)
        return plans.after_drain(start, stored.id + 1, known, former)
    plans.check_same(stored, registry.store.graph(stored.job, stored.id), start)
    return None


def _check_expected(start: StartRequest, stored: DeploymentRecord | None) -> None:
    """Raises ConflictError if the job's last deployment isn't the one for which the start was planned, or was drained
    or reset after that."""
    if start.expect is None:
        return
    present = StartBasis()
    if stored is not None:
        present = StartBasis(deployment=stored.id, over=stored.state if stored.state.is_over else None)
    planned_for, now = _described(start.expect), _described(present)
    if planned_for != now:
        raise ConflictError(
            f"the start of job {start.graph.job!r} was planned for {planned_for}, and the job is {now} now",
            "nothing was started; run the command again",
        )


def _described(basis: StartBasis) -> str:
    if not basis.deployment:
        return "a new job"
    return f"deployment {basis.deployment}" + (f" ({basis.over})" if basis.over is not None else "")


def apply(
    registry: JobRegistry, planned: StartRequest | None, start: StartRequest, stored: DeploymentRecord | None
) -> int:
    """Store the planned deployment, if there is one, and serve the job."""
    found = stored if planned is None else registry.create(planned)
    assert found is not None
    found = msgspec.structs.replace(
        found, until_caught_up=start.until_caught_up, program=start.program, own_program=start.own_program
    )
    registry.serve(found, start.settings)
    if found.drain is None:
        counts = planned_expansion.partitions(start.graph, start.model)
        expand.follow_inputs(registry, registry.jobs[found.job], counts, begins=True)
    return found.id
