"""Plans changes for a snapshot of a job, without locking the job. If a plan is no longer valid when it is ready, the
change is planned again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

import msgspec

from anabranch.coordinator.jobs.registry import JobRegistry
from anabranch.coordinator.jobs.running_job import RunningJob
from anabranch.coordinator.jobs.transitions import Generation
from anabranch.coordinator.store import stored_jobs
from anabranch.errors import ConflictError
from anabranch.model.outline import Basis, digest, outlined
from anabranch.planning.transition import follow
from anabranch.protocol.commands import ChangeRequest, RewindResult, ScaleResult
from anabranch.protocol.deployment import DeployResult

__all__ = [
    "TRIES",
    "JobSnapshot",
    "always_changes",
    "change",
    "check_expected",
    "response",
    "take",
]

TRIES = 10
"""The maximum number of plans for a change. If the job has changed by the time a plan is ready, a new plan is made."""


class Planned(Protocol):
    """What the plans of all changes have in common."""

    @property
    def result(self) -> ScaleResult | RewindResult | DeployResult: ...


P = TypeVar("P", bound=Planned)
R = TypeVar("R", ScaleResult, RewindResult, DeployResult)


@dataclass(frozen=True)
class JobSnapshot:
    """A copy of a job at one moment, for planning a change without locking or changing the job."""

    running_job: RunningJob
    present: Generation

    def is_still(self, running_job: RunningJob) -> bool:
        """Whether a plan for the snapshot is still valid. The caller holds the job's lock."""
        return self.running_job.plans_alike(running_job)

    @property
    def basis(self) -> Basis:
        return Basis(deployment=self.running_job.deployment, generation=self.present.generation)


def take(registry: JobRegistry, running_job: RunningJob) -> JobSnapshot:
    """A snapshot of a job whose lock the caller holds. Making the snapshot is cheap even if the job has many tasks."""
    return JobSnapshot(running_job.snapshot(), registry.present(running_job))


def change(
    registry: JobRegistry,
    job: str,
    request: ChangeRequest,
    plan: Callable[[RunningJob, Generation], P | None],
    apply: Callable[[RunningJob, Generation, P | None], R],
) -> R:
    """Plan a change to a job without locking the job. Then lock the job, and apply the plan. If the job has changed
    meanwhile, another plan is made, up to ``TRIES`` plans in all. Returns the result of ``apply``.
    :func:`response` adds to this result what the plan was based on.

    If the request has already been carried out, no plan is made, and ``apply`` gets None.

    Args:
        plan: returns the plan for a job and its current generation, or None if nothing needs to be done. The function
            may run for a long time, and must only read its arguments.
        apply: given the locked job, its current generation and the plan, carries out the plan, if there is one, and
            returns the result. In a dry run, ``apply`` gets the snapshot rather than the locked job, and must not
            change anything.

    Raises:
        ConflictError: the job changed during each attempt to plan. Also raises the errors of
            :meth:`JobRegistry.locked`, ``plan``, ``apply`` and :func:`check_expected`.
    """
    for _ in range(TRIES):
        with registry.locked(job) as running_job:
            registry.advance(running_job)
            snapshot = take(registry, running_job)
        seen, planned = snapshot.running_job, None
        repeated = stored_jobs.is_known(registry.store, job, request.request)
        if not repeated:
            check_expected(job, request, snapshot.basis, None)
            planned = plan(seen, snapshot.present)
            if planned is not None:
                check_expected(job, request, snapshot.basis, planned.result)
        if request.dry:
            heads = follow.heads(seen.lanes) if request.brief else []
            return response(apply(seen, snapshot.present, planned), snapshot.basis, request, len(heads))
        with registry.locked(job) as running_job:
            present = registry.up_to_date(running_job)
            if snapshot.is_still(running_job):
                result = msgspec.structs.replace(apply(running_job, present, planned), repeated=repeated)
                break
    else:
        raise always_changes(job)
    return response(result, snapshot.basis, request, len(follow.heads(seen.lanes)) if request.brief else 0)


def always_changes(job: str) -> ConflictError:
    """The error for a job that changed during each attempt to plan."""
    return ConflictError(
        f"job {job!r} has changed each time that it was planned: {TRIES} times in a row",
        f"nothing was done; see anabranch status {job}, and try again",
    )


def check_expected(
    job: str, request: ChangeRequest, basis: Basis, result: ScaleResult | RewindResult | DeployResult | None
) -> None:
    """Raises ConflictError if the job's state or the result isn't what the request expects.

    Args:
        result: the planned result; if None, only the job's state is compared.
    """
    expected = request.expect
    if expected is None:
        return
    wanted, has = (expected.deployment, expected.generation), (basis.deployment, basis.generation)
    if wanted != has:
        raise ConflictError(
            f"job {job!r} was planned for as deployment {wanted[0]}, generation {wanted[1]}, and is deployment "
            f"{has[0]}, generation {has[1]} now",
            f"nothing was done; plan it again: anabranch events {job} says what has changed",
        )
    if result is not None and expected.digest and _digest(result) != expected.digest:
        raise ConflictError(
            f"the result would differ from the plan: job {job!r} is in the same generation, but its lanes, its "
            "containers or their racks, or its inputs have changed",
            f"nothing was done; plan it again: anabranch events {job} says what has changed",
        )


def response(result: R, basis: Basis, request: ChangeRequest, heads: int) -> R:
    """The answer to a request: the result of the plan, and what the plan was based on. If the request is ``brief``,
    the answer contains an outline instead of the lanes.

    Args:
        heads: how many lanes the current generation has.
    """
    basis = msgspec.structs.replace(basis, digest=_digest(result))
    if not request.brief:
        return msgspec.structs.replace(result, basis=basis)
    outline = outlined(result.closing, result.lanes, heads - len(result.closing))
    return msgspec.structs.replace(result, basis=basis, outline=outline, closing=(), lanes=())


def _digest(result: ScaleResult | RewindResult | DeployResult) -> str:
    """A digest of what a change does. The predicted pause isn't included, because it differs each time."""
    if isinstance(result, ScaleResult):
        rest = [result.factor, result.containers, result.partitions, result.free]
    elif isinstance(result, RewindResult):
        rest = [result.to]
    else:
        rest = [result.deployment, result.version_of, result.notes]
    return digest(result.closing, result.lanes, *rest)
