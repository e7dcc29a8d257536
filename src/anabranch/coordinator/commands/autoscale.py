"""Gives a job the factor that the coordinator's autosizer chooses, and explains the choice."""

from __future__ import annotations

from anabranch.config import AutoscaleSettings
from anabranch.coordinator.commands import off_lock, scale
from anabranch.coordinator.commands.context import Context
from anabranch.coordinator.commands.off_lock import JobSnapshot
from anabranch.coordinator.jobs import pause_estimate
from anabranch.coordinator.jobs.change_kind import Kind
from anabranch.coordinator.jobs.registry import JobRegistry
from anabranch.coordinator.jobs.running_job import RunningJob
from anabranch.coordinator.sizing import autosizing, figures
from anabranch.coordinator.sizing.autosizing import Assessment, Verdict
from anabranch.coordinator.sizing.findings import Findings
from anabranch.errors import AnabranchError
from anabranch.model.factor import FACTORS
from anabranch.protocol.commands import ScaleRequest
from anabranch.protocol.status import JobStatus, Sizing

__all__ = ["autoscale", "explain"]

_SIZE_EVERY = 1.0
_LOCATED_FOR = 30.0
"""For how many seconds the racks of replicas count as known after they were looked up."""
_LOCATE_AGAIN = 60.0
"""The autosizer requests a check of the inputs at most once in this many seconds, because checks can be slow."""
_ADVISED_AFTER = 30.0
"""How many seconds advice must have been valid before an event reports it."""


def autoscale(context: Context, job: str) -> None:
    """Let the autosizer choose the factor of a running job, and give the job this factor. Does nothing if the
    coordinator doesn't serve the job, if the job isn't scaled automatically, or if this function was called for the job
    within the last second.

    If the factor is refused, an event reports this, and nothing more is tried in the same generation. If the
    autosizer has found for some time that no factor would help enough, an event gives advice, once per generation.

    If tasks are placed by racks, a factor is tried only after the check of the inputs has looked up the racks of
    replicas. This function can't look up the racks itself, because systems can be slow to answer. The thread that
    calls this function also renews the coordinator's lease, and so must not wait.
    """
    registry = context.registry
    with registry.locked_all() as jobs:
        verdict = _wanted(registry, jobs[job]) if job in jobs else None
        if verdict is None:
            return
        if not _is_located(registry, jobs[job]):
            _have_located(registry, jobs[job])
            return
        snapshot = off_lock.take(registry, jobs[job])
    planned, refused, request = None, None, ScaleRequest(factor=verdict.factor)
    try:
        planned = scale.plan(
            snapshot.running_job, snapshot.present, request, registry.grace is None, "autoscale", verdict.why
        )
    except AnabranchError as error:
        refused = error
    with registry.locked_all() as jobs:
        running_job = jobs.get(job)
        if running_job is None or not snapshot.is_still(running_job):
            return
        if refused is not None:
            what = f"the factor stays {running_job.model.factor}, and should be {verdict.factor}"
            event = registry.event("autoscale", job, "autoscale", what, f"{verdict.why}; {refused}")
            registry.write(registry.store.note, [event])
            running_job.scaling.refused = running_job.generation
        elif planned is not None:
            registry.change(running_job, planned)


def _is_located(registry: JobRegistry, running_job: RunningJob) -> bool:
    """Whether the racks of replicas were looked up a short time ago, or aren't needed to place the job's tasks."""
    if running_job.settings.assignment.strategy == "none" or len(running_job.model.containers) == 1:
        return True
    return registry.clock() <= running_job.inputs.located_at + _LOCATED_FOR


def _have_located(registry: JobRegistry, running_job: RunningJob) -> None:
    """Have the job's inputs checked soon, unless a check was requested within the last minute."""
    now = registry.clock()
    if now >= running_job.scaling.locate_from:
        running_job.scaling.locate_from = now + _LOCATE_AGAIN
        running_job.inputs.look_from = min(running_job.inputs.look_from, now)


