"""The one move: from the lanes of a generation to those of the next. Some lanes are closed, others go on from them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import msgspec

from anabranch.assignment import seating
from anabranch.assignment.seating import Placing
from anabranch.errors import ConflictError, StateError
from anabranch.grouping import broadcasts, expansion, positions
from anabranch.grouping.ownership import owned
from anabranch.grouping.positions import Former
from anabranch.grouping.request import Input
from anabranch.model.document import Document
from anabranch.model.graph import Graph
from anabranch.model.job_model import ContainerModel, JobModel, StageModel
from anabranch.model.lane import Lane, LaneState, Position, open_lanes
from anabranch.model.ssp import SSP, in_order, wholes
from anabranch.model.task import Task
from anabranch.planning import plan, stages
from anabranch.planning.spreading import spread

__all__ = [
    "Change",
    "as_planned",
    "check_grouper",
    "fed",
    "following",
    "heads",
    "inputs_of",
    "never_begun",
    "opened",
    "rescaled",
    "spoken_for",
]

_NOWHERE = -1


class Change(Document, frozen=True, kw_only=True):
    """The next generation: its model, the lanes to close, and those that follow them. ``why_not``: why racks don't
    count, where they should."""

    model: JobModel
    closing: tuple[str, ...]
    lanes: tuple[Lane, ...]
    why_not: str = ""


@dataclass(frozen=True)
class _Share:
    """What one new lane is to own: SSPs of ``factor``, for tasks of one seat; ``of`` are those it goes on from.

    ``virtual``: what it owns of its tasks, as :func:`owned` tells it of a lane.
    """

    seat: str
    tasks: tuple[Task, ...]
    factor: int
    ssps: tuple[SSP, ...]
    virtual: Mapping[int, Collection[int]]
    of: tuple[Lane, ...]

    def broadcast(self, former: Lane) -> tuple[SSP, ...]:
        """What it reads of the streams that a lane of its group has as broadcast ones."""
        streams = {ssp.stream for ssp in former.broadcast}
        return tuple(sorted({s for t in self.tasks for s in t.broadcast if s.stream in streams}, key=in_order))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Of its tasks."""
        return tuple(task.name for task in self.tasks)

    def is_had_by(self, lane: Lane) -> bool:
        """Whether a lane can go on with it: one that has failed can't, even if it is the same share."""
        if (lane.seat, lane.tasks, lane.factor, lane.ssps) != (self.seat, self.names, self.factor, self.ssps):
            return False
        if lane.state is LaneState.FAILED or lane.broadcast != self.broadcast(lane):
            return False
        return owned(lane) == {number: frozenset(buckets) for number, buckets in self.virtual.items()}


def _kept(present: Sequence[Lane], shares: Sequence[_Share]) -> dict[str, _Share]:
    """The lanes that can go on as they are, by id, each with its share."""
    known: dict[tuple[str, tuple[str, ...]], list[_Share]] = {}
    for share in shares:
        known.setdefault((share.seat, share.names), []).append(share)
    found = {}
    for lane in present:
        its = next((share for share in known.get((lane.seat, lane.tasks), ()) if share.is_had_by(lane)), None)
        if its is not None:
            found[lane.id] = its
    return found


def heads(lanes: Iterable[Lane]) -> list[Lane]:
    """Those that aren't closed, and that no other one goes on from: the lanes of the present generation."""
    found = list(lanes)
    followed = {name for lane in found for name in lane.predecessors}
    return [lane for lane in open_lanes(found) if lane.id not in followed]


def rescaled(
    graph: Graph,
    model: JobModel,
    lanes: Mapping[str, Lane],
    factor: int,
    containers: int,
    new_id: Callable[[], str],
    placing: Placing | None = None,
) -> Change:
    """The next generation with another factor or number of containers.

    Args:
        model: the present generation.
        lanes: all of the deployment, by id.
        new_id: gives 8 random hex digits a call.
        placing: gives tasks their seats, those of so many containers; by default without racks.

    Raises:
        ConfigError: a factor or number of containers that can't be.
        GraphError: the graph can't have them.
        ConflictError: the job can't be changed while it runs.
    """
    check_grouper(model, containers)
    for stage in stages.cut(graph):
        plan.check_shuffled(stage, factor, containers)
    after = [expansion.expanded(each, inputs_of(each), model.factor, factor, containers) for each in model.stages]
    return following(model, after, lanes, factor, new_id, placing or seating.plain(containers))


