"""When the lanes of a job ran, and what happened to them meanwhile."""

from __future__ import annotations

from anabranch.model.document import Document
from anabranch.views.table import Table

__all__ = ["LANES", "MARKS", "LaneTimes"]

LANES = ("id", "stage", "group", "seat", "state", "deployment", "factor", "epoch", "predecessors", "runs")
MARKS = ("lane", "at", "kind", "summary", "why")


class LaneTimes(Document, frozen=True, kw_only=True):
    """The lanes that were open at some time from ``since`` on, in the order in which they were planned, and what
    happened to them. Times are seconds since 1970.
    """

    at: float
    """The present time, on the coordinator's clock."""
    job: str
    since: float
    until: float
    known_since: float | None
    """Nothing is known about the time before this moment, from which the oldest existing event comes that was examined.
    None: the job's first event still exists."""
    lanes: Table
    """``runs``: pairs [from, to], one for each process's run of the lane; "to" is null while it is running."""
    marks: Table
    """``kind`` is ``started``, ``ended``, ``failed``, ``retried``, ``fenced`` or ``other``."""
    omitted: int = 0
    """How many closed lanes are left out because there are too many."""
