"""A seat that was lost is given to another process, with its lanes, before they are fenced."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from anabranch.coordinator.jobs.running_job import RunningJob

BREAKS = frozenset({"one-owner", "exactly-once", "one-seat"})


def apply(patch: pytest.MonkeyPatch) -> None:
    expel = RunningJob.expel

    def given(self: RunningJob, process: Any, lanes: Any) -> None:
        expel(self, process, [msgspec.structs.replace(lane, unfenced=False) for lane in lanes])

    patch.setattr(RunningJob, "expel", given)
