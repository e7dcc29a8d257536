"""The transitions of a lane's life in a container. Pure: no Spark, no clock, no threads.

Everything that happens to a lane is an event. An event is either an order or a result. Orders come from the coordinator
and from the container. Results come from the lane's own thread. For each event, :func:`step` returns the next state and
the actions to perform.

The lane's thread performs the actions that follow from a result, one after another, until all are done or one fails.
The result of the last action performed is the next event, and so on until the attempt ends. An order can lead to only
one action: to begin an attempt. The supervisor performs this action.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

from anabranch.container.lane.actions import (
    AbandonPrestarted,
    Action,
    Announce,
    AwaitAcknowledgement,
    BeginAttempt,
    DrainByBatches,
    DrainHeld,
    EndLane,
    FailLane,
    FinishPending,
    StartQuery,
    StopQuery,
    TakeFolder,
    TendQuery,
    WatchQuery,
)
from anabranch.container.lane.events import (
    Acknowledge,
    AcknowledgementAwaited,
    AttemptFailed,
    AttemptStarted,
    Close,
    Closing,
    Drain,
    DrainEnded,
    Event,
    FailureJudged,
    FailureReported,
    FolderTaken,
    LaneEnded,
    Leave,
    PendingFinished,
    QueryStarted,
    QueryStopped,
    QueryWatched,
    Result,
    Run,
    SourcesLookedUp,
)
from anabranch.container.restarts import Step
from anabranch.model.lane import Lane
from anabranch.protocol.container import BatchDecision
from anabranch.protocol.drain import DrainOrder

__all__ = ["Leaving", "LifeState", "Phase", "Stepped", "initial", "step"]


class Phase(enum.Enum):
    NEW = "its thread hasn't started"
    TAKING = "it takes its folder"
    REPORTED = "it waits until the coordinator knows its folder"
    STARTING = "its query is started"
    RUNNING = "its query runs"
    HOLDING = "it drains with the running query, which is held"
    STOPPING = "its query ends at a batch boundary"
    DRAINING = "it drains with a query for each batch"
    FINISHING = "it finishes the batch that an earlier query started, or takes it back"
    ENDING = "it notes where it ends"
    ENDED = "it has ended at a batch boundary"
    FAILING = "the cause of its failure is looked up"
    FAILED = "it has failed"
    RETRYING = "it failed, and is tried again in this process"
    WAITING = "something outside the job failed, and the lane is tried again as long as it may wait"
    NEEDS_PROCESS = "it failed, and only a new process can help"
    RELEASED = "it failed, and another container can try it again"


class Leaving(enum.IntEnum):
    """Whether, and when, the lane must end here so that another process can continue it."""

    NO = 0
    AT_BATCH_END = 1
    AT_ONCE = 2


_ONCE_A_QUERY_RUNS = frozenset({Phase.RUNNING, Phase.HOLDING, Phase.STOPPING})
_TO_BE_TRIED_AGAIN = frozenset({Phase.RETRYING, Phase.WAITING, Phase.NEEDS_PROCESS})
_MAY_DRAIN = _ONCE_A_QUERY_RUNS | {Phase.STARTING, Phase.DRAINING}


@dataclass(frozen=True)
class LifeState:
    """The state of a lane's life, and the orders that it has received.

    Attributes:
        phase: what the lane is doing.
        folder_epoch: the epoch of the lane's folder; 0 as long as the lane has none.
        attempt: the number of the current attempt, from 1 on. After a wait for the lane's surroundings, the next
            attempt has the same number.
        decision: what the coordinator has decided about the batch that the lane was running when it was told to close.
        acknowledged: whether the coordinator knows the lane's folder.
        upstream_ended: whether all lanes that write the lane's inputs have ended.
        drain: how the lane must drain; None if the lane needn't drain.
        reads_sources: whether the lane reads streams that the job doesn't write itself. The attribute is False
            until this information has been looked up. The look-up takes place only if the lane must drain.
        caught_up: whether the lane's query is being stopped because the lane has nothing left to do.
        drained: whether the lane has drained.
        unwanted: whether the coordinator doesn't want the lane here at the moment. If so, the lane gets no other
            attempt here.
        container_ends: whether the container is ending. If so, any further attempt of the lane is made in another
            container.
    """

    phase: Phase = Phase.NEW
    folder_epoch: int = 0
    attempt: int = 1
    closing: Closing = Closing.NO
    decision: BatchDecision | None = None
    leaving: Leaving = Leaving.NO
    acknowledged: bool = False
    upstream_ended: bool = False
    drain: DrainOrder | None = None
    reads_sources: bool = False
    caught_up: bool = False
    drained: bool = False
    unwanted: bool = False
    container_ends: bool = False

    @property
    def stops(self) -> bool:
        """Whether the lane's query must end: at the next batch boundary, or by breaking off a batch."""
        return bool(self.closing or self.leaving)

    @property
    def drains(self) -> bool:
        """Whether the lane must drain and may do so now. A lane that reads streams that the job doesn't write itself
        may drain at any time. Any other lane may drain only once all lanes that write its inputs have ended.
        """
        return self.drain is not None and (self.reads_sources or self.upstream_ended)

    @property
    def needs_sources(self) -> bool:
        """Whether ``reads_sources`` must be looked up now."""
        decides = self.phase in _MAY_DRAIN or (self.phase is Phase.REPORTED and not self.closing)
        return decides and self.acknowledged and self.drain is not None and not self.reads_sources

    @property
    def has_query(self) -> bool:
        """Whether the lane has a running query that plans one batch after another."""
        return self.phase in _ONCE_A_QUERY_RUNS

    @property
    def waits(self) -> bool:
        """Whether the lane waits until the coordinator knows its folder."""
        return self.phase is Phase.REPORTED and not (self.acknowledged or self.leaving)

    @property
    def ended(self) -> bool:
        """Whether the attempt has ended, except for the announcement of its last report."""
        return self.phase in (Phase.ENDED, Phase.FAILED, Phase.RELEASED) or self.phase in _TO_BE_TRIED_AGAIN


