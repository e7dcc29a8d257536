"""A coordinator dies before, or after, each durable step of a drain: who follows it goes on to the same end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.store import Store
from anabranch.model.lane import LaneState
from tests.unit.coordinator.drainer import Drainer, lanes_of, running, said, sources, start
from tests.unit.coordinator.helpers import Clock
from tests.unit.coordinator.workers import JOB

MOST = 40


class DiedError(BaseException):
    """The coordinator is gone."""


@dataclass
class Deaths:
    """Lets the coordinator die at the step of that number, with or without it. ``taken``: how many were begun."""

    at: int = -1
    after: bool = False
    armed: bool = False
    taken: int = field(default=0)

    @contextmanager
    def writing(self, write: Any, store: Store, *happened: Any) -> Iterator[Any]:
        number = self.taken if self.armed else -1
        self.taken += self.armed
        dies = self.armed and number == self.at
        if dies and not self.after:
            raise DiedError
        with write(store, *happened) as connection:
            yield connection
        if dies:
            raise DiedError


def drained(deaths: Deaths, monkeypatch: pytest.MonkeyPatch) -> tuple[int, set[int]]:
    """Let a job drain; gives how often a coordinator died, and where the lanes that read sources have ended."""
    write = Store.writing
    monkeypatch.setattr(Store, "writing", lambda store, *happened: deaths.writing(write, store, *happened))
    store = Store("sqlite://")
    coordinator = Coordinator(store, Clock(), grace=5.0, first=lambda: 0)
    worker = running(coordinator)
    worker.places = {sources(store)[0].id: 25}
    died, wish = 0, said()
    deaths.armed = True
    for _ in range(MOST):
        try:
            if coordinator.status(JOB).state == "running":
                coordinator.drain(JOB, wish)  # whoever asked and got no answer asks again
            worker.turn()
        except DiedError:
            died += 1
            coordinator = Coordinator(store, Clock(), grace=5.0, first=lambda: 1000)
            coordinator.adopt(JOB)
            worker.seat.coordinator = coordinator
        if store.deployment(JOB).state == "drained":  # type: ignore[union-attr]
            break
    deaths.armed = False
    monkeypatch.undo()
    _check(store, worker)
    return died, {position.offset for lane in lanes_of(store, 1) if not lane.upstream for position in lane.final}


def _check(store: Store, worker: Drainer) -> None:
    stored = store.deployment(JOB)
    assert stored is not None
    assert (stored.state, stored.drain) == ("drained", None)
    assert {lane.state for lane in lanes_of(store, 1)} == {LaneState.CLOSED}
    events = [event.what for event in store.events(JOB, 1000)]
    assert [events.count(what) for what in ("running → draining", "draining → drained")] == [1, 1]
    ended = [what for what in events if what.endswith(" ended")]
    assert len(ended) == len(set(ended)) == len(lanes_of(store, 1))
    after = Coordinator(store, Clock(), grace=5.0, first=lambda: 2000)
    assert after.start(start()) == 2
    second = Drainer(after, pid=7)
    second.turns()
    assert after.status(JOB).state == "running"


def test_it_dies_at_each_step(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Deaths()
    assert drained(whole, monkeypatch) == (0, {25})
    assert whole.taken > 6  # accepted, draining, two steps of its own, lanes of three stages, drained
    for number in range(whole.taken):
        for after in (False, True):
            died, left = drained(Deaths(number, after), monkeypatch)
            assert (died, left) == (1, {25}), (number, after)
