"""Lets a job process everything that it should still read, emit all windows, fire all timers, and end."""

from __future__ import annotations

from collections.abc import Mapping

from anabranch import drain_progress
from anabranch.coordinator.commands.context import Context
from anabranch.coordinator.jobs import draining
from anabranch.coordinator.jobs.registry import JobRegistry
from anabranch.coordinator.jobs.running_job import RunningJob
from anabranch.coordinator.streams import start_offsets
from anabranch.protocol.drain import DrainAccepted, DrainMode, DrainNotification, DrainProgress

__all__ = ["apply", "check", "plan", "run"]


def run(context: Context, job: str, request: DrainNotification) -> DrainAccepted:
    """Begin to drain a job, and return the plan of the drain. Nothing begins if the job is already draining, if the
    request is a dry run, or if the request is for another deployment.

    Raises:
        NotFoundError: there is no such job, or a stream that it reads no longer exists (only in the mode "latest").
        ConflictError: the job isn't running, is being changed or stopped, or has a failed lane.
        UsageError: the request's uuid isn't valid.
        AnabranchError: a system doesn't answer; only in the mode "latest".
    """
    registry = context.registry
    with registry.locked(job) as running_job:
        registry.up_to_date(running_job)
        planned = plan(running_job, request, registry.now())
        if (
            planned.ignored
            or running_job.progress.drain is not None
            or (request.dry and request.mode == DrainMode.PLANNED)
        ):
            return planned
        read = draining.sources(running_job.lanes) if request.mode == DrainMode.LATEST else []
        systems = context.systems_of(running_job) if read else None
    ends = {} if systems is None else start_offsets.ends(read, systems)  # not under the lock: it may take long
    with registry.locked(job) as running_job:
        registry.up_to_date(running_job)
        planned = plan(running_job, request, registry.now())
        if planned.ignored or running_job.progress.drain is not None or request.dry:
            return planned
        return apply(registry, running_job, planned, request, ends)


def check(running_job: RunningJob, request: DrainNotification) -> str:
    """Why a drain notification is ignored; empty if it isn't. Raises the errors of
    :func:`anabranch.coordinator.jobs.draining.check`.
    """
    return draining.check(running_job.job, running_job.state, running_job.deployment, running_job.lanes, request)


def plan(running_job: RunningJob, request: DrainNotification, now: float) -> DrainAccepted:
    """The plan of a drain: which lanes drain, in which order, and the expected duration. If the job is already
    draining, the result is the plan of the current drain. ``now`` is in seconds since 1970. Raises the errors of
    :func:`check`.
    """
    ignored = check(running_job, request)
    present = request if running_job.progress.drain is None else running_job.progress.drain.notification
    stages = draining.stages(running_job.lanes)
    return DrainAccepted(
        deployment=running_job.deployment,
        uuid=present.uuid,
        mode=present.mode,
        ignored=ignored,
        stages=stages,
        seconds=drain_progress.foretold(stages, running_job.reports, _ends(running_job, present), now),
    )


def _ends(running_job: RunningJob, request: DrainNotification) -> dict[str, int] | None:
    """The inputs' end offsets from the lanes' last reports; None in the mode "planned"."""
    if request.mode == "planned":
        return None
    return {ssp: end for report in running_job.reports.values() for ssp, end in report.progress.ends.items()}


def apply(
    registry: JobRegistry,
    running_job: RunningJob,
    planned: DrainAccepted,
    request: DrainNotification,
    ends: Mapping[str, int],
) -> DrainAccepted:
    """Begin the drain. In the mode "latest", the job reads at least up to the offsets ``ends``."""
    what, why = f"requested a drain, mode {request.mode}", f"{planned.seconds:.1f} s is expected"
    registry.put_drain(running_job, DrainProgress(notification=request, ends=dict(ends)), "user", what, why)
    running_job.progress.drains_since, running_job.progress.drains_for = registry.clock(), planned.seconds
    registry.advance(running_job)
    registry.announce()
    return planned
