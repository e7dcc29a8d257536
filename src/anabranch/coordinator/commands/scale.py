"""Gives a running job another factor, or another number of containers."""

from __future__ import annotations

from anabranch.config import MOST_CONTAINERS
from anabranch.coordinator.commands import off_lock
from anabranch.coordinator.commands.context import Context, enter
from anabranch.coordinator.jobs import racks, transitions
from anabranch.coordinator.jobs.registry import JobRegistry
from anabranch.coordinator.jobs.running_job import RunningJob
from anabranch.coordinator.jobs.transitions import Generation, NextGeneration
from anabranch.errors import AnabranchError, ConfigError, ConflictError
from anabranch.model.factor import check_factor
from anabranch.planning.transition import rescale
from anabranch.protocol.commands import ScaleRequest, ScaleResult

__all__ = ["apply", "check", "is_scalable", "plan", "run"]


def run(context: Context, job: str, request: ScaleRequest) -> ScaleResult:
    """Change the factor or the number of containers. The affected lanes close, and their successors continue where
    these lanes end. Returns the effects of the change, which a dry run only predicts.

    If the job already has this factor and number of containers, no new change begins. A request with ``now`` then
    hastens an earlier change that is still under way: the closing lanes' batches are broken off, so that the change
    doesn't wait for them. A dry run doesn't hasten anything.

    Raises:
        NotFoundError: there is no such job.
        ConflictError: the job isn't running, is being changed, has a failed lane, or doesn't allow this change while it
            runs; or as for :func:`off_lock.change`.
        ConfigError: the factor or the number of containers isn't allowed.
        GraphError: the job's graph doesn't allow this factor or number of containers.
        AnabranchError: racks must be taken into account, and a system doesn't answer.
    """
    context.locate(job)
    registry = context.registry

    def planned(running_job: RunningJob, present: Generation) -> NextGeneration | None:
        return plan(running_job, present, request, alone=registry.grace is None)

    def applied(running_job: RunningJob, present: Generation, found: NextGeneration | None) -> ScaleResult:
        return apply(registry, running_job, present, found, request)

    return off_lock.change(registry, job, request, planned, applied)


def check(running_job: RunningJob, present: Generation, factor: int, containers: int, alone: bool) -> None:
    """Raises ConfigError or ConflictError if a job can't get this factor or this number of containers now.

    Args:
        alone: whether the coordinator and the only container are in one process.
    """
    check_factor(factor)
    if not 1 <= containers <= MOST_CONTAINERS:
        raise ConfigError(f"a job can't have {containers:,} containers", f"give 1 to {MOST_CONTAINERS:,}")
    if containers > 1 and alone:
        raise ConflictError(
            f"job {running_job.job!r} runs in one process with its coordinator: it can't have {containers} containers",
            "start it on a coordinator: anabranch start JOB.py",
        )
    if containers != present.containers and running_job.settings.runs_in_real_time:
        raise ConflictError(
            f"job {running_job.job!r} runs in real time, and the coordinator can't check whether {containers} "
            "container(s) would have a task slot for each task",
            "stop it, and start it with another number of containers under another name",
        )
    transitions.check_changeable(running_job)


def plan(
    running_job: RunningJob,
    present: Generation,
    request: ScaleRequest,
    alone: bool,
    who: str = "user",
    reason: str = "",
) -> NextGeneration | None:
    """The next generation of a job; None if the request asks for the present factor and number of containers. Raises
    the errors of :func:`check` and :func:`anabranch.planning.transition.rescale.rescaled`.

    Args:
        present: the current generation.
        alone: see :func:`check`.
        who: who wants the change, for the event.
        reason: why the change is wanted, for the event; empty if no reason is given.
    """
    factor = present.factor if request.factor is None else request.factor
    containers = present.containers if request.containers is None else request.containers
    if (factor, containers) == (present.factor, present.containers):
        return None
    check(running_job, present, factor, containers, alone)
    why = f"factor {present.factor} → {factor}, containers {present.containers} → {containers}"
    why = f"{why}: {reason}" if reason else why
    change = transitions.rescaled(running_job, present, factor, racks.placing(running_job, containers), containers)
    return transitions.next_generation(running_job, change, "scale", who, why, request=request.request)


def apply(
    registry: JobRegistry,
    running_job: RunningJob,
    present: Generation,
    planned: NextGeneration | None,
    request: ScaleRequest,
) -> ScaleResult:
    """Enter the planned generation. If nothing is planned, and the request has ``now``, hasten a change that is under
    way. In a dry run, nothing is entered or hastened.
    """
    if planned is None and request.now and not request.dry:
        registry.hasten(running_job)
    return enter(registry, running_job, present, planned, request)


def is_scalable(running_job: RunningJob, present: Generation) -> bool:
    """Whether the graph and the grouper allow a factor above 1."""
    its = {lane.id: lane for lane in running_job.lanes}
    try:
        rescale.rescaled(present.graph, present.model, its, max(2, present.factor), present.containers, lambda: "")
    except AnabranchError:
        return False
    return True
