"""Determines the next generation of a running job, without storing it."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from anabranch.coordinator.jobs import pauses, racks
from anabranch.coordinator.jobs.running_job import RunningJob
from anabranch.errors import ConflictError
from anabranch.grouping.expansion import partitions
from anabranch.model.deployment_state import DeploymentState
from anabranch.model.graph import Graph
from anabranch.model.job_model import JobModel
from anabranch.model.lane import Lane, LaneState
from anabranch.planning import traffic
from anabranch.planning.assignment import assignment_settings
from anabranch.planning.assignment.assignor import Placing
from anabranch.planning.transition import follow, opening, rescale, rewind
from anabranch.planning.transition.change import Change
from anabranch.protocol.commands import RewindResult, ScaleResult
from anabranch.views.changes import ChangeKind

__all__ = [
    "Generation",
    "NextGeneration",
    "check_cancellable",
    "check_changeable",
    "ending_lanes",
    "is_cancellable",
    "named",
    "new_id",
    "next_generation",
    "rescaled",
    "undone",
]


@dataclass(frozen=True)
class Generation:
    """The current generation of a job."""

    graph: Graph
    model: JobModel

    @property
    def generation(self) -> int:
        return self.model.generation

    @property
    def factor(self) -> int:
        return self.model.factor

    @property
    def containers(self) -> int:
        return len(self.model.containers)


@dataclass(frozen=True)
class NextGeneration:
    """The next generation of a job.

    Attributes:
        ending: the lanes of the current generation that end, as they should be stored.
    """

    model: JobModel
    result: ScaleResult | RewindResult
    ending: tuple[Lane, ...]
    kind: ChangeKind
    who: str
    why: str


def check_changeable(running_job: RunningJob) -> None:
    """Raises ConflictError if a job can't be changed now."""
    if running_job.state is not DeploymentState.RUNNING:
        raise ConflictError(
            f"job {running_job.job!r} is {running_job.state.value}: only one that is running can be changed",
            f"wait for it; see anabranch status {running_job.job}",
        )
    _check_whole(running_job, lambda lane: True)


def undone(running_job: RunningJob, present: Generation, before: JobModel, who: str, why: str) -> NextGeneration:
    """The generation that undoes the change that is under way, and returns to the job model ``before``."""
    void = [opening.never_begun(lane, why) for lane in running_job.spoilt()]
    if present.model.rewound:
        its = {lane.id: lane for lane in running_job.lanes}
        back = rewind.undone(present.model, its, new_id)
        result = RewindResult(generation=back.model.generation, closing=named(its, back), lanes=back.lanes)
        model = msgspec.structs.replace(back.model, undoes=present.generation)
        ending = (*ending_lanes(running_job, its, back, void), *void)
        return NextGeneration(model, result, ending, "undo", who, why)
    seats = assignment_settings.as_in(before)
    if (before.factor, len(before.containers)) == (present.factor, present.containers):  # only seats have changed
        its = {lane.id: lane for lane in running_job.lanes}
        change = follow.following(present.model, before.stages, its, before.factor, new_id, seats)
    else:
        change = rescaled(running_job, present, before.factor, seats, len(before.containers))
    return next_generation(running_job, change, "undo", who, why, void, undoes=present.generation)


def is_cancellable(running_job: RunningJob, present: Generation) -> bool:
    """Whether the job is being changed, and the change can be undone."""
    try:
        check_cancellable(running_job, present)
    except ConflictError:
        return False
    return True


def check_cancellable(running_job: RunningJob, present: Generation) -> None:
    """Raises ConflictError if no change is under way, or if the change can't be undone."""
    if running_job.state is not DeploymentState.CHANGING:
        raise ConflictError(
            f"job {running_job.job!r} is {running_job.state.value}: there is no change to cancel",
            f"see anabranch status {running_job.job}",
        )
    if present.model.expands:
        raise ConflictError(
            f"job {running_job.job!r} follows the expansion of {', '.join(present.model.expands)}, which can't have "
            "fewer partitions again",
            f"let it be done; see anabranch status {running_job.job}",
        )
    if running_job.follows:
        _check_untouched(running_job)
    if present.model.undoes:
        raise ConflictError(
            f"job {running_job.job!r} is already going back, from generation {present.model.undoes}",
            f"see anabranch status {running_job.job}",
        )
    rewound = (lane for lane in running_job.lanes if lane.id in present.model.rewound)
    begun = next((lane for lane in rewound if _may_have_begun(lane)), None)
    if begun is not None:
        raise ConflictError(
            f"lane {begun.id} of job {running_job.job!r} may have begun to process records again, so the rewind can't "
            "be undone",
            "wait until it is done; a rewind can only go back, never forward",
        )
    new = running_job.deployment if running_job.follows else 0  # no lane continues from this deployment's lanes yet
    _check_whole(running_job, lambda lane: lane.begun or not (lane.predecessors or lane.deployment == new))


