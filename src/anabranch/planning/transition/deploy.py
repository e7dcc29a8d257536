"""Plans the change to another version of a job without a drain. Pure functions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain

import msgspec

from anabranch.errors import ConflictError
from anabranch.model.job_model import JobModel, StageModel
from anabranch.model.lane import Lane, LaneState, by_deployment
from anabranch.model.ssp import SSP, in_order, wholes
from anabranch.model.task import Task
from anabranch.planning import plan
from anabranch.planning.assignment import placement
from anabranch.planning.compatibility import DRAIN
from anabranch.planning.lane_split import spread
from anabranch.planning.transition import deployed_stages, follow
from anabranch.planning.transition.change import Change

__all__ = ["NextVersion", "deployed", "lanes_of_groups", "left_behind"]

_Group = tuple[str, str]


@dataclass(frozen=True)
class NextVersion:
    """The next version of a job. ``model`` and ``lanes`` determine what stages read and what the lanes of each group
    do. They don't determine how many lanes a group has, or in which seats the lanes are.
    """

    deployment: int
    model: JobModel
    lanes: tuple[Lane, ...]


def deployed(
    after: NextVersion,
    present: JobModel,
    former: Sequence[Lane],
    new_id: Callable[[], str],
    back: JobModel | None = None,
) -> Change:
    """Plan the first generation of the next deployment, whose lanes continue from those of the current one.

    Where a new lane begins depends on its group:

    - If the group's operator keeps state in both versions, each former lane of the operator gets one successor, which
      keeps the lane's tasks, positions and state.
    - If an output of the group is stateless in both versions, the lanes continue where the former lanes of this output
      ended.
    - Otherwise, the lanes begin without state. They read each partition from the highest offset at which any former
      lane ended.

    A new lane that takes over no state can have a partition that its former lanes haven't read. If one of these former
    lanes has read another partition of the same stream, the unread partition was added to the stream later, and is read
    from its beginning. If none of them has read the stream, the unread partition is read from the start offset that the
    stream's ``read`` declares. A partition of an intermediate stream is read from its beginning in both cases.

    Args:
        after: the next version. It may have been planned when the streams had fewer partitions, or when fewer streams
            matched a pattern.
        present: the current generation. Its factor and its containers are kept. If a stage of the next version reads
            the same streams as a current stage, it gets the current stage's tasks (unless the next version's stage
            keeps state, and none of it is from the current stage). Other stages get all partitions that the job reads.
        former: the lanes from which the new lanes continue. The change closes those that are open.
        new_id: returns 8 random hex digits per call.
        back: the last generation of the deployment to which the job returns, if no lane has begun since that
            deployment; otherwise None. The stages of this generation count like current stages.

    Raises:
        ConflictError: the deployment isn't possible, for one of these reasons:

            - An output is stateless in both versions, but its lanes would continue from several groups, or would begin
              to read an intermediate stream that other lanes have read.
            - The tasks of a stage would have to be formed again, and can't be.
            - Other tasks than before would read a broadcast stream.
    """
    seats = [container.seat for container in present.containers]
    known = (present,) if back is None else (present, back)
    placed: dict[str, dict[str, tuple[str, ...]]] = {seat: {} for seat in seats}
    stages, tasks = [], {}
    for planned in after.model.stages:
        found = deployed_stages.continued(planned, after.model, after.lanes, known, former)
        home = {name: seat for seat, names in found.home.items() for name in names}
        # If all tasks have seats, they stay there, even if unevenly divided: racks may be the reason.
        seated = all(task.name in home for task in found.model.tasks)
        seat_of = home if seated else placement.place(found.model.tasks, seats, home)
        its: dict[str, list[Task]] = {seat: [] for seat in seats}
        for task in found.model.tasks:
            its[seat_of[task.name]].append(task)
        for seat, mine in its.items():
            placed[seat][planned.stage] = tuple(task.name for task in mine)
        stages.append(found.model)
        tasks[planned.stage] = its
    model = msgspec.structs.replace(
        after.model,
        run_id=after.deployment,
        generation=1,
        factor=present.factor,
        stages=tuple(stages),
        containers=tuple(msgspec.structs.replace(each, tasks=placed[each.seat]) for each in present.containers),
        request="",
        undoes=0,
        rewound=(),
        expands=(),
        replaces=present.run_id,
    )
    closing = tuple(lane.id for lane in former if lane.state is not LaneState.CLOSED)
    return Change(model=model, closing=closing, lanes=lanes_of_groups(after.lanes, former, model, tasks, new_id))


def lanes_of_groups(
    templates: Sequence[Lane],
    former: Sequence[Lane],
    model: JobModel,
    tasks: Mapping[str, Mapping[str, list[Task]]],
    new_id: Callable[[], str],
) -> tuple[Lane, ...]:
    """The lanes of all groups of a model, each with its predecessors among the ``former`` lanes; see :func:`deployed`.

    Args:
        templates: for each group, lanes that show what the group's lanes do. It doesn't matter how many templates there
            are, or which tasks the templates have.
        former: the lanes from which the new lanes continue. If empty, the new lanes have no predecessors.
        tasks: the tasks of each seat, by stage.

    Raises:
        ConflictError: as for :func:`deployed`.
    """
    lanes: dict[_Group, list[Lane]] = {}
    for stage in model.stages:
        for group in dict.fromkeys(_group(lane) for lane in templates if lane.stage == stage.stage):
            template = [lane for lane in templates if _group(lane) == group]
            lanes[group] = _lanes(template, former, stage, tasks[stage.stage], model, new_id)
    return tuple(_together(lanes, templates))


def left_behind(lanes: Iterable[Lane], deployment: int) -> list[Lane]:
    """The lanes of a deployment, open or closed, whose work isn't continued completely by lanes of the last deployment.

    A lane's work consists of parts. Each partition is one part, but a broadcast partition is a separate part for each
    of the lane's tasks. A part is continued if a chain of successors leads to a lane of the last deployment, and every
    lane in this chain does the part.
    """
    known = {lane.id: lane for lane in lanes}
    last = max((lane.deployment for lane in known.values()), default=0)
    after: dict[str, list[str]] = {}
    for lane in known.values():
        for name in lane.predecessors:
            if _continues(lane, known.get(name)):
                after.setdefault(name, []).append(lane.id)

    @cache
    def continued(name: str) -> frozenset[SSP | tuple[SSP, int]]:
        """The parts of a lane's work that are continued by lanes of the newest deployment."""
        lane = known[name]
        if name in after:
            return _work(lane).intersection(chain.from_iterable(map(continued, after[name])))
        return _work(lane) if lane.deployment == last else frozenset()

    for lane in reversed(known.values()):  # those that continue others come first, so that recursion stays shallow
        if lane.deployment >= deployment:
            continued(lane.id)

    def is_left(lane: Lane) -> bool:
        its = after.get(lane.id, [])
        if any(known[name].deployment == deployment for name in its):
            return False
        return not its or continued(lane.id) != _work(lane)

    return [lane for lane in known.values() if lane.deployment == deployment and is_left(lane)]


