"""A query that runs only a lane's pending batch is looked after, and stopped if everything must end at once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from anabranch.container.lane import breaking_off
from anabranch.container.lane.boundary import Boundary
from anabranch.container.lane.queries import Queries
from anabranch.errors import StalledError


class Started:
    """A query whose batch never ends by itself."""

    runId = "1"

    def __init__(self) -> None:
        self.stopped = False
        self.waits = 0

    def awaitTermination(self, timeout: float | None = None) -> bool:
        assert timeout is not None, "this would wait for ever"
        self.waits += 1
        assert self.waits < 10
        return self.stopped

    def stop(self) -> None:
        self.stopped = True

    def exception(self) -> None:
        pass


class Lane:
    """One with a pending batch."""

    def __init__(self) -> None:
        self.last = Started()
        self.cancelled: list[str] = []
        self.looked: list[object] = []
        self.hurries, self.stalls = False, False
        writing = SimpleNamespace(is_set=lambda: False)
        query = SimpleNamespace(
            plan=SimpleNamespace(real_time=True),
            gate=None,
            writing=writing,
            workers=SimpleNamespace(cancel=self.cancelled.append),
            outputs=SimpleNamespace(out_of_time=lambda _: False),
            start=lambda **_: self.last,
        )
        batch = SimpleNamespace(drains=False)
        folder = SimpleNamespace(uri="lane", pending=True, planned=lambda: 3, batch=lambda _: batch)
        self.attempt: Any = SimpleNamespace(
            folder=folder,
            current=query,
            started=None,
            build_query=lambda: query,
            use=lambda its: its,
            reporter=SimpleNamespace(update=lambda **_: None),
            life=SimpleNamespace(leaves_at_once=lambda: self.hurries, closes=lambda: False, closes_now=lambda: False),
        )
        monitor: Any = SimpleNamespace(take_progress=lambda _: None)
        upkeep: Any = SimpleNamespace(look=self._look)
        other: Any = SimpleNamespace()
        self.queries = Queries(self.attempt, monitor, upkeep, other, lambda: False)
        self.boundary = Boundary(self.attempt, monitor, upkeep, self.queries)

    def _look(self, query: object) -> None:
        self.looked.append(query)
        if self.stalls:
            raise StalledError("lane 0-a stands still", "")
        self.hurries = True

    def ends(self, how: str) -> None:
        before: Any = Started()
        if how == "finish":
            self.boundary.finish(seen=True)
        elif how == "drain":
            self.queries.run_planned()
        else:
            self.boundary.reach(before)


@pytest.mark.parametrize("how", ["reach", "finish", "drain"])
def test_a_pending_batch_is_left_if_everything_must_end_at_once(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(breaking_off, "told", lambda *_: "")
    lane = Lane()
    lane.ends(how)
    assert lane.attempt.started is lane.last
    assert lane.looked == [lane.last]
    assert lane.last.stopped
    assert lane.cancelled[-1] == "1"


@pytest.mark.parametrize("how", ["reach", "finish", "drain"])
def test_a_pending_batch_that_stands_still_is_told_of(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(breaking_off, "told", lambda *_: "")
    lane = Lane()
    lane.stalls = True
    with pytest.raises(StalledError):
        lane.ends(how)
    assert lane.attempt.started is lane.last  # so the failed attempt stops it
