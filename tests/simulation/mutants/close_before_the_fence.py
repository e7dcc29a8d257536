"""A lane that must close and has lost its process is given to another one before it is fenced."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from anabranch.coordinator.jobs.running_job import RunningJob
from anabranch.model.lane import LaneState

BREAKS = frozenset({"one-owner", "exactly-once", "predecessors-first", "stopped-is-stopped"})


def apply(patch: pytest.MonkeyPatch) -> None:
    expel = RunningJob.expel

    def given(self: RunningJob, process: Any, lanes: Any) -> None:
        left = [
            msgspec.structs.replace(lane, unfenced=False) if lane.state is LaneState.CLOSING else lane for lane in lanes
        ]
        expel(self, process, left)

    patch.setattr(RunningJob, "expel", given)
