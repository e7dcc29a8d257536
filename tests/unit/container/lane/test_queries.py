"""What becomes of queries that can't be started, and what a start holds up."""

from __future__ import annotations

import errno
import os
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from anabranch.container.lane.drain import LaneDrain
from anabranch.container.lane.handover import PrestartedQuery
from anabranch.container.lane.queries import Queries
from anabranch.errors import StateError
from anabranch.protocol.drain import DrainOrder

WITHIN = 5.0


class Ahead:
    """A query that was started ahead, whose first batch waits until it is decided whether it is needed."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.begins: dict[str, Any] = {}
        self.lane = SimpleNamespace(id="0-b")
        self.job = SimpleNamespace(settings=SimpleNamespace(job=SimpleNamespace(idle_seconds=1.0)))
        self._thread = threading.Thread(target=self._run, daemon=True)

    def begin_ahead(self, each: Any) -> Ahead:
        self._each = each
        self._thread.start()
        return self

    def planned_write(self, batch: object, number: int) -> None:
        pass

    def _run(self) -> None:
        try:
            self._each(object(), 0)
        except Exception as error:
            self.error = error

    def stop(self) -> None:
        self._thread.join(WITHIN)
        assert not self._thread.is_alive()


class Folder:
    """One that takes everything."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None


def test_a_query_that_was_started_ahead_is_not_left_waiting_if_the_lane_cannot_go_on() -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    query = Ahead()
    attempt: Any = SimpleNamespace(
        folder=None,
        folder_in_use=None,
        started=None,
        lane=query.lane,
        build_query=lambda: query,
        use=lambda its: its,
        reporter=SimpleNamespace(update=lambda **_: None),
    )
    monitor: Any = SimpleNamespace(carry_idle=full)
    other: Any = SimpleNamespace()
    queries = Queries(attempt, monitor, other, other, lambda: True)
    its: Any = query
    folder: Any = Folder()
    queries.prestarted = PrestartedQuery(other, its, folder, {})
    with pytest.raises(OSError, match="No space left"):
        queries.start()
    queries.abandon_prestarted()
    assert isinstance(query.error, StateError)


class Query:
    """One whose outputs are taken over once ``answer`` is set, by brokers that don't answer before."""

    writing = threading.Event()
    job = SimpleNamespace(settings=SimpleNamespace(job=SimpleNamespace(idle_seconds=1.0)))
    plan = SimpleNamespace(real_time=False, sequential=False)
    outputs = SimpleNamespace(repeats="", slots=0)
    sources = SimpleNamespace(has_event_time=True)
    pacer = SimpleNamespace(limit=1)

    def __init__(self, answer: threading.Event) -> None:
        self.waits = threading.Event()
        self._answer = answer

    def take(self, last: object) -> None:
        self.waits.set()
        assert self._answer.wait(WITHIN)

    def start(self, last: object = None, pending: bool = False, taken: bool = False) -> Any:
        if not taken:
            self.take(last)
        return SimpleNamespace(isActive=False, runId="1")


def lane_of(name: str, query: Query) -> Queries:
    folder = SimpleNamespace(uri=name, pending=False, planned=lambda: -1, committed=lambda: -1)
    attempt: Any = SimpleNamespace(
        folder=folder,
        started=None,
        lane=SimpleNamespace(id=name, first_batch=0),
        build_query=lambda: query,
        use=lambda its: its,
        positions=dict,
        reporter=SimpleNamespace(update=lambda **_: None),
    )
    monitor: Any = SimpleNamespace(carry_idle=lambda *_: None)
    upkeep: Any = SimpleNamespace(sample=lambda _: None)
    shrinker: Any = SimpleNamespace(shrink=lambda _: None)
    return Queries(attempt, monitor, upkeep, shrinker, lambda: False)


def test_lanes_that_wait_for_their_outputs_hold_up_no_other() -> None:
    never, at_once = threading.Event(), threading.Event()
    at_once.set()
    waiting = [Query(never) for _ in range((os.cpu_count() or 2) + 2)]
    threads = [threading.Thread(target=lane_of(f"w{n}", query).start) for n, query in enumerate(waiting)]
    other = threading.Thread(target=lane_of("o", Query(at_once)).start)
    for each in threads:
        each.start()
    try:
        assert all(query.waits.wait(WITHIN) for query in waiting)
        other.start()
        other.join(WITHIN)
        assert not other.is_alive()
    finally:
        never.set()
        for each in threads:
            each.join()


@pytest.mark.parametrize("started", [None, object()])
def test_a_lane_that_drains_by_batches_takes_its_outputs_before_it_says_that_it_has_nothing_to_do(
    started: object,
) -> None:
    """The store takes this report as saying that the outputs have markers of the lane. An earlier query may have taken
    the outputs, but planning its batch again closes them. While the lane waits, it isn't expected to make progress."""
    steps: list[str] = []

    def update(halted: str, **_: object) -> None:
        steps.extend(["halted"] if halted else [])

    query = SimpleNamespace(lane=SimpleNamespace(id="0-a"), take=lambda _: steps.append("took"))
    attempt: Any = SimpleNamespace(
        folder=SimpleNamespace(pending=False, planned=lambda: -1, committed=lambda: -1),
        folder_in_use=None,
        started=started,
        current=query,
        build_query=lambda: query,
        use=lambda its: its,
        positions=dict,
        clock=None,
        starting={},
        lane_folders=SimpleNamespace(systems=None),
        inputs=SimpleNamespace(ssps=()),
        life=SimpleNamespace(
            drain=lambda: DrainOrder(uuid="1"),
            upstream_ended=lambda: False,
            stops=lambda: "halted" in steps,
            pause=lambda _: None,
        ),
        reporter=SimpleNamespace(
            current=SimpleNamespace(drain=SimpleNamespace(halted=""), progress=SimpleNamespace(positions={})),
            update=update,
        ),
    )
    other: Any = SimpleNamespace()
    shrinker: Any = SimpleNamespace(shrink=lambda _: steps.append("shrunk"))
    queries = Queries(attempt, other, other, shrinker, lambda: False)
    upkeep: Any = SimpleNamespace(stand_by=lambda: steps.append("stood by"))
    drain = LaneDrain(attempt, other, upkeep, queries, other, lambda _: None)
    assert not drain.by_batches()
    assert steps == ["shrunk", "took", "halted", "stood by"]
