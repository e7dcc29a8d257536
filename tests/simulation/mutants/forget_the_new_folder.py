"""A process that runs in a copy reports the folder that it was copied from."""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulation.containers import LaneRun

BREAKS = frozenset({"one-owner", "exactly-once"})


def apply(patch: pytest.MonkeyPatch) -> None:
    report = LaneRun._report

    def former(self: LaneRun, **changes: Any) -> None:
        if "folder_epoch" in changes:
            changes["folder_epoch"] = self.lane.folder_epoch or changes["folder_epoch"]
        report(self, **changes)

    patch.setattr(LaneRun, "_report", former)
