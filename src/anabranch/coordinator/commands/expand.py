"""Adapts a running job to partitions added to its inputs, and to new streams that match its patterns. A change begins
at a user's request, or when the coordinator finds such partitions or streams.
"""

from __future__ import annotations

from collections.abc import Mapping

from anabranch.coordinator.commands import off_lock
from anabranch.coordinator.commands.context import Context, enter
from anabranch.coordinator.commands.off_lock import JobSnapshot
from anabranch.coordinator.jobs import racks, transitions
from anabranch.coordinator.jobs.registry import JobRegistry
from anabranch.coordinator.jobs.running_job import RunningJob
from anabranch.coordinator.jobs.transitions import Generation, NextGeneration
from anabranch.errors import AnabranchError, ConflictError
from anabranch.model.deployment_state import DeploymentState
from anabranch.planning.transition import expand
from anabranch.protocol.commands import ExpandRequest, ScaleResult

__all__ = ["apply", "check", "follow_inputs", "look", "plan", "run"]


def run(context: Context, job: str, request: ExpandRequest) -> ScaleResult:
    """Adapt a running job to partitions that were added to its inputs, and to new streams that match its patterns.
    Returns the effects. Nothing is changed if there is nothing new, or with ``request.dry``.

    Raises:
        NotFoundError: there is no such job.
        ConflictError: the job isn't running, is being changed, has a failed lane, or can't be adapted for a reason that
            the message names; or as for :func:`off_lock.change`.
        AnabranchError: a system doesn't answer.
    """
    registry = context.registry
    with registry.locked(job) as running_job:
        snapshot = off_lock.take(registry, running_job)
    inputs, settings = context.inputs(snapshot.present), snapshot.running_job.settings.given
    counts = context.counting(job, settings, *inputs)
    context.locate(job, counts)
    with registry.locked(job) as running_job:
        snapshot = off_lock.take(registry, running_job)
    seen = expand.seen(snapshot.present.graph, snapshot.present.model, counts)
    with registry.locked(job) as running_job:
        running_job.inputs.counts = seen

    def planned(running_job: RunningJob, present: Generation) -> NextGeneration | None:
        return plan(running_job, present, counts, "user", request.request)

    def applied(running_job: RunningJob, present: Generation, found: NextGeneration | None) -> ScaleResult:
        return apply(registry, running_job, present, found, request)

    return off_lock.change(registry, job, request, planned, applied)


def check(running_job: RunningJob) -> None:
    """Raises ConflictError if a job can't be adapted to more partitions now."""
    transitions.check_changeable(running_job)
    if running_job.settings.runs_in_real_time:  # without a Spark task slot, a partition would silently never be read
        raise ConflictError(
            f"job {running_job.job!r} runs in real time, and the coordinator can't check whether its containers have a "
            "task slot for each new partition",
            "stop the job and start it again with its file: the slots are then checked, and the new partitions are "
            "read",
        )


def plan(
    running_job: RunningJob,
    present: Generation,
    counts: Mapping[str, int],
    who: str,
    request: str = "",
    begins: bool = False,
) -> NextGeneration | None:
    """The next generation of a job, with the current partition counts of its inputs, and with new streams that match
    its patterns; None if there is nothing new.

    Args:
        counts: the partition counts of the inputs and of streams that match the patterns, by ``system/stream``.
        who: who wants the change.
        request: the request's id; empty if it has none.
        begins: whether the job has just been started, and none of its lanes is running yet.

    Raises:
        ConflictError: as for :func:`anabranch.planning.transition.expand.expanded` and, unless ``begins``, for
            :func:`check`.
    """
    other = expand.other(present.graph, present.model, counts)
    if not other:
        return None
    its = {lane.id: lane for lane in running_job.lanes}
    seats = racks.placing(running_job, present.containers)
    change = expand.expanded(present.graph, present.model, its, counts, transitions.new_id, seats)
    if not begins:
        check(running_job)
    had = expand.partitions(present.graph, present.model)
    why = ", ".join(
        f"{name} has {count} partitions instead of {had[name]}"
        if name in had
        else f"{name} is new, with {count} partitions"
        for name, count in other.items()
    )
    return transitions.next_generation(running_job, change, "expand", who, why, request=request)