Stepped = tuple[LifeState, tuple[Action, ...]]


class ImpossibleEventError(AssertionError):
    """A result that can't occur in the current state, because none of the lane's actions leads to it."""


def initial(lane: Lane) -> LifeState:
    """The state of a lane that hasn't been started here. If the owner of the lane's folder was lost, the lane gets
    a copy of this folder. Such a lane counts as a lane without a folder.
    """
    return LifeState(folder_epoch=0 if lane.abandoned else lane.folder_epoch)


def step(state: LifeState, event: Event) -> Stepped:
    """The next state, and the actions to perform. Raises ImpossibleEventError for a result that can't occur now."""
    match event:
        case Run():
            return _wanted(state, event)
        case FailureJudged():
            return _judged(state, event), ()
        case Close() | Leave() | Drain() | Acknowledge():
            return _ordered(state, event), ()
        case SourcesLookedUp(reads_sources):
            return replace(state, reads_sources=reads_sources), ()
        case AttemptFailed():
            return _failed(state, event)
        case _:
            return _went_on(state, event)


def _ordered(state: LifeState, order: Close | Leave | Drain | Acknowledge) -> LifeState:
    match order:
        case Close(now, decision):
            closing = max(state.closing, Closing.NOW if now else Closing.YES)
            return replace(state, closing=closing, decision=decision)
        case Leave(unwanted, at_once):
            leaving = max(state.leaving, Leaving.AT_ONCE if at_once else Leaving.AT_BATCH_END)
            return _left(state, leaving, unwanted=unwanted)
        case Drain(drain):
            return replace(state, drain=drain)
        case Acknowledge(upstream_ended):
            return replace(state, acknowledged=True, upstream_ended=state.upstream_ended or upstream_ended)


def _left(state: LifeState, leaving: Leaving, *, unwanted: bool) -> LifeState:
    state = replace(
        state,
        leaving=leaving,
        unwanted=state.unwanted or unwanted,
        container_ends=state.container_ends or not unwanted,
    )
    if state.phase not in _TO_BE_TRIED_AGAIN:
        return state
    fails = state.unwanted and state.phase is not Phase.WAITING
    return replace(state, phase=Phase.FAILED if fails else Phase.RELEASED)


def _wanted(state: LifeState, want: Run) -> Stepped:
    """The step for a Run: the coordinator wants the lane here. After a failure, a lane with a folder gets its next
    attempt only when ``want`` names this folder."""
    if state.phase in (Phase.FAILED, Phase.NEEDS_PROCESS, Phase.RELEASED):
        return state, ()
    if state.phase in (Phase.RETRYING, Phase.WAITING):
        known = state.folder_epoch in (0, want.folder_epoch)
        if not (known and want.rested and want.thread_ended):
            return state, ()
        return _begun_again(state, want, state.attempt + (state.phase is Phase.RETRYING))
    if state.phase is Phase.ENDED and want.drain is not None and not state.drained and want.thread_ended:
        return _begun_again(state, want, state.attempt)  # the lane had caught up, but now it must drain
    state = replace(
        state,
        closing=max(state.closing, want.closing),
        drain=want.drain,
        decision=want.decision,
        unwanted=False,
    )
    if 0 < want.folder_epoch == state.folder_epoch:
        state = _ordered(state, Acknowledge(want.upstream_ended))
    return state, ()


