"""What the coordinator does costs as much as the job is large, not the square of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.store import Store
from anabranch.protocol.commands import AssignRequest, ExpandRequest, ScaleRequest
from tests.support.costs import calls, too_dear
from tests.unit.coordinator.inputs import IN, Counts
from tests.unit.coordinator.workers import JOB, Worker, start


def costs(partitions: int, factor: int, containers: int) -> dict[str, int]:
    """The calls for what containers, operators and pages ask for, and for changes from beginning to end."""
    counts = Counts()
    counts.counts = {IN: partitions}
    coordinator = Coordinator(Store("sqlite://"), lease=600.0, grace=5.0, counting=counts)
    coordinator.start(start(factor, containers, partitions))
    workers = [Worker(coordinator, str(number), number + 1) for number in range(containers)]

    def turns() -> None:
        for _ in range(6):
            for worker in workers:
                worker.turn()
        assert coordinator.status(JOB).state == "running"

    def scaled(to: int) -> None:
        coordinator.scale(JOB, ScaleRequest(factor=to))
        turns()

    def grown() -> None:
        counts.counts = {IN: 2 * partitions}
        coordinator.expand(JOB, ExpandRequest())
        turns()

    turns()
    work: dict[str, Callable[[], object]] = {
        "status": lambda: coordinator.status(JOB),
        "live": lambda: coordinator.live(JOB),
        "partitions": lambda: coordinator.partitions(JOB),
        "placement": lambda: coordinator.placement(JOB),
        "assignment": lambda: coordinator.assignment(JOB),
        "sizing": lambda: coordinator.sizing(JOB),
        "findings": lambda: coordinator.findings(JOB),
        "history": lambda: coordinator.history(JOB),
        "a turn of the coordinator": coordinator.tick,
        "turns of containers": turns,
        "a plan": lambda: coordinator.scale(JOB, ScaleRequest(factor=2 * factor, dry=True, brief=True)),
        "an assignment's plan": lambda: coordinator.assign(JOB, AssignRequest(dry=True)),
        "a finer factor": lambda: scaled(2 * factor),
        "the factor before": lambda: scaled(factor),
        "more partitions": grown,
    }
    return {name: calls(each) for name, each in work.items()}


@pytest.mark.parametrize(
    ("small", "large"),
    [((100, 1, 1), (200, 1, 1)), ((2, 64, 1), (2, 128, 1)), ((32, 2, 8), (64, 2, 16))],
    ids=["partitions", "factor", "containers"],
)
def test_twice_the_size_is_not_four_times_the_work(small: tuple[int, int, int], large: tuple[int, int, int]) -> None:
    assert too_dear(costs(*small), costs(*large)) == {}
