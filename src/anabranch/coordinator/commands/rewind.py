"""Makes a running job read its source streams again, from given offsets."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from anabranch.coordinator.commands import off_lock
from anabranch.coordinator.commands.context import Context
from anabranch.coordinator.jobs import pauses, transitions
from anabranch.coordinator.jobs.registry import JobRegistry
from anabranch.coordinator.jobs.running_job import RunningJob
from anabranch.coordinator.jobs.transitions import Generation, NextGeneration
from anabranch.coordinator.store import stored_jobs
from anabranch.coordinator.streams import start_offsets
from anabranch.planning.transition import rewind
from anabranch.protocol.commands import RewindRequest, RewindResult

__all__ = ["apply", "check", "plan", "run"]


def run(context: Context, job: str, request: RewindRequest) -> RewindResult:
    """Rewind the job: the lanes that read the given partitions close, and their successors begin at the given offsets.
    If the request clears state, the lanes downstream are also replaced. Returns the effects of the rewind, which a dry
    run only predicts.

    A partition that hasn't been read up to its given offset yet is read from its current position. If the request has
    already been carried out, nothing happens, and the result contains only the current generation.

    Raises:
        NotFoundError: the job doesn't exist, or doesn't read one of the partitions; or a stream no longer exists.
        ConflictError: the job isn't running, is being changed, or has a failed lane; or as for :func:`off_lock.change`.
        UsageError: the offsets or the time to read from aren't valid, the request doesn't say what happens to the job's
            state, or this state can't be cleared.
        AnabranchError: a system doesn't answer.
    """
    registry = context.registry
    with registry.locked(job) as running_job:
        registry.advance(running_job)
        snapshot = off_lock.take(registry, running_job)
    if stored_jobs.is_known(registry.store, job, request.request):
        return RewindResult(generation=snapshot.present.generation, repeated=True)
    off_lock.check_expected(job, request, snapshot.basis, None)
    check(snapshot.running_job)
    sources = rewind.sources(snapshot.present.graph, snapshot.running_job.lanes)
    to = start_offsets.offsets(request.to, job, sources, context.systems_of(snapshot.running_job))  # may take long

    def planned(running_job: RunningJob, present: Generation) -> NextGeneration:
        return plan(running_job, present, request, to)

    def applied(running_job: RunningJob, present: Generation, found: NextGeneration | None) -> RewindResult:
        if found is None:
            return RewindResult(generation=present.generation)
        return apply(registry, running_job, found, request)

    return off_lock.change(registry, job, request, planned, applied)


def check(running_job: RunningJob) -> None:
    """Raises ConflictError if a job can't be rewound now."""
    transitions.check_changeable(running_job)


def plan(running_job: RunningJob, present: Generation, request: RewindRequest, to: Mapping[str, int]) -> NextGeneration:
    """The next generation of a job, which reads partitions again from the offsets ``to``. Raises ConflictError if the
    job can't be rewound now. Also raises the errors of :func:`anabranch.planning.transition.rewind.rewound`.
    """
    check(running_job)
    its = {lane.id: lane for lane in running_job.lanes}
    change = rewind.rewound(present.graph, present.model, its, to, request.state, transitions.new_id)
    closing = transitions.named(its, change)
    result = RewindResult(
        generation=change.model.generation,
        to=dict(to),
        closing=closing,
        lanes=change.lanes,
        pause=pauses.planned(running_job, closing, change.lanes),
    )
    state = "" if request.state is None else f", state: {request.state}"
    where = ", ".join(f"{ssp} at {offset}" for ssp, offset in to.items())
    why = f"rewound to {where}{state}" if isinstance(request.to, dict) else f"rewound to {request.to}{state}: {where}"
    model = msgspec.structs.replace(change.model, request=request.request)
    return NextGeneration(model, result, transitions.ending_lanes(running_job, its, change), "rewind", "user", why)


def apply(
    registry: JobRegistry, running_job: RunningJob, planned: NextGeneration, request: RewindRequest
) -> RewindResult:
    """Enter the planned generation, unless the request is a dry run."""
    if not request.dry:
        registry.change(running_job, planned, request.now)
    assert isinstance(planned.result, RewindResult)
    return planned.result