def _begun_again(state: LifeState, want: Run, attempt: int) -> Stepped:
    begun = LifeState(
        folder_epoch=0 if want.owner_lost else want.folder_epoch,
        attempt=attempt,
        closing=want.closing,
        decision=want.decision,
        drain=want.drain,
        container_ends=state.container_ends,
    )
    return begun, (BeginAttempt(),)


def _judged(state: LifeState, judged: FailureJudged) -> LifeState:
    """The lane's state once its failure has been judged. A lane that has waited too long fails for good."""
    if judged.following is Step.FAILED:
        return replace(state, phase=Phase.FAILED) if state.phase is Phase.WAITING else state
    if state.phase is not Phase.FAILED or (state.unwanted and not judged.waits):
        return state
    if state.unwanted or state.container_ends:
        return replace(state, phase=Phase.RELEASED)
    if judged.waits:
        return replace(state, phase=Phase.WAITING)
    return replace(state, phase=Phase.RETRYING if judged.following is Step.ATTEMPT else Phase.NEEDS_PROCESS)


def _failed(state: LifeState, failed: AttemptFailed) -> Stepped:
    if state.ended and state.phase is not Phase.ENDED:  # after ENDED, the announcement can still fail
        raise ImpossibleEventError(f"{failed} when {state.phase.value}")
    if failed.smaller and state.has_query:
        return _next_query(state)
    return replace(state, phase=Phase.FAILING), (FailLane(failed.error),)


def _went_on(state: LifeState, result: Result) -> Stepped:
    match state.phase, result:
        case Phase.NEW, AttemptStarted():
            return replace(state, phase=Phase.TAKING), (TakeFolder(),)
        case Phase.TAKING, FolderTaken(epoch):
            return replace(state, phase=Phase.REPORTED, folder_epoch=epoch), (AwaitAcknowledgement(),)
        case Phase.REPORTED, AcknowledgementAwaited():
            return _awaited(state)
        case Phase.STARTING, QueryStarted():
            return replace(state, phase=Phase.RUNNING), (WatchQuery(),)
        case Phase.RUNNING, QueryWatched():
            return _watched(state, result)
        case Phase.HOLDING, DrainEnded(drained):
            return (
                _ends(replace(state, drained=True))
                if drained
                else (replace(state, phase=Phase.RUNNING), (WatchQuery(),))
            )
        case Phase.STOPPING, QueryStopped():
            # Without a reason to end, the query was stopped for a drain, which may have been cancelled meanwhile.
            ends = state.stops or (state.caught_up and not state.drains)
            return _ends(state) if ends else _next_query(state)
        case Phase.DRAINING, DrainEnded(drained):
            state = replace(state, drained=drained)
            return _ends(state) if drained or state.stops else _next_query(state)
        case Phase.FINISHING, PendingFinished():
            return _ends(state)
        case Phase.ENDING, LaneEnded():
            return replace(state, phase=Phase.ENDED), (Announce(),)
        case Phase.FAILING, FailureReported():
            return replace(state, phase=Phase.FAILED), (Announce(),)
        case _:
            raise ImpossibleEventError(f"{result} when {state.phase.value}")


def _awaited(state: LifeState) -> Stepped:
    """The step after the wait for the coordinator. A query starts only in a folder that the coordinator knows."""
    if state.waits:
        raise ImpossibleEventError(f"awaited when {state.phase.value}")
    if not state.acknowledged:
        return replace(state, phase=Phase.ENDING), (AbandonPrestarted(), EndLane(has_begun=False))
    if state.closing:
        return replace(state, phase=Phase.FINISHING), (AbandonPrestarted(), FinishPending())
    return _next_query(state)


def _next_query(state: LifeState) -> Stepped:
    if state.drains:
        return replace(state, phase=Phase.DRAINING), (AbandonPrestarted(), DrainByBatches())
    return replace(state, phase=Phase.STARTING), (StartQuery(),)


def _watched(state: LifeState, watched: QueryWatched) -> Stepped:
    if state.stops or watched.caught_up or (state.drains and not watched.holdable):
        return replace(state, phase=Phase.STOPPING, caught_up=watched.caught_up), (StopQuery(),)
    if state.drains:
        return replace(state, phase=Phase.HOLDING), (DrainHeld(),)
    return state, (TendQuery(), WatchQuery())


def _ends(state: LifeState) -> Stepped:
    return replace(state, phase=Phase.ENDING), (EndLane(),)
