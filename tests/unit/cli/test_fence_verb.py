"""``anabranch fence``: how long it waits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from anabranch.cli import connect
from anabranch.cli.main import app
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.store import Store
from anabranch.errors import AnabranchError, OutOfTimeError, StoreUnavailableError, UnreachableError
from anabranch.protocol.status import JobStatus
from tests.unit.coordinator.conftest import clock, store
from tests.unit.coordinator.helpers import Clock
from tests.unit.coordinator.workers import JOB, Worker, start

__all__ = ["clock", "store"]  # fixtures


class Desk:
    """A coordinator that can reach the outputs of the lanes in some seats only, and doesn't answer at first."""

    def __init__(self, coordinator: Coordinator, reached: str) -> None:
        self._coordinator = coordinator
        self._reached = reached
        self._away: list[AnabranchError] = [
            UnreachableError("nothing listens", "wait"),
            StoreUnavailableError("busy", "wait"),
        ]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._coordinator, name)

    def status(self, job: str) -> JobStatus:
        if self._away:
            raise self._away.pop()
        for fence in self._coordinator.fences():
            if fence.lane.seat in self._reached:
                self._coordinator.fenced(fence.lane)
        return self._coordinator.status(job)


@pytest.mark.parametrize("reached", ["0", "1"])
def test_it_waits_for_the_lanes_of_its_container_only(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch, reached: str
) -> None:
    coordinator = Coordinator(store, clock=clock, lease=10, grace=2)
    coordinator.start(start(containers=2))
    workers = [Worker(coordinator, seat, pid) for pid, seat in enumerate("01", 1)]
    for _ in range(4):
        for worker in workers:
            worker.turn()
    first, second = (worker.seat.me.container or "" for worker in workers)
    coordinator.fence(second)
    assert {fence.lane.seat for fence in coordinator.fences()} == {"1"}

    @contextmanager
    def at(*_: object) -> Iterator[Desk]:
        yield Desk(coordinator, reached)

    monkeypatch.setattr(connect, "at", at)
    found = CliRunner().invoke(app, ["fence", first, "--timeout", "0.5"])
    if reached == "0":
        assert found.exit_code == 0
        assert f"container {first} has lost its seat; its lanes are fenced" in found.stderr
        return
    assert isinstance(found.exception, OutOfTimeError)
    mine = [lane.id for lane in (each.lane for each in coordinator.status(JOB).lanes) if lane.unfenced]
    assert found.exception.what == f"lane(s) {', '.join(mine)} of container {first} could not be fenced within 0.5 s"


def test_a_coordinator_that_is_gone_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    def status(_: str) -> JobStatus:
        raise UnreachableError("nothing listens", "wait")

    @contextmanager
    def at(*_: object) -> Iterator[Any]:
        yield SimpleNamespace(fence=lambda *_: None, status=status)

    monkeypatch.setattr(connect, "at", at)
    found = CliRunner().invoke(app, ["fence", f"{JOB}:0:1", "--timeout", "0"])
    assert isinstance(found.exception, UnreachableError)
    assert found.exception.what == "after 0 s, it isn't known whether this is done: nothing listens"
    assert found.exception.cure == f"wait; then see anabranch status {JOB}"