def following(
    model: JobModel,
    after: Sequence[StageModel],
    lanes: Mapping[str, Lane],
    factor: int,
    new_id: Callable[[], str],
    placing: Placing,
) -> Change:
    """The next generation with other tasks in its stages: ``after``, in the order of the model. Lanes that have what
    they should have are left alone. Arguments as for :func:`rescaled`."""
    present = heads(lanes.values())
    found = placing(after, model.seats_of_tasks())
    seats = list(found.racks)
    placed: dict[str, dict[str, tuple[str, ...]]] = {seat: {} for seat in seats}
    new: list[Lane] = []
    closing: list[str] = []
    for before, stage in zip(model.stages, after, strict=True):
        seat_of = found.seats[stage.stage]
        by_seat: dict[str, list[Task]] = {seat: [] for seat in seats}
        for task in stage.tasks:
            by_seat[seat_of[task.name]].append(task)
        for seat, mine in by_seat.items():
            placed[seat][stage.stage] = tuple(task.name for task in mine)
        fresh = _fresh(before, stage)
        of_stage = [lane for lane in present if lane.stage == stage.stage]
        for group in dict.fromkeys(lane.group for lane in of_stage):
            of_group = [lane for lane in of_stage if lane.group == group]
            shares = _shares(of_group, by_seat, factor, fresh, model.lanes, stage)
            kept = _kept(of_group, shares)
            new += _lanes(of_group, shares, kept, factor, stage, fresh, new_id)
            closing += [lane.id for lane in of_group if lane.id not in kept]
    return Change(
        model=msgspec.structs.replace(
            model,
            generation=model.generation + 1,
            factor=factor,
            stages=tuple(after),
            containers=tuple(
                ContainerModel(seat=seat, tasks=placed[seat], rack=rack) for seat, rack in found.racks.items()
            ),
            expands=(),
        ),
        closing=tuple(closing),
        lanes=tuple(fed(new)),
        why_not=found.why_not,
    )


def check_grouper(model: JobModel, containers: int) -> None:
    """Raises ConflictError if the tasks of a job can't be made anew while it runs, or not for so many containers."""
    name = model.stages[0].grouper
    if ":" in name:
        raise ConflictError(
            f"job {model.job!r} has a grouper of its own, {name}: it can't be asked while the job runs",
            "use a grouper of anabranch's: partition, ssp or cogroup",
        )
    if name == "all" and containers != len(model.containers):
        raise ConflictError(
            f'job {model.job!r} has the grouper "all": in each container a task would read all there is',
            "use another grouper: partition, ssp or cogroup",
        )


def inputs_of(stage: StageModel, counts: Mapping[str, int] | None = None) -> tuple[Input, ...]:
    """The inputs of a stage as its tasks have them; with other partition ``counts``, by ``system/stream``."""
    known = {**expansion.partitions(stage), **(counts or {})}
    broadcast = {f"{ssp.system}/{ssp.stream}" for task in stage.tasks for ssp in task.broadcast}
    found = []
    for name in stage.inputs:
        system, stream = name.split("/")
        found.append(Input(system=system, stream=stream, partitions=known[name], broadcast=name in broadcast))
    return tuple(found)


def _fresh(before: StageModel, after: StageModel) -> dict[SSP, SSP]:
    """The partitions that a stage is to have and didn't have, each with its base."""
    had, has = ({s.whole for t in each.tasks for s in (*t.ssps, *t.broadcast)} for each in (before, after))
    return {whole: after.base.get(str(whole), whole) for whole in sorted(has - had, key=in_order)}


def _shares(
    present: Sequence[Lane],
    by_seat: Mapping[str, Sequence[Task]],
    factor: int,
    fresh: Mapping[SSP, SSP],
    lanes: int,
    stage: StageModel,
) -> list[_Share]:
    """What the lanes of one group are to own: state stays where it is, but for what moves to another seat."""
    if present[0].stateful:
        task_of = plan.task_numbers(stage, factor)
        owner = {divmod(task.index, factor): (seat, task) for seat, tasks in by_seat.items() for task in tasks}
        return [share for lane in present for share in _pieces(lane, fresh, task_of, owner, factor, stage)]
    streams = {ssp.stream for lane in present for ssp in lane.ssps} | _matched(present[0], stage)
    owning = _owners(present, factor)
    found = []
    for seat, mine in ((seat, part) for seat, tasks in by_seat.items() for part in spread(tasks, lanes, factor)):
        ssps = tuple(sorted({ssp for task in mine for ssp in task.ssps if ssp.stream in streams}, key=in_order))
        concerned = [task for task in mine if present[0].broadcast or any(ssp.stream in streams for ssp in task.ssps)]
        virtual = plan.virtual_of(concerned, factor)
        if virtual:
            found.append(_Share(seat, tuple(mine), factor, ssps, virtual, owning(virtual)))
    return found


