"""Where a lane will begin, while those that it goes on from still run their last batches. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from anabranch.container.keeping import Keeper
from anabranch.model.lane import Lane, LaneState, Position
from anabranch.model.ssp import parsed
from anabranch.planning import changes

__all__ = ["foreseen"]


def foreseen(lane: Lane, keepers: Mapping[str, Keeper]) -> Lane | None:
    """A coming lane as the coordinator will tell it, unless something goes wrong; None if that can't be seen yet.

    ``keepers``: the lanes of this container, by id.
    """
    if lane.rewind is not None:  # where it begins doesn't go by the ends of its predecessors alone
        return None
    closed: dict[str, Lane] = {}
    for name in lane.predecessors:
        before = None if name not in keepers else _closed(keepers[name])
        if before is None:
            return None
        closed[name] = before
    return changes.opened(lane, closed)


def _closed(keeper: Keeper) -> Lane | None:
    """A lane as it will be when it is closed."""
    told = keeper.report
    if keeper.closed and not told.pending:
        batch, positions = told.batch, parsed(told.positions)
    elif keeper.ending is not None and not keeper.ended:
        batch, positions = keeper.ending.batch, keeper.ending.positions
    else:
        return None
    return msgspec.structs.replace(
        keeper.lane,
        state=LaneState.CLOSED,
        folder_epoch=told.folder_epoch,
        final=tuple(Position(ssp=ssp, offset=offset) for ssp, offset in positions.items()),
        last_batch=batch,
    )
