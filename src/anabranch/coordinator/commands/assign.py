"""Moves the tasks of a running job to the seats that suit the current racks best, and explains the placement."""

from __future__ import annotations

import dataclasses

import msgspec

from anabranch.coordinator.commands import off_lock
from anabranch.coordinator.commands.context import Context, enter
from anabranch.coordinator.jobs import racks, transitions
from anabranch.coordinator.jobs.registry import JobRegistry
from anabranch.coordinator.jobs.running_job import RunningJob
from anabranch.coordinator.jobs.transitions import Generation, NextGeneration
from anabranch.errors import ConflictError
from anabranch.planning.assignment import assignment_settings, assignor
from anabranch.planning.transition import follow
from anabranch.protocol.commands import AssignRequest, ScaleResult
from anabranch.protocol.status import Assignment, TaskAssignment

__all__ = ["apply", "check", "explain", "plan", "run"]


def run(context: Context, job: str, request: AssignRequest) -> ScaleResult:
    """Move the tasks of a running job to the seats that best suit the racks of its containers and of its inputs'
    replicas. Returns the effects. With ``request.dry``, nothing is changed.

    If all tasks are already in the right seats, no lane closes. Even then, the job gets a new generation if the
    racks of its seats have changed. The new generation records these racks.

    Raises:
        NotFoundError: there is no such job.
        ConflictError: the job isn't running, is being changed, has a failed lane, or doesn't allow this change while it
            runs; or as for :func:`off_lock.change`.
        AnabranchError: a system doesn't answer, and the job's settings place tasks by racks.
    """
    context.locate(job)
    registry = context.registry

    def planned(running_job: RunningJob, present: Generation) -> NextGeneration | None:
        return plan(running_job, present, request.request)

    def applied(running_job: RunningJob, present: Generation, found: NextGeneration | None) -> ScaleResult:
        return apply(registry, running_job, present, found, request)

    return off_lock.change(registry, job, request, planned, applied)


def check(running_job: RunningJob) -> None:
    """Raises ConflictError if the tasks of a job can't move now."""
    transitions.check_changeable(running_job)
    if running_job.settings.runs_in_real_time:
        raise ConflictError(
            f"job {running_job.job!r} runs in real time, and the coordinator can't check whether its containers have a "
            "task slot for each task that comes to them",
            "stop it, and start it with [assignment] racks under another name",
        )


def plan(running_job: RunningJob, present: Generation, request: str) -> NextGeneration:
    """The next generation of a job, with each task in the seat where it should be. If no task moves, the generation has
    no new lanes.

    Args:
        present: the job's current generation.
        request: the request's id; empty if it has none.

    Raises:
        ConflictError: as for :func:`check`.
    """
    check(running_job)
    its = {lane.id: lane for lane in running_job.lanes}
    seats = racks.placing(running_job, present.containers)
    change = follow.following(present.model, present.model.stages, its, present.factor, transitions.new_id, seats)
    why = "tasks move to the seats that suit the racks best"
    planned = transitions.next_generation(running_job, change, "assign", "user", why, request=request)
    assert isinstance(planned.result, ScaleResult)
    was, now = present.model.seats_of_tasks(), change.model.seats_of_tasks()
    moved = sum(now[stage][name] != seat for stage, tasks in was.items() for name, seat in tasks.items())
    return dataclasses.replace(planned, result=msgspec.structs.replace(planned.result, moved=moved))


def apply(
    registry: JobRegistry,
    running_job: RunningJob,
    present: Generation,
    planned: NextGeneration | None,
    request: AssignRequest,
) -> ScaleResult:
    """If tasks move or the seats' racks have changed, enter the planned generation, which also records these racks. A
    dry run only returns the result.
    """
    if planned is not None and planned.model.containers == present.model.containers:
        assert isinstance(planned.result, ScaleResult)
        return msgspec.structs.replace(planned.result, generation=present.generation)
    return enter(registry, running_job, present, planned, request)


def explain(context: Context, job: str) -> Assignment:
    """Where the tasks of a job are, where they should be, and why.

    Raises:
        NotFoundError: there is no such job.
        ConflictError: this coordinator doesn't serve the job.
        AnabranchError: a system doesn't answer, and the job's settings place tasks by racks.
    """
    context.locate(job)
    with context.registry.locked(job) as running_job:
        context.registry.advance(running_job)
        snapshot = off_lock.take(context.registry, running_job)
    return _explained(snapshot.running_job, snapshot.present)


def _explained(running_job: RunningJob, present: Generation) -> Assignment:
    where, rules = (
        racks.where(running_job, present.containers),
        assignment_settings.rules(running_job.settings.assignment),
    )
    model = present.model
    former = model.seats_of_tasks()
    found = assignor.seat(model.stages, former, where, rules)
    why = assignor.explained(model.stages, former, where, rules)
    its = {lane.id: lane for lane in running_job.lanes}
    change = follow.following(model, model.stages, its, model.factor, transitions.new_id, lambda *_: found)
    result = transitions.next_generation(running_job, change, "assign", "user", "").result
    assert isinstance(result, ScaleResult)
    return Assignment(
        job=running_job.job,
        strategy=rules.strategy,
        racks=dict(where.seats),
        tasks={
            stage: {
                name: TaskAssignment(seat=seat, should=found.seats[stage][name], why=why[stage][name])
                for name, seat in tasks.items()
            }
            for stage, tasks in former.items()
        },
        cost=found.cost,
        lower_bound=found.lower_bound,
        before=result.before,
        after=result.after,
        why_not=found.why_not,
    )