def _owners(lanes: Sequence[Lane], factor: int) -> Callable[[Mapping[int, Collection[int]]], tuple[Lane, ...]]:
    """Finds the lanes that own any of the same tasks as a lane of ``factor`` that is to own so much of them."""
    found: dict[int, dict[tuple[int, int], list[int]]] = {}
    for place, lane in enumerate(lanes):
        least = min(factor, lane.factor)
        places = found.setdefault(least, {})
        for key in {(number, bucket % least) for number, buckets in owned(lane).items() for bucket in buckets}:
            places.setdefault(key, []).append(place)

    def owning(virtual: Mapping[int, Collection[int]]) -> tuple[Lane, ...]:
        its = {
            place
            for least, places in found.items()
            for key in {(number, bucket % least) for number, buckets in virtual.items() for bucket in buckets}
            for place in places.get(key, ())
        }
        return tuple(lanes[place] for place in sorted(its))

    return owning


def _pieces(
    lane: Lane,
    fresh: Mapping[SSP, SSP],
    task_of: Mapping[SSP, int],
    owner: Mapping[tuple[int, int], tuple[str, Task]],
    factor: int,
    stage: StageModel,
) -> list[_Share]:
    """The parts of a stateful lane: one for each seat that gets tasks of which it has state. Partitions that are new
    come to it with their bases, and those of new streams with their tasks.

    Args:
        task_of: the number of the task, at factor 1, that reads a partition.
        owner: by that number and the bucket, the seat and the task.
    """
    numbers = {whole: lane.numbers[str(whole)] for whole in dict.fromkeys(wholes(lane.ssps))}
    streams = _matched(lane, stage)
    come = {whole for whole, base in fresh.items() if whole == base and whole.stream in streams}
    numbers |= {whole: task_of[whole] for whole in come}
    numbers |= {whole: numbers[base] for whole, base in fresh.items() if base in numbers}
    finest = max(factor, lane.factor)
    parts: dict[str, dict[int, list[int]]] = {}
    its: dict[str, dict[str, Task]] = {}
    for number, buckets in owned(lane).items():
        for bucket in (finer for each in sorted(buckets) for finer in range(each, finest, lane.factor)):
            seat, task = owner[number, bucket % factor]
            parts.setdefault(seat, {}).setdefault(number, []).append(bucket)
            its.setdefault(seat, {})[task.name] = task
    found = []
    for seat, several in parts.items():
        least = _coarsest(several.values(), finest, factor)
        virtual = {number: [bucket for bucket in each if bucket < least] for number, each in several.items()}
        read = ((whole, virtual.get(number, ())) for whole, number in numbers.items())
        ssps = tuple(sorted((_part(whole, b, least) for whole, each in read for b in each), key=in_order))
        mine = sorted(its[seat].values(), key=lambda task: task.index)
        found.append(_Share(seat, tuple(mine), least, ssps, virtual, (lane,)))
    return found


def _part(whole: SSP, bucket: int, factor: int) -> SSP:
    return whole if factor == 1 else msgspec.structs.replace(whole, key_bucket=bucket)


def _coarsest(several: Collection[Sequence[int]], finest: int, least: int) -> int:
    """The smallest factor, ``least`` or more, by whose buckets these buckets of ``finest`` can be told."""
    factor = finest
    while factor > least:
        half = factor // 2
        for buckets in several:
            below = {b for b in buckets if b < factor}
            if any((b + half) % factor not in below for b in below):
                return factor
        factor = half
    return factor


