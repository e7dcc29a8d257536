"""Determines where a lane begins once all of its predecessors are closed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from anabranch.errors import StateError
from anabranch.model.lane import Lane, LaneState, Position
from anabranch.model.ssp import SSP, wholes
from anabranch.planning.ownership import broadcasts, positions
from anabranch.planning.ownership.positions import FormerPosition, KeyPart

__all__ = ["never_begun", "opened", "spoken_for"]

_NOWHERE = -1


def never_begun(lane: Lane, why: str) -> Lane:
    """Close a lane that has never run. Its successors begin where the lane itself would have begun.

    Raises:
        StateError: the lane may have run, or its start offsets aren't known.
    """
    if lane.begun or not lane.start_is_known:
        raise StateError(f"lane {lane.id} may have written something", "this is a bug in anabranch")
    read = (ssp for ssp in (*wholes(lane.ssps), *lane.broadcast) if ssp not in {*lane.begins, *lane.fresh})
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
    """The lanes whose watermark a successor must report: the lanes ``names`` and, for each of them that closed before
    its first batch, the lanes whose watermark that lane would have reported."""
    found: dict[str, None] = {}
    queue = list(names)
    for name in queue:
        lane = lanes.get(name)
        if name not in found and lane is not None and lane.state is LaneState.CLOSED and lane.was_silent:
            queue += lane.speaks_for
        found[name] = None
    return tuple(found)


def opened(lane: Lane, lanes: Mapping[str, Lane]) -> Lane:
    """Fill in the start offsets of a lane whose predecessors are all closed, and what the lane takes over from these
    predecessors.

    Raises:
        StateError: the final positions of the predecessors don't fit together, because the store was damaged.
    """
    return msgspec.structs.replace(_completed(lane, lanes), opened=True)


def _completed(lane: Lane, lanes: Mapping[str, Lane]) -> Lane:
    before = [lanes[name] for name in lane.predecessors]
    beside = {name: spoken_for(names, lanes) for name, names in lane.beside.items()}
    fresh = tuple(dict.fromkeys((*lane.fresh, *_unread(lane, before, lambda each: each.fresh))))
    added = tuple(dict.fromkeys((*lane.added, *_unread(lane, before, lambda each: each.added))))
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
    former: dict[SSP, list[FormerPosition]] = {}
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
    """The furthest offsets at which any of the lanes ``before`` ended, for those SSPs of ``lane`` whose partitions at
    least one of these lanes has read.
    """
    reached: dict[SSP, int] = {}
    for each in before:
        for position in each.final:
            reached[position.ssp] = max(position.offset, reached.get(position.ssp, position.offset))
    return tuple(
        Position(ssp=ssp, offset=reached[ssp.whole]) for ssp in (*lane.ssps, *lane.broadcast) if ssp.whole in reached
    )


def _in_place_of(before: Sequence[Lane], lane: Lane) -> Lane:
    """The lane. If its only predecessor never had a folder, the lane takes over the predecessor's ``drained``,
    ``rewind`` (unless the lane has one) and, if the lane is stateful, ``afresh``. A lane that is already ``afresh``
    isn't changed.
    """
    if lane.afresh or len(before) != 1 or before[0].folder_epoch:
        return lane
    void = before[0]
    return msgspec.structs.replace(
        lane, afresh=void.afresh and lane.stateful, rewind=lane.rewind or void.rewind, drained=void.drained
    )


def _unread(lane: Lane, before: Iterable[Lane], new: Callable[[Lane], Iterable[SSP]]) -> list[SSP]:
    """Those partitions of a lane that were new for a predecessor, and that no predecessor with any of the lane's keys
    has read. ``new`` returns a lane's new partitions.
    """
    predecessors, mine = list(before), {*wholes(lane.ssps), *lane.broadcast}
    known = dict.fromkeys(ssp for each in predecessors for ssp in new(each) if ssp in mine)
    owners = {ssp: [each for each in predecessors if _shares(lane, each, ssp)] for ssp in known}
    return [ssp for ssp in known if owners[ssp] and all(ssp in _never_read(each) for each in owners[ssp])]


def _shares(lane: Lane, other: Lane, whole: SSP) -> bool:
    return any(one.has(two) or two.has(one) for one in _parts(lane, whole) for two in _parts(other, whole))


def _parts(lane: Lane, whole: SSP) -> list[KeyPart]:
    """The keys of a partition that a lane reads."""
    read = [Position(ssp=ssp, offset=0) for ssp in (*lane.ssps, *lane.broadcast) if ssp.whole == whole]
    return [part for position in read for part, _ in positions.parts_of(position, lane.factor)]


def _never_read(lane: Lane) -> set[SSP]:
    return {*lane.fresh, *lane.added} - {position.ssp for position in lane.final}


def _begin(lane: Lane, ssp: SSP, former: Iterable[FormerPosition]) -> Position:
    begins = positions.begin(ssp, lane.factor, former, _NOWHERE)
    if begins.offset == _NOWHERE:
        raise StateError(
            f"lane {lane.id} continues from lanes that didn't have all keys of {ssp}", "restore a copy of the store"
        )
    return begins


def _left(lane: Lane) -> dict[SSP, list[FormerPosition]]:
    """The final positions of a closed lane, by whole partition. There is a single position for a partition if the lane
    had all of its buckets, and read all of them up to the same offset.
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
