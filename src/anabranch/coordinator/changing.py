"""What becomes of a job that is to have another generation. Pure: nothing is stored here."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from anabranch.assignment.seating import Placing
from anabranch.coordinator import pausing
from anabranch.coordinator.serving import Serving
from anabranch.coordinator.states import DeploymentState
from anabranch.errors import AnabranchError, ConfigError, ConflictError
from anabranch.grouping.expansion import partitions
from anabranch.messages import Rewinding, Rewound, Scaled, Scaling
from anabranch.model.factor import check_factor
from anabranch.model.graph import Graph
from anabranch.model.job_model import JobModel
from anabranch.model.lane import Lane, LaneState
from anabranch.planning import placing, traffic
from anabranch.planning.transition import expand, follow, opening, rescale, rewind
from anabranch.planning.transition.change import Change

__all__ = [
    "Generation",
    "Wanted",
    "check_cancellable",
    "check_changeable",
    "expanded",
    "is_cancellable",
    "is_scalable",
    "new_id",
    "rewound",
    "scaled",
    "undone",
    "wanted",
]


@dataclass(frozen=True)
class Generation:
    """The present one."""

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
class Wanted:
    """The next generation. ``ending``: the lanes of the present one that end, as they are then."""

    model: JobModel
    told: Scaled | Rewound
    ending: tuple[Lane, ...]
    who: str
    why: str


def scaled(
    serving: Serving, present: Generation, wish: Scaling, alone: bool, who: str = "user", reason: str = ""
) -> Wanted | None:
    """What a wish makes of a job; None if it is so already. Errors as :meth:`Coordinator.scale`.

    Args:
        alone: the coordinator and the only container are one process.
        who: has the wish, for a ``reason``.
    """
    factor = present.factor if wish.factor is None else wish.factor
    containers = present.containers if wish.containers is None else wish.containers
    if (factor, containers) == (present.factor, present.containers):
        return None
    check_factor(factor)
    if containers < 1:
        raise ConfigError(f"a job can't have {containers} containers", "give 1 or more")
    if containers > 1 and alone:
        raise ConflictError(
            f"job {serving.job!r} runs in one process with its coordinator: it can't have {containers} containers",
            "start it on a coordinator: anabranch start JOB.py",
        )
    if containers != present.containers and serving.settings.get("job", {}).get("trigger") == "real-time":
        raise ConflictError(
            f"job {serving.job!r} runs in real time: whether its containers have a task slot for each task of "
            f"{containers} container(s) can't be seen from here",
            "stop it, and start it with another number of containers under another name",
        )
    check_changeable(serving)
    why = f"factor {present.factor} → {factor}, containers {present.containers} → {containers}"
    why = f"{why}: {reason}" if reason else why
    change = _rescaled(serving, present, factor, serving.placing(containers), containers)
    return wanted(serving, change, who, why, request=wish.request)


def rewound(serving: Serving, present: Generation, wish: Rewinding, to: Mapping[str, int]) -> Wanted:
    """What comes of a job that is to read some partitions again. Errors as :meth:`Coordinator.rewind`."""
    check_changeable(serving)
    its = {lane.id: lane for lane in serving.lanes}
    change = rewind.rewound(present.graph, present.model, its, to, wish.state, new_id)
    told = Rewound(
        generation=change.model.generation,
        to=dict(to),
        closing=_named(its, change),
        lanes=change.lanes,
        pause=pausing.expected(_named(its, change), serving.reports, serving.shown),
    )
    state = "" if wish.state is None else f", state: {wish.state}"
    where = ", ".join(f"{ssp} at {offset}" for ssp, offset in to.items())
    why = f"rewound to {where}{state}" if isinstance(wish.to, dict) else f"rewound to {wish.to}{state}: {where}"
    model = msgspec.structs.replace(change.model, request=wish.request)
    return Wanted(model, told, _ending(serving, its, change), "user", why)


def check_changeable(serving: Serving) -> None:
    """Raises ConflictError if a job can't be changed now."""
    if serving.state is not DeploymentState.RUNNING:
        raise ConflictError(
            f"job {serving.job!r} is {serving.state.value}: only one that is running can be changed",
            f"wait for it; see anabranch status {serving.job}",
        )
    _check_whole(serving, lambda lane: True)


def expanded(
    serving: Serving, present: Generation, counts: Mapping[str, int], who: str, request: str = "", begins: bool = False
) -> Wanted | None:
    """What becomes of a job whose inputs have these partition counts, by ``system/stream``; None if it has them so.

    Args:
        begins: it has just been started again.

    Raises:
        ConflictError: as :func:`anabranch.planning.transition.expand.expanded`; or the job can't be changed now.
    """
    other = expand.other(present.graph, present.model, counts)
    if not other:
        return None
    its = {lane.id: lane for lane in serving.lanes}
    seats = serving.placing(present.containers)
    change = expand.expanded(present.graph, present.model, its, counts, new_id, seats)
    if not begins:
        check_changeable(serving)
        _check_room(serving)
    had = expand.partitions(present.graph, present.model)
    why = ", ".join(
        f"{name} has {count} partitions, and had {had[name]}"
        if name in had
        else f"{name} has come, with {count} partitions"
        for name, count in other.items()
    )
    return wanted(serving, change, who, why, request=request)


def is_scalable(serving: Serving, present: Generation) -> bool:
    """Whether the graph and the grouper allow a factor above 1."""
    its = {lane.id: lane for lane in serving.lanes}
    try:
        rescale.rescaled(present.graph, present.model, its, max(2, present.factor), present.containers, lambda: "")
    except AnabranchError:
        return False
    return True


