"""The query of a lane that is still to come: analyzed while those run that it goes on from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from anabranch.grouping.ownership import NEVER, floors
from anabranch.model.lane import Lane, LaneState
from anabranch.model.ssp import SSP, wholes
from anabranch.spark.query.query import LaneQuery

__all__ = ["PreanalyzedQuery", "foreseen", "is_as_foreseen"]

_KNOWN_LATER: dict[str, Any] = {
    "state": LaneState.PLANNED,
    "starting": (),
    "inherits": {},
    "first_batch": 0,
    "last_batch": -1,
    "put_aside": 0,
    "folder_epoch": 0,
    "ran": False,
    "begun": False,
}
"""What a lane has only once those are closed that it goes on from, and no frame goes by."""


@dataclass(frozen=True)
class PreanalyzedQuery:
    """The query of a lane as it was announced."""

    query: LaneQuery

    def known(self, query: LaneQuery) -> LaneQuery | None:
        """The query of the lane as it is, without a further analysis; None: it isn't as was foreseen."""
        return query.as_analyzed(self.query) if is_as_foreseen(self.query.lane, query.lane) else None


def foreseen(query: LaneQuery) -> PreanalyzedQuery | None:
    """Analyze the query of a coming lane, if it doesn't go by where the lane begins."""
    if not query.foreseeable:
        return None
    query.analyze()
    return PreanalyzedQuery(query)


def is_as_foreseen(announced: Lane, lane: Lane) -> bool:
    """Whether nothing but where it begins has come to be known of a lane: none of its buckets begins elsewhere than the
    others of its partition, which needs a filter."""
    if msgspec.structs.replace(announced, **_KNOWN_LATER) != msgspec.structs.replace(lane, **_KNOWN_LATER):
        return False
    return all(_own(announced, ssp) == _own(lane, ssp) is not None for ssp in wholes(lane.ssps))


def _own(lane: Lane, whole: SSP) -> tuple[bool, ...] | None:
    """Which buckets of a partition are the lane's; None: they don't begin together."""
    begin = floors(lane, whole)
    return tuple(at != NEVER for at in begin) if len(set(begin) - {NEVER}) == 1 else None
