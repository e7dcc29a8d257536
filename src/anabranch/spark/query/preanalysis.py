"""Analyzes a lane's query before the lane starts, while the lane's predecessors are still running."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from anabranch.model.lane import Lane, LaneState
from anabranch.model.ssp import SSP
from anabranch.planning.ownership.buckets import NEVER, floors
from anabranch.spark.query.query import LaneQuery

__all__ = ["PreanalyzedQuery", "foreseen", "is_as_foreseen"]

_KNOWN_LATER: dict[str, Any] = {
    "state": LaneState.PLANNED,
    "starting": (),
    "opened": False,
    "inherits": {},
    "first_batch": 0,
    "last_batch": -1,
    "put_aside": 0,
    "folder_epoch": 0,
    "ran": False,
    "begun": False,
}
"""Fields of a lane that are known only when its predecessors are closed. No DataFrame of a
:attr:`LaneQuery.foreseeable` query depends on these fields, unless start offsets differ between the buckets of a
partition.
"""


@dataclass(frozen=True)
class PreanalyzedQuery:
    """A query that was analyzed before its lane started."""

    query: LaneQuery

    def known(self, query: LaneQuery) -> LaneQuery | None:
        """``query``, with the analysis that was made in advance; None if the analysis doesn't fit the lane (see
        :func:`is_as_foreseen`). Call this when it is known where the lane starts.
        """
        return query.as_analyzed(self.query) if is_as_foreseen(self.query.lane, query.lane) else None


def foreseen(query: LaneQuery) -> PreanalyzedQuery | None:
    """Analyze the query of a lane that hasn't started yet. Returns None, without an analysis, if the query isn't
    :attr:`LaneQuery.foreseeable`."""
    if not query.foreseeable:
        return None
    query.analyze()
    return PreanalyzedQuery(query)


def is_as_foreseen(announced: Lane, lane: Lane) -> bool:
    """Whether a query that was analyzed for the lane ``announced`` fits ``lane``. It fits if both conditions are true:

    - The lanes differ only in the fields in ``_KNOWN_LATER``.
    - In each partition, both lanes have the same buckets, and all of these buckets have the same start offset in
      ``lane``. (Different start offsets need a filter, which isn't in the analyzed query.)
    """
    if msgspec.structs.replace(announced, **_KNOWN_LATER) != msgspec.structs.replace(lane, **_KNOWN_LATER):
        return False
    own = _own(lane)
    return None not in own.values() and own == _own(announced)


def _own(lane: Lane) -> dict[SSP, tuple[bool, ...] | None]:
    """Which buckets of each partition belong to a lane, by partition: true or false for each bucket. None for a
    partition in which the lane's buckets start at different offsets."""
    return {
        whole: tuple(at != NEVER for at in begin) if len(set(begin) - {NEVER}) == 1 else None
        for whole, begin in floors(lane).items()
    }
