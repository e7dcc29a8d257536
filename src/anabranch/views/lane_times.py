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
    """Now, by the coordinator's clock."""
    job: str
    since: float
    until: float
    known_since: float | None
    """Before this moment, nothing is known: the oldest event that is kept and was looked at is of then. None: the job's
    first event is kept."""
    lanes: Table
    """``runs``: [from, to] of each process's run of the lane; "to" is null while it runs."""
    marks: Table
    """``kind``: ``started``, ``ended``, ``failed``, ``retried``, ``fenced`` or ``other``."""
    omitted: int = 0
    """How many closed lanes are left out because there are too many."""