def _wanted(registry: JobRegistry, running_job: RunningJob) -> Verdict | None:
    """The autosizer's verdict. None if no verdict is due, or if no other factor should be tried."""
    limits = running_job.settings.autoscale
    if limits is None or registry.clock() < running_job.scaling.looked_at + _SIZE_EVERY:
        return None
    running_job.scaling.looked_at = registry.clock()
    running_job.scaling.undone_at = _undone_at(running_job)
    status = registry.status(running_job)
    look, running_job.scaling.findings = _look(registry, running_job, limits, status)
    verdict = _verdict(registry, running_job, limits, status, look, running_job.scaling.findings)
    if verdict.factor is None or running_job.generation == running_job.scaling.refused:
        _advise(registry, running_job, verdict)
        return None
    return verdict


def explain(context: Context, job: str) -> Sizing:
    """How well a job's lanes keep up, and which factor the job should have.

    Raises:
        NotFoundError: there is no such job.
        ConflictError: this coordinator doesn't serve the job.
    """
    registry = context.registry
    with registry.locked(job) as running_job:
        snapshot = off_lock.take(registry, running_job)
    seen = snapshot.running_job
    status = registry.status(seen)
    limits = seen.settings.autoscale or AutoscaleSettings(max=FACTORS[-1])
    look, findings = _look(registry, seen, limits, status)
    verdict = None
    if seen.settings.autoscale is not None:
        verdict = _verdict(registry, seen, limits, status, look, findings)
        is_tried = verdict.factor is not None and seen.generation != seen.scaling.refused
        if is_tried and not _is_located(registry, seen):
            waits = f"factor {verdict.factor} waits until it is known in which racks the replicas of the inputs are"
            verdict = Verdict(None, "; ".join(filter(None, (verdict.why, waits, seen.inputs.warning))), verdict.advice)
    return figures.of(status, _is_scalable(registry, snapshot), verdict, look, limits)


def _is_scalable(registry: JobRegistry, snapshot: JobSnapshot) -> bool:
    """Whether a job can have a factor above 1. The answer is determined once per generation."""
    seen = snapshot.running_job
    key = (seen.deployment, seen.generation)
    if key not in seen.scaling.scalable:
        found = scale.is_scalable(seen, snapshot.present)
        with registry.locked_as_seen() as jobs:
            if seen.job in jobs:
                jobs[seen.job].scaling.scalable = {key: found}
        return found
    return seen.scaling.scalable[key]


def _advise(registry: JobRegistry, running_job: RunningJob, verdict: Verdict) -> None:
    advising = running_job.scaling.findings.advising
    is_due = advising.lasts(1, _ADVISED_AFTER, registry.clock())
    if not is_due or running_job.scaling.advised == running_job.generation:
        return
    what = f"the factor stays {running_job.model.factor}, which isn't enough"
    event = registry.event("autoscale", running_job.job, "autoscale", what, "; ".join((verdict.why, *verdict.advice)))
    registry.write(registry.store.note, [event])
    running_job.scaling.advised = running_job.generation


def _look(
    registry: JobRegistry, running_job: RunningJob, limits: AutoscaleSettings, status: JobStatus
) -> tuple[Assessment, Findings]:
    lanes = [each.lane for each in status.lanes]
    pause = pause_estimate.predicted(lanes, (), running_job.reports, running_job.progress.shown, kind=Kind.FACTOR)
    threads, now = running_job.settings.threads, registry.clock()
    return autosizing.looked(limits, status, threads, pause.seconds, running_job.scaling.findings, now)


def _verdict(
    registry: JobRegistry,
    running_job: RunningJob,
    limits: AutoscaleSettings,
    status: JobStatus,
    look: Assessment,
    findings: Findings,
) -> Verdict:
    now = registry.clock()
    since, undone = now - running_job.progress.unchanged_since, now - _undone_at(running_job)
    return autosizing.decide(limits, status, since, undone, look, findings, now)


def _undone_at(running_job: RunningJob) -> float:
    """When a change was last undone, on this coordinator's clock; minus infinity if no change was undone. Later
    generations don't change this time.
    """
    return running_job.progress.unchanged_since if running_job.model.undoes else running_job.scaling.undone_at
