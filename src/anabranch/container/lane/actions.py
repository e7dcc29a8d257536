"""The actions in a lane's life. "Returns …" names the event that is an action's result."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Action"]


@dataclass(frozen=True)
class TakeFolder:
    """Take the lane's folder. Returns FolderTaken."""


@dataclass(frozen=True)
class AwaitAcknowledgement:
    """Report the folder, and check the inputs and outputs. Then wait until the coordinator knows the folder, or
    until the lane has to leave. Returns AcknowledgementAwaited."""


@dataclass(frozen=True)
class AbandonPrestarted:
    """Abandon the prestarted query, if there is one, because it isn't needed."""


@dataclass(frozen=True)
class StartQuery:
    """Start a query that keeps running, or continue with the prestarted query. Returns QueryStarted."""


@dataclass(frozen=True)
class TendQuery:
    """Check the query's progress, do the periodic work that is due, and pause."""


@dataclass(frozen=True)
class WatchQuery:
    """Read the progress of the query. Returns QueryWatched."""


@dataclass(frozen=True)
class StopQuery:
    """Stop the query at a batch boundary, or by breaking off its batch. Returns QueryStopped."""


@dataclass(frozen=True)
class DrainHeld:
    """Hold the running query, and drain with it. Once the lane has drained, the query ends. Returns DrainEnded."""


@dataclass(frozen=True)
class DrainByBatches:
    """Drain with a separate query for each batch. Returns DrainEnded."""


@dataclass(frozen=True)
class FinishPending:
    """If there is a pending batch, finish it or forget it. Returns PendingFinished."""


@dataclass(frozen=True)
class EndLane:
    """Record and report where the lane ends. Returns LaneEnded. If the lane had to leave before the coordinator knew
    the lane's folder, ``has_begun`` is False, and the report says that work is pending.
    """

    has_begun: bool = True


@dataclass(frozen=True)
class FailLane:
    """Determine and report why the lane failed. Returns FailureReported."""

    error: BaseException


@dataclass(frozen=True)
class Announce:
    """Tell the container that the last report is ready."""


@dataclass(frozen=True)
class BeginAttempt:
    """Tell the supervisor to create a runner, and to start it."""


Action = (
    TakeFolder
    | AwaitAcknowledgement
    | AbandonPrestarted
    | StartQuery
    | TendQuery
    | WatchQuery
    | StopQuery
    | DrainHeld
    | DrainByBatches
    | FinishPending
    | EndLane
    | FailLane
    | Announce
    | BeginAttempt
)
