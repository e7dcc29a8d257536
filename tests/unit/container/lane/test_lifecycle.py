"""A lane's life in a container: the way from one state to the next, and what holds on all ways."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.container.lane import lifecycle
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
    Run,
    SourcesLookedUp,
)
from anabranch.container.lane.lifecycle import ImpossibleEventError, LifeState, Phase, step
from anabranch.container.restarts import Step
from anabranch.protocol.drain import DrainOrder
from tests.unit.coordinator.helpers import lane

ERROR = RuntimeError("boom")
ORDER = DrainOrder(uuid="1")
LEAVE = Leave(unwanted=False)
UNWANTED = Leave(unwanted=True)
SOURCES = SourcesLookedUp(reads_sources=True)
RUNS = QueryWatched(caught_up=False, holdable=True)
TAKEN = (AttemptStarted(), FolderTaken(3))
WAITED = (*TAKEN, Acknowledge(upstream_ended=False), AcknowledgementAwaited())
RUNNING = (*WAITED, QueryStarted())
STOPPING_TO_DRAIN = (*RUNNING, Drain(ORDER), SOURCES, QueryWatched(caught_up=False, holdable=False))
FAILED = (*RUNNING, AttemptFailed(ERROR), FailureReported())
RETRYING = (*FAILED, FailureJudged(Step.ATTEMPT))


def after(*events: Event, state: LifeState | None = None) -> tuple[LifeState, tuple[Action, ...]]:
    """The state after all of the events, and the actions after the last one."""
    state, actions = state or LifeState(), ()
    for event in events:
        state, actions = step(state, event)
    return state, actions


@pytest.mark.parametrize(
    ("events", "phase", "actions"),
    [
        ([AttemptStarted()], Phase.TAKING, [TakeFolder()]),
        (TAKEN, Phase.REPORTED, [AwaitAcknowledgement()]),
        ([*TAKEN, LEAVE, AcknowledgementAwaited()], Phase.ENDING, [AbandonPrestarted(), EndLane(has_begun=False)]),
        (
            [*TAKEN, Close(), LEAVE, AcknowledgementAwaited()],
            Phase.ENDING,
            [AbandonPrestarted(), EndLane(has_begun=False)],
        ),
        (WAITED, Phase.STARTING, [StartQuery()]),
        ([Close(), *WAITED], Phase.FINISHING, [AbandonPrestarted(), FinishPending()]),
        ([Drain(ORDER), *TAKEN, Acknowledge(False), SOURCES, AcknowledgementAwaited()], Phase.DRAINING, None),
        ([Drain(ORDER), *WAITED], Phase.STARTING, [StartQuery()]),  # what it reads is still written
        ([Drain(ORDER), *TAKEN, Acknowledge(True), AcknowledgementAwaited()], Phase.DRAINING, None),
        (RUNNING, Phase.RUNNING, [WatchQuery()]),
        ([*RUNNING, RUNS], Phase.RUNNING, [TendQuery(), WatchQuery()]),
        ([*RUNNING, QueryWatched(caught_up=True, holdable=True)], Phase.STOPPING, [StopQuery()]),
        ([*RUNNING, LEAVE, RUNS], Phase.STOPPING, [StopQuery()]),
        ([*RUNNING, Close(), RUNS], Phase.STOPPING, [StopQuery()]),
        ([*RUNNING, Drain(ORDER), SOURCES, RUNS], Phase.HOLDING, [DrainHeld()]),
        ([*RUNNING, Drain(ORDER), SOURCES, QueryWatched(False, False)], Phase.STOPPING, [StopQuery()]),
        ([*RUNNING, Drain(ORDER), SOURCES, Close(), RUNS], Phase.STOPPING, [StopQuery()]),
        ([*RUNNING, Drain(ORDER), SOURCES, RUNS, DrainEnded(True)], Phase.ENDING, [EndLane()]),
        ([*RUNNING, Drain(ORDER), SOURCES, RUNS, DrainEnded(False)], Phase.RUNNING, [WatchQuery()]),
        ([*RUNNING, LEAVE, RUNS, QueryStopped()], Phase.ENDING, [EndLane()]),
        ([*RUNNING, QueryWatched(True, True), QueryStopped()], Phase.ENDING, [EndLane()]),
        ([*RUNNING, Drain(ORDER), SOURCES, QueryWatched(False, False), QueryStopped()], Phase.DRAINING, None),
        ([*STOPPING_TO_DRAIN, Drain(None), QueryStopped()], Phase.STARTING, [StartQuery()]),  # the drain was cancelled
        ([*STOPPING_TO_DRAIN, Drain(None), LEAVE, QueryStopped()], Phase.ENDING, [EndLane()]),
        ([*RUNNING, QueryWatched(True, True), Drain(ORDER), SOURCES, QueryStopped()], Phase.DRAINING, None),
        ([*RUNNING, QueryWatched(True, True), Drain(ORDER), Drain(None), QueryStopped()], Phase.ENDING, [EndLane()]),
        ([*RUNNING, AttemptFailed(ERROR, smaller=True)], Phase.STARTING, [StartQuery()]),
        ([*WAITED, AttemptFailed(ERROR, smaller=True)], Phase.FAILING, [FailLane(ERROR)]),  # no query has run
        ([*RUNNING, AttemptFailed(ERROR)], Phase.FAILING, [FailLane(ERROR)]),
        (FAILED, Phase.FAILED, [Announce()]),
        ([Close(), *WAITED, PendingFinished()], Phase.ENDING, [EndLane()]),
        ([Close(), *WAITED, PendingFinished(), LaneEnded()], Phase.ENDED, [Announce()]),
    ],
)
def test_what_follows(events: list[Event], phase: Phase, actions: list[Action] | None) -> None:
    expected = [AbandonPrestarted(), DrainByBatches()] if actions is None else actions
    state, found = after(*events)
    assert (state.phase, list(found)) == (phase, expected)


@pytest.mark.parametrize(
    ("events", "phase"),
    [
        ([FailureJudged(Step.ATTEMPT)], Phase.RETRYING),
        ([FailureJudged(Step.PROCESS)], Phase.NEEDS_PROCESS),
        ([FailureJudged(Step.FAILED)], Phase.FAILED),
        ([LEAVE, FailureJudged(Step.ATTEMPT)], Phase.RELEASED),
        ([LEAVE, FailureJudged(Step.PROCESS)], Phase.RELEASED),
        ([LEAVE, FailureJudged(Step.FAILED)], Phase.FAILED),
        ([UNWANTED, FailureJudged(Step.ATTEMPT)], Phase.FAILED),
        ([FailureJudged(Step.ATTEMPT), LEAVE], Phase.RELEASED),
        ([FailureJudged(Step.ATTEMPT), UNWANTED], Phase.FAILED),
        ([FailureJudged(Step.PROCESS), LEAVE], Phase.RELEASED),
        ([FailureJudged(Step.PROCESS), UNWANTED], Phase.FAILED),
        ([FailureJudged(Step.ATTEMPT), LEAVE, UNWANTED], Phase.RELEASED),
        ([FailureJudged(Step.ATTEMPT, waits=True)], Phase.WAITING),
        ([FailureJudged(Step.ATTEMPT, waits=True), FailureJudged(Step.FAILED)], Phase.FAILED),  # it has waited too long
        ([FailureJudged(Step.ATTEMPT, waits=True), UNWANTED], Phase.RELEASED),
        ([FailureJudged(Step.ATTEMPT, waits=True), LEAVE], Phase.RELEASED),
        ([UNWANTED, FailureJudged(Step.ATTEMPT, waits=True)], Phase.RELEASED),
        ([LEAVE, FailureJudged(Step.ATTEMPT, waits=True)], Phase.RELEASED),
        ([FailureJudged(Step.PROCESS), Run(3)], Phase.NEEDS_PROCESS),
        ([FailureJudged(Step.ATTEMPT), LEAVE, Run(3)], Phase.RELEASED),
        ([Run(3)], Phase.FAILED),
    ],
)
def test_what_becomes_of_a_lane_that_failed(events: list[Event], phase: Phase) -> None:
    state, actions = after(*FAILED, *events)
    assert (state.phase, actions) == (phase, ())


@pytest.mark.parametrize(
    ("want", "begins"),
    [
        (Run(3), True),
        (Run(3, rested=False), False),
        (Run(3, thread_ended=False), False),
        (Run(0), False),  # the coordinator hasn't heard of the folder
        (Run(2), False),
    ],
)
def test_when_a_lane_is_tried_again(want: Run, begins: bool) -> None:
    state, actions = after(*RETRYING, want)
    assert (actions == (BeginAttempt(),)) == begins
    assert (state.phase, state.attempt) == ((Phase.NEW, 2) if begins else (Phase.RETRYING, 1))


def test_an_attempt_after_a_wait_for_the_surroundings_is_not_counted() -> None:
    state, actions = after(*FAILED, FailureJudged(Step.ATTEMPT, waits=True), Run(3))
    assert (actions, state.attempt) == ((BeginAttempt(),), 1)
    assert after(*FAILED, FailureJudged(Step.ATTEMPT, waits=True), Run(3, rested=False))[1] == ()


def test_an_attempt_begins_with_what_is_ordered_then_and_waits_until_its_folder_is_acknowledged() -> None:
    state, _ = after(
        Drain(ORDER), *RUNNING, SOURCES, AttemptFailed(ERROR), FailureReported(), FailureJudged(Step.ATTEMPT)
    )
    state, _ = step(state, Run(3, closing=Closing.NOW))
    assert state == LifeState(folder_epoch=3, attempt=2, closing=Closing.NOW)
    state, _ = after(*RETRYING, Run(3, owner_lost=True))
    assert state.folder_epoch == 0


def test_one_that_failed_before_it_had_a_folder_is_tried_again_in_whatever_folder_there_is() -> None:
    state, _ = after(AttemptStarted(), AttemptFailed(ERROR), FailureReported(), FailureJudged(Step.ATTEMPT), Run(7))
    assert (state.phase, state.folder_epoch) == (Phase.NEW, 7)


@pytest.mark.parametrize(("known", "acknowledged"), [(0, False), (2, False), (3, True)])
def test_only_the_folder_that_the_lane_has_is_acknowledged(known: int, acknowledged: bool) -> None:
    state, actions = after(*TAKEN, Run(known, upstream_ended=True))
    assert (state.acknowledged, state.upstream_ended, state.waits) == (acknowledged, acknowledged, not acknowledged)
    assert actions == ()


@pytest.mark.parametrize(("abandoned", "epoch"), [(False, 4), (True, 0)])
def test_the_folder_of_an_owner_that_was_lost_is_not_the_lane_s(abandoned: bool, epoch: int) -> None:
    taken = msgspec.structs.replace(lane("0-a", epoch=5), folder_epoch=4, abandoned=abandoned)
    assert lifecycle.initial(taken) == LifeState(folder_epoch=epoch)


def test_a_lane_that_had_caught_up_is_begun_again_to_drain() -> None:
    ended = (*RUNNING, QueryWatched(True, True), QueryStopped(), LaneEnded())
    assert after(*ended, Run(3))[1] == ()
    assert after(*ended, Run(3, drain=ORDER, thread_ended=False))[1] == ()
    state, actions = after(*ended, Run(3, drain=ORDER))
    assert (actions, state.attempt, state.drain) == ((BeginAttempt(),), 1, ORDER)
    drained = (*RUNNING, Drain(ORDER), SOURCES, RUNS, DrainEnded(True), LaneEnded())
    assert after(*drained, Run(3, drain=ORDER))[1] == ()


@pytest.mark.parametrize(
    "events",
    [
        # It had caught up, and nobody wanted it until it had to drain.
        (*RUNNING, QueryWatched(True, True), QueryStopped(), LaneEnded(), UNWANTED, Run(3, drain=ORDER), *RUNNING),
        (*RUNNING, UNWANTED, Run(3)),
    ],
)
def test_a_lane_that_is_wanted_again_is_tried_again(events: tuple[Event, ...]) -> None:
    failed = (AttemptFailed(ERROR), FailureReported(), FailureJudged(Step.ATTEMPT))
    assert after(*events, *failed)[0].phase is Phase.RETRYING
    state, actions = after(*events, *failed, Run(3))
    assert (actions, state.attempt) == ((BeginAttempt(),), 2)
    assert not state.stops


def test_a_result_that_no_action_gives_is_refused() -> None:
    for events in (
        (PendingFinished(),),
        (*RUNNING, QueryStarted()),
        (*TAKEN, AcknowledgementAwaited()),
        (*RETRYING, AttemptFailed(ERROR)),
    ):
        with pytest.raises(ImpossibleEventError):
            after(*events)


ORDERS = st.one_of(
    st.builds(Close, st.booleans()),
    st.builds(Leave, st.booleans(), st.booleans()),
    st.builds(Drain, st.sampled_from([None, ORDER])),
    st.builds(
        Run,
        st.sampled_from([0, 2, 3]),
        st.booleans(),
        st.booleans(),
        st.sampled_from(Closing),
        st.sampled_from([None, ORDER]),
        st.booleans(),
        st.booleans(),
    ),
    st.builds(FailureJudged, st.sampled_from(Step), st.booleans()),
)


@dataclass
class Performer:
    """Performs a lane's actions somehow, and looks at what may never be."""

    state: LifeState = field(default_factory=LifeState)
    due: list[Event] = field(default_factory=lambda: [AttemptStarted()])
    running: bool = False
    acknowledged: bool = False

    def order(self, order: Event) -> None:
        before = self.state
        self.state, actions = step(before, order)
        assert actions in ((), (BeginAttempt(),))
        if actions:
            assert isinstance(order, Run)
            assert before.ended, "two attempts would run at once"
            assert order.thread_ended, "two attempts would run at once"
            if before.phase is not Phase.ENDED:
                assert not before.unwanted
                assert not before.container_ends
            self.due, self.acknowledged = [AttemptStarted()], False
        if isinstance(order, Run) and 0 < order.folder_epoch == before.folder_epoch:
            self.acknowledged = self.acknowledged or not actions

    def perform(self, *, fails: bool, way: bool) -> None:
        """The lane's thread does what is due, one way or another."""
        if not self.due:
            return
        event = AttemptFailed(ERROR, smaller=way) if fails and self.state.phase is not Phase.FAILING else self.due[0]
        if event == AcknowledgementAwaited() and self.state.waits:
            return
        before = self.state
        self.state, actions = step(before, event)
        self.due = []
        if not actions:
            raise AssertionError(f"nothing follows {event} when {before.phase}")
        for action in actions:
            self.due = self._results(action, way=way)

    def _results(self, action: Action, *, way: bool) -> list[Event]:
        assert not self.state.ended or action == Announce()
        match action:
            case TakeFolder():
                return [FolderTaken(self.state.folder_epoch or 3)]
            case AwaitAcknowledgement():
                return [AcknowledgementAwaited()]
            case StartQuery():
                assert self.acknowledged, "a query begins in a folder that the coordinator doesn't know"
                assert not self.running
                self.running = True
                return [QueryStarted()]
            case DrainByBatches() | FinishPending():
                assert self.acknowledged
                assert not self.running
                return [PendingFinished() if action == FinishPending() else DrainEnded(way)]
            case WatchQuery():
                assert self.running
                return [QueryWatched(caught_up=False, holdable=way)]
            case DrainHeld():
                assert self.state.drains
                self.running = not way
                return [DrainEnded(way)]
            case StopQuery():
                assert self.running
                self.running = False
                return [QueryStopped()]
            case EndLane():
                assert not self.running
                assert self.state.stops or self.state.drained, "it ends without a reason"
                return [LaneEnded()]
            case FailLane():
                self.running = False
                return [FailureReported()]
            case _:
                return []


@given(st.lists(st.one_of(ORDERS, st.tuples(st.booleans(), st.booleans())), max_size=60), st.booleans())
def test_whatever_is_ordered_and_fails(moves: list[Event | tuple[bool, bool]], way: bool) -> None:
    performer = Performer()
    for move in moves:
        if isinstance(move, tuple):
            fails, taken = move
            if performer.due and fails and performer.state.has_query and taken:
                performer.running = False  # the query has failed
            performer.perform(fails=fails, way=taken)
        else:
            performer.order(move)
    performer.order(LEAVE)
    for _ in range(12):
        performer.perform(fails=False, way=way)
    assert performer.state.ended, f"it doesn't end when {performer.state.phase}"
    assert not performer.running


def test_what_is_ordered_is_not_forgotten() -> None:
    state = replace(LifeState(), closing=Closing.NOW)
    assert step(state, Close())[0].closing is Closing.NOW
    assert step(state, Run(0))[0].closing is Closing.NOW
    at_once = step(LifeState(), Leave(unwanted=True, at_once=True))[0]
    assert step(at_once, Leave(unwanted=False))[0].leaving == at_once.leaving
