"""Determines where a lane begins once all of its predecessors are closed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from anabranch.errors import StateError
from anabranch.model.lane import AfterDrain, Lane, LaneState, Position, Rewind, by_deployment
from anabranch.model.ssp import SSP, wholes
from anabranch.planning.ownership import broadcasts, positions
from anabranch.planning.ownership.positions import Former, FormerPosition, KeyPart
from anabranch.planning.transition import inheritance

__all__ = ["never_begun", "opened", "spoken_for"]

_NOWHERE = -1


def never_begun(lane: Lane, why: str) -> Lane:
    """Close a lane that has never run. The lane's successors will begin where the lane itself would have begun. ``why``
    becomes the lane's error.

    Raises:
        StateError: the lane may have run, or its start offsets aren't known.
    """
    if lane.begun or not lane.start_is_known:
        raise StateError(f"lane {lane.id} may have written something", "this is a bug in anabranch")
    known = {*lane.begins, *lane.fresh}
    read = (ssp for ssp in (*wholes(lane.ssps), *lane.broadcast) if ssp not in known)
    return msgspec.structs.replace(
        lane,
        added=tuple(dict.fromkeys((*lane.added, *read))),
        state=LaneState.CLOSED,
        final=tuple(Position(ssp=ssp, offset=offset) for ssp, offset in lane.begins.items()),
        last_batch=lane.first_batch - 1,
        folder_epoch=0,
        error=why,
    )


def spoken_for(names: Iterable[str], lanes: Mapping[str, Lane]) -> tuple[str, ...]:
    """The lanes whose watermarks a successor must report. These are the lanes ``names`` and, for each of these lanes
    that closed before its first batch, the lanes whose watermarks the closed lane would have reported."""
    found: dict[str, None] = {}
    queue = list(names)
    for name in queue:
        lane = lanes.get(name)
        if name not in found and lane is not None and lane.state is LaneState.CLOSED and lane.was_silent:
            queue += lane.speaks_for
        found[name] = None
    return tuple(found)


def opened(lane: Lane, lanes: Mapping[str, Lane]) -> Lane:
    """Complete a lane whose predecessors are all closed: fill in the lane's start offsets, and the fields that the lane
    takes over from the predecessors. If predecessors of several deployments have read a partition, only the
    predecessors of the latest deployment count.

    Raises:
        StateError: the final positions of the predecessors don't fit together, because the store was damaged.
    """
    return msgspec.structs.replace(_completed(lane, lanes), opened=True)


def _completed(lane: Lane, lanes: Mapping[str, Lane]) -> Lane:
    before = [lanes[name] for name in lane.predecessors]
    beside = {name: spoken_for(names, lanes) for name, names in lane.beside.items()}
    fresh = tuple(dict.fromkeys((*lane.fresh, *_unread(lane, before, lambda each: each.fresh))))
    added = tuple(dict.fromkeys((*lane.added, *_unread(lane, before, lambda each: each.added))))
    if lane.rewind is None or not lane.rewind.clear:
        starts_over, began_since = inheritance.starting_over(before)
        lane = msgspec.structs.replace(lane, starts_over=starts_over, began_since=began_since)
    lane = _in_place_of(before, msgspec.structs.replace(lane, beside=beside, fresh=fresh, added=added))
    new = {*fresh, *added}
    inherits: dict[str, int] = {}
    for each in before:
        inherits |= {each.id: each.folder_epoch} if each.folder_epoch else each.inherits
    if lane.afresh:
        return msgspec.structs.replace(lane, starting=_furthest(lane, before), inherits=inherits)
    if lane.stateful:
        (parent,) = before
        left = {position.ssp: position for position in parent.final}
        read = (ssp for ssp in (*dict.fromkeys(wholes(lane.ssps)), *lane.broadcast) if ssp not in new)
        starting = tuple(Position(ssp=ssp, offset=left[ssp].offset) for ssp in read)
        return msgspec.structs.replace(
            lane, starting=starting, inherits=inherits, first_batch=parent.last_batch + 1, watermark=parent.watermark
        )
    left_of: dict[SSP, list[FormerPosition]] = {}
    for together in by_deployment(before):
        found: dict[SSP, list[FormerPosition]] = {}
        for each in together:
            for whole, its in _left(each).items():
                found.setdefault(whole, []).extend(its)
        left_of = {**found, **left_of}
    former = {whole: Former(its) for whole, its in left_of.items()}
    nobody = Former(())
    starting = tuple(
        _begin(lane, ssp, former.get(whole, nobody))
        for ssp, whole in zip(lane.ssps, wholes(lane.ssps), strict=True)
        if whole not in new
    )
    shared = tuple(broadcasts.begin(lane, whole, before) for whole in lane.broadcast if whole not in new)
    return msgspec.structs.replace(lane, starting=(*starting, *shared), inherits=inherits)


def _furthest(lane: Lane, before: Iterable[Lane]) -> tuple[Position, ...]:
    """For each SSP of ``lane``, the highest offset at which any of the lanes ``before`` ended. SSPs in partitions that
    none of these lanes has read are left out.
    """
    reached: dict[SSP, int] = {}
    for each in before:
        for position in each.final:
            reached[position.ssp] = max(position.offset, reached.get(position.ssp, position.offset))
    return tuple(
        Position(ssp=ssp, offset=reached[ssp.whole]) for ssp in (*lane.ssps, *lane.broadcast) if ssp.whole in reached
    )


def _in_place_of(before: Sequence[Lane], lane: Lane) -> Lane:
    """The lane ``lane``, with the fields that it takes over from predecessors without a folder. ``before`` has all of
    the lane's predecessors. The lane takes over ``drained`` and, unless it has a ``rewind`` of its own, ``rewind``. A
    stateful lane with only one predecessor also takes over ``afresh``.
    """
    void = [each for each in before if not each.folder_epoch]
    alone = len(void) == len(before) == 1
    drained = _combined_drains([each.drained for each in void if each.drained is not None])
    return msgspec.structs.replace(
        lane,
        afresh=lane.afresh or (alone and void[0].afresh and lane.stateful),
        rewind=lane.rewind or _combined_rewinds([each.rewind for each in void if each.rewind is not None]),
        drained=msgspec.structs.replace(drained, state="") if drained is not None and lane.afresh else drained,
    )


def _combined_drains(several: Sequence[AfterDrain]) -> AfterDrain | None:
    """Combine the ``drained`` of several first lanes after a drain, for one lane that replaces all these lanes. (Lanes
    with state are never combined in this way.)"""
    if len(several) < 2:
        return next(iter(several), None)
    return AfterDrain(writers=tuple(dict.fromkeys(name for each in several for name in each.writers)))


def _combined_rewinds(several: Sequence[Rewind]) -> Rewind | None:
    """Combine the ``rewind`` of several lanes, for a lane that replaces these lanes. For each SSP, the lowest offset
    counts."""
    if len(several) < 2:
        return next(iter(several), None)
    to: dict[str, int] = {}
    for each in several:
        to |= {ssp: min(offset, to.get(ssp, offset)) for ssp, offset in each.to.items()}
    after = dict.fromkeys(name for each in several for name in each.after)
    return Rewind(to=to, clear=any(each.clear for each in several), after=tuple(after))


def _unread(lane: Lane, before: Iterable[Lane], new: Callable[[Lane], Iterable[SSP]]) -> list[SSP]:
    """The partitions of a lane that were new for a predecessor, and that no predecessor has read. In each partition,
    predecessors that had none of the lane's keys are ignored. ``new`` returns a lane's new partitions.
    """
    mine = _parts(lane)
    unread = [(each, _never_read(each)) for each in before]
    known = dict.fromkeys(ssp for each, _ in unread for ssp in new(each) if ssp in mine)
    parts = [(_parts(each), never) for each, never in unread] if known else []
    found = []
    for ssp in known:
        owners = [never for theirs, never in parts if ssp in theirs and positions.overlap(mine[ssp], theirs[ssp])]
        if owners and all(ssp in never for never in owners):
            found.append(ssp)
    return found


def _parts(lane: Lane) -> dict[SSP, set[KeyPart]]:
    """For each partition that a lane reads, the parts of the keys that it reads there."""
    found: dict[SSP, set[KeyPart]] = {}
    read = (*lane.ssps, *lane.broadcast)
    for ssp, whole in zip(read, wholes(read), strict=True):
        its = positions.parts_of(Position(ssp=ssp, offset=0), lane.factor)
        found.setdefault(whole, set()).update(part for part, _ in its)
    return found


def _never_read(lane: Lane) -> set[SSP]:
    return {*lane.fresh, *lane.added} - {position.ssp for position in lane.final}


def _begin(lane: Lane, ssp: SSP, former: Former) -> Position:
    begins = former.begin(ssp, lane.factor, _NOWHERE)
    if begins.offset == _NOWHERE:
        raise StateError(
            f"lane {lane.id} continues from lanes that didn't have all keys of {ssp}", "restore a copy of the store"
        )
    return begins


def _left(lane: Lane) -> dict[SSP, list[FormerPosition]]:
    """The final positions of a closed lane, by whole SSP. Broadcast partitions, and partitions that the lane
    never read, are left out.

    Each partition has a position for each bucket that the lane had. But if the lane had all buckets, and read all of
    them up to the same offset, the partition has a single position.
    """
    begun = {position.ssp: position for position in lane.starting}
    read = {position.ssp: position.offset for position in lane.final}
    found: dict[SSP, list[FormerPosition]] = {}
    unread = _never_read(lane)
    for ssp, whole in zip(lane.ssps, wholes(lane.ssps), strict=True):
        if whole in unread:
            continue
        start = begun.get(ssp, Position(ssp=ssp, offset=0))
        left = positions.after(start, lane.factor, read[whole])
        found.setdefault(whole, []).append(FormerPosition(left, lane.factor))
    for whole, several in found.items():
        places = {each.position.offset for each in several if not each.position.parts}
        if len(several) == lane.factor > 1 and len(places) == 1 and not any(e.position.parts for e in several):
            found[whole] = [FormerPosition(Position(ssp=whole, offset=places.pop()), 1)]
    return found
