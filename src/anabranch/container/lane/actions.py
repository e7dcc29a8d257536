"""The actions in a lane's life. Each names the result that it gives; those that name none give none."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Action"]


@dataclass(frozen=True)
class TakeFolder:
    """Gives FolderTaken."""


@dataclass(frozen=True)
class AwaitAcknowledgement:
    """Report the folder, check the inputs, and wait while the state ``waits``. Gives Awaited."""


@dataclass(frozen=True)
class AbandonPrestarted:
    """A query that was begun ahead of the lane isn't needed."""


@dataclass(frozen=True)
class StartQuery:
    """Start a query that runs on, or go on with the one that was begun ahead. Gives QueryStarted."""


@dataclass(frozen=True)
class TendQuery:
    """See whether the query goes on, and to what is due; then pause."""


@dataclass(frozen=True)
class WatchQuery:
    """Take the progress of the query. Gives Watched."""


@dataclass(frozen=True)
class StopQuery:
    """At a batch boundary, or in a batch that is broken off. Gives QueryStopped."""


@dataclass(frozen=True)
class DrainHeld:
    """Hold the query that runs, and drain with it. Gives DrainEnded; if the lane has drained, the query has ended."""


@dataclass(frozen=True)
class DrainByBatches:
    """Gives DrainEnded."""


@dataclass(frozen=True)
class FinishPending:
    """Finish the pending batch, if there is one, or take it back. Gives Finished."""


@dataclass(frozen=True)
class EndLane:
    """Record and report where the lane ends. Gives Ended. ``has_begun`` False: the lane's next process does what was to
    be done.
    """

    has_begun: bool = True


@dataclass(frozen=True)
class FailLane:
    """Find out what the lane failed for, and report it. Gives FailureReported."""

    error: Exception


@dataclass(frozen=True)
class Announce:
    """The last report is there: let others know."""


@dataclass(frozen=True)
class BeginAttempt:
    """For the supervisor: make a runner, and start it."""


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
