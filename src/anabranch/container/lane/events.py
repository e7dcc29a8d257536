"""What happens in a lane's life: orders of the coordinator and the container, and results of the lane's own thread."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from anabranch.container.restarts import Step
from anabranch.protocol.drain import DrainOrder

__all__ = ["Event", "Order", "Result"]


class Closing(enum.IntEnum):
    """Whether the lane is to end for good: others go on from where it ends."""

    NO = 0
    YES = 1
    NOW = 2
    """It doesn't wait for what can be done again."""


# Orders, of the coordinator and of the container


@dataclass(frozen=True)
class Close:
    now: bool = False


@dataclass(frozen=True)
class Leave:
    """``unwanted``: by the coordinator; else since the container ends."""

    unwanted: bool
    at_once: bool = False


@dataclass(frozen=True)
class Drain:
    """None: it is to go on as before."""

    order: DrainOrder | None


@dataclass(frozen=True)
class Acknowledge:
    """The coordinator knows the lane's folder."""

    upstream_ended: bool


@dataclass(frozen=True)
class Run:
    """The coordinator wants the lane here.

    Attributes:
        folder_epoch: of the folder of it that the coordinator knows, 0 for none.
        owner_lost: that folder is of an owner that was lost: the lane gets a copy.
        rested: the pause before the next attempt is over.
        thread_ended: nothing of the last attempt runs any more.
    """

    folder_epoch: int
    owner_lost: bool = False
    upstream_ended: bool = False
    closing: Closing = Closing.NO
    drain: DrainOrder | None = None
    rested: bool = True
    thread_ended: bool = True


@dataclass(frozen=True)
class FailureJudged:
    """What follows a failure, as :func:`anabranch.container.restarts.step` says. ``waits``: the surroundings of the
    lane have failed, which isn't its fault."""

    following: Step
    waits: bool = False


# Results, of the lane's own thread


@dataclass(frozen=True)
class AttemptStarted:
    """The thread of an attempt begins."""


@dataclass(frozen=True)
class FolderTaken:
    epoch: int


@dataclass(frozen=True)
class AcknowledgementAwaited:
    """The coordinator knows the lane's folder, or the lane has to leave."""


@dataclass(frozen=True)
class SourcesLookedUp:
    reads_sources: bool


@dataclass(frozen=True)
class QueryStarted:
    pass


@dataclass(frozen=True)
class QueryWatched:
    """The query was looked at, and runs.

    Attributes:
        caught_up: the lane has read all that it was to read.
        holdable: the query can be held.
    """

    caught_up: bool
    holdable: bool


@dataclass(frozen=True)
class QueryStopped:
    pass


@dataclass(frozen=True)
class DrainEnded:
    """``drained`` False: it was called off, the lane has to end, or the query couldn't be held."""

    drained: bool


@dataclass(frozen=True)
class PendingFinished:
    pass


@dataclass(frozen=True)
class LaneEnded:
    pass


@dataclass(frozen=True)
class AttemptFailed:
    """``smaller``: it was a batch that took too long, and can be planned with fewer records."""

    error: Exception
    smaller: bool = False


@dataclass(frozen=True)
class FailureReported:
    pass


Order = Close | Leave | Drain | Acknowledge | Run | FailureJudged
Result = (
    AttemptStarted
    | FolderTaken
    | AcknowledgementAwaited
    | SourcesLookedUp
    | QueryStarted
    | QueryWatched
    | QueryStopped
    | DrainEnded
    | PendingFinished
    | LaneEnded
    | AttemptFailed
    | FailureReported
)
Event = Order | Result