def _work(lane: Lane) -> frozenset[SSP | tuple[SSP, int]]:
    """The parts of a lane's work: the lane's partitions and, for each broadcast partition and each of the lane's tasks,
    a pair of the partition and the task's number."""
    return frozenset({*lane.partitions, *((whole, number) for whole in lane.broadcast for number in lane.bases)})


def _continues(lane: Lane, before: Lane | None) -> bool:
    """Whether a lane continues the work of its predecessor ``before``. (A lane that is ``afresh`` does so only if both
    lanes belong to the same stateful operator, which is possible only if ``before`` never began.)"""
    if not lane.afresh:
        return True
    return before is not None and lane.stateful and before.stateful and before.group == lane.group


def _lanes(
    template: Sequence[Lane],
    former: Sequence[Lane],
    stage: StageModel,
    tasks: Mapping[str, list[Task]],
    model: JobModel,
    new_id: Callable[[], str],
) -> list[Lane]:
    """The lanes of one group, each with its predecessors."""
    matched = {name: stage.patterns[name].streams for name in template[-1].matched}
    like = msgspec.structs.replace(
        template[-1], matched=matched, dead_letters=follow.dead_letters(template[-1], matched)
    )
    streams = {ssp.stream for lane in template for ssp in (*lane.ssps, *lane.broadcast)}.union(*matched.values())
    if like.stateful and (keep := [lane for lane in former if lane.stateful and lane.group == like.group]):
        return [_made(like, model, new_id, _share_of(lane), of=(lane,)) for lane in keep]
    continued = [lane for lane in former if not lane.stateful and not like.stateful and _sinks(lane) & _sinks(like)]
    # Lanes of several deployments are those of one that has hardly begun, and those that they were to continue.
    if any(len({_group(lane) for lane in each}) > 1 for each in by_deployment(continued)):
        names = ", ".join(sorted({name for lane in continued for name in _sinks(lane) & _sinks(like)}))
        raise ConflictError(
            f"outputs {names} come from one lane now, but came from several, which may be at different offsets", DRAIN
        )
    of = continued or former
    between = {name for lane in former for name in lane.outputs} & streams
    unread = between - {ssp.stream for lane in of for ssp in (*lane.ssps, *lane.broadcast)}
    if continued and unread:
        raise ConflictError(
            f"{', '.join(sorted(_sinks(like)))} comes from {', '.join(sorted(unread))} too, but other lanes have read "
            "that intermediate stream",
            DRAIN,
        )
    read_before = {lane.id: lane.partitions for lane in of}
    had = set[SSP]().union(*read_before.values())
    tasks_of: dict[SSP, set[int]] = {}
    for lane in of:
        for whole in lane.broadcast:
            tasks_of.setdefault(whole, set()).update(lane.bases)
    known = {(whole.system, whole.stream) for whole in had}
    found = []
    for seat, mine in tasks.items():
        for part in spread(mine, 1 if like.stateful else model.lanes, model.factor):
            share = _share(seat, part, streams, stage, model.factor)
            read = share.partitions
            before = [lane for lane in of if not read.isdisjoint(read_before[lane.id])]
            new = sorted(read - had, key=in_order)
            fresh = tuple(whole for whole in new if (whole.system, whole.stream) in known)
            added = tuple(whole for whole in new if whole not in fresh) if before else ()
            if continued:
                _check_broadcast(share, tasks_of, {*new})
            if read:
                found.append(_made(like, model, new_id, share, before, fresh, added, afresh=not continued))
    return found


