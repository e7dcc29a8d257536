"""Determines the event time with which a lane begins, from what the lanes before it have left in their folders."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from anabranch.event_time import progress
from anabranch.event_time.progress import Progress
from anabranch.model.lane import Lane
from anabranch.model.ssp import SSP, wholes

__all__ = ["inherited", "starting_over"]


def inherited(lane: Lane, left: Mapping[str, tuple[Progress, Collection[str]]]) -> Progress:
    """The event time with which a lane begins.

    After a drain, and after a rewind that clears state, event time starts over. Event times and watermarks that lanes
    left or reported before the drain or the rewind are ignored.

    A predecessor is *void* if it hasn't begun since the drain, or since the rewind that clears state. (In a new job, a
    predecessor is void if it never began at all.) If some predecessors are void, the
    watermarks of the remaining predecessors are ignored, and their event times count only in partitions in which no
    void predecessor had keys.

    Args:
        left: for each lane in ``lane.inherits``, the event time with which it ended, and the SSPs that it read.
    """
    rewind = lane.rewind if lane.rewind is not None and lane.rewind.clear else None
    if lane.drained is None and rewind is None and not lane.starts_over:
        return progress.joined(left.values())
    closed = () if rewind is None else rewind.after
    since = {*lane.predecessors, *lane.began_since}.difference(closed)
    former = [name for name in left if name not in since]
    others = [left[name] for name in left if name in since]
    known = {ssp for name in former for ssp in left[name][1]}
    read = {str(ssp) for ssp in lane.partitions}
    if lane.drained is not None:
        ssps, writers = read, lane.drained.writers
    else:
        ssps, writers = known - (rewind.to.keys() if rewind is not None else set()), closed
    anew = progress.cleared(progress.joined(left[name] for name in former), ssps, writers)
    if not others:
        return anew
    # Without ``starts_over``, an earlier version of anabranch has opened the lane.
    return progress.joined([(anew, {str(ssp) for ssp in lane.starts_over} or read), *others])


def starting_over(before: Iterable[Lane]) -> tuple[tuple[SSP, ...], tuple[str, ...]]:
    """The values of ``starts_over`` and ``began_since`` for a lane whose predecessors (``before``) are closed. Don't
    call this function for a lane that was made by a rewind that clears state."""
    ssps: dict[SSP, None] = {}
    since: dict[str, None] = {}
    for each in before:
        if each.folder_epoch:
            since[each.id] = None
        elif _starts_over(each):
            since |= dict.fromkeys(each.began_since)
            ssps |= dict.fromkeys(each.starts_over if each.began_since else (*wholes(each.ssps), *each.broadcast))
        else:
            since |= dict.fromkeys(each.inherits)
    return (tuple(ssps), tuple(since)) if ssps else ((), ())


def _starts_over(void: Lane) -> bool:
    """Whether event time starts over, at least in some partitions, after a lane that never began."""
    cleared = void.rewind is not None and void.rewind.clear
    return void.drained is not None or cleared or bool(void.starts_over) or not void.inherits
