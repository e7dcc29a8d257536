"""The present figures of a job, in rows."""

from __future__ import annotations

from anabranch.model.document import Document
from anabranch.protocol.drain import DrainProgress
from anabranch.protocol.status import LaunchStatus
from anabranch.views.table import Table

__all__ = ["CONTAINERS", "COPIES", "LANES", "RESTING", "ChangeProgress", "Live"]

LANES = (
    "id",
    "stage",
    "group",
    "seat",
    "state",
    "phase",
    "epoch",
    "batch",
    "rate",
    "arriving",
    "lag",
    "busy",
    "working",
    "watermark",
    "heldBy",
    "attempt",
    "stalls",
    "seconds",
    "usual",
    "skew",
    "slowest",
    "deadLetters",
    "late",
    "error",
    "trouble",
    "progress",
)
CONTAINERS = (
    "id",
    "seat",
    "epoch",
    "host",
    "pid",
    "rack",
    "lease",
    "heard",
    "registered",
    "deployment",
    "lanes",
    "gone",
)
RESTING = ("execution", "host", "pid", "rack", "deployment", "asked", "copies")
COPIES = ("lane", "number", "container", "rack", "batch", "behind", "error")


class ChangeProgress(Document, frozen=True, kw_only=True):
    """A change that is under way. ``began``: seconds since 1970. ``predicted``: the predicted pause of output, in
    seconds. ``closed``: how many of the closing lanes have closed; ``running``: how many of the new lanes are running.
    """

    generation: int
    began: float
    predicted: float
    closing: tuple[str, ...] = ()
    starting: tuple[str, ...] = ()
    closed: int = 0
    running: int = 0


class Live(Document, frozen=True, kw_only=True):
    """Open lanes, the containers and their work. All times except event times are seconds since 1970.

    ``rev`` changes whenever the job has another generation or other orders. ``served`` is False if this coordinator
    doesn't serve the job. Facts that only its leader knows are then None, and it isn't known which containers are
    alive.

    Of lanes: ``phase`` is None if there was no report; ``watermark`` is in Unix ms; ``lag`` is in offsets; ``progress``
    is the finished share of its batch, from 0 to 1. Of containers: ``lease``: seconds left; ``gone``: why it lost its
    seat, for the last few.
    """

    at: float
    rev: str
    job: str
    served: bool
    state: str
    since: float
    deployment: int
    generation: int
    factor: int
    seats: int
    error: str | None = None
    lanes: Table
    containers: Table
    resting: Table
    copies: Table
    drain: DrainProgress | None = None
    change: ChangeProgress | None = None
    rescale_seconds: float | None = None
    launching: LaunchStatus | None = None
    warnings: tuple[str, ...] = ()