def _check_broadcast(share: _Share, tasks_of: Mapping[SSP, set[int]], new: Collection[SSP]) -> None:
    """Raise ConflictError if one of the lane's tasks hasn't read a broadcast stream that the lane would continue to
    read, or if a stream was broadcast before and isn't now, or the other way around. (It isn't defined from which
    offset the lane would continue.)

    Args:
        tasks_of: the numbers of the tasks that have read each broadcast partition.
        new: the partitions that nobody has read.
    """
    for whole in share.partitions.difference(new):
        is_broadcast = whole in share.broadcast
        if is_broadcast != (whole in tasks_of) or (is_broadcast and not tasks_of[whole].issuperset(share.bases)):
            raise ConflictError(
                f"other tasks than before would read the broadcast {whole.system}/{whole.stream}, and it isn't defined "
                "from which offset",
                DRAIN,
            )


@dataclass(frozen=True)
class _Share:
    """A lane's part of its stage. The fields are those of :class:`Lane`."""

    seat: str
    tasks: tuple[str, ...]
    ssps: tuple[SSP, ...]
    broadcast: tuple[SSP, ...]
    base: dict[str, SSP]
    factor: int
    numbers: dict[str, int]
    bases: tuple[int, ...]
    buckets: dict[str, tuple[int, ...]]
    state_partitions: int | None = None

    @property
    def partitions(self) -> set[SSP]:
        return {*wholes(self.ssps), *self.broadcast}


