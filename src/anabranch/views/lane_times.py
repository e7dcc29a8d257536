"""The document that shows when the lanes of a job ran, and what happened to these lanes."""

from __future__ import annotations

from typing import Literal

from anabranch.model.document import Document
from anabranch.views.table import Table

__all__ = ["LANES", "MARKS", "LaneTimes", "MarkKind"]

LANES = ("id", "stage", "group", "seat", "state", "deployment", "factor", "epoch", "predecessors", "runs")
MARKS = ("lane", "at", "kind", "summary", "why")

MarkKind = Literal["started", "ended", "failed", "retried", "fenced"]
"""The kinds that are distinguished among events about a lane. All other events have the kind ``other``."""


class LaneTimes(Document, frozen=True, kw_only=True):
    """When a job's lanes ran between ``since`` and ``until``, and what happened to lanes in this time. Open lanes
    without a known run are included. The lanes are in the order in which they were planned. Times are seconds since
    1970.
    """

    at: float
    """The current time, on the coordinator's clock."""
    job: str
    since: float
    until: float
    known_since: float | None
    """The time of the oldest of the examined events about lanes. Nothing is known about earlier times. None if all
    events about the job's lanes were examined.
    """
    lanes: Table
    """The lanes, with the columns ``LANES``. ``runs`` contains a pair [from, to] for each process that ran the lane.
    While the lane is running, the ``to`` of the last pair is null.
    """
    marks: Table
    """What happened to the lanes, with the columns ``MARKS``. ``kind`` is ``started``, ``ended``, ``failed``,
    ``retried``, ``fenced`` or ``other``.
    """
    omitted: int = 0
    """How many closed lanes are left out because there are too many."""