def _may_have_begun(lane: Lane) -> bool:
    """Whether a lane's query might be running. Once the coordinator knows the lane's folder, the query can start at any
    moment, and the coordinator hears of it only later. The report of a lane that has failed says whether it had begun.
    """
    return lane.begun or (lane.folder_epoch > 0 and lane.state is not LaneState.FAILED)


def _check_untouched(running_job: RunningJob) -> None:
    its = [lane for lane in running_job.lanes if lane.deployment == running_job.deployment]
    begun = next((lane for lane in its if lane.begun), None)
    if begun is not None:
        raise ConflictError(
            f"lane {begun.id} of job {running_job.job!r} has begun with the code of deployment "
            f"{running_job.deployment}",
            f"wait until all of them run; then: anabranch rollback {running_job.job}",
        )


def _check_whole(running_job: RunningJob, matters: Callable[[Lane], bool]) -> None:
    failed = next((lane for lane in running_job.lanes if lane.state is LaneState.FAILED and matters(lane)), None)
    if failed is not None:
        raise ConflictError(
            f"lane {failed.id} of job {running_job.job!r} has failed: where others would continue isn't known",
            f"see anabranch status {running_job.job}; stop it, fix it and start it again",
        )


def new_id() -> str:
    return secrets.token_hex(4)


def rescaled(running_job: RunningJob, present: Generation, factor: int, seats: Placing, containers: int) -> Change:
    its = {lane.id: lane for lane in running_job.lanes}
    return rescale.rescaled(present.graph, present.model, its, factor, containers, new_id, seats)


def next_generation(
    running_job: RunningJob,
    change: Change,
    kind: ChangeKind,
    who: str,
    why: str,
    void: Sequence[Lane] = (),
    **marks: str | int,
) -> NextGeneration:
    its = {lane.id: lane for lane in running_job.lanes}
    model = msgspec.structs.replace(change.model, **{"request": "", "undoes": 0, "rewound": (), **marks})
    counts = {name: count for stage in model.stages for name, count in partitions(stage).items()}
    ending = named(its, change)
    free = tuple(sorted({lane.seat for lane in change.lanes if running_job.seats.of(lane.seat) is None}))
    result = ScaleResult(
        generation=model.generation,
        factor=model.factor,
        containers=len(model.containers),
        partitions={name: counts[name] for name in model.expands},
        closing=ending,
        lanes=change.lanes,
        pause=pauses.planned(running_job, ending, change.lanes, free),
        free=free,
        before=traffic.of(follow.heads(its.values()), racks.where(running_job, len(running_job.model.containers))),
        after=traffic.of(_after(its, change), racks.where(running_job, len(model.containers))),
        why_not=change.why_not,
    )
    return NextGeneration(model, result, (*ending_lanes(running_job, its, change, void), *void), kind, who, why)


def _after(lanes: Mapping[str, Lane], change: Change) -> list[Lane]:
    """The lanes of the next generation."""
    return [*(lane for lane in follow.heads(lanes.values()) if lane.id not in change.closing), *change.lanes]


def named(lanes: Mapping[str, Lane], change: Change) -> tuple[Lane, ...]:
    return tuple(lanes[name] for name in change.closing)


def ending_lanes(
    running_job: RunningJob, lanes: Mapping[str, Lane], change: Change, void: Sequence[Lane] = ()
) -> tuple[Lane, ...]:
    """The lanes that a change closes, as they should be stored, except the ``void`` lanes, which are already closed."""
    ending = [lanes[name] for name in change.closing if name not in {lane.id for lane in void}]
    closed = {lane.id for lane in ending if running_job.is_over(lane.id) and not rewind.lacks_ends(lane, change.lanes)}
    return tuple(
        msgspec.structs.replace(lane, state=LaneState.CLOSED if lane.id in closed else LaneState.CLOSING)
        for lane in ending
    )
