"""Plans the lanes of the next generation after tasks or their seats have changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from anabranch.model.job_model import ContainerModel, JobModel, StageModel
from anabranch.model.lane import Lane, LaneState, open_lanes
from anabranch.model.ssp import SSP, in_order, wholes
from anabranch.model.task import Task
from anabranch.planning.assignment.assignor import Placing
from anabranch.planning.plan.numbers import incomplete, numbers_of
from anabranch.planning.plan.slots import slots_of
from anabranch.planning.transition.change import Change
from anabranch.planning.transition.shares import Share, shares_of
from anabranch.planning.transition.shares import kept as kept_lanes

__all__ = ["as_planned", "dead_letters", "fed", "following", "heads", "new_partitions"]


def heads(lanes: Iterable[Lane]) -> list[Lane]:
    """The lanes of the current generation: the open lanes that have no successor."""
    found = list(lanes)
    followed = {name for lane in found for name in lane.predecessors}
    return [lane for lane in open_lanes(found) if lane.id not in followed]


def following(
    model: JobModel,
    after: Sequence[StageModel],
    lanes: Mapping[str, Lane],
    factor: int,
    new_id: Callable[[], str],
    placing: Placing,
) -> Change:
    """The next generation, after tasks or their seats have changed. A lane that hasn't failed is kept if it owns
    exactly what a new lane in the same seat would own. Lanes of former deployments that are still closing don't count.

    For the other arguments, see :func:`anabranch.planning.transition.rescale.rescaled`.

    Args:
        after: the stages with their new tasks, in the order of the model.
    """
    present = [lane for lane in heads(lanes.values()) if lane.deployment == model.run_id]
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
        fresh = new_partitions(before, stage)
        of_stage = [lane for lane in present if lane.stage == stage.stage]
        for group in dict.fromkeys(lane.group for lane in of_stage):
            of_group = [lane for lane in of_stage if lane.group == group]
            shares = shares_of(of_group, by_seat, factor, fresh, model.lanes, stage)
            kept = kept_lanes(of_group, shares)
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


def new_partitions(before: StageModel, after: StageModel) -> dict[SSP, SSP]:
    """The partitions that are new in a stage, each with its base."""
    had, has = ({s.whole for t in each.tasks for s in (*t.ssps, *t.broadcast)} for each in (before, after))
    return {whole: after.base.get(str(whole), whole) for whole in sorted(has - had, key=in_order)}


def _lanes(
    present: Sequence[Lane],
    shares: Sequence[Share],
    kept: Mapping[str, Share],
    factor: int,
    stage: StageModel,
    fresh: Mapping[SSP, SSP],
    new_id: Callable[[], str],
) -> list[Lane]:
    """The new lanes of one group, without the lanes that are kept."""
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
        own, broadcast = wholes(share.ssps), share.broadcast(template)
        read = {*own, *broadcast}
        lane = Lane(
            id=name,
            job=template.job,
            deployment=template.deployment,
            stage=template.stage,
            group=template.group,
            seat=share.seat,
            tasks=tuple(task.name for task in share.tasks),
            ssps=share.ssps,
            broadcast=broadcast,
            matched=matched,
            base={str(s): base.get(str(w), w) for s, w in zip(share.ssps, own, strict=True)},
            fresh=tuple(sorted(read & fresh.keys(), key=in_order)),
            slots=(),
            predecessors=tuple(lane.id for lane in share.of),
            upstream=template.upstream,
            beside=before,
            outputs=template.outputs,
            systems=template.systems,
            dead_letters=dead_letters(template, matched),
            reports=template.reports,
            rejecting=template.rejecting,
            stateful=template.stateful,
            factor=share.factor,
            numbers=numbers_of(share.tasks, share.ssps, factor),
            bases=tuple(sorted({task.index // factor for task in share.tasks})),
            buckets=incomplete(share.virtual, share.factor) if template.broadcast else {},
            state_partitions=template.state_partitions,
        )
        made.append(msgspec.structs.replace(lane, slots=slots_of(lane, template.state_partitions)))
    return made


def dead_letters(lane: Lane, matched: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """The dead-letter stream of each stream that a lane reads. If an input is bound to a pattern, and the first stream
    of the input has a dead-letter stream, all streams of the input share this dead-letter stream."""
    found = dict(lane.dead_letters)
    for streams in matched.values():
        if streams[0] in found:
            found |= dict.fromkeys(streams, found[streams[0]])
    return found


def fed(new: Sequence[Lane]) -> list[Lane]:
    """The new lanes. In the ``upstream`` of each new lane, every closing lane is replaced by the closing lane's
    successors."""
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
    """The lane as it was planned, without anything that was set later."""
    return msgspec.structs.replace(
        lane,
        predecessors=(),
        added=(),
        afresh=False,
        rewind=None,
        drained=None,
        starts_over=(),
        began_since=(),
        fresh=(),
        starting=(),
        opened=False,
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
