"""A coordinator takes lanes for halted that have halted for a drain which was cancelled."""

from __future__ import annotations

import pytest

from anabranch.coordinator.jobs import draining

BREAKS = frozenset({"each-once", "drained-is-exact"})


def apply(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        draining, "_has_halted", lambda report, drain: report.phase == "running" and bool(report.progress.positions)
    )
