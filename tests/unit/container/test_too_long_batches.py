"""Whether a batch is foretold to take longer than its transactions may."""

from __future__ import annotations

import math

import pytest

from anabranch.container import too_long_batches
from anabranch.protocol.lane_report import BatchProgress


@pytest.mark.parametrize(
    ("phase", "seconds", "left", "allowed", "expected"),
    [
        ("functions", 20.0, 101.0, 120.0, True),
        ("functions", 20.0, 99.0, 120.0, False),
        ("reading", 20.0, 101.0, 120.0, True),
        ("state", 20.0, 101.0, 120.0, True),
        ("functions", 10.0, 500.0, 120.0, False),  # it has hardly begun
        ("functions", 20.0, None, 120.0, False),
        ("publishing", 20.0, 500.0, 120.0, False),
        ("committing", 20.0, 500.0, 120.0, False),
        ("functions", 20.0, 1e9, math.inf, False),
    ],
)
def test_a_batch_outlasts_what_it_may_take_by_its_own_speed(
    phase: str, seconds: float, left: float | None, allowed: float, expected: bool
) -> None:
    progress = BatchProgress(number=3, planned=1000, done=10, phase=phase, seconds=seconds, left=left)
    assert too_long_batches.outlasts(progress, allowed) is expected


def test_a_batch_of_which_nothing_is_known_does_not() -> None:
    assert not too_long_batches.outlasts(None, 1.0)