def undone(serving: Serving, present: Generation, before: JobModel, who: str, why: str) -> Wanted:
    """A generation that is as the one ``before`` the present one, which a change has not reached yet."""
    void = [opening.never_begun(lane, why) for lane in serving.spoilt()]
    if present.model.rewound:
        its = {lane.id: lane for lane in serving.lanes}
        back = rewind.undone(present.model, its, new_id)
        told = Rewound(generation=back.model.generation, closing=_named(its, back), lanes=back.lanes)
        model = msgspec.structs.replace(back.model, undoes=present.generation)
        return Wanted(model, told, (*_ending(serving, its, back, void), *void), who, f"cancelled: {why}")
    change = _rescaled(serving, present, before.factor, placing.as_in(before), len(before.containers))
    return wanted(serving, change, who, f"cancelled: {why}", void, undoes=present.generation)


def is_cancellable(serving: Serving, present: Generation) -> bool:
    """Whether a change can be undone."""
    try:
        check_cancellable(serving, present)
    except ConflictError:
        return False
    return True


def check_cancellable(serving: Serving, present: Generation) -> None:
    """Raises ConflictError if there is no change that can be undone."""
    if serving.state is not DeploymentState.CHANGING:
        raise ConflictError(
            f"job {serving.job!r} is {serving.state.value}: there is no change to cancel",
            f"see anabranch status {serving.job}",
        )
    if present.model.expands:
        raise ConflictError(
            f"job {serving.job!r} goes along with {', '.join(present.model.expands)}, which can't have fewer "
            "partitions again",
            f"let it be done; see anabranch status {serving.job}",
        )
    if serving.follows:
        _check_untouched(serving)
    if present.model.undoes:
        raise ConflictError(
            f"job {serving.job!r} goes back already, from generation {present.model.undoes}",
            f"see anabranch status {serving.job}",
        )
    begun = next((lane for lane in serving.lanes if lane.id in present.model.rewound and lane.begun), None)
    if begun is not None:
        raise ConflictError(
            f"lane {begun.id} of job {serving.job!r} has begun to process records again: that can't be taken back",
            "wait for it; a job can be rewound anew, never forward",
        )
    _check_whole(serving, lambda lane: lane.begun or not lane.predecessors)


def _check_untouched(serving: Serving) -> None:
    """Raises ConflictError once a lane of a deployment that follows another one has begun."""
    its = [lane for lane in serving.lanes if lane.deployment == serving.deployment]
    begun = next((lane for lane in its if lane.begun), None)
    if begun is not None:
        raise ConflictError(
            f"lane {begun.id} of job {serving.job!r} has begun with the code of deployment {serving.deployment}",
            f"wait until all of them run; then: anabranch rollback {serving.job}",
        )


def _check_whole(serving: Serving, matters: Callable[[Lane], bool]) -> None:
    failed = next((lane for lane in serving.lanes if lane.state is LaneState.FAILED and matters(lane)), None)
    if failed is not None:
        raise ConflictError(
            f"lane {failed.id} of job {serving.job!r} has failed: where others would go on isn't known",
            f"see anabranch status {serving.job}; stop it, mend it and start it again",
        )


def _check_room(serving: Serving) -> None:
    """In real time, a partition without a task slot is never read, and nobody says so."""
    if serving.settings.get("job", {}).get("trigger") == "real-time":
        raise ConflictError(
            f"job {serving.job!r} runs in real time: whether its containers have a task slot for each new partition "
            "can't be seen from here",
            "stop it, and start it again with its file: that is looked at, and it goes along",
        )


def new_id() -> str:
    return secrets.token_hex(4)


def _rescaled(serving: Serving, present: Generation, factor: int, seats: Placing, containers: int) -> Change:
    its = {lane.id: lane for lane in serving.lanes}
    return rescale.rescaled(present.graph, present.model, its, factor, containers, new_id, seats)


def wanted(
    serving: Serving, change: Change, who: str, why: str, void: Sequence[Lane] = (), **marks: str | int
) -> Wanted:
    its = {lane.id: lane for lane in serving.lanes}
    model = msgspec.structs.replace(change.model, **{"request": "", "undoes": 0, "rewound": (), **marks})
    counts = {name: count for stage in model.stages for name, count in partitions(stage).items()}
    ending = _named(its, change)
    free = tuple(sorted({lane.seat for lane in change.lanes if serving.process_of(lane.seat) is None}))
    told = Scaled(
        generation=model.generation,
        factor=model.factor,
        containers=len(model.containers),
        partitions={name: counts[name] for name in model.expands},
        closing=ending,
        lanes=change.lanes,
        pause=pausing.expected(ending, serving.reports, serving.shown, serving.until_seated(free)),
        free=free,
        before=traffic.of(follow.heads(its.values()), serving.where(len(serving.model.containers))),
        after=traffic.of(_after(its, change), serving.where(len(model.containers))),
        why_not=change.why_not,
    )
    return Wanted(model, told, (*_ending(serving, its, change, void), *void), who, why)


def _after(lanes: Mapping[str, Lane], change: Change) -> list[Lane]:
    """The lanes of the next generation."""
    return [*(lane for lane in follow.heads(lanes.values()) if lane.id not in change.closing), *change.lanes]


def _named(lanes: Mapping[str, Lane], change: Change) -> tuple[Lane, ...]:
    return tuple(lanes[name] for name in change.closing)


def _ending(serving: Serving, lanes: Mapping[str, Lane], change: Change, void: Sequence[Lane] = ()) -> tuple[Lane, ...]:
    """The lanes that a change closes, as they are then; ``void`` are closed already."""
    over = {lane.id for lane in void}
    return tuple(
        msgspec.structs.replace(lanes[name], state=LaneState.CLOSED if serving.is_over(name) else LaneState.CLOSING)
        for name in change.closing
        if name not in over
    )
