"""What changes cost grows with the job, not with its square: plans are made while heartbeats wait, and lanes are opened
while the job is locked."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tests.support.costs import calls, too_dear
from tests.unit.planning.test_transition_histories import World


def costs(partitions: int, factor: int, containers: int) -> dict[str, int]:
    """The calls for each of several changes, one after the other. Before each, all buckets are somewhere else."""
    world = World([[] for _ in range(partitions)], factor=factor, containers=containers)
    dice, found = random.Random(1), {}
    changes: dict[str, Callable[[], object]] = {
        "another container": lambda: world.change(factor, containers + 1),
        "a container less": lambda: world.change(factor, containers),
        "factor 1": lambda: world.change(1, containers),
        "the factor again": lambda: world.change(factor, containers),
        "more partitions": lambda: world.grow(2, []),
        "another container for them": lambda: world.change(factor, containers + 1),
        "again more partitions": lambda: world.grow(2, []),
        "a container less for them": lambda: world.change(factor, containers),
        "a rewind that is cancelled": lambda: world.rewind(1, cancel=True),
        "a deployment": lambda: world.deploy(1),
    }
    for name, change in changes.items():
        for read in world.read.values():
            for partition in read:
                read[partition] += dice.randint(0, 5)
        found[name] = calls(change)
    return found


@pytest.mark.parametrize(
    ("small", "large"),
    [((64, 1, 1), (128, 1, 1)), ((2, 64, 4), (2, 128, 4)), ((64, 2, 16), (128, 2, 32))],
    ids=["partitions", "factor", "containers"],
)
def test_twice_the_size_is_not_four_times_the_work(small: tuple[int, int, int], large: tuple[int, int, int]) -> None:
    assert too_dear(costs(*small), costs(*large)) == {}
