"""The state of a lane's life, shared by the threads that take part in it."""

from __future__ import annotations

import threading

from anabranch.container.lane import lifecycle
from anabranch.container.lane.actions import Action
from anabranch.container.lane.events import Closing, Event, Order
from anabranch.container.lane.lifecycle import Leaving, LifeState
from anabranch.model.lane import Lane
from anabranch.protocol.drain import DrainOrder

__all__ = ["Life"]


class Life:
    """The state of a lane's life. Thread-safe: the container's thread gives orders, and the lane's own thread carries
    them out."""

    def __init__(self, lane: Lane) -> None:
        self._state = lifecycle.initial(lane)
        self._changed = threading.Condition()
        self._has_news = False

    @property
    def state(self) -> LifeState:
        return self._state

    def tell(self, event: Event) -> tuple[Action, ...]:
        """Apply an event, and return the actions to perform."""
        with self._changed:
            before = self._state
            self._state, actions = lifecycle.step(before, event)
            if isinstance(event, Order) and self._state != before:
                self._has_news = True
            self._changed.notify_all()
        return actions

    def await_acknowledgement(self) -> None:
        """Wait until the coordinator knows the lane's folder, or until the lane has to leave."""
        with self._changed:
            self._changed.wait_for(lambda: not self._state.waits)

    def pause(self, seconds: float) -> None:
        """Wait for ``seconds``, or until an order changes the lane's state."""
        with self._changed:
            self._changed.wait_for(lambda: self._has_news, seconds)
            self._has_news = False

    # These are methods and not properties, to be passed on to code that calls them repeatedly.

    def stops(self) -> bool:
        return self._state.stops

    def closes(self) -> bool:
        return self._state.closing is not Closing.NO

    def closes_now(self) -> bool:
        return self._state.closing is Closing.NOW

    def decided(self, batch: int) -> bool | None:
        """The coordinator's decision whether to break off the batch; None if there is no decision."""
        decision = self._state.decision
        return decision.break_off if decision is not None and decision.batch == batch else None

    def leaves(self) -> bool:
        return self._state.leaving is not Leaving.NO

    def leaves_at_once(self) -> bool:
        return self._state.leaving is Leaving.AT_ONCE

    def upstream_ended(self) -> bool:
        return self._state.upstream_ended

    def drain(self) -> DrainOrder | None:
        return self._state.drain
