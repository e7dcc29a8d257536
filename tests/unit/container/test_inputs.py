"""Whether a lane can continue with inputs that have lost records which it had already read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from anabranch.container.inputs import Inputs
from anabranch.errors import StateError
from anabranch.event_time.progress import Progress
from anabranch.spark.query.planned_batch import Batch
from tests.unit.coordinator.helpers import lane


def inputs(end: int) -> Inputs:
    """Those of a lane that reads one partition, which begins at 0 and ends at ``end``."""
    system = SimpleNamespace(
        id=lambda _: "1", starts=lambda _: {0: 0}, high_watermarks=lambda _: {0: end}, readers=lambda: None
    )
    return Inputs(cast(Any, SimpleNamespace(named=lambda _: system)), lane("0-1"), {})


def folder(pending_end: int | None = None) -> Any:
    """That of a lane which has read up to 9, and perhaps has a pending batch that ends at ``pending_end``."""
    pending = Batch(3, {"flights": {0: 9}}, {"flights": {0: pending_end or 0}}, Progress())
    return SimpleNamespace(
        stream_ids=lambda: {"flights": "1"},
        note_streams=lambda _: None,
        positions=lambda: {"flights": {0: 9}},
        pending=pending_end is not None,
        planned=lambda: 3,
        batch=lambda _: pending,
        starting=dict,
    )


def test_an_input_that_ends_before_the_lane_s_position_is_told() -> None:
    with pytest.raises(StateError, match="embedded/flights/0 ends at offset 8, but lane 0-1 has already read up to 9"):
        inputs(8).check(folder())
    inputs(9).check(folder())


def test_an_input_that_has_grown_since_is_told_by_the_batch_that_was_planned_before() -> None:
    told = "embedded/flights/0 ended at offset 4 when batch 3 was planned, but lane 0-1 had already read up to 9"
    with pytest.raises(StateError, match=told):
        inputs(20).check(folder(pending_end=4))
    inputs(20).check(folder(pending_end=20))


def test_a_lane_that_starts_goes_by_the_input_alone() -> None:
    """A pending batch that can't be run was forgotten before."""
    inputs(20).take(folder(pending_end=4))
    with pytest.raises(StateError, match="ends at offset 8"):
        inputs(8).take(folder(pending_end=4))
