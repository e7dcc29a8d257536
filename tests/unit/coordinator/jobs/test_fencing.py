"""The settings with which lanes are fenced: those of the version that they belong to."""

from __future__ import annotations

from typing import Any

from anabranch.coordinator.store import Store
from anabranch.protocol.deployment import DeployRequest
from tests.unit.coordinator.helpers import Clock
from tests.unit.coordinator.versions import Process, coordinator_on, job, start, with_settings

FORMER: dict[str, Any] = {"job": {}, "outputs": {"below": {"to": "parquet", "path": "/data/below"}}}
NEXT: dict[str, Any] = {"job": {"max_wait": "1 hour"}}


def test_lanes_are_fenced_with_the_settings_of_their_own_version(store: Store, clock: Clock) -> None:
    coordinator = coordinator_on(store, clock)
    coordinator.start(with_settings(start(job(more=True), containers=2), FORMER, {"below": "parquet"}))
    first, second = Process(coordinator, 1), Process(coordinator, 1)
    for process in (first, second, first):
        process.work()
    coordinator.deploy("j", DeployRequest(start=with_settings(start(job(), 2, code="b" * 64), NEXT)))
    first.work()
    first.leave()
    Process(coordinator, 2).work()
    clock.at += 100
    coordinator.tick()
    fenced = {(fence.lane.seat, fence.lane.deployment): fence.settings for fence in coordinator.fences()}
    assert fenced == {(first.seat, 2): NEXT, (second.seat, 1): FORMER}