def _lanes(
    present: Sequence[Lane],
    shares: Sequence[_Share],
    kept: Mapping[str, _Share],
    factor: int,
    stage: StageModel,
    fresh: Mapping[SSP, SSP],
    new_id: Callable[[], str],
) -> list[Lane]:
    """The new lanes of one group, beside those that are kept."""
    template, base = present[0], stage.base
    matched = {name: stage.patterns[name].streams for name in template.matched}
    had = {id(share) for share in kept.values()}
    wanted = [share for share in shares if id(share) not in had]
    ids = [f"{template.stage}-{new_id()}" for _ in wanted]
    before = {
        **{lane.id: lane.speaks_for for lane in present if lane.id in kept},
        **{name: tuple(lane.id for lane in share.of) for name, share in zip(ids, wanted, strict=True)},
    }
    made = []
    for name, share in zip(ids, wanted, strict=True):
        lane = Lane(
            id=name,
            job=template.job,
            deployment=template.deployment,
            stage=template.stage,
            group=template.group,
            seat=share.seat,
            tasks=tuple(task.name for task in share.tasks),
            ssps=share.ssps,
            broadcast=share.broadcast(template),
            matched=matched,
            base={str(s): base.get(str(w), w) for s, w in zip(share.ssps, wholes(share.ssps), strict=True)},
            fresh=tuple(w for w in fresh if w in {*wholes(share.ssps), *share.broadcast(template)}),
            slots=(),
            predecessors=tuple(lane.id for lane in share.of),
            upstream=template.upstream,
            beside=before,
            outputs=template.outputs,
            systems=template.systems,
            dead_letters=_dead_letters(template, matched),
            reports=template.reports,
            rejecting=template.rejecting,
            stateful=template.stateful,
            factor=share.factor,
            numbers=plan.numbers_of(share.tasks, share.ssps, factor),
            bases=tuple(sorted({task.index // factor for task in share.tasks})),
            buckets=plan.incomplete(share.virtual, share.factor) if template.broadcast else {},
            state_partitions=template.state_partitions,
        )
        made.append(msgspec.structs.replace(lane, slots=plan.slots_of(lane, template.state_partitions)))
    return made


def _matched(lane: Lane, stage: StageModel) -> set[str]:
    """The streams of a lane's inputs that are bound to patterns, as its stage has them now."""
    return {stream for name in lane.matched for stream in stage.patterns[name].streams}


def _dead_letters(lane: Lane, matched: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Those of a lane, whose inputs have more streams now: what one of them has, all have."""
    found = dict(lane.dead_letters)
    for streams in matched.values():
        if streams[0] in found:
            found |= dict.fromkeys(streams, found[streams[0]])
    return found


def fed(new: Sequence[Lane]) -> list[Lane]:
    """The new lanes with those that write their inputs from now on."""
    followers: dict[str, list[str]] = {}
    for lane in new:
        for name in lane.predecessors:
            followers.setdefault(name, []).append(lane.id)
    found = []
    for lane in new:
        upstream: list[str] = []
        for name in lane.upstream:
            upstream += followers.get(name, [name])
        found.append(msgspec.structs.replace(lane, upstream=tuple(dict.fromkeys(upstream))))
    return found


def as_planned(lane: Lane) -> Lane:
    """A lane as it was planned first."""
    return msgspec.structs.replace(
        lane,
        predecessors=(),
        rewind=None,
        drained=None,
        fresh=(),
        starting=(),
        inherits={},
        first_batch=0,
        state=LaneState.PLANNED,
        epoch=0,
        folder_epoch=0,
        ran=False,
        begun=False,
        unfenced=False,
        abandoned=False,
        final=(),
        last_batch=-1,
        watermark=None,
        put_aside=0,
        wrote={},
        error=None,
    )


def never_begun(lane: Lane, why: str) -> Lane:
    """A lane that was never run as one that is closed: who goes on from it begins where it would have begun.

    Raises:
        StateError: it may have run.
    """
    if lane.begun or not lane.may_start:
        raise StateError(f"lane {lane.id} may have written something", "this is a fault of anabranch")
    return msgspec.structs.replace(
        lane,
        state=LaneState.CLOSED,
        final=tuple(Position(ssp=ssp, offset=offset) for ssp, offset in lane.begins.items()),
        last_batch=lane.first_batch - 1,
        folder_epoch=0,
        error=why,
    )


def spoken_for(names: Iterable[str], lanes: Mapping[str, Lane]) -> tuple[str, ...]:
    """Those in whose place a lane speaks of event time that goes on from lanes of these names: from one that was closed
    before it had a batch nobody has heard, so those are among them that it would have spoken for."""
    found: dict[str, None] = {}
    queue = list(names)
    for name in queue:
        lane = lanes.get(name)
        if name not in found and lane is not None and lane.state is LaneState.CLOSED and lane.was_silent:
            queue += lane.speaks_for
        found[name] = None
    return tuple(found)


def opened(lane: Lane, lanes: Mapping[str, Lane]) -> Lane:
    """A lane whose predecessors are all closed, with where it begins.

    Raises:
        StateError: what they left doesn't fit: the store was damaged.
    """
    before = [lanes[name] for name in lane.predecessors]
    beside = {name: spoken_for(names, lanes) for name, names in lane.beside.items()}
    fresh = tuple(dict.fromkeys((*lane.fresh, *_unread(lane, before))))
    lane = msgspec.structs.replace(lane, beside=beside, fresh=fresh)
    inherits: dict[str, int] = {}
    for each in before:
        inherits |= {each.id: each.folder_epoch} if each.folder_epoch else each.inherits
    if lane.afresh:
        return msgspec.structs.replace(lane, starting=_furthest(lane, before), inherits=inherits)
    if lane.stateful:
        (parent,) = before
        left = {position.ssp: position for position in parent.final}
        read = (ssp for ssp in (*dict.fromkeys(wholes(lane.ssps)), *lane.broadcast) if ssp not in lane.fresh)
        starting = tuple(Position(ssp=ssp, offset=left[ssp].offset) for ssp in read)
        return msgspec.structs.replace(
            lane, starting=starting, inherits=inherits, first_batch=parent.last_batch + 1, watermark=parent.watermark
        )
    new = {*lane.fresh, *lane.added}
    former: dict[SSP, list[Former]] = {}
    for each in before:
        for whole, its in _left(each).items():
            former.setdefault(whole, []).extend(its)
    starting = tuple(
        _begin(lane, ssp, former.get(whole, ()))
        for ssp, whole in zip(lane.ssps, wholes(lane.ssps), strict=True)
        if whole not in new
    )
    shared = tuple(broadcasts.begin(lane, whole, before) for whole in lane.broadcast if whole not in new)
    return msgspec.structs.replace(lane, starting=(*starting, *shared), inherits=inherits)


def _furthest(lane: Lane, before: Iterable[Lane]) -> tuple[Position, ...]:
    """Where the lanes ended that were furthest, of each partition."""
    reached: dict[SSP, int] = {}
    for each in before:
        for position in each.final:
            reached[position.ssp] = max(position.offset, reached.get(position.ssp, position.offset))
    return tuple(
        Position(ssp=ssp, offset=reached[ssp.whole]) for ssp in (*lane.ssps, *lane.broadcast) if ssp.whole in reached
    )


def _unread(lane: Lane, before: Iterable[Lane]) -> list[SSP]:
    """The partitions of a lane that came to one before it, which never began."""
    mine = {*wholes(lane.ssps), *lane.broadcast}
    return [ssp for each in before for ssp in _never_read(each) if ssp in mine]


def _never_read(lane: Lane) -> set[SSP]:
    return set(lane.fresh) - {position.ssp for position in lane.final}


def _begin(lane: Lane, ssp: SSP, former: Iterable[Former]) -> Position:
    begins = positions.begin(ssp, lane.factor, former, _NOWHERE)
    if begins.offset == _NOWHERE:
        raise StateError(
            f"lane {lane.id} goes on from lanes that didn't have all keys of {ssp}", "restore a copy of the store"
        )
    return begins


def _left(lane: Lane) -> dict[SSP, list[Former]]:
    """Where a closed lane left its SSPs, by whole partition: as one, if it had all of it and left it at one place."""
    begun = {position.ssp: position for position in lane.starting}
    read = {position.ssp: position.offset for position in lane.final}
    found: dict[SSP, list[Former]] = {}
    unread = _never_read(lane)
    for ssp, whole in zip(lane.ssps, wholes(lane.ssps), strict=True):
        if whole in unread:
            continue
        start = begun.get(ssp, Position(ssp=ssp, offset=0))
        left = positions.after(start, lane.factor, read[whole])
        found.setdefault(whole, []).append(Former(left, lane.factor))
    for whole, several in found.items():
        places = {each.position.offset for each in several if not each.position.parts}
        if len(several) == lane.factor > 1 and len(places) == 1 and not any(e.position.parts for e in several):
            found[whole] = [Former(Position(ssp=whole, offset=places.pop()), 1)]
    return found
