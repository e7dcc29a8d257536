"""A lane that must close and has lost its process is given to another one before it is fenced."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from anabranch.coordinator.jobs import seats
from anabranch.model.lane import LaneState

BREAKS = frozenset({"one-owner", "exactly-once", "predecessors-first", "stopped-is-stopped"})


def apply(patch: pytest.MonkeyPatch) -> None:
    expel = seats.expel

    def given(job: Any, process: Any, lanes: Any) -> None:
        left = [
            msgspec.structs.replace(lane, unfenced=False) if lane.state is LaneState.CLOSING else lane for lane in lanes
        ]
        expel(job, process, left)

    patch.setattr(seats, "expel", given)
