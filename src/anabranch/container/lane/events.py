"""The events in a lane's life: orders from the coordinator and the container, and results of the lane's actions."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from anabranch.container.restarts import Step
from anabranch.protocol.container import BatchDecision
from anabranch.protocol.drain import DrainOrder

__all__ = ["Event", "Order", "Result"]


class Closing(enum.IntEnum):
    """Whether the lane must end permanently, so that its successors can continue from where it ended."""

    NO = 0
    YES = 1
    NOW = 2
    """Yes, and the lane doesn't wait for work that its successors can repeat."""


# Orders, from the coordinator and the container


@dataclass(frozen=True)
class Close:
    now: bool = False
    decision: BatchDecision | None = None


@dataclass(frozen=True)
class Leave:
    """The lane must end here. If ``unwanted`` is True, the coordinator no longer wants the lane here. If it is False,
    the container is ending."""

    unwanted: bool
    at_once: bool = False


@dataclass(frozen=True)
class Drain:
    """The lane should drain, or run as before if ``order`` is None."""

    order: DrainOrder | None


@dataclass(frozen=True)
class Acknowledge:
    """The coordinator knows the lane's folder."""

    upstream_ended: bool


@dataclass(frozen=True)
class Run:
    """The coordinator wants the lane to run here.

    Attributes:
        folder_epoch: the epoch of the folder that the coordinator knows for the lane, 0 for none.
        owner_lost: whether the owner of this folder was lost. If so, the lane gets a copy of the folder.
        upstream_ended: whether all lanes that write the lane's inputs have ended.
        decision: see :class:`anabranch.protocol.container.WantedLane`.
        drain: how the lane must drain; None if the lane needn't drain.
        rested: whether the pause before the next attempt is over.
        thread_ended: whether the thread of the last attempt has ended.
    """

    folder_epoch: int
    owner_lost: bool = False
    upstream_ended: bool = False
    closing: Closing = Closing.NO
    decision: BatchDecision | None = None
    drain: DrainOrder | None = None
    rested: bool = True
    thread_ended: bool = True


@dataclass(frozen=True)
class FailureJudged:
    """What follows a failure, according to :func:`anabranch.container.restarts.step`. If ``waits`` is True, the
    lane's surroundings (such as a disk or a broker) have caused the failure, and the lane waits for them to recover.
    """

    following: Step
    waits: bool = False


# Results, from the lane's own thread


@dataclass(frozen=True)
class AttemptStarted:
    """The thread of an attempt has started."""


@dataclass(frozen=True)
class FolderTaken:
    epoch: int


@dataclass(frozen=True)
class AcknowledgementAwaited:
    """The wait has ended: the coordinator knows the lane's folder, or the lane has to leave."""


@dataclass(frozen=True)
class SourcesLookedUp:
    reads_sources: bool


@dataclass(frozen=True)
class QueryStarted:
    pass


@dataclass(frozen=True)
class QueryWatched:
    """The progress of the query was read.

    Attributes:
        caught_up: whether the lane must end because it has nothing left to do.
        holdable: whether the query can be held.
    """

    caught_up: bool
    holdable: bool


@dataclass(frozen=True)
class QueryStopped:
    pass


@dataclass(frozen=True)
class DrainEnded:
    """A drain has ended. ``drained`` is False if the drain was cancelled, if the lane has to leave or close first, or
    if the query could not be held.
    """

    drained: bool


@dataclass(frozen=True)
class PendingFinished:
    pass


@dataclass(frozen=True)
class LaneEnded:
    pass


@dataclass(frozen=True)
class AttemptFailed:
    """An action of the lane has failed, and normally the whole attempt has failed with it. If ``smaller`` is True, the
    attempt continues, because a batch only took too long and can be planned again with fewer records."""

    error: BaseException
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