def apply(
    registry: JobRegistry,
    running_job: RunningJob,
    present: Generation,
    planned: NextGeneration | None,
    request: ExpandRequest,
) -> ScaleResult:
    """Enter the planned generation, if there is one."""
    return enter(registry, running_job, present, planned, request)


def look(context: Context) -> None:
    """For each running job whose inputs are due to be checked, count the partitions of the inputs, and adapt the job to
    new partitions. Call this function about once a second. A call takes as long as the systems take to answer.
    """
    registry = context.registry
    with registry.locked_all() as jobs:
        now = registry.clock()
        due = [
            running_job
            for running_job in jobs.values()
            if running_job.state is DeploymentState.RUNNING and now >= running_job.inputs.look_from
        ]
    for running_job in due:
        with registry.isolated(running_job, "the job's inputs can't be checked"):
            _look_at(context, running_job)


def _look_at(context: Context, running_job: RunningJob) -> None:
    registry = context.registry
    with registry.locked_all() as jobs:
        if jobs.get(running_job.job) is not running_job:
            return
        running_job.inputs.look_from = registry.clock() + running_job.settings.expansion_check  # even if this fails
        before = off_lock.take(registry, running_job)
    counts, why = before.running_job.inputs.counts, ""
    try:
        counts = context.counting(running_job.job, running_job.settings.given, *context.inputs(before.present))
    except AnabranchError as error:
        why = f"how many partitions its inputs have isn't known: {error.what}"
    else:
        try:
            context.locate(running_job.job, counts)
        except AnabranchError as error:
            why = f"in which racks the replicas of its inputs are isn't known: {error.what}"
    seen = expand.seen(before.present.graph, before.present.model, counts)
    with registry.locked_all() as jobs:
        if jobs.get(running_job.job) is not running_job:
            return
        running_job.inputs.look_from = registry.clock() + running_job.settings.expansion_check
        running_job.inputs.counts = seen
        running_job.inputs.warning = why or running_job.inputs.warning
        snapshot = off_lock.take(registry, running_job)
    if not why and snapshot.running_job.state is DeploymentState.RUNNING:
        _follow(registry, running_job, snapshot, counts)


def _follow(registry: JobRegistry, running_job: RunningJob, snapshot: JobSnapshot, counts: Mapping[str, int]) -> None:
    """Like :func:`follow_inputs`, but plans without locking the job. If the job changes meanwhile, the next check is
    due at once.
    """
    planned, refused = None, None
    try:
        planned = plan(snapshot.running_job, snapshot.present, counts, "coordinator")
    except ConflictError as error:
        refused = error
    with registry.locked_all() as jobs:
        if jobs.get(running_job.job) is not running_job:
            return
        if not snapshot.is_still(running_job):
            running_job.inputs.look_from = registry.clock()
            return
        _warn(registry, running_job, refused)
        if planned is not None:
            registry.change(running_job, planned)


def follow_inputs(
    registry: JobRegistry, running_job: RunningJob, counts: Mapping[str, int], begins: bool = False
) -> None:
    """Adapt a job to the partition counts of its inputs, or warn once that this isn't possible. The caller holds the
    job's lock.
    """
    planned, refused = None, None
    try:
        planned = plan(running_job, registry.present(running_job), counts, "coordinator", begins=begins)
    except ConflictError as error:
        refused = error
    _warn(registry, running_job, refused)
    if planned is not None:
        registry.change(running_job, planned)


def _warn(registry: JobRegistry, running_job: RunningJob, refused: ConflictError | None) -> None:
    """Warn once that a job can't be adapted to its inputs, and give the reason. If the job can be adapted (``refused``
    is None), remove the warning."""
    before, running_job.inputs.warning = running_job.inputs.warning, "" if refused is None else str(refused)
    if refused is not None and running_job.inputs.warning != before:
        what = "the job can't adapt to its inputs"
        registry.store.note([registry.event("input", running_job.job, "coordinator", what, refused.what)])
