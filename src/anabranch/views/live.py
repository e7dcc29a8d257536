"""Defines the document from which the dashboard and the command line get the current metrics of a job, mostly as
tables.
"""

from __future__ import annotations

from anabranch.model.document import Document
from anabranch.protocol.drain import DrainProgress
from anabranch.protocol.status import LaunchStatus
from anabranch.views.table import Table

__all__ = ["CONTAINERS", "COPIES", "HELD_UP", "LANES", "RESTING", "STAGES", "ChangeProgress", "Live"]

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
    "newest",
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
    "awaits",
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
STAGES = ("stage", "lanes", "halted", "drained", "records", "windows")
HELD_UP = ("lane", "stuck", "overdue", "waits")
COPIES = ("lane", "number", "container", "rack", "batch", "behind", "error")


class ChangeProgress(Document, frozen=True, kw_only=True):
    """A change that is under way."""

    generation: int
    began: float
    """Seconds since 1970."""
    predicted: float | None
    """How many seconds output is expected to pause; None if unknown because another coordinator accepted the change."""
    closing: tuple[str, ...] = ()
    """The lanes that close. If ``predicted`` is unknown, these are only the lanes that are still closing, or whose
    successors haven't begun.
    """
    starting: tuple[str, ...] = ()
    """The lanes that follow the closing lanes."""
    closed: int = 0
    """How many of ``closing`` have closed."""
    running: int = 0
    """How many of ``starting`` are running."""


class Live(Document, frozen=True, kw_only=True):
    """A job's open lanes and its containers, with their states and metrics. All times except event times are seconds
    since 1970.
    """

    at: float
    rev: str
    """A string that changes with each generation of the job, and whenever the job's containers get new orders."""
    job: str
    served: bool
    """Whether this coordinator serves the job. If False, values that only the serving coordinator knows are None or
    empty, for example the leases of containers and the tables of standbys.
    """
    state: str
    since: float
    deployment: int
    generation: int
    factor: int
    seats: int
    error: str | None = None
    lanes: Table
    """The open lanes, with the columns ``LANES``. ``phase`` is None if there was no report. ``watermark`` is in Unix
    ms, and ``lag`` in offsets. ``progress`` is the finished share of the running batch, from 0 to 1.
    """
    containers: Table
    """The containers, with the columns ``CONTAINERS``. ``lease`` is the number of seconds until the container's lease
    ends. ``gone`` is the reason why the container lost its seat. Of all containers that have lost their seats, the
    table contains only the last few.
    """
    resting: Table
    """The processes that stand by for a seat, with the columns ``RESTING``."""
    copies: Table
    """The standbys of lanes, with the columns ``COPIES``."""
    windows: int | None = None
    """How many rows of state a drain would still emit, for example one row for each window and key. None if no
    container has reported.
    """
    drain: DrainProgress | None = None
    stages: Table = Table(columns=STAGES)
    """While the job drains, a row for each stage that hasn't drained, in the order in which the stages drain. The
    columns ``STAGES`` contain the stage's name, the number of its open lanes, how many of these lanes have halted, how
    many have drained, how many offsets they still have to read, and how many rows of state they still have to emit.
    """
    held_up: Table = Table(columns=HELD_UP)
    """The lanes that can't end yet. The columns ``HELD_UP`` contain the message on which a function has been working
    for a second or more, and what else a closing lane is waiting for. In a job without ``message_timeout``, the columns
    also show whether the function has been working on the message for more than a minute.
    """
    change: ChangeProgress | None = None
    rescale_seconds: float | None = None
    launching: LaunchStatus | None = None
    warnings: tuple[str, ...] = ()
