"""The actions in a lane's life. Each names the result that it returns; those that name none return none."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Action"]


@dataclass(frozen=True)
class TakeFolder:
    """Gives FolderTaken."""


@dataclass(frozen=True)
class AwaitAcknowledgement:
    """Report the folder, check the inputs, and wait while the state ``waits``. Returns AcknowledgementAwaited."""


@dataclass(frozen=True)
class AbandonPrestarted:
    """A query that was started ahead of the lane isn't needed."""


@dataclass(frozen=True)
class StartQuery:
    """Start a query that keeps running, or continue with the one that was started ahead. Returns QueryStarted."""


@dataclass(frozen=True)
class TendQuery:
    """Check whether the query is still running, do what is due, and pause."""


@dataclass(frozen=True)
class WatchQuery:
    """Read the progress of the query. Returns QueryWatched."""


@dataclass(frozen=True)
class StopQuery:
    """Stop the query at a batch boundary, or in a batch that is broken off. Returns QueryStopped."""


@dataclass(frozen=True)
class DrainHeld:
    """Hold the running query, and drain with it. Returns DrainEnded; if the lane has drained, the query has ended."""


@dataclass(frozen=True)
class DrainByBatches:
    """Gives DrainEnded."""


@dataclass(frozen=True)
class FinishPending:
    """Finish the pending batch, if there is one, or take it back. Returns PendingFinished."""


@dataclass(frozen=True)
class EndLane:
    """Record and report where the lane ends. Returns LaneEnded. ``has_begun`` False: the lane's next process does what
    was to be done.
    """

    has_begun: bool = True


@dataclass(frozen=True)
class FailLane:
    """Determine why the lane failed, and report it. Returns FailureReported."""

    error: Exception


@dataclass(frozen=True)
class Announce:
    """The last report is ready: let others know."""


@dataclass(frozen=True)
class BeginAttempt:
    """For the supervisor: create a runner, and start it."""


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
