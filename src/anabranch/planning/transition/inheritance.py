"""Determines the event time with which a lane begins, from what the lanes before it have left in their folders."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from anabranch.event_time import progress
from anabranch.event_time.progress import Progress
from anabranch.model.lane import Lane

__all__ = ["inherited"]


def inherited(lane: Lane, left: Mapping[str, tuple[Progress, Collection[str]]]) -> Progress:
    """The event time with which a lane begins.

    After a drain, or a rewind that clears state, event time starts over: nothing counts that lanes from before it have
    left, and no report of theirs. If some lanes never began after it, and the lane continues for them and for lanes
    that did begin, then what the latter have left counts.

    Args:
        left: for each lane in ``lane.inherits``, the event time with which it ended, and the SSPs that it read.
    """
    rewind = lane.rewind if lane.rewind is not None and lane.rewind.clear else None
    if lane.drained is None and rewind is None:
        return progress.joined(left.values())
    closed = () if rewind is None else rewind.after
    # What a predecessor that never began inherited is no predecessor's own.
    former = [name for name in left if name not in lane.predecessors or name in closed]
    others = [left[name] for name in left if name not in former]
    known = {ssp for name in former for ssp in left[name][1]}
    if lane.drained is not None:
        ssps, writers = {str(ssp.whole) for ssp in (*lane.ssps, *lane.broadcast)}, lane.drained.writers
    else:
        ssps, writers = known - (rewind.to.keys() if rewind is not None else set()), closed
    anew = progress.cleared(progress.joined(left[name] for name in former), ssps, writers)
    if not others:
        return anew
    return progress.joined([(anew, known | ssps.difference(*(its for _, its in others))), *others])
