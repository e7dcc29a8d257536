"""How many queries start at once."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from anabranch.container.query_starts import Starts


class Query:
    """One that says these things of itself, one after the other; then it has ended."""

    def __init__(self, *said: str) -> None:
        self._said = iter(said)
        self._now = next(self._said, None)

    @property
    def isActive(self) -> bool:
        return self._now is not None

    @property
    def status(self) -> dict[str, object]:
        return {"message": self._now}

    def goes_on(self, _seconds: float) -> None:
        self._now = next(self._said, None)

    @property
    def rest(self) -> list[str]:
        return [] if self._now is None else [self._now, *self._said]


def waited(query: Query, clock: Iterator[float] | None = None) -> list[str]:
    """What the query has still to say when its place is given up."""
    starts = Starts(1, lambda: 0.0 if clock is None else next(clock), query.goes_on)
    with starts.place() as until_started:
        until_started(query)
    return query.rest


def test_it_waits_for_the_sources() -> None:
    sources = ("Initializing StreamExecution", "Initializing sources")
    assert waited(Query(*sources, "Getting offsets from x", "Processing")) == ["Getting offsets from x", "Processing"]
    assert waited(Query(*sources)) == []  # it has failed
    assert waited(Query("Waiting for data to arrive")) == ["Waiting for data to arrive"]


def test_it_waits_not_for_ever() -> None:
    assert len(waited(Query(*["Initializing sources"] * 9), iter((0.0, 1.0, 11.0, 13.0)))) == 7


def test_so_many_at_once_and_no_more() -> None:
    starts, most, now, seen = Starts(2), threading.Barrier(2), [0], []
    lock = threading.Lock()

    def start() -> None:
        with starts.place():
            with lock:
                now[0] += 1
                seen.append(now[0])
            most.wait(10)  # two are here at once, or this breaks
            with lock:
                now[0] -= 1

    threads = [threading.Thread(target=start) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(seen) == 6
    assert max(seen) == 2
