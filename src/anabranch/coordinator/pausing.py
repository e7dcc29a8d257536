"""How long the output of lanes will stand still while others take over from them, by what they have shown so far."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from anabranch.messages import LaneReport
from anabranch.model.lane import Lane

__all__ = ["expected"]

_STATELESS, _STATEFUL = 0.4, 0.8
"""Seconds from the end of a lane to the first batch of the next one, where no change has shown them yet."""
_HANDOVER = 0.2
"""Seconds from the last rows of a lane to when the next one could begin: the batch is committed, the lane tells that it
has ended, and is heard. Where the next one was begun ahead, that is most of it."""


def expected(closing: Iterable[Lane], reports: Mapping[str, LaneReport]) -> float:
    """Seconds between the last rows of lanes that are closed and the first of those that follow them; 0.0 if none is.

    The first batch of the next lane has the records of the time in which nothing was read: half of what a batch takes
    goes by their number, as measured with small batches.
    """
    return max((_pause(lane, reports.get(lane.id)) for lane in closing), default=0.0)


def _pause(lane: Lane, report: LaneReport | None) -> float:
    between = _STATEFUL if lane.stateful else _STATELESS
    if report is None:
        return between
    return report.usual_seconds + max(_HANDOVER, 1.5 * (report.changeover or between))
