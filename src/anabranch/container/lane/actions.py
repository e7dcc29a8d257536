"""The actions in a lane's life. An action that has a result names it; the others have none."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Action"]


@dataclass(frozen=True)
class TakeFolder:
    """Take the lane's folder. Returns FolderTaken."""


@dataclass(frozen=True)
class AwaitAcknowledgement:
    """Report the folder, check the inputs, and wait while the state says that it ``waits``. Returns
    AcknowledgementAwaited."""


@dataclass(frozen=True)
class AbandonPrestarted:
    """Abandon a query that was started ahead of the lane and isn't needed."""


@dataclass(frozen=True)
class StartQuery:
    """Start a query that keeps running, or continue with the one that was started ahead. Returns QueryStarted."""


@dataclass(frozen=True)
class TendQuery:
    """Check whether the query is still running, do any work that is due, and pause."""


@dataclass(frozen=True)
class WatchQuery:
    """Read the progress of the query. Returns QueryWatched."""


@dataclass(frozen=True)
class StopQuery:
    """Stop the query at a batch boundary, or by breaking off its batch. Returns QueryStopped."""


@dataclass(frozen=True)
class DrainHeld:
    """Hold the running query, and drain with it. Returns DrainEnded; if the lane has drained, the query has ended."""


@dataclass(frozen=True)
class DrainByBatches:
    """Drain with a separate query for each batch. Returns DrainEnded."""


@dataclass(frozen=True)
class FinishPending:
    """Finish the pending batch, if there is one, or forget it. Returns PendingFinished."""


@dataclass(frozen=True)
class EndLane:
    """Record and report where the lane ends. Returns LaneEnded. If ``has_begun`` is False, the lane's work is left to
    its next process.
    """

    has_begun: bool = True


@dataclass(frozen=True)
class FailLane:
    """Determine why the lane failed, and report it. Returns FailureReported."""

    error: Exception


@dataclass(frozen=True)
class Announce:
    """Let others know that the last report is ready."""


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