def _share_of(lane: Lane) -> _Share:
    return _Share(
        lane.seat,
        lane.tasks,
        lane.ssps,
        lane.broadcast,
        lane.base,
        lane.factor,
        lane.numbers,
        lane.bases,
        lane.buckets,
        lane.state_partitions,
    )


def _share(seat: str, tasks: Sequence[Task], streams: Collection[str], stage: StageModel, factor: int) -> _Share:
    ssps = sorted({ssp for task in tasks for ssp in task.ssps if ssp.stream in streams}, key=in_order)
    broadcast = sorted({ssp for task in tasks for ssp in task.broadcast if ssp.stream in streams}, key=in_order)
    virtual = plan.virtual_of(tasks, factor)
    return _Share(
        seat=seat,
        tasks=tuple(task.name for task in tasks),
        ssps=tuple(ssps),
        broadcast=tuple(broadcast),
        base={str(s): stage.base.get(str(w), w) for s, w in zip(ssps, wholes(ssps), strict=True)},
        factor=factor,
        numbers=plan.numbers_of(tasks, ssps, factor),
        bases=tuple(sorted(virtual)),
        buckets=plan.incomplete(virtual, factor) if broadcast else {},
    )


def _made(
    like: Lane,
    model: JobModel,
    new_id: Callable[[], str],
    share: _Share,
    of: Sequence[Lane],
    fresh: tuple[SSP, ...] = (),
    added: tuple[SSP, ...] = (),
    afresh: bool = False,
) -> Lane:
    lane = Lane(
        id=f"{like.stage}-{new_id()}",
        job=like.job,
        deployment=model.run_id,
        stage=like.stage,
        group=like.group,
        seat=share.seat,
        tasks=share.tasks,
        ssps=share.ssps,
        broadcast=share.broadcast,
        matched=like.matched,
        base=share.base,
        predecessors=tuple(lane.id for lane in of),
        fresh=fresh,
        added=added,
        afresh=afresh and bool(of),
        upstream=like.upstream,
        outputs=like.outputs,
        systems=like.systems,
        dead_letters=like.dead_letters,
        reports=like.reports,
        rejecting=like.rejecting,
        stateful=like.stateful,
        factor=share.factor,
        numbers=share.numbers,
        bases=share.bases,
        buckets=share.buckets,
        state_partitions=like.state_partitions if share.state_partitions is None else share.state_partitions,
    )
    return msgspec.structs.replace(lane, slots=plan.slots_of(lane, lane.state_partitions))


def _together(lanes: Mapping[_Group, Sequence[Lane]], templates: Iterable[Lane]) -> Iterable[Lane]:
    """The lanes, with two more fields filled in: ``beside`` has each lane's co-writers, and ``upstream`` has the lanes
    that write its inputs."""
    groups = {lane.id: _group(lane) for lane in templates}
    for its in lanes.values():
        beside = {lane.id: lane.speaks_for for lane in its}
        for lane in its:
            writers = dict.fromkeys(groups[name] for name in lane.upstream if name in groups)
            upstream = tuple(writer.id for group in writers for writer in lanes.get(group, ()))
            yield msgspec.structs.replace(lane, beside=beside, upstream=upstream)


def _group(lane: Lane) -> _Group:
    return lane.stage, lane.group


def _sinks(lane: Lane) -> set[str]:
    """A lane's outputs except the dead-letter streams. A lane of a ``foreach_batch`` has no outputs, so the result is
    the lane's group."""
    return set(lane.outputs) - set(lane.dead_letters.values()) or {lane.group}
